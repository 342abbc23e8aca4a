# The gateway process: there, seen, replaced when it ends, and missed by nobody who calls.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
use InferProc;
use InferPulse;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $pulse = InferPulse->new;
my $gateway = q{backend_type = 'pg_inference gateway'};
my $mock = InferTest::Mock->new('base_ms=1');
my $other = InferTest::Mock->new('base_ms=1');

# The process, once there is one that is not the given one.
sub process
{
	my ($at, $old) = @_;
	my $pid = '';
	InferTest::wait_until(
		30,
		sub {
			$pid = $at->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $gateway");
			$pid =~ /^\d+$/ && $pid != $old;
		});
	return $pid;
}

# Where no process can be started, it is missed only after a while: this one waits from now on.
my $without = InferTest::new_node('without', 'pg_inference.gateway = on', 'max_worker_processes = 0');
my $without_since = time;
my $off = InferTest::new_node('off', 'pg_inference.gateway = off');
InferTest::connect_mock($off, $mock);
InferTest::connect_mock($without, $mock);
my ($rc, $out, $err) = $without->psql('postgres', q{SELECT infer.complete('c', 'early') IS NOT NULL});
is("$out$err", 't', 'no process: nobody is told at once, for one may be about to come');

# Nor is one that does not move: so does this one, from now on.
my $still = InferTest::new_node('still', 'pg_inference.gateway = on', "pg_inference.timer_interval = '100ms'");
InferTest::connect_mock($still, $mock);
my $stopped = process($still, 0);
like($stopped, qr/^\d+$/, 'stopped: it was there');
my $busy = InferProc->start($still, 'busy', q{SELECT count(infer.complete('c', '[[mock:hang]] busy ' || i)) FROM generate_series(1, 8) i;});
my $load = sub { return $still->safe_psql('postgres', q{SELECT substring(reason FROM 'load factor (.*)') FROM infer.explain_route('c') WHERE phase = 2}) };
ok(InferTest::wait_until(30, sub { $still->safe_psql('postgres', 'SELECT max(load_factor) > 0.2 FROM infer.stat_nodes') eq 't' }),
	'stopped: its node was busy, as far as it saw');
kill 'STOP', $stopped or die "cannot stop $stopped: $!";
$still->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $busy->backend . ')');
$busy->finish;
ok(InferTest::wait_until(30, sub { $load->() < 0.2 }), 'gw_3: how busy it said a node was is not believed for ever')
  or diag($load->());
my $missing = InferProc->start($still, 'missing', q{DO $$
	DECLARE began timestamptz := clock_timestamp();
	BEGIN
		WHILE clock_timestamp() < began + interval '13 s' LOOP
			PERFORM infer.complete('c', 'stopped ' || clock_timestamp()), pg_sleep(0.1);
		END LOOP;
	END $$;
	SELECT infer.complete('c', 'another statement') IS NOT NULL;});

my $node = InferTest::new_node('main', 'pg_inference.gateway = on');
InferTest::connect_mock($node, $other);
sub ask { return $node->safe_psql('postgres', join('', @_)); }

# ----------------------------------------------------------------------------------------------
# It is seen, in no database.

my $first = process($node, 0);
like($first, qr/^\d+$/, 'pg_stat_activity shows one process');
is(ask("SELECT datname IS NULL, state, query FROM pg_stat_activity WHERE $gateway"),
	't|idle|no servers in use', 'in no database, and it says what it does');
is(ask(q{SELECT infer.complete('c', 'hello') IS NOT NULL}), 't', 'calls work');

# ----------------------------------------------------------------------------------------------
# Signals: a cancel means nothing to it, SIGTERM ends it, and another one comes.

ask("SELECT pg_cancel_backend($first)", '; SELECT pg_reload_conf()');
is(ask("SELECT pg_terminate_backend($first, 10000)"), 't', 'terminated');
my $second = process($node, $first);
like($second, qr/^\d+$/, 'another one comes');
my $log = slurp_file($node->logfile);
unlike($log, qr/terminating any other active server processes|all server processes terminated/, 'the server has gone on');
unlike($log, qr/(ERROR|FATAL|WARNING):/, 'with no word of complaint');
my $pid_of = 'SELECT count(*) FROM pg_stat_activity WHERE ' . $gateway;
is(ask($pid_of), 1, 'there is only one');

# DROP DATABASE waits for whoever is connected, and for an answer of every process
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION pg_inference');
my $start = time;
$node->safe_psql('postgres', 'DROP DATABASE other');
cmp_ok($pulse->since($start), '<', 5, 'DROP DATABASE does not wait for it');

# ----------------------------------------------------------------------------------------------
# Ended again and again while others call: nothing is lost, nothing runs twice, nothing is stuck. With
# PG_INFERENCE_LONG every two seconds for a minute.

my ($rounds, $pause) = $ENV{PG_INFERENCE_LONG} ? (30, 2) : (3, 1.2);
$other->reset;
$other->set('base_ms=20', 'slots=8');
my $seconds = $rounds * ($pause + 1);
my @load = map {
	InferProc::start('InferProc', $node, "load $_", qq{CREATE TEMP TABLE t AS SELECT 0 AS n, 0::bigint AS good LIMIT 0;
	DO \$\$
	DECLARE began timestamptz := clock_timestamp(); batch int := 0;
	BEGIN
		WHILE clock_timestamp() < began + interval '$seconds s' LOOP
			INSERT INTO t SELECT count(*), count(infer.embed('m', 'load $_ ' || batch || ' ' || i))
			FROM generate_series(1, 50) i;
			batch := batch + 1;
		END LOOP;
	END \$\$;
	SELECT sum(n) = sum(good), sum(n) > 0, sum(n) FROM t;})
} 1 .. 4;
my %ended = ($second => 1);
for (1 .. $rounds)
{
	my $pid = process($node, 0);
	ask("SELECT pg_terminate_backend($pid)");
	$ended{$pid} = 1;
	sleep $pause;
	$second = process($node, $pid);
	$ended{$second} = 1;
}
is(scalar(keys %ended), $rounds + 1, 'under load: another one each time');
my $rows = 0;
foreach my $session (@load)
{
	($out, $err) = $session->finish;
	like($out, qr/^t\|t\|\d+$/, 'under load: all rows are answered');
	is($err, '', 'under load: without a word');
	$rows += $1 if $out =~ /\|(\d+)$/;
}
is($other->stat('duplicate_items'), 0, 'under load: nothing ran twice');
is($other->stat('items'), $rows, 'under load: and nothing was lost');
is(ask(q{SELECT sum(in_flight), sum(waiting) FROM infer.stat_admission}), '0|0', 'under load: nothing is left');
$other->set('defaults', 'base_ms=1');

# ----------------------------------------------------------------------------------------------
# No process at all, or one that does not move: one WARNING a session, and calls work.

InferTest::wait_until(30, sub { time - $without_since > 11 });
(undef, $out, $err) = $without->psql('postgres', q{
	SELECT infer.complete('c', 'one') IS NOT NULL;
	SELECT count(infer.complete('c', 'two ' || i)) FROM generate_series(1, 20) i;});
is($out, "t\n20", 'no process: calls work');
is(() = $err =~ /WARNING/g, 1, 'no process: one WARNING a session') or diag($err);
like($err, qr/HINT:  See the server's log; max_worker_processes/, 'no process: what to look at');
$without->stop;

($out, $err) = $missing->finish;
is($out, "t\n", 'stopped: calls work');
is(() = $err =~ /WARNING:  01000: the gateway process of pg_inference is not running/g, 1, 'stopped: one WARNING a session')
  or diag($err);
like($err, qr/HINT:  The process $stopped does not move/, 'stopped: which one');
kill 'CONT', $stopped;
ok(InferTest::wait_until(30, sub {
	my (undef, undef, $words) = $still->psql('postgres', q{SELECT infer.complete('c', 'goes on')});
	return $words eq '';
}), 'it moves again, and nobody misses it');
$still->stop;

(undef, $out, $err) = $off->psql('postgres', q{SELECT infer.complete('c', 'off') IS NOT NULL});
is("$out$err", 't', 'switched off: not a word');
is($off->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE $gateway"), 0, 'switched off: no process');
$off->stop;

$node->stop;
like(slurp_file($node->logfile), qr/database system is shut down/, 'it does not keep the server from stopping');
done_testing();
