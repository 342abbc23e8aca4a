# Permits belong to a server, not to a session: all sessions together keep its limit, and each
# permit comes back however its request ends.
use strict;
use warnings;
use InferPulse;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $pulse = InferPulse->new;
my $limit = 5;
my $mock = InferTest::Mock->new;
my $node = InferTest::new_node(
	'permits',
	'pg_inference.streaming_mode = per_row',
	'statement_timeout = 60s', # a permit that does not come back would be waited for
	'restart_after_crash = on');
InferTest::connect_mock($node, $mock, max_concurrency => $limit);

sub given
{
	$mock->set('defaults', 'dim=4', @_);
	$mock->reset;
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }
sub admission { return ask("SELECT $_[0] FROM infer.stat_admission"); }

# Nothing is in flight, nobody waits, the server has no connection of ours that is at work.
sub is_idle
{
	my ($name) = @_;
	is(admission('coalesce(sum(in_flight), 0), coalesce(sum(waiting), 0)'), '0|0', "$name: no permit is out, nobody waits");
	ok(InferTest::wait_until(10, sub { $mock->stat('in_flight') == 0 }),
		"$name: nothing is in flight at the server");
	return;
}

# ... and so it is usable at once: all permits can be had.
sub is_usable
{
	my ($name) = @_;
	is_idle($name);
	given('base_ms=20');
	my $got = ask(qq{SET statement_timeout = '30s';
		SELECT count(infer.embed('m', 'again ' || i)) FROM generate_series(1, 20) i});
	is($got, 20, "$name: calls go on");
	is($mock->stat('max_in_flight'), $limit, "$name: with all of the permits");
	return;
}

# Everybody hangs: starts a session whose script has all permits out.
sub hanging
{
	my ($name, $script) = @_;
	given('fault_hang=100');
	my $session = InferProc->start($node, $name, $script);
	ok(InferTest::wait_until(60, sub { $mock->stat('requests') == $limit }),
		"$name: all permits are out");
	is(admission('in_flight'), $limit, "$name: and counted");
	return $session;
}

my $many = q{SELECT count(infer.embed('m', 'many ' || i)) FROM generate_series(1, 50) i};

# Eight sessions at a time, some in a function's own body, some in a scan.
given('base_ms=10', 'jitter=0.5');
my @scripts = map {
	($_ % 2 ? '' : "SET pg_inference.enable = off;\n")
	  . "SELECT 'rows', count(infer.embed('m', 'shared $_ ' || i)) FROM generate_series(1, 60) i;\n"
} 1 .. 8;
my @results = InferProc::run_all($node, 'share', @scripts);
is(scalar(grep { $_->[0] =~ /^rows\|60$/m && $_->[1] eq '' } @results),
	8, 'eight sessions: all of them get their answers')
  or diag(map { $_->[1] } @results);
my $stats = $mock->stats;
is($stats->{requests}, 480, 'eight sessions: each input is one request');
is($stats->{max_in_flight}, $limit, 'eight sessions: together they use, and keep, the limit');
is(admission('max_limit, peak, granted >= 480'), "$limit|$limit|t", 'eight sessions: so it is shown');
is_usable('eight sessions');

# Another server object with the same address shares the limit, whatever it says itself.
given('base_ms=50');
my $url = $mock->url;
ask(qq{CREATE SERVER twin FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1')});
@results = InferProc::run_all($node, 'twin',
	map { "SELECT 'rows', count(infer.embed('$_', 'twin ' || i)) FROM generate_series(1, 40) i;" }
	  qw(m twin/mock));
is(scalar(grep { $_->[0] =~ /^rows\|40$/m } @results), 2, 'two servers, one address: work');
cmp_ok($mock->stat('max_in_flight'), '<=', $limit, 'two servers, one address: one limit');
is(admission('count(*)'), 1, 'two servers, one address: one admission key');

# The owner of the server that was first changes it in the midst of a statement; nothing in flight is
# touched, and those who wait go as soon as there is room.
given('base_ms=50');
my $running = InferProc->start($node, 'changed', "SELECT 'rows', count(infer.embed('m', 'changed ' || i)) FROM generate_series(1, 100000) i;");
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == $limit }), 'limit changed: a statement keeps the old one');
foreach my $new (2 * $limit, 2)
{
	ask("ALTER SERVER mock OPTIONS (SET max_concurrency '$new')");
	ask(q{SELECT infer.apply_limits('mock')});
	is(admission('max_limit'), $new, "limit changed to $new: at once");
	ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == $new }), "limit changed to $new: for those that run");
	$mock->reset;
	ok(InferTest::wait_until(60, sub { $mock->stat('requests') >= 10 }), "limit changed to $new: they go on");
	is($mock->stat('max_in_flight'), $new, "limit changed to $new: and keep it");
}
ask("ALTER SERVER mock OPTIONS (SET max_concurrency '$limit')");
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $running->backend . ')');
$running->finish;
is_usable('limit changed');

# Ends that give permits back.
my $session = hanging('cancel', "$many;");
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->backend . ')');
$session->finish;
is_usable('cancel');

$session = hanging('terminate', "$many;");
my $pid = $session->backend;
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 10000)");
$session->finish;
is_usable('terminate');

# A client that is killed: the backend notices when asked to look, and at the latest when it writes.
$session = hanging('killed client', "SET client_connection_check_interval = '100ms';\n$many;");
$session->backend;
$session->kill_client;
ok( InferTest::wait_until(
		60,
		sub {
			ask(q{SELECT count(*) FROM pg_stat_activity
				WHERE application_name = 'killed client'}) == 0;
		}),
	'killed client: its backend ends');
is_usable('killed client');

$session = hanging('timeout', "SET statement_timeout = '1s';\n$many;");
$session->finish;
is_usable('timeout');

# A scan stopped half-way, when rows were asked ahead: LIMIT, and a cursor that is closed. The first rows are
# answered; the others hang, and are in flight for sure when the scan is dropped. (A condition on the
# answers, for without one no more rows are asked than are wanted.) The session goes on, for its end
# would give back whatever is out.
ask(q{CREATE FUNCTION hangs(name text, i int) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT name || ' ' || i || CASE WHEN i > 1 THEN ' [[mock:hang]]' ELSE '' END $$});
given();
is( ask(q{SELECT count(*) FROM (SELECT i FROM generate_series(1, 1000) i
		WHERE infer.embed('m', hangs('limit', i)) IS NOT NULL LIMIT 1) s;},
		q{SELECT in_flight FROM infer.stat_admission;}),
	"1\n0", 'LIMIT: a row arrives, permits come back');
cmp_ok($mock->stat('requests'), '>', 1, 'LIMIT: others were asked');
is_usable('LIMIT');

given();
is( ask(q{BEGIN},
		q{; DECLARE c CURSOR FOR SELECT i FROM generate_series(1, 1000) i
			WHERE infer.embed('m', hangs('cursor', i)) IS NOT NULL;},
		q{FETCH 1 FROM c; SELECT in_flight > 0 FROM infer.stat_admission; CLOSE c;},
		q{SELECT in_flight FROM infer.stat_admission; COMMIT;}),
	"1\nt\n0", 'CLOSE: gives permits back, inside the transaction');
is_usable('CLOSE');

# An error when the first row is answered, caught by a subtransaction: in SQL, and in PL/pgSQL.
given();
my ($code, $out, $err) = $node->psql('postgres', q{
	BEGIN;
	SAVEPOINT s;
	SELECT 1 / (4 - array_length(infer.embed('m', hangs('savepoint', i)), 1)) FROM generate_series(1, 1000) i;
	ROLLBACK TO s;
	SELECT in_flight, waiting FROM infer.stat_admission;
	SELECT infer.embed('m', 'after savepoint') IS NOT NULL;
	COMMIT;}, on_error_stop => 0);
like($err, qr/division by zero/, 'ROLLBACK TO: the statement fails');
cmp_ok($mock->stat('requests'), '>', 2, 'ROLLBACK TO: others were asked');
is($out, "0|0\nt", 'ROLLBACK TO: gives permits back, and the transaction goes on');
is_usable('ROLLBACK TO');

given();
is( ask(
		q{CREATE FUNCTION catches() RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			said text := '';
		BEGIN
			BEGIN
				PERFORM 1 / (4 - array_length(infer.embed('m', hangs('caught', i)), 1)) FROM generate_series(1, 1000) i;
			EXCEPTION WHEN division_by_zero THEN
				said := SQLERRM;
			END;
			RETURN said || ' ' || (SELECT in_flight FROM infer.stat_admission);
		END $$;},
		q{SELECT catches();}),
	'division by zero 0', 'exception block: gives permits back');
cmp_ok($mock->stat('requests'), '>', 1, 'exception block: others were asked');
is_usable('exception block');

# Who waits for a permit gets it when it comes back, without asking again and again. rpc_F16: a scan
# that found all permits with another one when it began has all of its rows in the end, in both modes.
$session = hanging('holder', "$many;");
my $waiter = InferProc->start($node, 'waiter',
	"SELECT 'answered', infer.embed('m', 'waiter') IS NOT NULL;");
my %scan = map {
	($_ => InferProc->start($node, "scan $_", "SET pg_inference.streaming_mode = $_;
		SET pg_inference.dispatch_batch_size = 7;
		SELECT 'rows', count(infer.embed('m', '$_ ' || i)) FROM generate_series(1, 50) i;"))
} qw(per_row batch);
# the holder waits, too, with what it has not sent
ok(InferTest::wait_until(60, sub { admission('waiting') == 4 }),
	'waiting: other sessions want a permit');
is($mock->stat('requests'), $limit, 'rpc_F16: and send nothing without one');
$mock->set('fault_hang=0');
my $start = time;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->backend . ')');
$session->finish;
($out) = $waiter->finish;
my $took = $pulse->since($start);
is($out, "answered|t\n", 'waiting: gets a permit that comes back');
note(sprintf 'waiting: took %.0f ms', 1000 * $took);
cmp_ok($took, '<', 5, 'waiting: soon');
foreach my $mode (sort keys %scan)
{
	my ($rows, $said) = $scan{$mode}->finish;
	is($rows, "rows|50\n", "rpc_F16: $mode: all rows are answered") or diag($said);
}
is_usable('waiting');

# rpc_F23: rows that are answered come out though all permits are with another session.
given();
my $gate = InferProc->start($node, 'gate', "SELECT pg_advisory_lock(1);\nSELECT pg_sleep(600);\n");
ok(InferTest::wait_until(60, sub { ask(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted}) == 1 }),
	'rpc_F23: the gate is closed');
ask(q{CREATE FUNCTION pauses(i int) RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		IF i = 1 THEN
			PERFORM pg_advisory_lock(1);
		END IF;
		RETURN i;
	END $$});
my $reader = InferProc->start($node, 'reader', q{
	SET pg_inference.streaming_mode = batch;
	SET pg_inference.dispatch_batch_size = 20;
	SET statement_timeout = '60s';
	SELECT 'row', pauses(i), e IS NOT NULL
	FROM (SELECT i, infer.embed('m', 'ready ' || i) AS e FROM generate_series(1, 20) AS i OFFSET 0) AS s;
});
ok( InferTest::wait_until(60, sub { ask(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) == 1 }),
	'rpc_F23: a scan has its first row');
is($mock->stat('items'), 20, 'rpc_F23: which was answered with nineteen others');
$session = hanging('all of them', "$many;");
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $gate->backend . ')');
($out, $err) = $reader->finish;
is(scalar(() = $out =~ /^row\|\d+\|t$/mg), 20, 'rpc_F23: ready rows wait for nobody') or diag($err);
is(admission('in_flight'), $limit, 'rpc_F23: the permits are where they were');
$gate->finish;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->backend . ')');
$session->finish;
is_usable('ready rows');

# A crash of a backend restarts the server with an empty table.
$session = hanging('crash', "$many;");
kill 'KILL', $session->backend;
$session->finish;
ok($node->poll_query_until('postgres', 'SELECT true'), 'crash: the server comes back');
is(admission('coalesce(sum(in_flight), 0)'), 0, 'crash: no permit is out');
is_usable('crash');

$node->stop;
done_testing();
