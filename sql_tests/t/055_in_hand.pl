# An answer that one statement takes while it serves another is not lost when handling it raises.
#
# A scan has two requests in flight; its first row calls a function, which waits until the second
# request has failed at the server. What the function asks then takes that answer too; to describe
# the failure without the key, the key is read, and that look-up runs into a lock timeout, which the
# function catches. The scan must still get to know what became of its second row.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('slots=1', 'base_ms=200', 'tokens=1');
my $node = InferTest::new_node('in_hand', 'pg_inference.max_attempts = 1');
InferTest::connect_mock($node, $mock, max_concurrency => 2);
my $key = $node->basedir . '/key';
append_to_file($key, "secret-of-this-test\n");

sub ask { return $node->safe_psql('postgres', $_[0]); }
sub becomes_true
{
	my ($query, $what) = @_;
	ok(InferTest::wait_until(30, sub { ask("SELECT $query") eq 't' }), $what);
	return;
}

ask(qq{
	CREATE USER MAPPING FOR PUBLIC SERVER mock OPTIONS (api_key_file '$key');
	CREATE FUNCTION disturbed(i int) RETURNS text LANGUAGE plpgsql AS \$\$
	BEGIN
		IF i > 1 THEN
			RETURN 'undisturbed';
		END IF;
		PERFORM pg_advisory_lock(1);
		BEGIN
			PERFORM set_config('lock_timeout', '100ms', true);
			RETURN infer.complete('c', 'nested');
		EXCEPTION WHEN lock_not_available THEN
			PERFORM pg_advisory_lock(2);
			RETURN 'caught';
		END;
	END \$\$});

my $gate = InferProc->start($node, 'gate', "SELECT pg_advisory_lock(1); SELECT pg_sleep(600);\n");
becomes_true(q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted},
	'the gate is closed');

my $scan = InferProc->start($node, 'scan', q{
	SET statement_timeout = '60s';
	SELECT i, (o).reason, disturbed(i) FROM (
		SELECT i, infer.try_complete('c', CASE i WHEN 1 THEN 'good' ELSE 'bad [[mock:partial]]' END) AS o
		FROM generate_series(1, 2) AS i OFFSET 0) AS q;
});
becomes_true(q{count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted},
	'the first row is out, its function waits');
ok(InferTest::wait_until(30, sub { $mock->stat('requests') == 2 && $mock->stat('in_flight') == 0 }),
	'the second request has ended at the server');

my $lock = InferProc->start($node, 'lock', qq{
	ALTER USER MAPPING FOR PUBLIC SERVER mock OPTIONS (SET api_key_file '$key');
	BEGIN;
	LOCK TABLE pg_user_mapping IN ACCESS EXCLUSIVE MODE;
	DO \$\$ BEGIN
		WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 2) LOOP
			PERFORM pg_sleep(0.01);
		END LOOP;
	END \$\$;
	ROLLBACK;
});
becomes_true(q{count(*) = 1 FROM pg_locks WHERE relation = 'pg_user_mapping'::regclass
	AND mode = 'AccessExclusiveLock' AND granted}, 'nobody can read the key');
ask('SELECT pg_terminate_backend(' . $gate->backend . ')');

my ($out, $err) = $scan->finish;
is($err, '', 'the scan raises nothing');
is($out, "1||caught\n2|incomplete_reply|undisturbed\n", 'each row has its own answer');
is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), '0', 'no permit is out');
$lock->finish;
done_testing();
