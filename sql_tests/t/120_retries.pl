# Who gets a second attempt, how many there are, and when.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new;
my $node = InferTest::new_node('retries', 'pg_inference.failure_threshold = 0');
InferTest::connect_mock($node, $mock);

# Prepares the mock; settings as for $mock->set.
sub given
{
	$mock->set('defaults', @_);
	$mock->reset;
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# ----------------------------------------------------------------------------------------------
# fail_P74: with a seed, two runs pause for the same times.

given('fault_429=100', 'retry_after=-1');

sub pauses
{
	my ($seed) = @_;
	my (undef, undef, $err) = $node->psql(
		'postgres', qq{SET pg_inference.random_seed = $seed;
		SET pg_inference.streaming_mode = per_row;
		SET client_min_messages = debug2;
		SELECT count((infer.try_embed('m', 'pause ' || i)).error) FROM generate_series(1, 8) i;});
	return join(' ', sort { $a <=> $b } $err =~ /the next one in (\d+) ms/g);
}

my $first = pauses(7);
is(scalar(split / /, $first), 24, 'fail_P74: each attempt but the last of a call is followed by a pause');
is(pauses(7), $first, 'fail_P74: the same seed, the same pauses');
isnt(pauses(8), $first, 'fail_P74: another seed, others');
isnt(pauses(0), pauses(0), 'fail_P74: no seed, never the same');
my @all = split / /, $first;
is(scalar(grep { $_ < 25 || $_ > 200 } @all), 0, 'fail_P74: of 50, 100 and 200 ms, times a half to one');

# ----------------------------------------------------------------------------------------------
# fail_P9, P10, P11: what a status proves, by whom the server's owner trusts to have written it.

# reason, execution, attempts and requests of one call that always gets this fault
sub outcome
{
	my ($fault, $trust, $options) = @_;
	given($fault =~ /\d/ ? ('fault_status=100', "refusals=$fault") : "fault_$fault=100", 'retry_after=0');
	ask("ALTER SERVER mock OPTIONS ($trust)") if $trust;
	my $found = ask(
		qq{SELECT (o).reason, (o).execution, (o).attempts, (o).http_status
		FROM infer.try_embed('m', 'outcome', options => '{"max_attempts": 3$options}') o});
	ask('ALTER SERVER mock OPTIONS (DROP trust)') if $trust;
	return $found . '|' . $mock->stat('requests') . '|' . $mock->stat('items');
}

foreach my $trust (qw(unknown proxy direct provider))
{
	my $own = $trust eq 'direct' || $trust eq 'provider';
	foreach my $case (
		[ 503 => 'overloaded' ], [ 529 => 'overloaded' ], [ 408 => 'timeout' ])
	{
		my ($status, $reason) = @$case;
		is( outcome($status, "ADD trust '$trust'", ''),
			$own ? "$reason|not_admitted|3|$status|3|0" : "$reason|maybe_executed|1|$status|1|0",
			"fail_P10: $status of a server with trust $trust");
	}
	is(outcome($_, "ADD trust '$trust'", ''),
		"server_error|maybe_executed|1|$_|1|0", "fail_P11: $_ of a server with trust $trust")
	  foreach (500, 502, 504);
}
is(outcome(429, '', ''), 'overloaded|not_admitted|3|429|3|0', 'fail_P9: 429 is proof whoever sends it');
is(outcome('quota', '', ''), 'quota_exceeded|not_admitted|1|429|1|0',
	'fail_P9: a quota that is used up is not asked again');
is(outcome(402, '', ', "retry": "ambiguous"'), 'quota_exceeded|not_admitted|1|402|1|0',
	'fail_P9: nor is an account without money');
is(outcome(409, '', ', "retry": "ambiguous"'), 'conflict|maybe_executed|1|409|1|0', 'a conflict may mean that it runs');

$node->stop;
done_testing();
