-- What the shapes cannot say: plan_S1, S7..S17, S22..S24 and the pitfalls P1, P11, P14, P15, P17.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_s FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set reply=echo
CREATE TABLE st AS SELECT i AS id, 'x' || i AS x, 'y' || i % 7 AS y, i % 5 AS g, (i * 37 % 100) / 100.0::float8 AS v
  FROM generate_series(1, 100) AS i;
ALTER TABLE st ADD PRIMARY KEY (id);
VACUUM ANALYZE st;
CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('infer_s/m', $1) $$;
\pset format unaligned
\pset tuples_only on

-- plan_S1: what a plan shows, and in which order it is done
\! mock reset
EXPLAIN (COSTS OFF) SELECT infer.complete('infer_s/m', x) FROM st
  WHERE g > 1 AND infer.complete('infer_s/m', y) <> 'y1' AND infer.complete('infer_s/m', x || y) <> 'z';
EXPLAIN (COSTS OFF) SELECT CASE WHEN g = 1 THEN infer.complete('infer_s/m', x) WHEN g = 2 THEN infer.complete('infer_s/m', infer.complete('infer_s/m', y)) END FROM st;
\! mock stat requests

-- plan_S7, P14: no InferScan above LockRows, so that a cursor knows its current row
BEGIN;
DECLARE c CURSOR FOR SELECT id, slow(x) FROM st WHERE id < 10 ORDER BY id FOR UPDATE;
FETCH 2 FROM c;
UPDATE st SET y = 'C' WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
DELETE FROM st WHERE CURRENT OF c RETURNING id;
ROLLBACK;
-- the same with a cursor of PL/pgSQL
BEGIN;
DO $$
DECLARE
  c CURSOR FOR SELECT id, slow(x) AS s FROM st WHERE id < 10 ORDER BY id FOR UPDATE;
  r record;
BEGIN
  FOR r IN c LOOP
    UPDATE st SET y = r.s || '!' WHERE CURRENT OF c;
  END LOOP;
END $$;
SELECT count(*) FROM st WHERE y = x || '!';
ROLLBACK;
-- plan_S8: without FOR UPDATE such a cursor is none to update through
BEGIN;
DECLARE c CURSOR FOR SELECT id, slow(x) FROM st WHERE id < 10;
FETCH 2 FROM c;
UPDATE st SET y = 'C' WHERE CURRENT OF c;
ROLLBACK;

-- plan_S9, P11: backwards
\! mock reset
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, slow(x) FROM st ORDER BY id;
FETCH 5 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD 1 FROM c;
FETCH FIRST FROM c;
FETCH LAST FROM c;
FETCH ABSOLUTE 50 FROM c;
COMMIT;
\! mock stat items duplicate_items
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id, slow(x) FROM st ORDER BY id;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
-- plan_S10: a cursor that outlives its transaction has all its calls made at its end
\! mock reset
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT id, slow(x) FROM st WHERE id <= 20 ORDER BY id;
FETCH 1 FROM c;
COMMIT;
\! mock stat items
FETCH 2 FROM c;
CLOSE c;
\! mock stat items
-- an open cursor holds no permit between its fetches
BEGIN;
DECLARE c CURSOR FOR SELECT id, slow(x) FROM st ORDER BY id;
FETCH 2 FROM c;
SELECT max(in_flight) FROM infer.stat_admission;
SELECT infer.complete('infer_s/m', 'between');
FETCH 2 FROM c;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
COMMIT;

-- plan_S11, P15: EXECUTE is checked though the function is never called as one
CREATE ROLE infer_scenarios_user;
CREATE ROLE infer_scenarios_owner;
GRANT USAGE ON FOREIGN SERVER infer_s TO infer_scenarios_user, infer_scenarios_owner;
GRANT SELECT, UPDATE ON st TO infer_scenarios_user, infer_scenarios_owner;
CREATE VIEW sv AS SELECT id, infer.complete('infer_s/m', x) AS c FROM st;
ALTER VIEW sv OWNER TO infer_scenarios_owner;
GRANT SELECT ON sv TO infer_scenarios_user;
REVOKE EXECUTE ON FUNCTION infer.complete FROM PUBLIC;
GRANT EXECUTE ON FUNCTION infer.complete TO infer_scenarios_owner;
\! mock reset
SET ROLE infer_scenarios_user;
SELECT id, infer.complete('infer_s/m', x) FROM st;
SELECT id FROM st WHERE infer.complete('infer_s/m', x) = 'x1';
SELECT infer.complete('infer_s/m', 'a');
SELECT count(c) FROM sv;
EXPLAIN (COSTS OFF) SELECT id, infer.complete('infer_s/m', x) FROM st;
RESET ROLE;
\! mock stat requests
SET ROLE infer_scenarios_owner;
SELECT count(c) FROM sv;
RESET ROLE;
GRANT EXECUTE ON FUNCTION infer.complete TO PUBLIC;
REVOKE EXECUTE ON FUNCTION infer.complete FROM infer_scenarios_owner;

-- plan_S12, P17: a policy's call is decided before a user's function sees the row
CREATE TABLE srl AS SELECT 'r' || i AS x FROM generate_series(1, 5) AS i;
ALTER TABLE srl ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON srl USING (infer.complete('infer_s/m', x) <> 'r1');
GRANT SELECT ON srl TO infer_scenarios_user;
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
  $$ BEGIN RAISE NOTICE 'leak: %', $1; RETURN true; END $$;
SET ROLE infer_scenarios_user;
-- (one request at a time: what stands between two calls runs as the answers of the first one come)
SET pg_inference.congestion_max_window = 1;
SELECT x, infer.complete('infer_s/m', x || '!') FROM srl WHERE leak(x) ORDER BY x;
SELECT x FROM srl WHERE leak(x) AND infer.complete('infer_s/m', x || '!') <> 'r2!' ORDER BY x;
RESET pg_inference.congestion_max_window;
RESET ROLE;
-- plan_S13: a security barrier's condition, too
CREATE VIEW svsb WITH (security_barrier) AS SELECT x, infer.complete('infer_s/m', x) AS e FROM st
  WHERE infer.complete('infer_s/m', x) < 'x11';
SELECT e FROM svsb WHERE leak(e) ORDER BY e COLLATE "C";

-- plan_S14: the sort below keeps its bound
\! mock reset
CREATE FUNCTION analysed(query text, pattern text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    IF line ~ pattern THEN
      RETURN NEXT regexp_replace(trim(line), '  Memory: .*|  Distinct.*', '');
    END IF;
  END LOOP;
END $$;
SELECT * FROM analysed($$SELECT id, infer.complete('infer_s/m', x) FROM st ORDER BY v LIMIT 5$$, 'Sort Method|Calls');
\! mock stat items

-- P24: a plan from before pg_inference.enable was switched off calls one by one, and is as right
PREPARE sq(int) AS SELECT id, infer.complete('infer_s/m', x) FROM st WHERE id <= $1 ORDER BY id;
SET plan_cache_mode = force_generic_plan;
EXECUTE sq(2);
SET pg_inference.enable = off;
EXECUTE sq(2);
SELECT regexp_replace(a, ' [(]actual.*|  Bytes.*', '') FROM analysed('EXECUTE sq(20)', 'InferScan|Peak') AS a;
RESET pg_inference.enable;
RESET plan_cache_mode;

-- plan_S15, P1: PL/pgSQL's expressions
\! mock reset
CREATE FUNCTION sexpr(a text, b text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  x text := infer.complete('infer_s/m', a);
  n int := 0;
BEGIN
  FOR i IN 1..3 LOOP
    x := infer.complete('infer_s/m', x || i);
    IF infer.complete('infer_s/m', x) = x THEN
      n := n + 1;
    END IF;
    WHILE infer.complete('infer_s/m', 'w' || n) = 'w0' LOOP
      n := n + 1;
    END LOOP;
  END LOOP;
  PERFORM infer.complete('infer_s/m', b);
  x := x || infer.complete('infer_s/m', a) || infer.complete('infer_s/m', b);
  CASE infer.complete('infer_s/m', b) WHEN 'b' THEN
    x := x || n;
  END CASE;
  RETURN infer.complete('infer_s/m', x);
END $$;
SELECT sexpr('a', 'b');
\! mock stat duplicate_items
SELECT sexpr('a', 'b') FROM generate_series(1, 2);

-- plan_S16: functions that return sets of calls
CREATE FUNCTION ssql() RETURNS SETOF text LANGUAGE sql STABLE AS
  $$ SELECT infer.complete('infer_s/m', x) FROM st WHERE id <= 20 ORDER BY id $$;
CREATE FUNCTION spl() RETURNS SETOF text LANGUAGE plpgsql STABLE AS
  $$ BEGIN RETURN QUERY SELECT infer.complete('infer_s/m', x) FROM st WHERE id <= 20 ORDER BY id; END $$;
CREATE FUNCTION semb() RETURNS SETOF real[] LANGUAGE plpgsql STABLE AS
  $$ BEGIN RETURN QUERY SELECT infer.embed('infer_s/m', x) FROM st WHERE id <= 20 ORDER BY id; END $$;
\! mock reset
SELECT count(*), min(f) FROM ssql() AS f;
SELECT count(*), min(f) FROM spl() AS f;
\! mock stat items
\! mock reset
SELECT count(*) FROM semb();
\! mock stat items requests
-- only as much as is wanted of one
SELECT ssql() LIMIT 2;

-- plan_S17: places where no plan is, only the function
CREATE TABLE sd (id int, a text CHECK (infer.complete('infer_s/m', a) <> 'bad'), b text DEFAULT infer.complete('infer_s/m', 'default'), c text);
CREATE FUNCTION strig() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN NEW.c := infer.complete('infer_s/m', NEW.a || '+'); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON sd FOR EACH ROW WHEN (infer.complete('infer_s/m', NEW.a) <> 'x3') EXECUTE FUNCTION strig();
INSERT INTO sd (id, a) SELECT id, x FROM st WHERE id <= 3;
INSERT INTO sd (id, a) VALUES (4, 'bad');
COPY sd (id, a) FROM stdin;
5	copied
\.
COPY sd (id, a) FROM stdin WHERE infer.complete('infer_s/m', a) = 'taken';
6	taken
7	left
\.
SELECT * FROM sd ORDER BY id;
COPY (SELECT infer.complete('infer_s/m', a) FROM sd ORDER BY id) TO stdout;
CREATE DOMAIN sdom AS text CHECK (infer.complete('infer_s/m', VALUE) <> 'bad');
SELECT 'good'::sdom;
SELECT x::sdom FROM st WHERE id = 1;
SELECT 'bad'::sdom;
-- an index or a generated column would need functions that are immutable
CREATE INDEX ON st (infer.complete('infer_s/m', x));
CREATE TABLE sg (a text, b text GENERATED ALWAYS AS (infer.complete('infer_s/m', a)) STORED);

-- plan_S22: with expressions compiled
SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT string_agg(infer.complete('infer_s/m', x) || CASE WHEN g = 1 THEN infer.complete('infer_s/m', y) ELSE '' END, ' ' ORDER BY id)
  FROM st WHERE id <= 12 AND infer.complete('infer_s/m', y) <> 'y3';
-- (they were, where that is installed)
CREATE FUNCTION compiled(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF) ' || query LOOP
    IF line ~ '^JIT' THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END $$;
SELECT pg_jit_available() = compiled($$SELECT infer.complete('infer_s/m', x) || 'a' FROM st WHERE id <= 12$$);
RESET jit;
RESET jit_above_cost;
RESET jit_inline_above_cost;
RESET jit_optimize_above_cost;

-- plan_S23: a constant arm of UNION ALL
SELECT count(*) FROM (SELECT 'a' AS c UNION ALL SELECT x FROM st) AS s WHERE infer.complete('infer_s/m', c) <> 'x1';
SELECT count(*) FROM (SELECT infer.complete('infer_s/m', 'a') AS c UNION ALL SELECT x FROM st) AS s WHERE c <> 'x1';
-- plan_S24: a call without variables below EXISTS and OR
SELECT count(*) FROM st WHERE g = 1 OR EXISTS (SELECT 1 FROM st AS b WHERE b.id = st.id + 1 AND infer.complete('infer_s/m', 'zz') > b.y);

-- errors come with their row: not before, and not for a row that nobody fetches
SELECT infer.complete('infer_s/m', CASE id WHEN 3 THEN 'no [[mock:400]]' ELSE x END) FROM st ORDER BY id LIMIT 2;
BEGIN;
DECLARE c CURSOR FOR SELECT infer.complete('infer_s/m', CASE id WHEN 3 THEN 'no [[mock:400]]' ELSE x END) FROM st ORDER BY id;
FETCH 2 FROM c;
FETCH 1 FROM c;
ROLLBACK;
-- the first row's error wins, whichever answer is first
SELECT infer.complete('infer_s/m', CASE id WHEN 3 THEN 'slow [[mock:404]]' WHEN 2 THEN 'no [[mock:400]]' ELSE x END) FROM st ORDER BY id;
\echo :LAST_ERROR_SQLSTATE

-- rescans ask again only what is new
\! mock reset
SELECT a.id, s.c FROM (VALUES (1), (2), (3), (2)) AS a(id), LATERAL (
  SELECT string_agg(infer.complete('infer_s/m', x), ',' ORDER BY id) AS c FROM st WHERE st.id BETWEEN a.id AND a.id + 1) AS s;
\! mock stat items

\! mock set defaults
SET client_min_messages = warning;
DROP TABLE st, srl, sd CASCADE;
DROP DOMAIN sdom;
DROP FUNCTION slow, leak, analysed, compiled, sexpr, ssql, spl, semb, strig;
DROP SERVER infer_s CASCADE;
DROP ROLE infer_scenarios_user;
DROP ROLE infer_scenarios_owner;
