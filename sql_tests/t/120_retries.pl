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

# ----------------------------------------------------------------------------------------------
# The retry budget: over all sessions, retries are at most a fifth of a key's attempts.

sub stat_of_key
{
	return ask("SELECT retries, retries_denied FROM infer.stat_admission WHERE key = '$_[0]'");
}

sub new_key
{
	my ($name) = @_;
	ask('SELECT infer.stat_reset()');
	ask("ALTER SERVER mock OPTIONS (ADD admission_key '$name')");
	return;
}

sub old_key { return ask('ALTER SERVER mock OPTIONS (DROP admission_key)'); }

my $ambiguous = 'SET pg_inference.retry = ambiguous; SET pg_inference.streaming_mode = per_row;';
given('fault_500=100');
new_key('share');
my @scripts = map {
	qq{$ambiguous SELECT count((infer.try_embed('m', 'share $_ ' || i)).error) FROM generate_series(1, 100) i;}
} 1 .. 4;
my @results = InferProc::run_all($node, 'share', @scripts);
is(join('', map { $_->[0] . $_->[1] } @results), "100\n" x 4, 'budget: all calls fail');
my $requests = $mock->stat('requests');
is($requests, 400 + 10 + 100, 'budget: four sessions make a quarter more requests than calls, and ten');
my ($retries, $denied) = split /\|/, stat_of_key('share');
is($retries, $requests - 400, 'budget: the view counts the retries');
is($denied, 400, 'budget: and that each call wanted one more');
my ($out, $err) = InferProc->start($node, 'denied', qq{$ambiguous SELECT infer.embed('m', 'denied');
	SELECT (infer.try_embed('m', 'denied')).error;})->finish;
like($err, qr/RMSRV.*HTTP status 500 after 1 attempt.*may have been executed. It was not tried again: the retry budget.*retry_budget/s,
	'budget: the error says why it was not tried again');
like($out, qr/the server failed: injected fault \(not tried again: the retry budget of its admission key is used up\)/,
	'budget: so does the outcome');
old_key();

given('fault_500=100');
new_key('off');
ask(qq{$ambiguous SET pg_inference.retry_budget = 100; SET pg_inference.max_attempts = 3;
	SELECT count((infer.try_embed('m', 'off ' || i)).error) FROM generate_series(1, 50) i});
is($mock->stat('requests'), 150, 'budget: 100 per cent is none');
old_key();

# fault_F61: refusals that did not run are paced by the limit, not by the budget
given('fault_429=30', 'retry_after=-1');
new_key('refusals');
is( ask(q{SET pg_inference.streaming_mode = per_row; SET pg_inference.max_attempts = 20;
		SELECT count(infer.embed('m', 'refused ' || i)) FROM generate_series(1, 200) i}),
	'200', 'fault_F61: thirty per cent of refusals, and every row is filled');
($retries, $denied) = split /\|/, stat_of_key('refusals');
cmp_ok($retries, '>', 60, 'fault_F61: with more retries than a budget would allow');
is($denied, 0, 'fault_F61: none is denied');
is($mock->stat('duplicate_items'), 0, 'fault_F61: nothing runs twice');
old_key();

# halves of a refused batch, and another phrasing, are no retries
given('no_base64=1', 'limit_items=3', 'limit_status=400');
new_key('split');
is(ask(q{SELECT count(infer.embed('m', 'split ' || i)) FROM generate_series(1, 100) i}),
	'100', 'budget: a batch that is refused is split');
is(stat_of_key('split'), '0|0', 'budget: without a retry');
old_key();

$node->stop;
done_testing();
