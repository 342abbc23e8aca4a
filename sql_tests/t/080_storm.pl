# A storm: sessions that run everything at once against a server that fails now and then, while
# their statements are cancelled, their backends terminated and their clients killed at random.
# Afterwards nothing is in flight, nobody waits, no connection is open, the log has no complaint.
use strict;
use warnings;
use InferTest;
use InferProc;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $sessions = 4;
my $seconds = 20;
my $cap = 6;
my $mock = InferTest::Mock->new;
my $node = InferTest::new_node(
	'storm',
	"pg_inference.request_timeout = '2s'",
	# the storm has many failures in a row: short pauses, so that it goes on
	'pg_inference.failure_cooldown = 20',
	"client_connection_check_interval = '500ms'");
InferTest::connect_mock($node, $mock, max_concurrency => $cap);

my $seed = $ENV{STORM_SEED} // time ^ $$;
srand($seed);
note("STORM_SEED=$seed");

$node->safe_psql('postgres', q{
CREATE TABLE docs AS SELECT i, 'doc ' || i % 170 AS x FROM generate_series(1, 500) i;
CREATE TABLE sink (i int, e real[]);
ANALYZE docs;
CREATE FUNCTION direct_loop(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE good int := 0; bad int := 0;
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			PERFORM infer.embed('m', 'direct ' || i || pg_backend_pid());
			good := good + 1;
		EXCEPTION WHEN OTHERS OR query_canceled THEN bad := bad + 1;
		END;
	END LOOP;
	RETURN good || ' ' || bad;
END $$;
CREATE FUNCTION scan_loop(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; good int := 0; bad int := 0;
BEGIN
	FOR r IN SELECT i, x, infer.try_embed('m', x || i) FROM docs LIMIT n LOOP
		BEGIN
			PERFORM infer.complete('c', 'inner ' || r.i / 3);
			IF r.i % 7 = 0 THEN RAISE 'no'; END IF;
			PERFORM infer.embed('m', x || i + 1) FROM docs LIMIT 3;
			good := good + 1;
		EXCEPTION WHEN OTHERS OR query_canceled THEN bad := bad + 1;
		END;
	END LOOP;
	RETURN good || ' ' || bad;
END $$;
CREATE PROCEDURE commits(n int) LANGUAGE plpgsql AS $$
DECLARE r record; k int := 0;
BEGIN
	FOR r IN SELECT i, (infer.try_embed('m', 'commit ' || i)).value AS e FROM docs LIMIT n LOOP
		INSERT INTO sink VALUES (r.i, r.e);
		k := k + 1;
		IF k % 5 = 0 THEN COMMIT; ELSIF k % 7 = 0 THEN ROLLBACK; END IF;
		PERFORM infer.try_embed('m', 'after commit ' || r.i);
	END LOOP;
END $$;
CREATE FUNCTION nested(x text) RETURNS bigint LANGUAGE sql STABLE AS
	$$ SELECT count((infer.try_embed('m', x || i)).value) FROM generate_series(1, 5) i $$;
});

my $per_row = q{options => '{"streaming_mode": "per_row"}'};
my @statements = (
	q{CREATE TEMP TABLE t AS SELECT i, infer.embed('m', x) e FROM docs; DROP TABLE IF EXISTS t;},
	qq{INSERT INTO sink SELECT i, infer.embed('m', x || i, $per_row) FROM docs WHERE i < 200;},
	q{INSERT INTO sink SELECT i, infer.embed('m', x) FROM docs WHERE infer.complete('c', x) IS NOT NULL;},
	q{UPDATE sink SET e = infer.embed('m', 'up ' || i) WHERE i < 50;},
	q{SELECT direct_loop(60);},
	q{SELECT scan_loop(40);},
	q{CALL commits(40);},
	q{BEGIN; SAVEPOINT a; SELECT count(infer.embed('m', x || i)) FROM docs; ROLLBACK TO a;
	  SELECT 1 / (i - 30), infer.embed('m', x || i) FROM docs; ROLLBACK TO a; SELECT infer.embed('m', 'after'); COMMIT;},
	qq{BEGIN; DECLARE c CURSOR FOR SELECT i, infer.embed('m', x || i, $per_row) FROM docs; FETCH 3 FROM c;
	  SAVEPOINT s; FETCH 20 FROM c; ROLLBACK TO s; FETCH 5 FROM c; CLOSE c; COMMIT;},
	qq{BEGIN; DECLARE c CURSOR FOR SELECT i, infer.embed('m', x || i, $per_row) FROM docs;
	  DECLARE d CURSOR FOR SELECT i, infer.embed('m', x || i, $per_row) FROM docs ORDER BY i DESC;
	  FETCH 3 FROM c; FETCH 20 FROM d; FETCH 30 FROM c; SELECT infer.embed('m', x || i, $per_row) FROM docs LIMIT 3;
	  CLOSE d; FETCH 10 FROM c; ROLLBACK;},
	q{BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT i, infer.embed('m', x || i) FROM docs LIMIT 100; FETCH 3 FROM h; COMMIT;
	  FETCH 3 FROM h; CLOSE ALL;},
	q{SELECT infer.embed('m', x || i) FROM docs WHERE infer.complete('c', x) > 'm' LIMIT 5;},
	q{SELECT i, (SELECT infer.complete('c', infer.embed('m', d.x || 'n')::text)) FROM docs d LIMIT 30;},
	q{SELECT sum(nested(x)) FROM docs WHERE i < 30;},
	q{SET pg_inference.enable = off; SELECT count(infer.embed('m', x)) FROM docs WHERE i < 80; RESET pg_inference.enable;});

sub given
{
	$mock->set('defaults', 'dim=4', 'base_ms=2', 'slots=8', 'queue=100000', @_);
	return;
}

# A session's script: all statements in random order, its transaction ended after each.
sub script { return join("\n", map { ("\\o /dev/null", $_, 'ROLLBACK;') } shuffle(@statements)); }

sub sql_of_victim
{
	my ($function) = @_;
	return "SELECT $function(pid) FROM pg_stat_activity
		WHERE application_name LIKE 'storm%' ORDER BY random() LIMIT 1";
}

given('jitter=0.5', 'fault_hang=0.2', 'fault_halfhang=0.1', 'fault_partial=1', 'fault_500=2', 'fault_429=1',
	'fault_die=2', 'fault_reset=1', 'fault_json=1', 'fault_close=3');
my $n = 0;
my (@running, @errors, %done);
my $until = time + $seconds;
while (time < $until)
{
	while (@running < $sessions)
	{
		push @running, InferProc->start($node, 'storm' . ++$n, script());
	}
	my $draw = rand;
	if ($draw < 0.03)
	{
		(splice @running, rand @running, 1)->kill_client;
		$done{'client killed'}++;
	}
	else
	{
		my $function = $draw < 0.08 ? 'pg_terminate_backend' : 'pg_cancel_backend';
		$node->psql('postgres', sql_of_victim($function));
		$done{$function}++;
	}
	sleep 0.02;
	@running = grep {
		my $over = waitpid($_->{client}, POSIX::WNOHANG()) != 0;
		push @errors, $_->slurp('err') if $over;
		$_->{client} = 0 if $over;
		!$over
	} @running;
}
push @errors, ($_->finish)[1] foreach @running;
note("sessions: $n; " . join(', ', map { "$_: $done{$_}" } sort keys %done));
my %codes;
$codes{$_}++ foreach map { /(?:ERROR|FATAL):  (\w{5}):/g } @errors;
note('SQLSTATEs: ' . join(', ', map { "$_ $codes{$_}" } sort keys %codes));
cmp_ok($done{pg_cancel_backend}, '>=', 50, 'storm: statements were cancelled');
ok($codes{57014}, 'storm: and ended for that');
is(join(' ', grep { /^(XX|58|53)/ } keys %codes), '', 'storm: no internal error');

ok($node->poll_query_until('postgres',
		q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'storm%'}),
	'storm: all backends have ended, those of killed clients, too');
is($node->safe_psql('postgres', 'SELECT sum(in_flight), sum(waiting) FROM infer.stat_admission'),
	'0|0', 'storm: no permit is out, nobody waits');
ok(InferTest::wait_until(10, sub { $mock->stat('in_flight') == 0 && $mock->open_connections == 0 }),
	'storm: the server has no request and no connection');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC: |WARNING:  (?!there is no transaction)|terminated by signal/, 'storm: the log has no complaint');

# What failed has lowered the limit; what succeeds raises it again.
given();
my $round = 0;
ok( InferTest::wait_until(
		60,
		sub {
			$round++;
			$node->safe_psql('postgres',
				qq{SELECT count(infer.complete('c', 'round $round ' || i)) FROM generate_series(1, 100) i});
			return $node->safe_psql('postgres', 'SELECT current_limit FROM infer.stat_admission') == $cap;
		}),
	'after the storm: the limit recovers');
note("rounds: $round");
$mock->reset;
my @same = map {
	$node->safe_psql('postgres', qq{SET pg_inference.enable = $_; SET statement_timeout = '60s';
		SELECT md5(string_agg(i || infer.embed('m', x)::text || infer.complete('c', x), ' ' ORDER BY i)) FROM docs})
} qw(on off);
is($same[0], $same[1], 'after the storm: the same answers with and without InferScan');
cmp_ok($mock->stat('max_in_flight'), '<=', $cap, 'after the storm: the limit is kept');
cmp_ok($mock->stat('max_in_flight'), '>=', $cap - 1, 'after the storm: and used');

# ----------------------------------------------------------------------------------------------
# The server is killed while requests are in flight. (The rows that have not been sent would wait for
# it to come back, for a minute.)

given('fault_hang=100');
my $session = InferProc->start($node, 'orphan', q{
	SET pg_inference.streaming_mode = per_row; SET pg_inference.request_timeout = '1min';
	SET pg_inference.failure_threshold = 0;
	SELECT 'rows', count(*), count((o).value), min((o).execution)
	FROM (SELECT infer.try_embed('m', 'orphan ' || i) AS o FROM generate_series(1, 50) i OFFSET 0) s;
	SELECT 'in flight', in_flight, waiting FROM infer.stat_admission;});
ok(InferTest::wait_until(30, sub { $mock->stat('in_flight') == $cap }), 'killed server: all permits are out');
kill 'KILL', $mock->pid;
my ($out, $err) = $session->finish;
like($out, qr/^rows\|50\|0\|maybe_executed$/m, 'killed server: each row has its failure') or diag($err);
like($out, qr/^in flight\|0\|0$/m, 'killed server: no permit is out');
$mock->stop;

$node->stop;
done_testing();
