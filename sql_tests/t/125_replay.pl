# fail_P74: what happens follows from the seeds: two runs leave the same ledger, the same attempts and
# the same results, also when the second one's server is slower.
use strict;
use warnings;
use InferLedger;
use InferProc;
use InferTest;
use Test::More;

# Not those that depend on the number of a connection or on the time of day.
my %faults = %InferLedger::faults;
delete @faults{qw(stall slow hang halfhang)};
$faults{late} = 0.5; # each takes a second

my $mock = InferTest::Mock->new(@InferLedger::settings, 'late_ms=2000');
my $node = InferTest::new_node(
	'replay',
	'pg_inference.failure_threshold = 0', 'pg_inference.retry_budget = 100', # what earlier runs took does not count
	'pg_inference.limiter_adaptive = off',
	'pg_inference.streaming_mode = batch', # which rows share a request must not be a matter of time
	'pg_inference.request_timeout = 1s');
InferTest::connect_mock($node, $mock, max_concurrency => 16, max_batch_size => 8);
InferLedger::create_claims($node);

# Runs the statements of a seed in one session. Returns what was claimed, what each text has been
# through at the server, and the texts in the order of their first and of their last request.
sub run
{
	my ($seed, $enable, $concurrency, @settings) = @_;
	$node->safe_psql('postgres', "TRUNCATE claims;
		ALTER SERVER mock OPTIONS (SET max_concurrency '$concurrency');");
	$mock->set("seed=$seed", 'base_ms=2', 'jitter=0', @settings, map { "fault_$_=$faults{$_}" } sort keys %faults);
	$mock->reset;
	my @statements = InferLedger::plan($seed, 14);
	my $script = "SET pg_inference.random_seed = $seed;\n";
	foreach my $s (@statements)
	{
		@{$s}{qw(end enable trusted)} = ('stored', $enable, 0);
		$s->{rows} = 16;
		$script .= InferLedger::script($s);
	}
	my (undef, $err) = InferProc->start($node, 'replay', $script)->finish;
	InferTest::wait_until(60, sub { $mock->stat('in_flight') == 0 });
	$err =~ s/^psql:\S+ //gm;
	my $ledger = $mock->ledger;
	my $claims = InferLedger::claims($node);
	my $found = InferLedger::judge(\@statements, $claims, $ledger);
	is("@{ $found->{violations} }", '', "seed $seed: what was claimed is what the ledger says");
	my @claims;
	foreach my $number (sort { $a <=> $b } keys %$claims)
	{
		foreach my $row (sort { $a <=> $b } keys %{ $claims->{$number} })
		{
			my $claim = $claims->{$number}{$row};
			$claim->{error} =~ s/after \d+ milliseconds/in time/;
			push @claims, join(' ', map { "$_=" . ($claim->{$_} // 'NULL') } sort keys %$claim);
		}
	}
	my @counts = map { "$_ $ledger->{$_}{seen} $ledger->{$_}{executed}" } sort keys %$ledger;
	my @order = map { my $time = $_; sort { $ledger->{$a}{$time} <=> $ledger->{$b}{$time} || $a cmp $b } keys %$ledger } qw(first_seen last_seen);
	return { claims => join("\n", @claims), counts => join("\n", @counts), order => join("\n", @order), errors => $err, calls => scalar @claims };
}

# One call after the other: the order of the requests is the same, too.
my $first = run(7, 'off', 1);
my $again = run(7, 'off', 1, 'base_ms=6', 'jitter=0.5');
cmp_ok($first->{calls}, '>', 150, 'fail_P74: one by one: calls');
is($again->{$_}, $first->{$_}, "fail_P74: one by one: the same $_") foreach qw(claims counts order errors);
my $other = run(8, 'off', 1);
isnt($other->{$_}, $first->{$_}, "fail_P74: another seed, other $_") foreach qw(claims counts order);

# Many at a time: what becomes of a connection is a matter of time, nothing else is.
$faults{die} = 0;
$first = run(7, 'on', 16);
$again = run(7, 'on', 16, 'base_ms=6', 'jitter=0.5');
cmp_ok($first->{calls}, '>', 150, 'fail_P74: many at a time: calls');
is($again->{$_}, $first->{$_}, "fail_P74: many at a time: the same $_") foreach qw(claims counts errors);

$node->stop;
done_testing();
