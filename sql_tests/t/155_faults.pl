# Faults that other products have: queues that eat timeouts, statements that ask one by one, rows left
# empty after refusals, calls before cheap conditions, answers made of rubbish.
# fault_F11, F48, F61, F64, F76, F87.
use strict;
use warnings;
use File::Basename qw(dirname);
use InferHostile;
use InferProc;
use InferTest;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('dim=4');
my $node = InferTest::new_node('faults', 'pg_inference.failure_threshold = 0', 'pg_inference.streaming_mode = per_row');
InferTest::connect_mock($node, $mock, max_concurrency => 8);

sub given { $mock->set('defaults', 'dim=4', @_); $mock->reset; return; }
sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# ----------------------------------------------------------------------------------------------
# fault_F11: the timeout is that of a request, not of its time in line: a thousand at once, which take
# three times as long as each of them may.

given('base_ms=25');
is( ask(q{SET pg_inference.request_timeout = '1s';
		SELECT count((o).value), count((o).reason)
		FROM (SELECT infer.try_embed('m', 'line ' || i) AS o FROM generate_series(1, 1000) i OFFSET 0) s}),
	'1000|0', 'fault_F11: a thousand rows in line, no timeout');
cmp_ok($mock->stat('span_ms'), '>', 2000, 'fault_F11: which took longer than a request may');

# ----------------------------------------------------------------------------------------------
# fault_F48: no kind of statement asks one by one.

ask(q{CREATE TABLE t AS SELECT i AS id, 'row ' || i AS body, NULL::real[] AS v FROM generate_series(1, 100) i;
	CREATE TABLE other (id int, v real[]);
	ANALYZE t;});
my %statement = (
	SELECT => q{SELECT id, infer.embed('m', body) FROM t},
	'WHERE' => q{SELECT id FROM t WHERE infer.embed('m', body) IS NOT NULL},
	'ORDER BY' => q{SELECT id FROM t ORDER BY infer.embed('m', body)},
	aggregate => q{SELECT count(infer.embed('m', body)) FROM t},
	'CREATE TABLE AS' => q{CREATE TABLE made AS SELECT id, infer.embed('m', body) AS v FROM t},
	'INSERT SELECT' => q{INSERT INTO other SELECT id, infer.embed('m', body) FROM t},
	UPDATE => q{UPDATE t SET v = infer.embed('m', body)},
	LATERAL => q{SELECT t.id, l.v FROM t, LATERAL (SELECT infer.embed('m', t.body) AS v OFFSET 0) l});
foreach my $kind (sort keys %statement)
{
	given('base_ms=20');
	ask("$statement{$kind};");
	my $stats = $mock->stats;
	is($stats->{max_in_flight}, 8, "fault_F48: $kind: as many at once as the server allows");
	is($stats->{requests}, 100, "fault_F48: $kind: each row once");
}

# ----------------------------------------------------------------------------------------------
# fault_F61: nobody has to write the loop that repeats what was refused.

given('fault_429=30', 'fault_attempts=1', 'retry_after=0');
ask('UPDATE t SET v = NULL;');
ask(q{UPDATE t SET v = infer.embed('m', body);});
is(ask('SELECT count(*) FROM t WHERE v IS NULL'), 0, 'fault_F61: one statement fills all rows');
my $refused = $mock->stat('failed');
cmp_ok($refused, '>=', 15, 'fault_F61: of which many were refused at first');
is($mock->stat('requests'), 100 + $refused, 'fault_F61: refused ones were asked once more, the others not');

# ----------------------------------------------------------------------------------------------
# fault_F64: what is cheap decides first, wherever it stands.

foreach my $enable (qw(on off))
{
	foreach my $where (q{infer.complete('c', body) <> '' AND id % 10 = 0}, q{id % 10 = 0 AND infer.complete('c', body) <> ''})
	{
		given();
		is(ask("SET pg_inference.enable = $enable;", "SELECT count(*) FROM t WHERE $where;"), 10, "fault_F64: $where");
		is($mock->stat('requests'), 10, "fault_F64: enable $enable: only rows that pass the cheap condition");
	}
}

# ----------------------------------------------------------------------------------------------
# fault_F76: answers of a good server, with bytes changed, cut, doubled: a session outlives them all.

my $hostile = InferHostile->new;
ask("CREATE SERVER hostile FOREIGN DATA WRAPPER pg_inference OPTIONS (url '" . $hostile->url . "/v1', max_concurrency '4')");
# What cannot be aligned fails its statement, also of try_embed.
ask(q{CREATE FUNCTION spoilt(i int) RETURNS infer.embed_outcome LANGUAGE plpgsql AS $$
	BEGIN
		RETURN infer.try_embed('hostile/fuzz', 'e' || i, options => '{"retry": "never"}');
	EXCEPTION WHEN SQLSTATE 'RXALN' THEN
		RETURN jsonb_populate_record(NULL::infer.embed_outcome, '{"reason": "misaligned", "attempts": 1}');
	END $$;});
my ($count, $problems, $same) = split /\|/, ask(q{
	SET pg_inference.request_timeout = '300ms';
	SET pg_inference.max_response_size = '1MB';
	CREATE TEMP TABLE me AS SELECT pg_backend_pid() AS pid;
	CREATE TEMP TABLE o AS
		SELECT (o).value::text AS value, (o).reason, (o).execution, (o).attempts FROM (
			SELECT spoilt(i) AS o FROM generate_series(1, 1500) i OFFSET 0) s
		UNION ALL
		SELECT (o).value, (o).reason, (o).execution, (o).attempts FROM (
			SELECT infer.try_complete('hostile/fuzz', 'c' || i, options => '{"retry": "never"}') AS o
			FROM generate_series(1, 1500) i OFFSET 0) s;
	SELECT count(*), count(*) FILTER (WHERE (value IS NULL) <> (reason IS NOT NULL) OR reason = 'internal' OR attempts <> 1),
		(SELECT pid FROM me) = pg_backend_pid() FROM o;
}), -1;
is($count, 3000, 'fault_F76: every row has an outcome');
is($problems, 0, 'fault_F76: a value, or a reason that is not our own');
is($same, 't', 'fault_F76: the session is still there');

# ----------------------------------------------------------------------------------------------
# fault_F87: what EXPLAIN ANALYZE tells of a scan is explained, each figure of it.

given();
my $plan = decode_json(ask(q{EXPLAIN (ANALYZE, FORMAT JSON) SELECT id, infer.complete('c', body) FROM t}))->[0]{Plan};
$plan = $plan->{Plans}[0] until ($plan->{'Custom Plan Provider'} // '') eq 'InferScan';
my $docs = PostgreSQL::Test::Utils::slurp_file(dirname(__FILE__) . '/../../docs/queries.md');
my %standard = map { $_ => 1 } ('Node Type', 'Custom Plan Provider', 'Parent Relationship', 'Subplan Name', 'Parallel Aware', 'Async Capable', 'Plans', 'Disabled',
	(map { "Actual $_" } 'Startup Time', 'Total Time', 'Rows', 'Loops'), 'Startup Cost', 'Total Cost', 'Plan Rows', 'Plan Width');
my @figures = grep { !$standard{$_} && !/Blocks|I\/O/ } sort keys %$plan;
cmp_ok(scalar(@figures), '>', 15, 'fault_F87: there are figures');
ok(defined $plan->{$_}, "fault_F87: EXPLAIN ANALYZE tells $_") foreach 'Calls', 'Distinct Inputs', 'Requests', 'Retries', 'Prompt Tokens', 'Network Wait';
ok(index($docs, "`$_`") >= 0, "fault_F87: $_ is explained") foreach @figures;

unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|WARNING|terminated by signal/, 'the log has no complaint');
$node->stop;
done_testing();
