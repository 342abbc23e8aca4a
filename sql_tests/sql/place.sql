-- pg_inference.place_calls: the planner chooses between which joins a condition with calls stands.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
\! mock set reply=echo
CREATE SCHEMA place;
SET search_path = place;
CREATE SERVER infer_place FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
SELECT FROM infer.create_model('c', 'complete', 'infer_place');
-- no indexes: all joins of tables are hash joins, in an order that is left to choose
CREATE TABLE t AS SELECT i AS id, 'x' || i AS x, i % 5 AS g FROM generate_series(1, 200) AS i;
CREATE TABLE four AS SELECT i / 4 + 1 AS tid, i AS n FROM generate_series(0, 799) AS i;
CREATE TABLE few AS SELECT i * 70 AS n, 'few' || i AS name FROM generate_series(1, 10) AS i;
CREATE TABLE nine AS SELECT x::varchar(9) AS name FROM t;
CREATE TABLE twenty AS SELECT x::varchar(20) AS name FROM t WHERE id % 20 = 0;
ANALYZE t, four, few, nine, twenty;
SET enable_mergejoin = off;

-- Behind the joins that leave 10 rows; without it for each of the 200 rows of t, for the planner counts
-- on few rows that pass, which the next join multiplies.
\set query 'SELECT t.id, four.n, few.name FROM t JOIN four ON four.tid = t.id JOIN few ON few.n = four.n WHERE infer.complete(\'c\', t.x) = \'x36\''
SHOW pg_inference.place_calls;
EXPLAIN (COSTS OFF) :query;
\! mock reset
SELECT count(*), sum(n) FROM (:query) s;
\! mock stat items
SET pg_inference.place_calls = on;
EXPLAIN (COSTS OFF) :query;
\! mock reset
SELECT count(*), sum(n) FROM (:query) s;
\! mock stat items
-- one after the other, as PostgreSQL does it
SET pg_inference.enable = off;
EXPLAIN (COSTS OFF) :query;
\! mock reset
SELECT count(*), sum(n) FROM (:query) s;
\! mock stat items
RESET pg_inference.enable;
-- a plan that is kept
PREPARE q(text) AS SELECT t.id, four.n FROM t JOIN four ON four.tid = t.id JOIN few ON few.n = four.n WHERE infer.complete('c', $1 || t.x) = $2;
SET plan_cache_mode = force_generic_plan;
\! mock reset
EXECUTE q('x', 'xx53');
EXECUTE q('', 'x18');
\! mock stat items
RESET plan_cache_mode;
CREATE TABLE sink AS SELECT * FROM (:query) s LIMIT 0;
EXPLAIN (COSTS OFF) INSERT INTO sink :query;
RESET pg_inference.place_calls;

-- Whether the setting changes the plan, and the rows, of a query.
CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  result text := '';
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    result := result || line || E'\n';
  END LOOP;
  RETURN result;
END $$;
CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  result text;
BEGIN
  IF query ~ '^SELECT' THEN
    EXECUTE format('SELECT count(s) || string_agg(s::text, '','' ORDER BY s::text) FROM (%s) s', query) INTO result;
  END IF;
  RETURN result;
END $$;
CREATE FUNCTION effect(query text, OUT plan text, OUT rows text) LANGUAGE plpgsql AS $$
DECLARE
  plans text[];
  answers text[];
BEGIN
  FOR i IN 1..2 LOOP
    PERFORM set_config('pg_inference.place_calls', CASE i WHEN 1 THEN 'off' ELSE 'on' END, true);
    plans[i] := place.plan(query);
    answers[i] := place.answer(query);
  END LOOP;
  plan := CASE WHEN plans[1] = plans[2] THEN 'same' ELSE 'placed' END;
  rows := CASE WHEN answers[1] = answers[2] THEN 'same' WHEN query ~ '^SELECT' THEN 'DIFFER' END;
END $$;
CREATE TABLE secret AS SELECT * FROM t;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY g ON secret USING (g < 4);
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE g < 4;
CREATE TABLE variants (n int GENERATED ALWAYS AS IDENTITY, what text, query text);
CREATE ROLE infer_place_user;
GRANT USAGE ON SCHEMA place TO infer_place_user;
GRANT SELECT ON ALL TABLES IN SCHEMA place TO infer_place_user;
GRANT USAGE ON FOREIGN SERVER infer_place TO infer_place_user;
ANALYZE secret;
INSERT INTO variants (what, query) SELECT what,
  format(query, 'SELECT t.id, four.n, few.name FROM t JOIN four ON four.tid = t.id JOIN few ON few.n = four.n', $$infer.complete('c', t.x) = 'x36'$$)
FROM (VALUES
  ('a condition', '%1$s WHERE %2$s'),
  ('may be skipped', '%1$s WHERE t.g = 3 OR %2$s'),
  ('guarded', $$%1$s WHERE CASE WHEN t.g = 1 THEN %2$s ELSE t.g = 0 END$$),
  ('two of one table', $$%1$s WHERE %2$s AND infer.complete('c', t.x || t.g) > 'x3'$$),
  ('of two tables', $$%1$s WHERE infer.complete('c', t.x || few.name) = 'x36few2'$$),
  ('in ON', 'SELECT t.id, four.n FROM t JOIN four ON four.tid = t.id AND (t.g = 1 AND %2$s) JOIN few ON few.n = four.n'),
  ('with commas', 'SELECT t.id, four.n FROM t, four, few WHERE four.tid = t.id AND few.n = four.n AND %2$s'),
  ('named join', $$SELECT k.id, j.n FROM (four JOIN few USING (n)) AS j (n, tid) JOIN (t JOIN generate_series(0, 4) AS s ON s = t.g) AS k (id, x) ON j.tid = k.id WHERE infer.complete('c', k.x) = 'x36'$$),
  ('merged column', $$SELECT t.id, j.name FROM (nine JOIN twenty USING (name)) AS j JOIN t ON t.x = j.name WHERE infer.complete('c', j.name) > 'x2'$$),
  ('its table may fail', '%1$s WHERE 10 / t.id < 5 AND %2$s'),
  ('aggregated', 'SELECT t.g, count(*) FROM t JOIN four ON four.tid = t.id JOIN few ON few.n = four.n WHERE %2$s GROUP BY t.g'),
  ('also selected', $$SELECT t.id, infer.complete('c', t.x) FROM t JOIN four ON four.tid = t.id JOIN few ON few.n = four.n WHERE %2$s$$),
  ('in a CTE', 'SELECT * FROM (WITH c AS MATERIALIZED (%1$s WHERE %2$s) SELECT * FROM c) s'),
  ('pulled up', 'SELECT o.id, s.n FROM t o LEFT JOIN (%1$s WHERE %2$s) s ON s.id = o.id'),
  -- refused
  ('of all tables', $$%1$s WHERE infer.complete('c', t.x || few.name || four.n) = 'x36few2140'$$),
  ('a join clause', $$%1$s WHERE infer.complete('c', t.x) <> few.name$$),
  ('of different tables', $$%1$s WHERE %2$s AND infer.complete('c', few.name) > 'few1'$$),
  ('with a constant call', $$%1$s WHERE infer.complete('c', t.x) = infer.complete('c', 'x36')$$),
  ('of an outer query', $$SELECT * FROM t o, LATERAL (%1$s WHERE infer.complete('c', t.x) = o.x) s$$),
  ('left join', 'SELECT t.id, four.n FROM t JOIN four ON four.tid = t.id LEFT JOIN few ON few.n = four.n WHERE %2$s'),
  ('row locks', '%1$s WHERE %2$s FOR UPDATE OF t'),
  ('row locks above', 'SELECT s.id FROM (%1$s WHERE %2$s) s FOR UPDATE'),
  ('below an update', 'UPDATE sink SET n = s.n FROM (%1$s WHERE %2$s) s WHERE s.id = sink.id'),
  ('lateral', '%1$s, LATERAL generate_series(1, t.g) s WHERE %2$s'),
  ('a sub-query', 'SELECT t.id, four.n FROM t JOIN four ON four.tid = t.id JOIN (SELECT n FROM few) f ON f.n = four.n WHERE %2$s'),
  ('another table may fail', '%1$s WHERE %2$s AND 100 / (few.n + t.g) >= 0'),
  ('volatile', '%1$s WHERE %2$s AND random() < 2'),
  ('beside a semi-join', '%1$s WHERE %2$s AND t.id IN (SELECT tid FROM four)'),
  ('below a semi-join', 'SELECT id FROM t o WHERE o.id IN (SELECT t.id FROM t JOIN four ON four.tid = t.id JOIN few ON few.n = four.n WHERE %2$s)')) AS v(what, query);
SELECT what, (effect(query)).* FROM variants ORDER BY n;
\set one 'SELECT (effect(query)).plan FROM variants WHERE n = 1'
BEGIN; SET LOCAL from_collapse_limit = 3; :one; ROLLBACK;
BEGIN; SET LOCAL join_collapse_limit = 3; :one; ROLLBACK;
BEGIN; SET LOCAL geqo_threshold = 4; :one; ROLLBACK;
BEGIN; SET LOCAL enable_nestloop = off; SELECT DISTINCT (effect(query)).* FROM variants WHERE n < 15; ROLLBACK;
BEGIN; SET LOCAL pg_inference.enable = off; :one; ROLLBACK;
-- row-level security, not of the owner, and a security barrier
\set other 'SELECT (effect(replace(query, \'FROM t\', \'FROM \' || t || \' t\'))).* FROM variants, (VALUES (\'secret\'), (\'barrier\')) v(t) WHERE n = 1'
:other;
SET ROLE infer_place_user;
:other;
RESET ROLE;

\! mock set defaults
RESET search_path;
DROP SCHEMA place CASCADE;
SELECT FROM infer.drop_model('c');
DROP SERVER infer_place;
DROP ROLE infer_place_user;
