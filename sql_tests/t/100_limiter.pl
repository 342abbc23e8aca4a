# The limit of a server is found out, shared by all sessions, and kept by each of them: under
# overload, among priorities, in a minute, and however a session ends.
use strict;
use warnings;
use InferTest;
use InferProc;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $mock = InferTest::Mock->new;
my $node = InferTest::new_node(
	'limiter',
	'max_connections = 80',
	'pg_inference.streaming_mode = per_row',
	'pg_inference.max_attempts = 50');
InferTest::connect_mock($node, $mock);

sub given
{
	$mock->set('defaults', 'queue=100000', @_);
	$mock->reset;
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# A server under a key of its own: it has learnt nothing yet.
sub server { my ($key, @options) = @_; return InferTest::create_server($node, $key, $mock->url, @options); }

sub admission { return InferTest::admission($node, @_); }

sub rows_of { return InferTest::rows_of(@_); }

sub is_idle
{
	my ($key, $name) = @_;
	ok( InferTest::wait_until(
			60, sub { admission($key, 'in_flight || waiting::text') eq '00' && $mock->stat('in_flight') == 0 }),
		"$name: no permit is out, nobody waits");
	return;
}

# ----------------------------------------------------------------------------------------------
# A server of unknown size: the limit grows to it, and the next statement starts there.

server('unknown');
given('base_ms=20', 'slots=48');
is(ask(rows_of('unknown', 'cold', 1500)), 'rows|1500', 'unknown size: all rows are answered');
cmp_ok(admission('unknown', 'peak'), '>=', 40, 'unknown size: the limit grew to what the server takes');
cmp_ok($mock->stat('max_in_flight'), '<=', 3 * 48, 'unknown size: and never far beyond');
is(admission('unknown', 'decreases'), 0, 'unknown size: nothing was refused');

my $warm = admission('unknown', 'floor(current_limit)');
$mock->set('fault_hang=100');
$mock->reset;
my $session = InferProc->start($node, 'warm', rows_of('unknown', 'warm', 1500));
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') >= 40 }),
	'second statement: starts with what the first one has learnt, before any answer');
note("started with $warm");
$mock->set('fault_hang=0');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->backend . ')');
$session->finish;
is_idle('unknown', 'second statement');

# What is read ahead grows with the limit, which would be kept from growing otherwise.
server('batches', max_batch_size => 100);
given('base_ms=20', 'slots=64', 'dim=4');
my ($plan) = ask(q{SET pg_inference.streaming_mode = automatic;
	EXPLAIN (ANALYZE, FORMAT JSON) SELECT infer.embed('batches/m', 'batch ' || i) FROM generate_series(1, 20000) i});
my %figure = $plan =~ /"(Rows Ahead|Limit|Window|Window Min|Requests)": (\d+)/g;
note(join ', ', map { "$_ $figure{$_}" } sort keys %figure);
cmp_ok($figure{Limit}, '>', 16, 'read-ahead: the limit grew');
cmp_ok($figure{'Rows Ahead'}, '>', 2 * 16 * 100, 'read-ahead: and so did what is read');

# ----------------------------------------------------------------------------------------------
# rpc_F14, rpc_F19: overload in the middle of a statement. The server refuses what is more than it
# can do; every row is answered all the same, and the limit comes back when the server does.

server('storm', max_concurrency => 64);
given('base_ms=20', 'slots=64', 'queue=0', 'retry_after=0');
$session = InferProc->start($node, 'storm', rows_of('storm', 'storm', 6000));
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') >= 50 }), 'overload: the statement is at full speed');
$mock->set('slots=6');
ok( InferTest::wait_until(60, sub { admission('storm', 'current_limit < 32 AND decreases > 1') eq 't' }),
	'overload: the limit shrinks');
my $refused = $mock->stat('rejected');
$mock->set('slots=64');
my ($out, $err) = $session->finish;
is($out, "rows|6000\n", 'rpc_F14, rpc_F19: every row is answered') or diag($err);
is($mock->stat('duplicate_items'), 0, 'overload: no row was executed twice');
cmp_ok($refused, '>', 0, 'overload: some were refused');
is(admission('storm', 'overloaded > 0 AND low_water < 32 AND epoch = decreases'), 't',
	'overload: it is shown');
cmp_ok(admission('storm', 'current_limit'), '>', admission('storm', 'low_water'),
	'rpc_F19: the limit recovers');
is_idle('storm', 'overload');

# rpc_F21: a server that was never overloaded
server('healthy', max_concurrency => 8);
given('base_ms=5');
is(ask(rows_of('healthy', 'healthy', 100)), 'rows|100', 'healthy: all rows are answered');
is(admission('healthy', 'current_limit, low_water, decreases, peak'), '8|8|0|8',
	'rpc_F21: the low-water mark is where it began');

# Somebody who gives calls a tenth of a second does not take the server from all others; if that is
# what its owner gives them, it is too slow.
given('base_ms=2000');
foreach my $case ([ impatient => '0|0' ], [ hurried => '0|1', request_timeout => '100' ])
{
	my ($key, $want, %options) = @$case;
	server($key, max_concurrency => 64, %options);
	is( ask(qq{SELECT reason, count(*) FROM generate_series(1, 40) i,
			infer.try_complete('$key/m', '$key ' || i, options => '{"timeout": 100, "max_attempts": 1}') GROUP BY 1}),
		'timeout|40', "$key: no answer in 100 ms");
	is(admission($key, 'in_flight, (decreases > 0)::int'), $want, "$key: the limit");
}
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 0 }), 'impatient: the server goes on with what it has');

# ----------------------------------------------------------------------------------------------
# rpc_F15, rpc_F17, rpc_F22, fail_P62, fault_F65: fifty sessions on one key. What is in flight never exceeds
# the limit, and each gets its share: when one is done, all others have at least half of their rows.
# The first requests are held until all sessions wait.

server('shared', max_concurrency => 10);
given('hold=1', 'base_ms=10');
my @sharers = map {
	InferProc->start($node, "shared $_", rows_of('shared', "shared $_", 40)
		  . "SELECT 'others', count(*), min(rows) FROM infer.stat_progress;\n")
} 1 .. 50;
ok(InferTest::wait_until(60, sub { admission('shared', 'waiting') == 50 }), 'fifty sessions: all of them wait');
$mock->set('hold=0');
my @results = map { [ $_->finish ] } @sharers;
is(scalar(grep { $_->[0] =~ /^rows\|40$/m } @results), 50, 'fifty sessions: all rows of all sessions');
is($mock->stat('requests'), 2000, 'fifty sessions: each is one request');
is($mock->stat('max_in_flight'), 10,
	'rpc_F22, fail_P62, fault_F65: fifty sessions: never more than the limit, and all of it');
is(admission('shared', 'peak, granted'), '10|2000', 'fifty sessions: it is shown');
my %least = map { $_->[0] =~ /^others\|(\d+)\|(\d+)$/m } @results; # by how many are not done
my ($others) = sort { $b <=> $a } keys %least;
note("fifty sessions: when the first was done, $others others had at least $least{$others} rows");
cmp_ok($others, '>=', 40, 'rpc_F17: fifty sessions: they are done at the same time, more or less');
cmp_ok($least{$others}, '>=', 20, 'rpc_F17: fifty sessions: all get their share');
is_idle('shared', 'fifty sessions');

# rpc_B18: sixteen sessions, each with a server object of its own, are the first ones of a key: it has
# the configuration of one of them, and nothing of another's.
ask(map {
		my $rpm = 1000 + $_;
		my $url = $mock->url;
		"CREATE SERVER sixteen_$_ FOREIGN DATA WRAPPER pg_inference
			OPTIONS (url '$url/v1', admission_key 'sixteen', max_concurrency '$_', rpm '$rpm');"
} 1 .. 16);
given('base_ms=5');
@results = InferProc::run_all($node, 'sixteen',
	map { "SELECT 'answered', infer.complete('sixteen_$_/m', 'sixteen $_') IS NOT NULL;\n" } 1 .. 16);
is(scalar(grep { $_->[0] =~ /^answered\|t$/m } @results), 16, 'rpc_B18: all are answered');
is(admission('sixteen', 'max_limit BETWEEN 1 AND 16, requests_left + granted - max_limit'), 't|1000',
	'rpc_B18: one configuration, and all of it');

# ----------------------------------------------------------------------------------------------
# Priorities: while a HIGH session wants permits, nobody below it is given one.

server('ranks', max_concurrency => 4);
given('fault_hang=100');
my @low;
sub start_low
{
	my ($n) = @_;
	push @low, InferProc->start($node, "low $n", "SET pg_inference.priority = LOW;\n" . rows_of('ranks', "low $n", 40));
	return;
}
start_low(1);
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 4 }), 'priorities: a LOW session has all permits');
start_low($_) foreach 2 .. 8;
ok(InferTest::wait_until(60, sub { admission('ranks', 'waiting_low') == 8 }), 'priorities: the others wait, as it does for more');
my $granted = q{SELECT 'granted', granted FROM infer.stat_admission WHERE key = 'ranks';};
my $high = InferProc->start($node, 'high', qq{$granted
	SELECT 'rows', count(infer.complete('ranks/m', 'high ' || i, options => '{"priority": "high"}'))
	FROM generate_series(1, 24) i;
	$granted});
ok(InferTest::wait_until(60, sub { admission('ranks', 'waiting_high') == 1 }), 'priorities: a HIGH one waits, too');
# four permits come free at once; so do those that they are given to
$mock->set('fault_hang=0', 'base_ms=400');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $low[0]->backend . ')');
($out, $err) = $high->finish;
my ($before, $after) = $out =~ /^granted\|(\d+)$/mg;
like($out, qr/^rows\|24$/m, 'priorities: the HIGH one is answered') or diag($err);
my $passed = $after - $before - 24;
note("LOW permits meanwhile: $passed");
cmp_ok($passed, '<=', 8, 'priorities: before any LOW one was given another permit');
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'low %'});
$_->finish foreach @low;
is_idle('ranks', 'priorities');

# ----------------------------------------------------------------------------------------------
# Backends that are terminated give their permits back; those that go on get them. Eight of them, or
# for a minute whoever is there, with others in their places.

server('mortal', max_concurrency => 6);
given('base_ms=5', 'jitter=0.5');
my $seconds = $ENV{PG_INFERENCE_LONG} ? 60 : 0;
my $born = 0;
my @mortals;
sub bear
{
	my $n = ++$born;
	push @mortals,
	  InferProc->start($node, "mortal $n", join('', map { rows_of('mortal', "mortal $n $_", 200) } 1 .. 20));
	return;
}
bear() foreach 1 .. 12;
my ($killed, $most, $until) = (0, 0, time + $seconds);
ok( InferTest::wait_until(
		60 + $seconds,
		sub {
			my $now = ask(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE application_name LIKE 'mortal %' AND query LIKE '%infer%' ORDER BY random() LIMIT 1) s});
			$killed += $now;
			bear() if $now && $seconds;
			my $out = admission('mortal', 'in_flight');
			$most = $out if $out > $most;
			return $killed >= 8 && time >= $until;
		}),
	'terminated: eight backends or more');
note("terminated: $killed of $born");
cmp_ok($most, '<=', 6, 'terminated: never more permits than there are');
ok( InferTest::wait_until(60,
		sub { ask(q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'mortal %'}) <= $born - 8 }),
	'terminated: they are gone');
my $served = $mock->stat('items');
ok(InferTest::wait_until(60, sub { $mock->stat('items') > $served + 20 || $mock->stat('in_flight') == 0 }),
	'terminated: the others go on');
$node->safe_psql('postgres',
	q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'mortal %'});
$_->finish foreach @mortals;
is_idle('mortal', 'terminated');
is(admission('mortal', 'peak'), 6, 'terminated: the limit was kept');
given('base_ms=20');
is(ask(rows_of('mortal', 'afterwards', 60)), 'rows|60', 'terminated: calls go on');
is($mock->stat('max_in_flight'), 6, 'terminated: with all of the permits');

# ----------------------------------------------------------------------------------------------
# A minute: never more than rpm requests in it, over all sessions.

server('minute', rpm => 60);
given('base_ms=5');
my @minute = map { InferProc->start($node, "minute $_", rows_of('minute', "minute $_", 70)) } 1 .. 8; # each has more than a minute bears
ok(InferTest::wait_until(60, sub { admission('minute', 'waiting = 8 AND in_flight = 0 AND requests_left = 0') eq 't' }),
	'rpm: eight sessions wait');
is($mock->stat('requests'), 60, 'fault_F60: rpm: when sixty requests were sent');
is(ask(q{SELECT count(*), string_agg(DISTINCT waiting_for, ' '), max(in_flight) FROM infer.stat_progress}),
	'8|permit|0', 'rpc_F30: which stat_progress shows while they wait');
is(ask(q{SELECT sum(requests) FROM infer.stat_progress}), 60, 'rpc_F30: with what they have sent');
cmp_ok(admission('minute', 'paced'), '>', 0, 'rpm: it is shown');
if ($ENV{PG_INFERENCE_LONG})
{
	ok(InferTest::wait_until(150, sub { $mock->stat('requests') >= 130 }), 'rpm: they go on when a minute has passed, and another one');
	my @at = sort { $a <=> $b } map { $_->{first_seen} } values %{ $mock->ledger };
	cmp_ok(min(map { $at[ $_ + 60 ] - $at[$_] } 0 .. $#at - 60), '>=', 60000,
		'fault_F60: rpm: no sixty-one of them in any minute');
}
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'minute %'});
$_->finish foreach @minute;
is_idle('minute', 'rpm');

# Tokens are charged by guess and corrected by what the answer says.
server('tokens', tpm => 100000);
given('tokens=7');
my $used = ask(q{SELECT sum(((infer.try_complete('tokens/m', 'tokens ' || i)).usage ->> 'total_tokens')::int)
	FROM generate_series(1, 20) i});
is(admission('tokens', 'tokens_left'), 100000 - $used, 'tpm: what was used is what is gone');

# Retry-After closes a key that has a minute, for all its sessions; the later one wins.
server('pause', rpm => 1000);
given('retry_after=50');
$session = InferProc->start($node, 'pause', q{SELECT infer.complete('pause/m', 'pause [[mock:429]]');});
ok(InferTest::wait_until(60, sub { admission('pause', q{retry_after_until > now() + '30s'}) eq 't' }),
	'Retry-After: the key keeps the pause');
my $other = InferProc->start($node, 'other', rows_of('pause', 'other', 1));
ok(InferTest::wait_until(60, sub { admission('pause', 'waiting') == 1 }), 'Retry-After: so does another session');
is($mock->stat('requests'), 1, 'Retry-After: nothing is sent');
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name IN ('pause', 'other')});
$_->finish foreach $session, $other;
is_idle('pause', 'Retry-After');

# ... unless it is longer than a call may take: that one fails at once, and keeps nobody.
server('long_pause', rpm => 1000);
is(ask(q{SELECT reason FROM infer.try_complete('long_pause/m', 'long pause [[mock:429]]', options => '{"timeout": "20s"}')}),
	'overloaded', 'a pause longer than the timeout: fails the call');
is(admission('long_pause', 'retry_after_until IS NULL'), 't', 'a pause longer than the timeout: is not kept');
is(ask(rows_of('long_pause', 'long pause', 1)), 'rows|1', 'a pause longer than the timeout: calls go on');

$node->stop;
done_testing();
