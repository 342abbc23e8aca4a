# How many copies of a request there are: delivery, retries, and what they prove together.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $mock = InferTest::Mock->new;
my $node = InferTest::new_node('copies', 'pg_inference.failure_threshold = 0', 'pg_inference.retry_budget = 100');
InferTest::connect_mock($node, $mock, max_concurrency => 16);

# Prepares the mock; settings as for $mock->set.
sub given
{
	$mock->set('defaults', 'dim=8', @_);
	$mock->reset;
	return;
}

# ... and what it does once so many texts have been executed
sub then_after
{
	my ($items, @settings) = @_;
	$mock->request('POST', '/control?' . join('&', "after_items=$items", @settings));
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# reason, execution and attempts of one call, and the requests that it took
sub outcome
{
	my ($options) = @_;
	my $found = ask(
		qq{SELECT coalesce((o).reason, 'none'), (o).execution, (o).attempts
		FROM infer.try_embed('m', 'outcome', options => '{$options}') o});
	return $found . '|' . $mock->stat('requests');
}

# What a statement of many rows gives: values, errors that may have run, other errors.
sub many
{
	my ($rows, $options) = @_;
	return ask(
		qq{SET pg_inference.streaming_mode = per_row;
		SELECT count((o).value), count(*) FILTER (WHERE (o).execution = 'maybe_executed'),
			count(*) FILTER (WHERE (o).error IS NOT NULL AND (o).execution <> 'maybe_executed')
		FROM (SELECT infer.try_embed('m', 'row ' || i, options => '{$options}') AS o
			FROM generate_series(1, $rows) i OFFSET 0) s});
}

# ----------------------------------------------------------------------------------------------
# fail_P21, P23: the server does the work and hangs up.

given('fault_lost=40');
my ($good, $maybe, $other) = split /\|/, many(200, '"max_attempts": 30');
my $stats = $mock->stats;
is($stats->{requests}, 200, 'fail_P21: single: each request is sent once');
is($stats->{duplicate_items}, 0, 'fail_P21: single: nothing is executed twice');
is($good + $maybe, 200, 'fail_P21: single: what was lost may have been executed');
cmp_ok($maybe, '>', 20, 'fail_P21: single: some were lost');
is($other, 0, 'fail_P21: single: nothing else happened');

given('fault_lost=40');
is(many(200, '"delivery": "reliable", "max_attempts": 30'),
	'200|0|0', 'fail_P23: reliable: every call gets its one result');
$stats = $mock->stats;
cmp_ok($stats->{duplicate_items}, '>', 20, 'fail_P23: reliable: some were executed twice');
is($stats->{items} - $stats->{duplicate_items}, 200, 'fail_P23: reliable: all of them at least once');

given('fault_lost=100');
is(outcome('"delivery": "reliable", "max_attempts": 3'),
	'disconnected|maybe_executed|3|3', 'fail_P23: max_attempts bounds the copies');
given('fault_lost=100');
is(outcome('"delivery": "reliable", "retry": "never"'),
	'disconnected|maybe_executed|1|1', 'fail_P23: never means never');
given('fault_500=100');
is(outcome('"delivery": "reliable"'),
	'server_error|maybe_executed|1|1', 'fail_P23: who was answered was not lost');
given('fault_500=100');
is(outcome('"delivery": "reliable", "retry": "ambiguous", "max_attempts": 3'),
	'server_error|maybe_executed|3|3', 'fail_P23: the retry policy allows more');
given('fault_lost=100');
is( ask(q{SET pg_inference.delivery = reliable; SET pg_inference.max_attempts = 2;
		SELECT (infer.try_embed('m', 'setting')).attempts}),
	'2', 'fail_P23: the setting says the same as the option');

# ----------------------------------------------------------------------------------------------
# unless_failed: as reliable, until the server has been failing for as long as a call may take

given();
ask(q{SELECT infer.embed('m', 'well so far')});
my $ended;
foreach my $try (1 .. 5) # half a second is not always enough for three copies, nor for one
{
	given('fault_lost=100');
	$ended = outcome('"delivery": "unless_failed", "timeout": "500ms", "max_attempts": 1000');
	last if $mock->stat('requests') >= 3 && $ended !~ /^timeout/;
}
like($ended, qr/^server_failed\|maybe_executed\|(\d+)\|\1$/, 'unless_failed: gives up, and says what the copies prove');
cmp_ok($mock->stat('requests'), '>=', 3, 'unless_failed: after some copies');
ask(q{CREATE SERVER gone FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1')});
like(
	ask(q{SELECT (o).reason, (o).execution, (o).attempts FROM infer.try_embed('gone/m', 'x',
		options => '{"delivery": "unless_failed", "timeout": "500ms", "max_attempts": 1000}') o}),
	qr/^server_failed\|not_admitted\|\d+$/, 'unless_failed: nothing ran where nothing could be sent');
given('fault_lost=100');
then_after(2, 'fault_lost=0');
is(outcome('"delivery": "unless_failed", "timeout": "60s"'),
	'none|executed|3|3', 'unless_failed: a short outage is ridden out');

# who waits while the server is left alone gives up as well, a reliable call does not
my $alone = q{SET pg_inference.failure_threshold = 1; SET pg_inference.failure_cooldown = '150ms';};
given('fault_lost=100');
my $waiting = InferProc->start($node, 'waiting',
	$alone . q{SELECT (o).execution, (o).reason IS NULL FROM infer.try_embed('m', 'waits',
		options => '{"delivery": "reliable", "timeout": "200ms", "max_attempts": 1000}') o;});
ok(InferTest::wait_until(60, sub { $mock->stat('requests') >= 4 }), 'reliable: it waits for a server that is left alone');
like(
	ask($alone . q{SELECT (o).reason FROM infer.try_embed('m', 'waits not',
			options => '{"delivery": "unless_failed", "timeout": "200ms", "max_attempts": 1000}') o}),
	qr/^server_failed$/, 'unless_failed: it does not');
$mock->set('fault_lost=0');
my ($waited, $complaint) = $waiting->finish;
is($waited . $complaint, "executed|t\n", 'reliable: and gets its answer');
ask(q{SET pg_inference.failure_threshold = 0; SELECT infer.embed('m', 'watched as before')});

# ----------------------------------------------------------------------------------------------
# fail_P22: no copy follows a timer, however slow the first one is.

given('fault_hang=100');
is(outcome('"delivery": "reliable", "retry": "ambiguous", "timeout": "300ms"'),
	'timeout|maybe_executed|1|1', 'fail_P22: a timeout ends a reliable call');
given('fault_hang=100');
is(outcome('"retry": "ambiguous", "timeout": "200ms", "max_attempts": 3'),
	'timeout|maybe_executed|3|3', 'fail_P22: of a single one it is a failure like others');
given('base_ms=200', 'jitter=1.5');
is(many(50, '"delivery": "reliable"'), '50|0|0', 'fail_P22: slow answers are waited for');
is($mock->stat('requests'), 50, 'fail_P22: and asked for once');

# ----------------------------------------------------------------------------------------------
# fail_P24: no copy starts after the cancel.

given('fault_lost=100');
my $session = InferProc->start($node, 'retrying',
	q{SELECT infer.embed('m', 'again', options => '{"delivery": "reliable", "max_attempts": 1000}');});
my $backend = $session->backend;
ok(InferTest::wait_until(60, sub { $mock->stat('requests') >= 3 }), 'fail_P24: it tries again and again');
ask("SELECT pg_cancel_backend($backend)");
my (undef, $err) = $session->finish;
like($err, qr/57014/, 'fail_P24: until it is cancelled');
my $requests = $mock->stat('requests');
sleep 1.2;    # the longest pause between two copies is a second
is($mock->stat('requests'), $requests, 'fail_P24: that is the end of it');

# ----------------------------------------------------------------------------------------------
# fail_P25, P26: requests that are kept for being sent again.

sub kept
{
	my ($sql, $name) = @_;
	my ($out, $said) = InferProc->start($node, 'kept',
		"SET pg_inference.delivery = reliable;\nSET pg_inference.streaming_mode = per_row;\n$sql"
		  . "\nSELECT 'kept', infer.retained_bytes();")->finish;
	like($out, qr/^kept\|0$/m, "fail_P25: nothing is kept after $name");
	return ($out, $said);
}

my $rows = q{FROM generate_series(1, 30) i};
given('base_ms=20');
my ($out, $said) = kept(
	qq{SELECT 'most', max(kept) > 0, count(e) FROM
		(SELECT infer.embed('m', 'kept ' || i) AS e, infer.retained_bytes() AS kept $rows OFFSET 0) s;},
	'success');
like($out, qr/^most\|t\|30$/m, 'fail_P25: requests are kept as long as they may be needed');
given('fault_500=100');
(undef, $said) = kept(qq{SELECT infer.embed('m', 'kept ' || i) $rows;}, 'failure');
like($said, qr/RMSRV/, 'fail_P25: it was one');
given('fault_hang=100');
(undef, $said) = kept(
	qq{SET statement_timeout = '300ms'; SELECT infer.embed('m', 'kept ' || i) $rows; SET statement_timeout = 0;},
	'cancel');
like($said, qr/57014/, 'fail_P25: it was one');
given('fault_lost=100');
kept(
	qq{BEGIN; SAVEPOINT s; SELECT infer.embed('m', 'kept ' || i) $rows; ROLLBACK TO s; SELECT 'here', infer.retained_bytes(); COMMIT;},
	'a subtransaction');
given('fault_400=100');
kept(qq{SET pg_inference.streaming_mode = automatic; SELECT infer.try_embed('m', 'kept ' || i) $rows;}, 'a split');
given('no_base64=1');
kept(qq{SELECT infer.embed('m', 'kept ' || i) $rows;}, 'another phrasing');

# a batch that is cut between two attempts, for what it may take twice is more than the budget
my $cut = q{SET pg_inference.streaming_mode = automatic; SET pg_inference.statement_token_budget = 125;
	SELECT 'cut', count((o).value), count(*) FILTER (WHERE (o).reason = 'budget') FROM
		(SELECT infer.try_embed('m', rpad('cut ' || i, 80, 'x'), options => '{"idempotency_key": true}') AS o
		FROM generate_series(1, 4) i OFFSET 0) s;};
given('fault_lost=100');
then_after(4, 'fault_lost=0');
($out) = kept($cut, 'a budget');
like($out, qr/^cut\|2\|2$/m, 'fail_P25: which cut a batch that was sent before');
my $cut_stats = $mock->stats;
is("$cut_stats->{requests} requests, $cut_stats->{request_ids} keys", '2 requests, 2 keys', 'fault_F55: the rest of it is another call');

given('hold=1');
my $keeping = InferProc->start($node, 'keeping',
	q{SET pg_inference.streaming_mode = per_row; SET pg_inference.retained_memory = '2kB';
	SELECT count((o).value), count(*) FILTER (WHERE (o).reason = 'overloaded'
			AND (o).execution = 'not_admitted' AND (o).attempts = 0), count((p).value)
		FROM (SELECT infer.try_embed('m', repeat('x', 700) || i, options => '{"delivery": "reliable"}') AS o,
			infer.try_embed('m', repeat('y', 700) || i) AS p FROM generate_series(1, 8) i OFFSET 0) s});
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 10 }), 'fail_P26: what there is room for is under way');
$mock->set('hold=0');
is(join('', $keeping->finish), "2|6|8\n", 'fail_P26: what there is no room for is refused, the others are not touched');
is($mock->stat('items'), 10, 'fail_P26: nothing of it was sent');
(undef, undef, $err) = $node->psql('postgres',
	q{\set VERBOSITY verbose
	SET pg_inference.retained_memory = '1kB';
	SELECT infer.embed('m', repeat('x', 2000), options => '{"delivery": "reliable"}')});
like($err, qr/RNOVL.*keeps too many requests.*retained_memory is 1 kB.*Nothing was sent.*Raise pg_inference.retained_memory/s,
	'fail_P26: it says so');
# two halves take a bit more room than the whole, which was lost once and then refused
given('fault_lost=100');
then_after(2, 'fault_lost=0', 'fault_400=100');
like(
	ask(q{SET pg_inference.retained_memory = '1kB';
		SELECT string_agg((o).execution || ' ' || (o).error, E'\n') FROM
			(SELECT infer.try_embed('m', rpad('half ' || i, 460, 'x'), options => '{"delivery": "reliable"}') AS o
			FROM generate_series(1, 2) i OFFSET 0) s}),
	qr/maybe_executed .*keeps too many requests/, 'fail_P26: also of a call that was sent before');

# ----------------------------------------------------------------------------------------------
# fail_P29: a refusal of the contents is final, whatever is allowed.

foreach my $status (400, 401, 403, 404, 405, 413, 415, 422)
{
	given('fault_status=100', "refusals=$status");
	like(outcome('"delivery": "reliable", "retry": "ambiguous", "max_attempts": 9'),
		qr/^\w+\|not_admitted\|1\|1$/, "fail_P29, fault_F58: $status is asked once");
}

# ----------------------------------------------------------------------------------------------
# fail_P30: the key is read anew for each attempt.

my $key_file = PostgreSQL::Test::Utils::tempdir . '/key';

sub write_key
{
	open(my $file, '>', "$key_file.new") or die "$key_file: $!";
	print $file $_[0];
	close $file or die "$key_file: $!";
	rename("$key_file.new", $key_file) or die "$key_file: $!";
	return;
}

write_key('old-key-000000001');
ask(qq{ALTER SERVER mock OPTIONS (ADD trust 'direct');
	CREATE USER MAPPING FOR CURRENT_USER SERVER mock OPTIONS (api_key_file '$key_file')});
given('fault_503=100', 'api_key=old-key-000000001');
$session = InferProc->start($node, 'rotating',
	q{SELECT (o).execution, (o).reason IS NULL, (o).attempts > 1
		FROM infer.try_embed('m', 'rotate', options => '{"max_attempts": 1000}') o;});
ok(InferTest::wait_until(60, sub { $mock->stat('requests') >= 2 }), 'fail_P30: a 503 is repeated');
$mock->set('api_key=');    # whichever
write_key('new-key-000000002');
$requests = $mock->stat('requests');
ok(InferTest::wait_until(60, sub { $mock->stat('requests') >= $requests + 2 }), 'fail_P30: and again');
$mock->set('api_key=new-key-000000002', 'fault_503=0');
($out, $err) = $session->finish;
is($out . $err, "executed|t|t\n", 'fail_P30: the new key is used as soon as it is there');
ask('DROP USER MAPPING FOR CURRENT_USER SERVER mock; ALTER SERVER mock OPTIONS (DROP trust)');

# ----------------------------------------------------------------------------------------------
# fail_P17, P18, P70: what all attempts together prove.

given('fault_lost=100');
then_after(1, 'fault_lost=0', 'fault_429=100', 'retry_after=0');
is(outcome('"delivery": "reliable", "max_attempts": 3'),
	'overloaded|maybe_executed|3|3', 'fail_P17: refusals prove nothing of an earlier copy');
given('fault_429=100', 'retry_after=0');
is(outcome('"delivery": "reliable", "max_attempts": 3'),
	'overloaded|not_admitted|3|3', 'fail_P18: refusals only: not executed');
is($mock->stat('items'), 0, 'fail_P18: indeed');
given('fault_lost=100');
then_after(1, 'fault_lost=0', 'fault_401=100');
is(outcome('"delivery": "reliable", "max_attempts": 3'),
	'unauthenticated|maybe_executed|2|2', 'fail_P70: a copy that is denied proves nothing of the first');
given('fault_lost=100');
then_after(1, 'fault_lost=0', 'fault_503=100');
is(outcome('"delivery": "reliable", "max_attempts": 3'),
	'overloaded|maybe_executed|2|2', 'fail_P70: nor does one that meets a server shutting down');

# ----------------------------------------------------------------------------------------------
# fault_F53, F54, F58: attempts on the wire are the attempts that are reported, and there is no
# other layer that adds some.

given('fault_500=100');
is(outcome('"retry": "ambiguous", "max_attempts": 3'),
	'server_error|maybe_executed|3|3', 'fault_F53: three attempts are three requests');
given('fault_reset=100');
then_after(2, 'fault_reset=0');
is(outcome('"retry": "ambiguous"'), 'none|executed|3|3', 'fault_F58: two resets, then an answer');
given('fault_reset=100');
is(outcome(''), 'disconnected|maybe_executed|1|1', 'fault_F58: by default a reset is final');

given('fault_500=30', 'seed=11');
ask('SELECT infer.stat_reset()');
my $plan = ask(
	q{SET pg_inference.streaming_mode = per_row;
	SET pg_inference.retry = ambiguous;
	SET pg_inference.max_attempts = 20;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT infer.embed('m', 'counted ' || i) FROM generate_series(1, 60) i});
$requests = $mock->stat('requests');
cmp_ok($requests, '>', 65, 'fault_F54: there were retries');
like($plan, qr/Requests: $requests\b/, 'fault_F54: the plan shows each of them');
my $retries = $requests - 60;
like($plan, qr/Retries: $retries\b/, 'fault_F54: as retries');
is(ask('SELECT sum(granted) FROM infer.stat_admission'), $requests, 'fault_F54: so does the view');

# ----------------------------------------------------------------------------------------------
# fault_F55: the attempts of a call carry the same key, other calls another one.

# under an admission key whose limit no refusal has lowered: it grows again with the time that answers take
ask(q{ALTER SERVER mock OPTIONS (ADD admission_key 'untouched')});

sub keys_seen
{
	my $stats = $mock->stats;
	return "$stats->{requests} requests, $stats->{request_ids} keys, $stats->{duplicate_request_ids} again";
}

my $key = '"idempotency_key": true';
given('fault_500=100');
is(outcome(qq{"retry": "ambiguous", "max_attempts": 3, $key}),
	'server_error|maybe_executed|3|3', 'fault_F55: three attempts');
is(keys_seen(), '3 requests, 1 keys, 2 again', 'fault_F55: have one key');
given('fault_500=100');
outcome('"retry": "ambiguous", "max_attempts": 3');
is(keys_seen(), '3 requests, 0 keys, 0 again', 'fault_F55: none if nobody asks for it');
given();
is(many(100, $key), '100|0|0', 'fault_F55: a hundred calls');
is(keys_seen(), '100 requests, 100 keys, 0 again', 'fault_F55: have a hundred keys');
is(many(100, $key), '100|0|0', 'fault_F55: another statement asks the same');
is(keys_seen(), '200 requests, 200 keys, 0 again', 'fault_F55: with keys of its own');
given('limit_items=10', 'limit_status=413');
ask(qq{SELECT count(infer.embed('m', 'part ' || i, options => '{$key}')) FROM generate_series(1, 40) i});
is(keys_seen(), '7 requests, 7 keys, 0 again', 'fault_F55: the parts of a batch are calls of their own');

my $text = q{"idempotency_key": "backfill\r\nX-Injected: 1"};
given();
is(many(50, $text), '50|0|0', 'fault_F55: a text fixes the keys');
is(many(50, $text), '50|0|0', 'fault_F55: a statement that is run again');
is(keys_seen(), '100 requests, 50 keys, 50 again', 'fault_F55: repeats them');
is(many(50, '"idempotency_key": "another"'), '50|0|0', 'fault_F55: another text');
is(keys_seen(), '150 requests, 100 keys, 50 again', 'fault_F55: has others');
my $found = ask(q{SET pg_inference.random_seed = 5; SELECT infer.embed('m', 'seeded', options => '{"idempotency_key": true}') IS NULL})
  . ask(q{SET pg_inference.random_seed = 5; SELECT infer.embed('m', 'seeded', options => '{"idempotency_key": true}') IS NULL});
is(keys_seen(), '152 requests, 101 keys, 51 again', 'fail_P74: a seed fixes the statement\'s own, too');
given();
ask(q{SET pg_inference.statement_call_budget = 3;
	SELECT count((infer.try_embed('m', 'within ' || i, options => '{"idempotency_key": "budget"}')).value) FROM generate_series(1, 5) i});
ask(q{SELECT count(infer.embed('m', 'within ' || i, options => '{"idempotency_key": "budget"}')) FROM generate_series(1, 3) i});
is(keys_seen(), '2 requests, 1 keys, 1 again', 'fault_F55: the key is of what is sent, not of what a budget held back');

# what a server honours may be sent again
ask(q{ALTER SERVER mock OPTIONS (ADD idempotency 'honoured')});
given('fault_500=100');
is(outcome(qq{"max_attempts": 3, $key}), 'server_error|maybe_executed|3|3', 'idempotency: what may have run is repeated');
is(keys_seen(), '3 requests, 1 keys, 2 again', 'idempotency: under its key');
given('fault_status=100', 'refusals=409');
is(outcome(qq{"max_attempts": 3, $key}), 'conflict|maybe_executed|3|3', 'idempotency: so is what still runs');
given('fault_500=100');
is(outcome('"max_attempts": 3'), 'server_error|maybe_executed|1|1', 'idempotency: but not without a key');
given('fault_500=100');
is(outcome(qq{"max_attempts": 3, "retry": "never", $key}),
	'server_error|maybe_executed|1|1', 'idempotency: nor where nothing may be');
given('fault_lost=100');
then_after(4, 'fault_lost=0');
($out) = kept("RESET pg_inference.delivery; $cut", 'a budget, with keys that are known');
like($out, qr/^cut\|0\|2$/m, 'idempotency: what may have run is not said in other words for its key');
is($mock->stat('requests'), 1, 'idempotency: ... so the rest of a batch that was cut is not sent');
ask('ALTER SERVER mock OPTIONS (DROP idempotency)');

# ----------------------------------------------------------------------------------------------
# fail_P3, P8: work that is given up has no error to tell what is proved, and is counted.

sub abandoned
{
	return ask(
		q{SELECT sum(abandoned_not_admitted), sum(abandoned_maybe_executed), sum(abandoned_executed)
		FROM infer.stat_admission});
}

sub forget
{
	given(@_);
	ask('SELECT infer.stat_reset()');
	return;
}

# cancels a statement once the mock has so many of its requests
sub cancel_at
{
	my ($sql, $count) = @_;
	my $victim = InferProc->start($node, 'victim', $sql);
	my $pid = $victim->backend;
	ok(InferTest::wait_until(60, sub { $mock->stat('requests') >= $count }), 'the requests are there');
	ask("SELECT pg_cancel_backend($pid)");
	like(($victim->finish)[1], qr/57014/, 'the statement is cancelled');
	return;
}

my $forty = q{SET pg_inference.streaming_mode = per_row;
	SELECT infer.embed('m', 'abandoned ' || i, options => '{"max_concurrency": 5}') FROM generate_series(1, 40) i;};
forget('base_ms=60000', 'slots=100');
cancel_at($forty, 5);
like(abandoned(), qr/^([1-9]|[12]\d|3[0-5])\|5\|0$/, 'fail_P3: five were sent, those that waited were not');
is($mock->stat('requests'), 5, 'fail_P3: nor were they later');

forget('fault_halfhang=100');
cancel_at($forty, 5);
like(abandoned(), qr/^\d+\|[0-4]\|[1-5]$/, 'abandoned: what was being answered had been executed');

# nobody reads: a large request cannot leave in full
sub charged { return ask('SELECT coalesce(sum(calls), 0) FROM infer.stat_usage'); }
my $before = charged();
forget('fault_stall=100');
my $stalled = InferProc->start($node, 'stalled',
	q{SELECT infer.embed('m', repeat('x', 40 * 1024 * 1024), options => '{"timeout": "60s"}');});
$backend = $stalled->backend;
ok(InferTest::wait_until(60, sub { $mock->stat('stalled_connections') >= 1 }), 'fail_P8: the request has begun to leave');
ask("SELECT pg_terminate_backend($backend)");
$stalled->finish;
ok(InferTest::wait_until(60, sub { abandoned() ne '0|0|0' }), 'fail_P8: its session ends');
is(abandoned(), '1|0|0', 'fail_P8: half a request cannot have run');
is(charged(), $before, 'fail_P8: nor is it charged');

# a copy that was lost, and none that follows it
forget('fault_lost=100');
cancel_at(q{SELECT infer.embed('m', 'lost', options => '{"delivery": "reliable", "max_attempts": 1000}');}, 3);
is(abandoned(), '0|1|0', 'abandoned: earlier copies may have run');

# LIMIT, an error in another row, a rescan
# the first fourteen answers hold seven that are wanted, the others never come
forget('base_ms=30', 'reply=yesno', 'yes_pct=30');
$plan = ask(
	q{EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT * FROM (SELECT infer.complete('c', CASE WHEN i > 14 THEN '[[mock:hang]]' ELSE '' END || 'limit ' || i) AS c
		FROM generate_series(1, 1000) i OFFSET 0) s
	WHERE c = 'yes' LIMIT 7});
my ($unsent, $perhaps, $ran) = split /\|/, abandoned();
cmp_ok($unsent + $perhaps + $ran, '>', 0, 'abandoned: a LIMIT leaves something behind');
foreach my $figure ([ 'Not Admitted', $unsent ], [ 'Maybe Executed', $perhaps ], [ 'Executed', $ran ])
{
	my ($label, $n) = @$figure;
	$n > 0
	  ? like($plan, qr/Abandoned $label: $n\b/, "abandoned: the plan says so ($label)")
	  : unlike($plan, qr/Abandoned $label/, "abandoned: the plan says no more ($label)");
}

forget('base_ms=500');
(undef, undef, $err) = $node->psql('postgres',
	q{SET pg_inference.streaming_mode = per_row;
	SELECT infer.complete('c', CASE i WHEN 1 THEN '[[mock:500]]' ELSE 'error ' || i END) FROM generate_series(1, 5) i});
like($err, qr/the server failed/, 'abandoned: an error of one row');
like(abandoned(), qr/^\d\|\d\|0$/, 'abandoned: leaves the others');

forget();
is(many(50, ''), '50|0|0', 'abandoned: calls that are answered');
given('fault_500=100');
is(many(50, ''), '0|50|0', 'abandoned: or fail');
is(abandoned(), '0|0|0', 'abandoned: are not abandoned');

$node->stop;
done_testing();
