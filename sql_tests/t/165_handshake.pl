# What waits behind a handshake has not left, and never does: fail_P3. A stream that the server refuses
# is sent once for each attempt: fail_P6, fault_F77.
use strict;
use warnings;
use InferProc;
use InferTest;
use InferTls;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
my $pki = InferTls->new($folder);
$pki->authority('ca');
$pki->certificate('good', 'ca', san => 'IP:127.0.0.1');

my $mock = InferTest::Mock->new('dim=4');
my ($mock_port) = $mock->url =~ /:(\d+)$/;
my $node = InferTest::new_node('handshake', 'pg_inference.failure_threshold = 0');
InferTest::connect_mock($node, $mock);

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# How many lines of a front's log begin with this word.
sub lines { my ($front, $word) = @_; return scalar grep { /^$word / } split /\n/, $front->log; }

sub serve
{
	my ($name, $front, $options) = @_;
	my $url = 'https://127.0.0.1:' . $front->port . '/v1';
	my $ca = $pki->path('ca.pem');
	ask(qq{CREATE SERVER $name FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', ca_file '$ca')});
	return;
}

# ----------------------------------------------------------------------------------------------
# fail_P3: cancelled or timed out while the server does not get on with its handshake; which it then
# does, while the session that gave up is at its network again.

my $gate = "$folder/gate";
my $held = $pki->front('good', upstream => $mock_port, hold => $gate);
serve('held', $held);

$mock->set('fault_hang=100');
my $session = InferProc->start($node, 'cancelled', q{
	SELECT infer.complete('held/m', 'cancelled ' || i) FROM generate_series(1, 3) i;
	SELECT infer.complete('c', 'another');});
sub cancel { return ask(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'cancelled'}); }
ok(InferTest::wait_until(60, sub { lines($held, 'held') >= 3 }), 'fail_P3: three calls wait for the handshake');
cancel();
ok(InferTest::wait_until(60, sub { $mock->stat('items') == 1 }), 'fail_P3: cancelled, the session has another call');

foreach my $enable (qw(on off))
{
	is( ask("SET pg_inference.enable = $enable;", q{SELECT concat_ws(' ', (o).reason, (o).execution, (o).attempts)
			FROM (SELECT infer.try_complete('held/m', 'late', options => '{"timeout": 300, "max_attempts": 2}') AS o
			FROM generate_series(1, 1) i OFFSET 0) s}),
		'timeout not_admitted 2', "fail_P3: no handshake in time, enable $enable");
}
is(ask(q{SET pg_inference.connect_timeout = '300ms'; SELECT concat_ws(' ', (o).reason, (o).execution)
	FROM infer.try_complete('held/m', 'late', options => '{"max_attempts": 1}') o}),
	'tls_failed not_admitted', 'fail_P3: no connection in time');

my $waiting = lines($held, 'held'); # libcurl 8 may make one more than it needs
cmp_ok($waiting, '>=', 8, 'fail_P3: each attempt has a connection of its own');
PostgreSQL::Test::Utils::append_to_file($gate, 'open');
ok(InferTest::wait_until(60, sub { lines($held, 'ok') + lines($held, 'failed') >= $waiting }), 'fail_P3: the server goes on with its handshakes');
cancel();
is(scalar(() = ($session->finish)[1] =~ /ERROR:  57014/g), 2, 'fail_P3: both were cancelled');
$mock->set('defaults');
is(ask(q{SELECT infer.complete('held/m', 'now') IS NOT NULL}), 't', 'fail_P3: it can be called');
is(join(',', sort keys %{ $mock->ledger }), 'another,now', 'fail_P3: and has never seen what was given up');

# ----------------------------------------------------------------------------------------------
# fail_P6: one transmission for each attempt, and curl's own five more are not made.

my $refuses = $pki->front('good', alpn => 'h2', refuse_streams => undef);
serve('refuses', $refuses);
foreach my $case ([ 1, 'not_admitted' ], [ 1, 'ambiguous' ], [ 3, 'ambiguous' ])
{
	my ($attempts, $retry) = @$case;
	foreach my $enable (qw(on off))
	{
		$refuses->forget;
		my $said = ask("SET pg_inference.enable = $enable;", qq{SELECT concat_ws(' ', (o).reason, (o).execution, (o).attempts)
			FROM (SELECT infer.try_complete('refuses/m', 'x' || i, options => '{"retry": "$retry", "max_attempts": $attempts}') AS o
			FROM generate_series(1, 1) i OFFSET 0) s});
		like($said, qr/^disconnected (maybe_executed|not_admitted) $attempts$/, "fail_P6: $retry, $attempts attempts, enable $enable: never more than in doubt");
		is(lines($refuses, 'refused'), $attempts, 'fail_P6: and no request but those');
	}
}
my (undef, undef, $error) = $node->psql('postgres', q{SELECT infer.complete('refuses/m', 'x', options => '{"max_attempts": 1}')});
like($error, qr/on server "refuses" failed: the connection was lost before an answer/, 'fault_F77: a refused stream is told, with its server');

$node->stop;
done_testing();
