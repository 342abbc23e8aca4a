-- Results of the try_ functions, which are composite: one call a row however many fields are read,
-- and values that survive whatever a plan does with them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set run :srcdir '/lib/run_cases.sql'
\! mock set reply=echo retry_after=0
CREATE SCHEMA composite;
SET search_path = composite, infer, public;
SET intervalstyle = postgres;
CREATE SERVER infer_cs FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM create_model('c', 'complete', 'infer_cs');
SELECT FROM create_model('e', 'embed', 'infer_cs');
CREATE TABLE t AS SELECT i AS id, 'x' || i || CASE WHEN i % 30 = 7 THEN ' [[mock:400]]' ELSE '' END AS x,
  'y' || i % 7 AS y, i % 5 AS g FROM generate_series(1, 40) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE nn AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'n' || i END AS x FROM generate_series(1, 6) AS i;
CREATE TABLE wide AS SELECT i AS id, repeat(md5(i::text), 8) AS x FROM generate_series(1, 600) AS i;
CREATE TABLE kept (id int, o text_outcome, a text_outcome[]);
CREATE TABLE flat (id int, value text, error text, reason text, execution text, http_status int, attempts int,
  server text, usage jsonb, elapsed interval);
VACUUM ANALYZE t, nn, wide;
-- inlined by the planner, so that queries are short
CREATE FUNCTION f(text) RETURNS text_outcome LANGUAGE sql STABLE AS $$ SELECT infer.try_complete('c', $1) $$;
CREATE VIEW fields AS SELECT id, (try_complete('c', x)).* FROM t;
CREATE VIEW whole AS SELECT id, g, try_complete('c', x) AS o FROM t;

-- with InferScan and without: the same rows in the same order, as many calls as are listed
CREATE TABLE queries (n int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, name text, q text, pre text, post text);
INSERT INTO queries (name, q, pre, post) VALUES
  ('fields', $$SELECT id, (try_complete('c', x)).* FROM t$$, '', ''),
  ('fields of an outcome in a sub-query', $$SELECT id, (o).* FROM (SELECT id, try_complete('c', x) AS o FROM t) s$$, '', ''),
  ('fields of a sub-query that stays one', $$SELECT id, (o).* FROM (SELECT id, try_complete('c', x) AS o FROM t OFFSET 0) s$$, '', ''),
  ('fields of a correlated sub-query', $$SELECT id, ((SELECT try_complete('c', t.x || id))).* FROM nn JOIN t USING (id)$$, '', ''),
  ('fields of a view', $$SELECT value, attempts, error FROM fields WHERE id < 10$$, '', ''),
  ('outcomes of a view', $$SELECT (o).value FROM whole WHERE (o).error IS NULL AND id < 30$$, '', ''),
  ('try_embed', $$SELECT id, value[1:2], error, reason, execution, http_status, attempts, server
    FROM (SELECT id, (try_embed('e', x, '{"dimensions": 4}')).* FROM t) s$$, '', ''),
  ('try_chat', $$SELECT id, (try_chat('c', jsonb_build_array(jsonb_build_object('role', 'user', 'content', x)))).* FROM t$$, '', ''),
  ('try_call', $$SELECT id, value #>> '{choices,0,text}', error, execution, usage
    FROM (SELECT id, (try_call('infer_cs/m', jsonb_build_object('prompt', x), '{"path": "/completions"}')).* FROM t) s$$, '', ''),
  ('FROM', $$SELECT l.* FROM try_complete('c', 'hello') AS l$$, '', ''),
  ('LATERAL', $$SELECT id, l.* FROM t, try_complete('c', x) AS l$$, '', ''),
  ('LATERAL with a column list', $$SELECT id, a, b, l.reason FROM t, LATERAL try_complete('c', x) AS l(a, b)$$, '', ''),
  ('LATERAL, the row', $$SELECT id, l, l IS NULL, (l).error FROM t, try_complete('c', x) AS l WHERE l.error IS NULL OR id > 20$$, '', ''),
  ('LATERAL, the row with other names', $$SELECT to_jsonb(l) - 'elapsed', l = l FROM t, try_complete('c', x) AS l(a, b, c)$$, '', ''),
  ('WITH ORDINALITY', $$SELECT * FROM t, try_complete('c', x) WITH ORDINALITY AS l$$, '', ''),
  ('WITH ORDINALITY, the row', $$SELECT id, l FROM t, try_complete('c', x) WITH ORDINALITY AS l WHERE id < 5$$, '', ''),
  ('ROWS FROM', $$SELECT * FROM t, ROWS FROM (try_complete('c', x), upper(y), try_complete('c', y)) WITH ORDINALITY AS l$$, '', ''),
  ('ROWS FROM with a set', $$SELECT id, value, u FROM t, ROWS FROM (try_complete('c', x), generate_series(1, 3)) AS l(value, b, c, d, e, f, g, h, i, u) WHERE id < 5$$, '', ''),
  ('LEFT JOIN LATERAL', $$SELECT id, l.*, l IS NULL FROM t LEFT JOIN LATERAL try_complete('c', x) AS l ON true$$, '', ''),
  ('LEFT JOIN LATERAL ON a condition', $$SELECT id, g, l.value, l.attempts, l IS NULL FROM t LEFT JOIN LATERAL try_complete('c', x) AS l ON g = 1$$, '', ''),
  ('LEFT JOIN LATERAL ON the result', $$SELECT id, l.* FROM t LEFT JOIN LATERAL try_complete('c', x) AS l ON l.error IS NULL AND l.value <> 'x3' AND id > 2$$, '', ''),
  ('LEFT JOIN LATERAL, then a condition', $$SELECT id, l.value FROM t LEFT JOIN LATERAL try_complete('c', x) AS l ON l.value > 'x5' WHERE l.value IS NULL AND g < 3$$, '', ''),
  ('LEFT JOIN LATERAL of a SELECT', $$SELECT id, l.v, l.k FROM t LEFT JOIN LATERAL (SELECT (try_complete('c', x)).value::varchar(9) AS v, 1 AS k WHERE g > 2) AS l ON g < 4$$, '', ''),
  ('LEFT JOIN LATERAL without a match', $$SELECT nn.id, s.* FROM nn LEFT JOIN (SELECT t.id, l.* FROM t, try_complete('c', x) AS l) AS s ON s.id = nn.id + 37$$, '', ''),
  ('RETURNING', $$UPDATE t SET y = 'z' WHERE id < 20 RETURNING id, (try_complete('c', x)).*$$, '', ''),
  ('RETURNING of INSERT in a CTE', $$WITH i AS (INSERT INTO t SELECT id + 100, x, y, g FROM t RETURNING id, (try_complete('c', x)).*) SELECT * FROM i$$, '', ''),
  ('DELETE by an outcome', $$DELETE FROM t WHERE (try_complete('c', x)).error IS NOT NULL RETURNING id$$, '', ''),
  ('INSERT of fields', $$INSERT INTO flat SELECT id, (try_complete('c', x)).* FROM t$$, '', 'SELECT * FROM flat ORDER BY id'),
  ('INSERT of outcomes', $$INSERT INTO kept SELECT id, try_complete('c', x), ARRAY[try_complete('c', x), NULL] FROM t$$, '',
    'SELECT id, (o).*, (a[1]).value, a[1] = o, a[2] IS NULL, to_jsonb(o) - ''elapsed'' FROM kept ORDER BY id'),
  ('UPDATE of a field', $$UPDATE kept SET o.value = (try_complete('c', (o).value)).value || '!' RETURNING id, (o).*$$,
    $$INSERT INTO kept SELECT id, (x, NULL, NULL, NULL, 200, id, 's', NULL, NULL)::text_outcome FROM t$$, ''),
  ('UPDATE FROM', $$UPDATE t SET y = l.value FROM t AS s, try_complete('c', s.x) AS l WHERE s.id = t.id RETURNING t.id, t.y, l.error$$, '', ''),
  ('ORDER BY a field', $$SELECT id, (o).* FROM whole ORDER BY (o).value DESC NULLS LAST, id LIMIT 5$$, '', ''),
  ('ORDER BY something else, LIMIT', $$SELECT id, (try_complete('c', x)).* FROM t ORDER BY g, id DESC OFFSET 3 LIMIT 5$$, '', ''),
  ('ORDER BY the outcome', $$SELECT id, (o).error FROM (SELECT id, try_complete('c', x) AS o FROM t WHERE id % 30 <> 7) s ORDER BY o DESC LIMIT 7$$, '', ''),
  ('GROUP BY a field', $$SELECT (try_complete('c', y)).value, count(*), max(id) FROM t GROUP BY 1 ORDER BY 1$$, '', ''),
  ('GROUP BY all fields', $$SELECT value, error, reason, execution, http_status, attempts, server, usage, count(*)
    FROM (SELECT (try_complete('c', y)).* FROM t) s GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1$$, '', ''),
  ('FILTER', $$SELECT g, count(*) FILTER (WHERE (o).error IS NULL), min((o).value) FROM whole GROUP BY g ORDER BY g$$, '', ''),
  ('array_agg', $$SELECT g, array_agg(o ORDER BY id DESC) FROM whole GROUP BY g ORDER BY g$$, '', ''),
  ('json_agg', $$SELECT jsonb_agg(to_jsonb(o) - 'elapsed' ORDER BY id) FROM whole$$, '', ''),
  ('DISTINCT', $$SELECT DISTINCT (o).value, (o).attempts FROM (SELECT try_complete('c', y) AS o FROM t) s ORDER BY 1$$, '', ''),
  ('DISTINCT ON', $$SELECT DISTINCT ON (g) g, (try_complete('c', x)).* FROM t ORDER BY g, id$$, '', ''),
  ('a window', $$SELECT id, (lag(o) OVER w).*, row_number() OVER (ORDER BY (o).value, id) FROM whole WINDOW w AS (PARTITION BY g ORDER BY id) ORDER BY id$$, '', ''),
  ('UNION', $$SELECT value, error FROM fields WHERE id < 20 UNION SELECT (try_complete('c', x)).value, NULL FROM t WHERE id < 30 ORDER BY 1$$, '', ''),
  ('EXCEPT', $$SELECT id, (try_complete('c', x)).value FROM t EXCEPT SELECT id, x FROM t ORDER BY 1$$, '', ''),
  ('a CTE', $$WITH m AS MATERIALIZED (SELECT id, try_complete('c', x) AS o FROM t) SELECT a.id, (a.o).*, (b.o).value FROM m a JOIN m b ON b.id = a.id + 1 ORDER BY a.id$$, '', ''),
  ('a recursive CTE', $$WITH RECURSIVE r(n, o) AS (SELECT 1, try_complete('c', 'a') UNION ALL SELECT n + 1, try_complete('c', (o).value || n) FROM r WHERE n < 6) SELECT n, (o).value FROM r$$, '', ''),
  ('a join on fields', $$SELECT a.id, b.id, a.value FROM (SELECT id, (try_complete('c', y)).* FROM t) a JOIN fields b ON b.value = 'x' || substr(a.value, 2) ORDER BY 1, 2$$, '', ''),
  ('an outer join', $$SELECT nn.id, o IS NULL, o IS DISTINCT FROM NULL, (o).* FROM nn LEFT JOIN (SELECT id, try_complete('c', x) AS o FROM t OFFSET 0) s ON s.id = nn.id + 37 ORDER BY 1$$, '', ''),
  ('CASE', $$SELECT id, (CASE WHEN g = 1 THEN try_complete('c', x) WHEN g = 2 THEN try_complete('c', y) END).* FROM t$$, '', ''),
  ('COALESCE', $$SELECT id, (coalesce(CASE WHEN g = 1 THEN try_complete('c', x) END, try_complete('c', y))).value FROM t$$, '', ''),
  ('the next model after a failure', $$SELECT id, coalesce((try_complete('c', x)).value, (try_complete('c', y)).value) FROM t$$, '', ''),
  ('unnest', $$SELECT id, (unnest(ARRAY[try_complete('c', x), try_complete('c', y)])).value FROM t$$, '', ''),
  ('records', $$SELECT jsonb_populate_record(NULL::text_outcome, to_jsonb(try_complete('c', x)) - 'elapsed'), ROW((try_complete('c', x)).value, id) FROM t$$, '', ''),
  ('NULL inputs', $$SELECT id, o IS NULL, o IS NOT NULL, o IS DISTINCT FROM NULL, (o).* FROM (SELECT id, try_complete('c', x) AS o FROM nn) s$$, '', ''),
  ('NULL inputs, LATERAL', $$SELECT id, l IS NULL, l IS NOT NULL, l IS DISTINCT FROM NULL, l FROM nn, try_complete('c', x) AS l$$, '', ''),
  ('NULL inputs, WITH ORDINALITY', $$SELECT id, l.* FROM nn, try_complete('c', x) WITH ORDINALITY AS l$$, '', ''),
  ('NULL inputs, LEFT JOIN LATERAL', $$SELECT id, l IS NULL, l IS DISTINCT FROM NULL, l FROM nn LEFT JOIN LATERAL try_complete('c', x) AS l ON id > 3$$, '', ''),
  ('an inlined function', $$SELECT id, (f(x)).value, (f(x)).attempts FROM t$$, '', ''),
  ('an inlined function in FROM', $$SELECT id, l.* FROM t, f(x) AS l$$, '', ''),
  ('a cursor', $$DECLARE c SCROLL CURSOR FOR SELECT id, (try_complete('c', x)).* FROM t ORDER BY id$$, '', 'FETCH 7 FROM c; FETCH BACKWARD 4 FROM c'),
  ('a small memo', $$SELECT id, (try_complete('c', x)).* FROM wide$$, $$SET LOCAL pg_inference.memo_memory = 64$$, ''),
  ('a sort on disk', $$SELECT id, (o).* FROM (SELECT id, try_complete('c', x) AS o FROM wide) s ORDER BY (o).value$$, $$SET LOCAL work_mem = 64$$, ''),
  ('a sort of outcomes on disk', $$SELECT id, o FROM (SELECT id, try_complete('c', x) AS o FROM wide OFFSET 0) s ORDER BY md5(id::text)$$, $$SET LOCAL work_mem = 64$$, ''),
  ('a hash join on disk', $$SELECT a.id, (a.o).*, b.id FROM (SELECT id, try_complete('c', x) AS o FROM wide OFFSET 0) a JOIN wide b ON b.x = (a.o).value ORDER BY a.id$$,
    $$SET LOCAL work_mem = 64; SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = off$$, ''),
  ('a merge join', $$SELECT a.id, (a.o).*, b.id FROM (SELECT id, try_complete('c', x) AS o FROM wide OFFSET 0) a JOIN wide b ON b.x = (a.o).value ORDER BY a.id$$,
    $$SET LOCAL work_mem = 64; SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = off$$, ''),
  ('a nested loop over a Material', $$SELECT nn.id, a.id, (a.o).* FROM nn LEFT JOIN (SELECT id, try_complete('c', x) AS o FROM wide OFFSET 0) a ON (a.o).value > nn.x AND a.id < 9$$, $$SET LOCAL work_mem = 64$$, ''),
  ('hash aggregation on disk', $$SELECT value, attempts, max(usage::text), count(*) FROM (SELECT (try_complete('c', x)).* FROM wide) s GROUP BY value, attempts ORDER BY md5(value)$$,
    $$SET LOCAL work_mem = 64; SET LOCAL enable_sort = off$$, ''),
  ('a CTE on disk', $$WITH m AS MATERIALIZED (SELECT id, try_complete('c', x) AS o FROM wide) SELECT a.id, (a.o).*, (b.o).value = (a.o).value FROM m a JOIN m b USING (id) ORDER BY 1$$, $$SET LOCAL work_mem = 64$$, ''),
  ('values that are moved out of line', $$INSERT INTO kept SELECT id, try_complete('c', repeat(x, 100)), ARRAY[try_complete('c', repeat(x, 100))] FROM wide WHERE id < 9$$, '',
    'SELECT id, length((o).value), md5((o).value), (a[1]).value = (o).value FROM kept ORDER BY id');

-- (how many requests it takes to find a bad input among others is a matter of which halves are answered first)
CREATE VIEW runs AS SELECT *, true AS explained,
  CASE name WHEN 'try_embed' THEN 'judge "try_embed" - 17' ELSE format('count "%s"', name) END AS verdict FROM queries;
-- elapsed times differ
\setenv SHAPES_IGNORE '[0-9]+:[0-9]+:[0-9]+[.][0-9]+'
\set ECHO none
\i :run
\set ECHO all

-- what the plan says of them: one call, whose fields are columns
EXPLAIN (COSTS OFF) SELECT (try_complete('c', x)).* FROM t;
EXPLAIN (COSTS OFF) SELECT id, l FROM t, try_complete('c', x) AS l WHERE l.error IS NULL;
EXPLAIN (COSTS OFF) SELECT * FROM t, ROWS FROM (try_complete('c', x), try_embed('e', y)) WITH ORDINALITY;
EXPLAIN (COSTS OFF) SELECT id, l.value FROM t LEFT JOIN LATERAL try_complete('c', x) AS l ON g = 1;
-- a function that returns a set is none to be made a column
EXPLAIN (COSTS OFF) SELECT id, a FROM t, ROWS FROM (try_complete('c', x), generate_series(1, 3)) AS l(a);
-- the values above did go through files
CREATE FUNCTION spills(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    RETURN QUERY SELECT m[1] FROM regexp_matches(line, '(Sort Method: external|Batches: [2-9]|Batches: [1-9][0-9]|Disk Usage)', 'g') m;
  END LOOP;
END $$;
SET work_mem = 64;
SELECT spills(q) FROM queries WHERE name IN ('a sort on disk', 'a sort of outcomes on disk');
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT regexp_replace(spills(q), '[0-9]+', 'some') FROM queries WHERE name = 'a hash join on disk';
SET enable_sort = off;
SELECT DISTINCT regexp_replace(spills(q), '[0-9]+', 'some') FROM queries WHERE name = 'hash aggregation on disk' ORDER BY 1;

-- a raw call has the usage that its answer tells of
SELECT value -> 'usage' = usage, usage FROM infer.try_call('infer_cs/m', '{"prompt": "hello"}', '{"path": "/completions"}');

\! mock set defaults
RESET ALL;
SELECT FROM infer.drop_model('c');
SELECT FROM infer.drop_model('e');
SET client_min_messages = warning;
DROP SCHEMA composite CASCADE;
DROP SERVER infer_cs;
