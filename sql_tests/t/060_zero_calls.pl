# What must not call the model: looking at a query, preparing it, rows that the query excludes, NULL
# inputs. And what must call it as rarely as it can.
use strict;
use warnings;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('dim=4', 'reply=yesno');
my $node = InferTest::new_node('zero', 'pg_inference.streaming_mode = per_row');
InferTest::connect_mock($node, $mock, max_concurrency => 16);
$node->safe_psql(
	'postgres', q{
	CREATE TABLE docs (id int PRIMARY KEY, body text, flag bool);
	INSERT INTO docs SELECT i, 'text ' || i, i % 2 = 0 FROM generate_series(1, 100) i;
	INSERT INTO docs SELECT i, NULL, true FROM generate_series(101, 110) i;
	CREATE TABLE doubled AS SELECT i AS id, 'text ' || i % 25 AS body FROM generate_series(1, 100) i;
	CREATE TABLE nulls (body text);
	INSERT INTO nulls SELECT NULL FROM generate_series(1, 10);
	ANALYZE docs, doubled;
	CREATE FUNCTION given() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT 'c' $$;
});

# name, SQL, calls
my @cases = (
	# the query is only looked at
	[ 'fault_F86: EXPLAIN of constants', q{EXPLAIN SELECT infer.complete('c', 'x')}, 0 ],
	[ 'fault_F86: EXPLAIN of rows', q{EXPLAIN SELECT infer.complete('c', body) FROM docs}, 0 ],
	[ 'fault_F86: EXPLAIN of a filter',
		q{EXPLAIN VERBOSE SELECT id FROM docs WHERE infer.complete('c', body) = 'yes'}, 0 ],
	[ 'fault_F86: EXPLAIN of a constant filter',
		q{EXPLAIN SELECT id FROM docs WHERE infer.complete('c', 'x') = 'yes'}, 0 ],
	[ 'fault_F86: EXPLAIN of an index key',
		q{EXPLAIN SELECT id FROM docs WHERE id = length(infer.complete('c', 'x'))}, 0 ],
	[ 'fault_F86: EXPLAIN of DML',
		q{EXPLAIN UPDATE docs SET body = infer.complete('c', body)}, 0 ],
	[ 'fault_F86: PREPARE',
		q{PREPARE p AS SELECT infer.complete('c', 'x'), infer.complete('c', body) FROM docs}, 0 ],
	[ 'fault_F86: PREPARE with parameters, EXPLAIN EXECUTE',
		q{PREPARE p(text) AS SELECT infer.complete('c', $1) FROM docs; EXPLAIN EXECUTE p('x')}, 0 ],
	[ 'fault_F86: a generic plan',
		q{SET plan_cache_mode = force_generic_plan; PREPARE p(text) AS
		SELECT infer.complete('c', $1) FROM docs; EXPLAIN EXECUTE p('x')}, 0 ],
	[ 'fault_F86: CREATE VIEW',
		q{CREATE VIEW v AS SELECT infer.complete('c', 'x'), infer.complete('c', body) AS b FROM docs}, 0 ],
	[ 'fault_F86: EXPLAIN of a view', q{EXPLAIN SELECT * FROM v}, 0 ],
	[ 'fault_F86: CREATE TABLE AS ... WITH NO DATA',
		q{CREATE TABLE t AS SELECT infer.complete('c', body) FROM docs WITH NO DATA}, 0 ],
	[ 'fault_F86: CREATE MATERIALIZED VIEW ... WITH NO DATA',
		q{CREATE MATERIALIZED VIEW mv AS SELECT infer.complete('c', body) FROM docs WITH NO DATA}, 0 ],
	[ 'fault_F86: DECLARE CURSOR',
		q{BEGIN; DECLARE c CURSOR FOR SELECT infer.complete('c', body) FROM docs; COMMIT}, 0 ],
	[ 'fault_F86: what psql completes and describes',
		q{SELECT proname, pg_get_function_arguments(oid) FROM pg_proc WHERE proname LIKE 'complete%'}, 0 ],

	# NULL inputs
	[ 'a NULL input', q{SELECT infer.complete('c', NULL)}, 0 ],
	[ 'a NULL model', q{SELECT infer.complete(NULL, body) FROM docs}, 0 ],
	[ 'NULL options', q{SELECT infer.complete('c', body, '{}', NULL) FROM docs}, 0 ],
	[ 'rows of NULL inputs', q{SELECT infer.complete('c', body) FROM nulls}, 0 ],
	[ 'rows of NULL inputs, outcomes', q{SELECT infer.try_complete('c', body) FROM nulls}, 0 ],
	[ 'some NULL inputs', q{SELECT infer.complete('c', body) FROM docs}, 100 ],

	# rows that the query excludes
	[ 'no row', q{SELECT infer.complete('c', body) FROM docs WHERE id < 0}, 0 ],
	[ 'WHERE false', q{SELECT infer.complete('c', body) FROM docs WHERE false}, 0 ],
	[ 'a cheaper condition first',
		q{SELECT id FROM docs WHERE infer.complete('c', body) = 'yes' AND id <= 10}, 10 ],
	[ 'a condition in OR',
		q{SELECT id FROM docs WHERE id > 7 OR infer.complete('c', body) = 'yes'}, 7 ],
	[ 'WHERE does not concern the call', q{SELECT infer.complete('c', body) FROM docs WHERE id <= 10}, 10 ],
	[ 'CASE',
		q{SELECT CASE WHEN id <= 10 THEN infer.complete('c', body) ELSE 'none' END FROM docs}, 10 ],
	[ 'CASE never true', q{SELECT CASE WHEN id < 0 THEN infer.complete('c', body) END FROM docs}, 0 ],
	[ 'COALESCE', q{SELECT coalesce(body, infer.complete('c', 'row ' || id)) FROM docs}, 10 ],
	[ 'COALESCE never needed',
		q{SELECT coalesce(id::text, infer.complete('c', body)) FROM docs}, 0 ],
	[ 'an inner join', q{SELECT infer.complete('c', d.body) FROM docs d JOIN generate_series(1, 5) g
		ON d.id = g}, 5 ],
	[ 'EXISTS that needs no value', q{SELECT 1 WHERE EXISTS (SELECT infer.complete('c', body) FROM docs)}, 0 ],
	[ 'count(*) over a subquery', q{SELECT count(*) FROM (SELECT infer.complete('c', body) FROM docs) s}, 0 ],

	# LIMIT: exact for projections
	[ 'LIMIT 0', q{SELECT infer.complete('c', body) FROM docs LIMIT 0}, 0 ],
	[ 'LIMIT', q{SELECT infer.complete('c', body) FROM docs LIMIT 7}, 7 ],
	[ 'LIMIT and OFFSET', q{SELECT infer.complete('c', body) FROM docs WHERE id <= 100 LIMIT 7 OFFSET 5}, 7, 12 ],
	[ 'LIMIT under ORDER BY', q{SELECT infer.complete('c', body) FROM docs ORDER BY id LIMIT 7}, 7 ],
	[ 'LIMIT under ORDER BY that has to sort',
		q{SELECT infer.complete('c', body) FROM docs WHERE body IS NOT NULL ORDER BY md5(body) LIMIT 7}, 7 ],
	[ 'LIMIT in a prepared statement',
		q{PREPARE p(int) AS SELECT infer.complete('c', body) FROM docs LIMIT $1; EXECUTE p(7)}, 7 ],
	[ 'FETCH from a cursor',
		q{BEGIN; DECLARE c CURSOR FOR SELECT infer.complete('c', body) FROM docs; FETCH 1 FROM c; COMMIT}, 1, 100 ],
	[ 'LIMIT over a filter reads no more ahead than it may',
		q{SELECT id FROM docs WHERE infer.complete('c', body) IS NOT NULL LIMIT 7}, 7, 32 ],

	# one call for each distinct input of a statement
	[ 'target list, WHERE and ORDER BY',
		q{SELECT infer.complete('c', body) FROM docs WHERE infer.complete('c', body) <> 'maybe'
		ORDER BY infer.complete('c', body)}, 100 ],
	[ 'the same, of repeated texts',
		q{SELECT infer.complete('c', body) FROM doubled WHERE infer.complete('c', body) <> 'maybe'
		ORDER BY infer.complete('c', body)}, 25 ],
	[ 'GROUP BY and HAVING',
		q{SELECT infer.complete('c', body), count(*) FROM doubled GROUP BY infer.complete('c', body)
		HAVING infer.complete('c', min(body)) <> 'maybe'}, 25 ],
	[ 'DISTINCT', q{SELECT DISTINCT infer.complete('c', body) FROM doubled}, 25 ],
	[ 'an aggregate', q{SELECT count(infer.complete('c', body)) FROM doubled}, 25 ],
	[ 'constants in every row', q{SELECT infer.complete('c', 'x') FROM docs}, 1 ],
	[ 'a constant condition', q{SELECT id FROM docs WHERE infer.complete('c', 'x') = 'yes'}, 1 ],
	[ 'a volatile model name', q{SELECT infer.complete(given(), body) FROM doubled}, 25 ],
	[ 'UNION ALL', q{SELECT infer.complete('c', body) FROM doubled
		UNION ALL SELECT infer.complete('c', body) FROM doubled}, 25 ],
	[ 'a CTE', q{WITH w AS MATERIALIZED (SELECT infer.complete('c', body) AS a FROM doubled)
		SELECT count(w1.a), count(w2.a) FROM w w1, w w2 WHERE w1.a = w2.a}, 25 ],
	[ 'INSERT ... SELECT',
		q{CREATE TEMP TABLE t (a text); INSERT INTO t SELECT infer.complete('c', body) FROM doubled}, 25 ],
	[ 'UPDATE',
		q{BEGIN; UPDATE doubled SET body = body || infer.complete('c', body); ROLLBACK}, 25 ]);

foreach my $case (@cases)
{
	my ($name, $sql, $least, $most) = @$case;
	foreach my $enable (qw(on off))
	{
		$mock->reset;
		$node->safe_psql('postgres', "SET pg_inference.enable = $enable;\n" . $sql);
		$node->safe_psql('postgres', 'DROP VIEW v') if $sql =~ /CREATE VIEW/ && $enable eq 'on';
		my $made = $node->safe_psql('postgres',
			q{SELECT coalesce(string_agg(relname, ' '), '') FROM pg_class WHERE relname IN ('t', 'mv')});
		$node->safe_psql('postgres', 'DROP MATERIALIZED VIEW IF EXISTS mv; DROP TABLE IF EXISTS t')
		  if $made;
		my $calls = $mock->stat('requests');
		if (defined $most)
		{
			cmp_ok($calls, '>=', $enable eq 'on' ? $least : 1, "$name ($enable): enough calls");
			cmp_ok($calls, '<=', $most, "$name ($enable): no more calls than that");
		}
		else
		{
			is($calls, $least, "$name ($enable): calls");
		}
		is($mock->stat('duplicate_items'), 0, "$name ($enable): nothing is asked twice");
	}
}

if ($node->pg_version >= 16)
{
	$mock->reset;
	$node->safe_psql('postgres',
		q{EXPLAIN (GENERIC_PLAN) SELECT infer.complete('c', $1), infer.complete('c', 'x') FROM docs});
	is($mock->stat('requests'), 0, 'fault_F86: EXPLAIN (GENERIC_PLAN)');
}

# The ledger can tell: an EXPLAIN that runs the query does call.
$mock->reset;
$node->safe_psql('postgres', q{EXPLAIN ANALYZE SELECT infer.complete('c', body) FROM docs});
is($mock->stat('requests'), 100, 'EXPLAIN ANALYZE calls');

$node->stop;
done_testing();
