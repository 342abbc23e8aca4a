-- Calls that read parameters only leave inner sides of nested loops and correlated sub-plans: the same
-- rows, never more calls with hoist_calls = exact, and 16 of them in a request instead of one. Each
-- case runs without InferScan and with hoist_calls exact and on; `items` are calls.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv builddir PG_ABS_BUILDDIR
\set url :mock_url '/v1'
\set dir :builddir '/results'
\set script :dir '/hoist_script.sql'
\! mock set reply=echo
CREATE SCHEMA hoist;
SET search_path = hoist;
CREATE SERVER infer_hoist FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('e', 'embed', 'infer_hoist');
SELECT FROM infer.create_model('c', 'complete', 'infer_hoist');
CREATE FUNCTION score(text) RETURNS float8 LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 2}'))[1]::float8 $$;
CREATE TABLE t AS SELECT i AS id, 'x' || i AS x, 'y' || i % 7 AS y, i % 5 AS g FROM generate_series(1, 100) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE s AS SELECT id, score(x) AS v, id % 10 AS k FROM t;
CREATE INDEX s_v ON s (v);
CREATE INDEX s_k ON s (k);
CREATE TABLE b AS SELECT i AS id, i * 13 % 100 + 1 AS tid FROM generate_series(1, 300) AS i;
CREATE INDEX ON b (tid);
CREATE TABLE big AS SELECT i AS id, 'x' || i % 7 AS x FROM generate_series(1, 3000) AS i;
CREATE TABLE nn AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'x' || i END AS x FROM generate_series(1, 20) AS i;
CREATE TABLE nothing (v float8, n int);
CREATE TABLE bad AS SELECT i AS id, CASE WHEN i = 7 THEN '[[mock:400]]' ELSE 'x' || i END AS x FROM generate_series(1, 20) AS i;
CREATE TABLE p (v float8, id int) PARTITION BY RANGE (v);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (-2) TO (0);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2);
INSERT INTO p SELECT v, id FROM s;
CREATE INDEX ON p (v);
VACUUM ANALYZE t, s, b, big, nn, nothing, bad, p;

CREATE TABLE cases (n serial, name text, q text, pre text);
-- keys of an inner index scan: made for each outer row, so exact
INSERT INTO cases (name, q) VALUES
  ('index', $$select t.id, s.id from t join s on s.v = score(t.x)$$),
  ('range', $$select t.id, count(*) from t join s on s.v between score(t.x) - 0.01 and score(t.x) + 0.01 group by 1 order by 1$$),
  ('left', $$select t.id, s.id from t left join s on s.v = score(t.x) and s.k = t.g$$),
  ('semi', $$select id from t where exists (select from s where s.v = score(t.x) and s.k = t.g offset 0) order by 1$$),
  ('anti', $$select id from t where not exists (select from s where s.v = score(t.x) and s.k = t.g)$$),
  ('outer condition', $$select t.id, s.id from t join s on s.v = score(t.x) where score(t.y) > 0$$),
  ('lateral limit', $$select t.id, l.id from t left join lateral (select id from s where v >= score(t.x) order by v limit 1) l on true$$),
  ('lateral append', $$select t.id, l.id from t, lateral (select id from s where v = score(t.x) union all select id from s where v = score(t.y)) l order by 1, 2$$),
  ('lateral agg', $$select t.id, l.n, l.e from t, lateral (select count(*) n, score(t.x) e from s where k = t.g) l$$),
  ('two levels', $$select t.id, s.id, r.id from t join b on b.tid = t.id join s on s.v = score(t.x) join s r on r.v = score('x' || s.id) order by 1, 2, 3$$),
  ('both levels', $$select t.id, l.id from t, lateral (select s.id from b join s on s.v = score(t.x || b.id) or s.v = score('x' || b.id) where b.tid = t.id offset 0) l order by 1, 2$$),
  ('sub-plan', $$select t.id, s.id from t join s on s.v = score((select min(x) from t) || t.id)$$),
  ('null', $$select nn.id, s.id from nn left join s on s.v = score(nn.x)$$),
  ('nested calls', $$select t.id, s.id from t join s on s.v = score(infer.complete('c', t.x))$$),
  ('guarded key', $$select t.id, s.id from t join s on s.v = case when t.g = 1 then score(t.x) end$$),
  ('first operand', $$select t.id, s.id from t join s on s.v = coalesce(score(t.x), score(t.y))$$);
UPDATE cases SET pre = 'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off';
INSERT INTO cases (name, q, pre) VALUES
  ('bitmap', $$select t.id, s.id from t join s on s.v = score(t.x) or s.v = score(t.y) order by 1, 2$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_indexscan = off; set local enable_indexonlyscan = off; set local enable_seqscan = off'),
  ('memoize', $$select big.id, s.id from big join s on s.v = score(big.x) order by 1, 2$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off'),
  ('pruning', $$select t.id, p.id from t left join p on p.v = score(t.x)$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off'),
  ('fetch', $$declare c cursor for select t.id, s.id from t join s on s.v = score(t.x); fetch 5 from c; fetch all from c$$,
    'set local cursor_tuple_fraction = 1; set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off');
-- correlated sub-plans whose execution makes the call
INSERT INTO cases (name, q) VALUES
  ('sub-plan key', $$select id, (select max(id) from s where s.v = score(t.x)) from t$$),
  ('sub-plan where', $$select id from t where (select max(id) from s where s.v = score(t.x)) > 50$$),
  ('sub-plan guarded', $$select id, case when g = 1 then (select max(id) from s where s.v = score(t.x)) end from t$$),
  ('sub-plan limit', $$select id, (select max(id) from s where s.v = score(t.x)) from t order by id limit 3$$),
  ('sub-plan exists', $$select id, exists (select from b where b.tid = t.id and score(t.x) > 0) or id > 90 from t$$),
  ('sub-plan max', $$select id, (select max(v) from s where v < score(t.x)) from t$$),
  ('sub-plan array', $$select id, array(select id from s where v between score(t.x) - 0.01 and score(t.x) + 0.01 order by 1) from t$$),
  ('sub-plan any', $$select id from t where id > any (select id from s where v = score(t.x || 'a') or v = score(t.x))$$),
  ('sub-plan group', $$select g, (select max(id) from s where v = score('x' || g)) from t group by g having (select min(id) from s where v = score(min(t.x))) > 0 order by 1$$),
  ('sub-plan null', $$select id, (select max(id) from s where s.v > score(nn.x)) from nn$$),
  ('sub-plan inside', $$select t.id, b.id from t join b on b.tid = t.id and b.id > (select max(id) from s where v = score(t.x)) order by 1, 2$$),
  ('sub-plan update', $$update t set g = (select max(id) from s where v = score(t.x)) where id < 50 returning id, g$$);
-- not each execution makes these: no more calls with exact
INSERT INTO cases (name, q, pre) VALUES
  ('limit 0', $$select t.id, l.id from t left join lateral (select id from s where v = score(t.x) limit (select 0)) l on true$$,
    'set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off'),
  ('second arm', $$select id, exists (select from s where v = score(t.x) union all select from s where v = score('z' || t.x)) from t$$,
    'set local enable_seqscan = off'),
  ('second condition', $$select id, exists (select from s where score(t.x) > 0 and score('z' || t.x) > 0) from t$$, NULL),
  ('behind a condition', $$select id, (select max(s.id) from s where g = 1 and v = score(t.x)) from t$$, 'set local enable_seqscan = off'),
  ('inner side of a join', $$select id, (select count(*) from nothing join lateral (select from s where v > score(t.x) + nothing.n offset 0) l on true) from t$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off'),
  ('several columns', $$update t set (g, y) = (select max(id), min(k)::text from s where v = score(t.x)) where id < 20 returning id, g, y$$, NULL),
  ('volatile argument', $$select id, (select max(id) from s where v = score(t.x || (random() < 2)::text)) from t$$, NULL);
-- calls that are made only if there is a row: asked ahead with on
INSERT INTO cases (name, q, pre) VALUES
  ('lateral order', $$select t.id, l.id from t, lateral (select id from s order by abs(v - score(t.x)), id limit 2) l order by 1, 2$$, NULL),
  ('left condition', $$select t.id, s.id from t left join s on s.k = t.id and s.v + 0 > score(t.x)$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off'),
  ('inner condition', $$select t.id, s.id from t join s on s.k = t.id and s.v + 0 > score(t.x)$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_seqscan = off'),
  ('sub-plan order', $$select id, (select id from s order by abs(v - score(t.x)), id limit 1) from t$$, NULL),
  ('sub-plan filter', $$select id from t where (select min(abs(v - score(t.x))) from s) > 0.5$$, NULL),
  ('sub-plan filters', $$select id from t where id < 40 and (select min(abs(v - score(t.x))) from s) = 0 and score(t.y) > 0$$, NULL),
  ('sub-plan one side', $$select id, case when g = 1 then (select min(abs(v - score(t.x))) from s) end from t$$, NULL),
  ('nothing', $$select id, (select max(n) from nothing where v > score(t.x)) from t$$, NULL),
  ('nothing fails', $$select id, (select max(n) from nothing where v > score(bad.x)) from bad$$, NULL),
  ('join fails', $$select bad.id, l.n from bad left join lateral (select n from nothing where v > score(bad.x) limit 1) l on true$$, NULL),
  ('one fails', $$select bad.id, l.id from bad left join lateral (select id from s where k = bad.id and v < score(bad.x) + 2 order by id limit 1) l on true where bad.id <> 7 or bad.id > 9$$,
    'set local enable_seqscan = off'),
  ('not taken', $$select bad.id, s.id from bad left join s on s.k = bad.id and (select max(n) from nothing where v > score(bad.x) and n > s.id) is null$$, NULL),
  ('not taken below', $$select sum((select max(n) from nothing where v > score(bad.x))) from bad$$, NULL),
  ('argument fails', $$select id, (select max(n) from nothing where v > score((1 / (g - 1))::text)) from t$$, NULL);
-- what InferScans below a Material read of the query around them: the rows must not be an earlier execution's
INSERT INTO cases (name, q, pre) VALUES
  ('rescan lateral', $$select t.id, (select string_agg(concat(s.id, l.k, l.e), ',' order by s.id, l.e) from s,
      lateral (select r.k, e from s r, lateral infer.complete('c', concat(r.k, t.x)) e where r.id < 4 offset 0) l where l.k > s.k and s.id < 30) from t where id < 4$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off'),
  ('rescan cross', $$select t.id, (select string_agg(r.x, ',' order by r.id) from t r join b on r.x = infer.complete('c', 'x' || b.id || t.g) where b.id < 9) from t where id < 4$$,
    'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_indexscan = off; set local enable_bitmapscan = off');

\pset format unaligned
\pset tuples_only on
\set ECHO none
\o :script
SELECT format($run$
\echo %1$s
%6$s
$run$, name, NULL, NULL, NULL, NULL, string_agg(format($one$
BEGIN;
%1$s;
%2$s;
%6$s
\o %4$s/hoist_%3$s.txt
%5$s;
\o
ROLLBACK;
\! echo "  %3$s: $(cmp -s %4$s/hoist_without.txt %4$s/hoist_%3$s.txt && echo same rows || echo OTHER ROWS)" $(mock take items requests)
$one$, coalesce(pre, 'select'), setting, label, :'dir', q,
  CASE WHEN label = 'without' OR q ~ '^declare' THEN '' ELSE format(E'\\o %s/hoist_plan.txt\nexplain (verbose, costs off) %s;\n\\o', :'dir', q) END), '' ORDER BY o))
FROM cases, (VALUES (1, 'without', 'set local pg_inference.enable = off'), (2, 'exact', 'set local pg_inference.hoist_calls = exact'),
  (3, 'on', 'set local pg_inference.hoist_calls = on')) AS settings (o, label, setting)
GROUP BY n, name ORDER BY n;
\o
\set VERBOSITY terse
SET pg_inference.streaming_mode = batch;
\! mock reset
\i :script
RESET pg_inference.streaming_mode;

-- off leaves calls inside; a call that fails raises when its row is due
\set ECHO all
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_seqscan = off;
\! mock reset
SET pg_inference.hoist_calls = off;
SELECT count(*), sum(s.id) FROM t JOIN s ON s.v = score(t.x);
SELECT sum((SELECT max(id) FROM s WHERE v = score(t.y))) IS NULL FROM t;
\! mock take items requests
SELECT bad.id, s.id IS NOT NULL FROM bad LEFT JOIN s ON s.v = score(bad.x) LIMIT 6;
SELECT bad.id, s.id FROM bad LEFT JOIN s ON s.v = score(bad.x);
RESET pg_inference.hoist_calls;
SELECT bad.id, s.id IS NOT NULL FROM bad LEFT JOIN s ON s.v = score(bad.x) LIMIT 6;
SELECT bad.id, s.id FROM bad LEFT JOIN s ON s.v = score(bad.x);
-- made ahead, it raises only where the inner side reads it
SET pg_inference.hoist_calls = on;
SELECT count(l.id) FROM bad LEFT JOIN LATERAL (SELECT id FROM s WHERE k = bad.id AND v + 0 < score(bad.x) + 9 ORDER BY id LIMIT 1) l ON true;
SELECT count(l.id) FROM bad LEFT JOIN LATERAL (SELECT id FROM s WHERE k = bad.id + 3 AND v + 0 < score(bad.x) + 9 ORDER BY id LIMIT 1) l ON true;
RESET pg_inference.hoist_calls;
RESET enable_seqscan;

-- a parameter of its own must not make Memoize forget what it holds
\o :script
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT big.id, s.id FROM big JOIN s ON s.v = score(big.x);
\o
\! grep -oE 'Hits: [0-9]+  Misses: [0-9]+' $PG_ABS_BUILDDIR/results/hoist_script.sql
RESET enable_hashjoin;
RESET enable_mergejoin;

\! mock set defaults
RESET search_path;
DROP SCHEMA hoist CASCADE;
SELECT FROM infer.drop_model('e');
SELECT FROM infer.drop_model('c');
DROP SERVER infer_hoist;
