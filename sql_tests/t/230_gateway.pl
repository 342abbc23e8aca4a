# The gateway process: there, seen, replaced when it ends, and missed by nobody who calls.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $gateway = q{backend_type = 'pg_inference gateway'};
my $mock = InferTest::Mock->new('base_ms=1');

# Where no process can be started, it is missed only after a while: this one waits from now on.
my $without = InferTest::new_node('without', 'max_worker_processes = 0');
my $without_since = time;
InferTest::connect_mock($without, $mock);
my ($rc, $out, $err) = $without->psql('postgres', q{SELECT infer.complete('c', 'early') IS NOT NULL});
is("$out$err", 't', 'no process: nobody is told at once, for one may be about to come');

my $node = InferTest::new_node('main');
InferTest::connect_mock($node, $mock);
sub ask { return $node->safe_psql('postgres', join('', @_)); }

# The process, once there is one that is not the given one.
sub process
{
	my ($old) = @_;
	my $pid = '';
	InferTest::wait_until(30,
		sub { $pid = ask("SELECT pid FROM pg_stat_activity WHERE $gateway"); $pid =~ /^\d+$/ && $pid != $old });
	return $pid;
}

# ----------------------------------------------------------------------------------------------
# It is seen, in no database.

my $first = process(0);
like($first, qr/^\d+$/, 'pg_stat_activity shows one process');
is(ask("SELECT datname IS NULL, state, query FROM pg_stat_activity WHERE $gateway"),
	't|idle|no servers in use', 'in no database, and it says what it does');
is(ask(q{SELECT infer.complete('c', 'hello') IS NOT NULL}), 't', 'calls work');

# ----------------------------------------------------------------------------------------------
# Signals: a cancel means nothing to it, SIGTERM ends it, and another one comes.

ask("SELECT pg_cancel_backend($first)", '; SELECT pg_reload_conf()');
is(ask("SELECT pg_terminate_backend($first, 10000)"), 't', 'terminated');
my $second = process($first);
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
cmp_ok(time - $start, '<', 5, 'DROP DATABASE does not wait for it');

# ----------------------------------------------------------------------------------------------
# One that does not move is missed as well; and then it does again.

kill 'STOP', $second or die "cannot stop $second: $!";
my $session = InferProc->start($node, 'missing', q{DO $$
	DECLARE began timestamptz := clock_timestamp();
	BEGIN
		WHILE clock_timestamp() < began + interval '13 s' LOOP
			PERFORM infer.complete('c', 'stopped ' || clock_timestamp()), pg_sleep(0.1);
		END LOOP;
	END $$;
	SELECT infer.complete('c', 'another statement') IS NOT NULL;});

# Meanwhile: no process at all.
InferTest::wait_until(30, sub { time - $without_since > 11 });
(undef, $out, $err) = $without->psql('postgres', q{
	SELECT infer.complete('c', 'one') IS NOT NULL;
	SELECT count(infer.complete('c', 'two ' || i)) FROM generate_series(1, 20) i;});
is($out, "t\n20", 'no process: calls work');
is(() = $err =~ /WARNING/g, 1, 'no process: one WARNING a session') or diag($err);
like($err, qr/HINT:  See the server's log; max_worker_processes/, 'no process: what to look at');
$without->append_conf('postgresql.conf', 'pg_inference.gateway = off');
$without->restart;

($out, $err) = $session->finish;
is($out, "t\n", 'stopped: calls work');
is(() = $err =~ /WARNING:  01000: the gateway process of pg_inference is not running/g, 1, 'stopped: one WARNING a session')
  or diag($err);
like($err, qr/HINT:  The process $second does not move/, 'stopped: which one');
kill 'CONT', $second;
ok(InferTest::wait_until(30, sub {
	my (undef, undef, $words) = $node->psql('postgres', q{SELECT infer.complete('c', 'goes on')});
	return $words eq '';
}), 'it moves again, and nobody misses it');

(undef, $out, $err) = $without->psql('postgres', q{SELECT infer.complete('c', 'off') IS NOT NULL});
is("$out$err", 't', 'switched off: not a word');
is($without->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE $gateway"), 0, 'switched off: no process');
$without->stop;

$node->stop;
like(slurp_file($node->logfile), qr/database system is shut down/, 'it does not keep the server from stopping');
done_testing();
