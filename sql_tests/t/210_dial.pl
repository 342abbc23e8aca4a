# A host that cannot be connected to is dialled by all sessions together as often as by one: fail_P40.
use strict;
use warnings;
use InferProc;
use InferTest;
use InferTls;
use PostgreSQL::Test::Utils;
use Test::More;

my $sessions = 50;
my $folder = PostgreSQL::Test::Utils::tempdir;
my $pki = InferTls->new($folder);
$pki->authority('ca');
$pki->certificate('good', 'ca', san => 'IP:127.0.0.1');

# A dial that counts itself: the connection is closed before TLS has begun, so no call gets one.
my $shut = "$folder/shut";
PostgreSQL::Test::Utils::append_to_file($shut, 'shut');
my $mock = InferTest::Mock->new;
my ($mock_port) = $mock->url =~ /:(\d+)$/;
my $front = $pki->front('good', upstream => $mock_port, shut => $shut);

# failures alone are no reason to leave it alone here, nor to give up
my $node = InferTest::new_node(
	'dial', "max_connections = 80", 'pg_inference.failure_threshold = 0', 'pg_inference.retry_budget = 100');
InferTest::connect_mock($node, $mock);
my $url = 'https://127.0.0.1:' . $front->port . '/v1';
my $ca = $pki->path('ca.pem');
$node->safe_psql('postgres',
	qq{CREATE SERVER dead FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', ca_file '$ca', admission_key 'dead')});

sub admission { return $node->safe_psql('postgres', "SELECT $_[0] FROM infer.stat_admission WHERE key = 'dead'"); }
sub dials { return map { /^shut (\d+)/ ? $1 : () } split /\n/, $front->log; }

my @calls = map {
	InferProc->start($node, "call $_", qq{SELECT infer.complete('dead/m', 'call $_', options => '{"max_attempts": 1000}') IS NOT NULL;})
} 1 .. $sessions;
# in line, at it, or between two attempts
ok( InferTest::wait_until(60, sub { $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity
	WHERE application_name LIKE 'call %' AND state = 'active' AND query LIKE '%infer.complete%'}) == $sessions }),
	'fail_P40: all want to dial') or diag(admission('*'));

# As the reference allows, with all of the jitter: 50 ms, a fifth more each time, up to 500. So many in
# that time; the first to fail may have been so many at once, which is the key's limit at its start.
sub allowed
{
	my ($ms) = @_;
	my ($n, $delay) = (16, 50);
	while ($ms > 0)
	{
		$ms -= 0.9 * $delay;
		$delay = $delay * 1.2 < 500 ? $delay * 1.2 : 500;
		$n++;
	}
	return $n;
}

# In the end they are as far apart as the longest delay lets them be: six delays of 450 to 550 ms, of
# which a busy machine that gets round late to counting the first one may hide a part.
my @dials;
ok(InferTest::wait_until(60, sub { @dials = dials(); @dials > 7 && $dials[-1] - $dials[-7] >= 6 * 450 - 1000 }),
	'fail_P40: it is tried again and again, and in the end no faster than the longest delay');
my $ms = $dials[-1] - $dials[0];
note(sprintf '%d dials in %d ms, the last six in %d ms', scalar @dials, $ms, $dials[-1] - $dials[-7]);
cmp_ok(scalar(@dials), '<=', allowed($ms), 'fail_P40: no more often than one would');
is(admission('last_failure'), 'tls_failed', 'fail_P40: for want of a connection');

unlink $shut;
my @out = map { [ $_->finish ] } @calls;
is(scalar(grep { $_->[0] eq "t\n" } @out), $sessions, 'fail_P40: it listens again, and all are answered')
  or diag(explain(\@out));
is(admission("in_flight || ' ' || waiting"), '0 0', 'fail_P40: nothing is left');
my $ledger = $mock->ledger;
is(scalar(grep { $_->{executed} == 1 } values %$ledger), $sessions, 'fail_P40: each was executed once')
  or diag(explain($ledger));

done_testing();
