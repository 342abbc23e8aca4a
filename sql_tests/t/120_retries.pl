# Who gets a second attempt, how many there are, and when.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new;
my $node = InferTest::new_node('retries');
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

$node->stop;
done_testing();
