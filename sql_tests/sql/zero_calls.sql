-- What must not call: planning, and rows that SQL semantics exclude. fault_F86, plan_P1, plan_S2..S5.
-- Every block ends with what the server saw of it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_z FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set reply=echo
CREATE FUNCTION score(text) RETURNS real LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('infer_z/m', $1, '{"dimensions": 2}'))[1] $$;
CREATE TABLE zt AS SELECT i AS id, 'x' || i AS x, i % 5 AS g, (i * 37 % 100) / 100.0::real AS v
  FROM generate_series(1, 100) AS i;
CREATE INDEX ON zt (v);
CREATE TABLE zp (id int, x text) PARTITION BY RANGE (id);
CREATE TABLE zp1 PARTITION OF zp FOR VALUES FROM (-20) TO (20);
CREATE TABLE zp2 PARTITION OF zp FOR VALUES FROM (20) TO (40);
INSERT INTO zp SELECT i, 'p' || i FROM generate_series(1, 39) AS i;
CREATE TABLE zn AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'n' || i END AS x FROM generate_series(1, 20) AS i;
VACUUM ANALYZE zt, zp, zn;
-- makes a plan, of which only this much is shown: has it a line like that?
CREATE FUNCTION explained(query text, pattern text DEFAULT 'InferScan') RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  line text;
  found boolean := false;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    found := found OR line ~ pattern;
  END LOOP;
  RETURN found;
END $$;
\pset format unaligned
\pset tuples_only on
\! mock reset

-- fault_F86: EXPLAIN, also of what has no FROM
EXPLAIN (COSTS OFF) SELECT infer.complete('infer_z/m', 'hello');
EXPLAIN (VERBOSE, COSTS OFF) SELECT infer.complete('infer_z/m', x), infer.embed('infer_z/m', x) FROM zt;
SELECT explained($$SELECT infer.complete('infer_z/m', x) FROM zt WHERE infer.complete('infer_z/m', x) > 'a' ORDER BY 1$$);
SELECT explained($$SELECT 1 FROM zt WHERE v > (infer.embed('infer_z/m', 'q'))[1]$$);
SELECT explained($$SELECT 1 FROM zt WHERE infer.complete('infer_z/m', 'q') = 'q'$$);
SELECT explained($$INSERT INTO zn SELECT id, infer.complete('infer_z/m', x) FROM zt$$);
SELECT explained($$INSERT INTO zn VALUES (1, infer.complete('infer_z/m', 'a'))$$);
SELECT explained($$UPDATE zt SET x = infer.complete('infer_z/m', x) WHERE v > (infer.embed('infer_z/m', 'q'))[1]$$);
SELECT explained($$DELETE FROM zt WHERE infer.complete('infer_z/m', x) = 'x1'$$);
SELECT explained($$SELECT (infer.try_complete('infer_z/m', x)).* FROM zt$$);
SELECT explained($$SELECT * FROM infer.try_complete('infer_z/m', 'a')$$);
-- PostgreSQL 16 and later plan statements with parameters that have no value
DO $$
BEGIN
  IF current_setting('server_version_num')::int >= 160000 THEN
    EXECUTE 'EXPLAIN (GENERIC_PLAN) SELECT infer.complete(''infer_z/m'', $1) FROM zt WHERE v > (infer.embed(''infer_z/m'', $1))[1]';
  END IF;
END $$;
\! mock stat requests
-- PREPARE, CREATE VIEW, CREATE FUNCTION, CREATE TABLE ... WITH NO DATA
PREPARE za AS SELECT infer.complete('infer_z/m', x) FROM zt WHERE infer.complete('infer_z/m', 'q') = 'q';
PREPARE zb(text) AS SELECT infer.complete('infer_z/m', $1);
EXPLAIN (COSTS OFF) EXECUTE zb('a');
CREATE VIEW zv AS SELECT id, infer.complete('infer_z/m', x) AS c, infer.complete('infer_z/m', 'q') AS q FROM zt;
CREATE FUNCTION zf() RETURNS SETOF text LANGUAGE sql STABLE AS $$ SELECT infer.complete('infer_z/m', x) FROM zt $$;
CREATE FUNCTION zg() RETURNS SETOF text LANGUAGE sql STABLE
  BEGIN ATOMIC SELECT infer.complete('infer_z/m', x) FROM zt; END;
CREATE TABLE zw AS SELECT id, infer.complete('infer_z/m', x) AS c FROM zt WITH NO DATA;
CREATE MATERIALIZED VIEW zm AS SELECT id, infer.complete('infer_z/m', x) AS c FROM zt WITH NO DATA;
CREATE TABLE zd (id int, c text DEFAULT infer.complete('infer_z/m', 'd'));
INSERT INTO zd VALUES (1, 'given');
SELECT count(*), count(id) FROM zv;
\! mock stat requests

-- plan_S2: a partition key compared with a call
SELECT explained($$SELECT * FROM zp WHERE id = ((infer.embed('infer_z/m', 'q'))[1] * 10)::int$$);
\! mock stat requests
SELECT count(*) <= 1 FROM zp WHERE id = ((infer.embed('infer_z/m', 'q'))[1] * 10)::int;
\! mock stat requests
-- plan_S3: a selectivity to estimate, and an index to use
\! mock reset
SET enable_seqscan = off;
SELECT explained($$SELECT id FROM zt WHERE v > (infer.embed('infer_z/m', 'q'))[1]$$, 'Index Cond: .*v > ');
RESET enable_seqscan;
\! mock stat requests
SELECT count(*) >= 0 FROM zt WHERE v > (infer.embed('infer_z/m', 'q'))[1];
\! mock stat requests
-- plan_S4: one call an execution, none to plan; generic and custom plans
\! mock reset
PREPARE zq(text) AS SELECT count(*) > 0 FROM zt WHERE v > (infer.embed('infer_z/m', $1))[1];
SET plan_cache_mode = force_generic_plan;
SELECT explained($$EXECUTE zq('a')$$, 'Seq Scan');
\! mock stat requests
EXECUTE zq('a');
EXECUTE zq('a');
\! mock stat requests
SET plan_cache_mode = force_custom_plan;
SELECT explained($$EXECUTE zq('a')$$, 'Seq Scan');
\! mock stat requests
EXECUTE zq('b');
\! mock stat requests
RESET plan_cache_mode;
-- plan_S5: a wrapper that the planner evaluates shares the statement's memo
CREATE FUNCTION zwrap(q text) RETURNS real LANGUAGE plpgsql STABLE COST 1000 AS
  $$ BEGIN RETURN (infer.embed('infer_z/m', q))[1]; END $$;
\! mock reset
SELECT count(*) >= 0 FROM zt WHERE v > zwrap('q');
\! mock stat requests
-- so does one that is inlined
\! mock reset
SELECT count(*) >= 0 FROM zt WHERE v > score('t');
\! mock stat requests
-- or they are refused
\! mock reset
SET pg_inference.plan_time_calls = error;
SELECT count(*) FROM zt WHERE v > zwrap('r');
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM zt WHERE v > score('r');
\! mock stat requests
SELECT count(*) >= 0 FROM zt WHERE v > (SELECT zwrap('r'));
SELECT zwrap('s') IS NOT NULL;
SELECT count(*) >= 0 FROM zt WHERE v > (infer.embed('infer_z/m', 'q'))[1];
RESET pg_inference.plan_time_calls;
\! mock stat requests

-- rows that nobody wants
\! mock reset
SELECT count(*) FROM (SELECT infer.complete('infer_z/m', x) FROM zt) AS s;
SELECT count(*) FROM zt WHERE false AND infer.complete('infer_z/m', x) = 'x1';
SELECT infer.complete('infer_z/m', x) FROM zt WHERE id < 0;
SELECT infer.complete('infer_z/m', x) FROM zt LIMIT 0;
SELECT infer.complete('infer_z/m', x) FROM zt OFFSET 100;
SELECT count(CASE WHEN id < 0 THEN infer.complete('infer_z/m', x) END) FROM zt;
SELECT count(CASE WHEN id < 0 THEN infer.complete('infer_z/m', 'never') ELSE x END) FROM zt;
SELECT count(coalesce(x, infer.complete('infer_z/m', x))) FROM zt;
SELECT count(*) FROM zt WHERE id > 0 OR infer.complete('infer_z/m', x) = 'y';
SELECT count(id < 0 AND infer.complete('infer_z/m', x) = 'y') FROM zt;
SELECT count(infer.complete('infer_z/m', x)) FILTER (WHERE id < 0) FROM zt;
SELECT g, infer.complete('infer_z/m', max(x)) FROM zt GROUP BY g HAVING count(*) > 20;
SELECT infer.complete('infer_z/m', zt.x) FROM zt JOIN zn ON zt.id = -zn.id;
\! mock stat requests
-- but a condition that is the same for all rows comes first, as PostgreSQL has it
SELECT count(*) FROM zt WHERE id < 0 AND infer.complete('infer_z/m', 'const') <> '';
\! mock stat requests
\! mock reset
-- NULL inputs
SELECT count(infer.complete('infer_z/m', NULLIF(x, x))), count(infer.try_complete('infer_z/m', NULLIF(x, x))) FROM zt;
SELECT count(infer.complete(NULLIF(x, x), x)), count(infer.complete('infer_z/m', x, NULLIF('{}', '{}')::jsonb)) FROM zt;
\! mock stat requests
-- exactly the rows that are wanted
\! mock reset
SELECT count(infer.complete('infer_z/m', x)) FROM zn;
\! mock stat items
\! mock reset
SELECT count(CASE WHEN g = 1 THEN infer.complete('infer_z/m', x) END) FROM zt;
\! mock stat items
\! mock reset
SELECT count(CASE g WHEN 1 THEN infer.complete('infer_z/m', x) WHEN 2 THEN infer.complete('infer_z/m', x) END) FROM zt;
\! mock stat items
\! mock reset
SELECT count(coalesce(x, infer.complete('infer_z/m', 'no ' || id))) FROM zn;
\! mock stat items
\! mock reset
SELECT count(*) FROM zt WHERE g = 1 OR infer.complete('infer_z/m', x) IS NULL;
\! mock stat items
\! mock reset
SELECT count(*) FROM zt WHERE id <= 10 AND infer.complete('infer_z/m', x) IS NOT NULL;
\! mock stat items
-- LIMIT and OFFSET: exact for what is projected
\! mock reset
SELECT infer.complete('infer_z/m', x) FROM zt ORDER BY id LIMIT 3;
\! mock stat items
\! mock reset
SELECT infer.complete('infer_z/m', x) FROM zt ORDER BY id LIMIT 2 OFFSET 20;
\! mock stat items
\! mock reset
SELECT id, infer.complete('infer_z/m', x) FROM zt ORDER BY v, id LIMIT 5;
\! mock stat items
\! mock reset
SELECT DISTINCT ON (g) g, infer.complete('infer_z/m', x) FROM zt ORDER BY g, id;
\! mock stat items
\! mock reset
PREPARE zl(int) AS SELECT infer.complete('infer_z/m', x) FROM zt ORDER BY id LIMIT $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE zl(4);
RESET plan_cache_mode;
\! mock stat items

-- what becomes constant only while it is planned, which the planner then estimates by
\! mock reset
SELECT explained($$WITH q AS (SELECT 'text' AS c) SELECT id FROM zt, q WHERE zt.x = infer.complete('infer_z/m', q.c)$$, '.');
SELECT explained($$SELECT id FROM zt, (SELECT 'text' AS c) q WHERE zt.x = infer.complete('infer_z/m', q.c)$$, '.');
SELECT explained($$SELECT id FROM zt, LATERAL (VALUES ('text')) q(c) WHERE zt.x = infer.complete('infer_z/m', q.c)$$, '.');
SELECT explained($$SELECT id FROM zt WHERE x = infer.complete('infer_z/m', coalesce('text', zt.x))$$, '.');
SELECT explained($$SELECT id FROM zt WHERE v > score(CASE WHEN true THEN 'text' ELSE x END)$$, '.');
SELECT explained($$SELECT x FROM zp WHERE id = (infer.embed('infer_z/m', coalesce('text', x)))[1]::int$$, '.');
SELECT explained($$SELECT id FROM zt LIMIT length(infer.complete('infer_z/m', coalesce('text', upper('x'))))$$, '.');
PREPARE zc(text) AS SELECT id FROM zt WHERE x = infer.complete('infer_z/m', coalesce($1, x));
SET plan_cache_mode = force_custom_plan;
SELECT explained($$EXECUTE zc('text')$$, '.');
\! mock stat items
-- ... and which is called as ever when it is executed
EXECUTE zc('x7');
\! mock stat items
RESET plan_cache_mode;
DEALLOCATE zc;
-- a function that was declared IMMUTABLE is evaluated by the planner, and its value is the answer
BEGIN;
ALTER FUNCTION infer.complete(text, text, jsonb, jsonb) IMMUTABLE;
SELECT infer.complete('infer_z/m', 'declared');
SELECT id FROM zt WHERE infer.complete('infer_z/m', 'declared') IS NULL LIMIT 1;
\! mock stat items
ROLLBACK;

-- parallel plans: a Gather evaluates InitPlans before it starts, so none may hold a call that a guard skips
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
\! mock reset
SELECT id FROM zt WHERE CASE WHEN id < 0 THEN x = infer.complete('infer_z/m', 'never') ELSE id = 5 END;
SELECT id, coalesce(x, infer.complete('infer_z/m', 'never')), id = 5 OR x = infer.complete('infer_z/m', 'never') FROM zt WHERE id = 5;
SELECT count(*) FROM zt WHERE id = 0 OR (id < 0 AND x = infer.complete('infer_z/m', 'never'));
\! mock stat items
SELECT explained($$SELECT id FROM zt WHERE id > 0 AND x = infer.complete('infer_z/m', 'x5')$$, 'Gather');
SELECT id FROM zt WHERE id > 0 AND x = infer.complete('infer_z/m', 'x5');
\! mock stat items
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- nothing of it depends on InferScan
SET pg_inference.enable = off;
\! mock reset
SELECT explained($$SELECT infer.complete('infer_z/m', x) FROM zt WHERE v > (infer.embed('infer_z/m', 'q'))[1]$$);
\! mock stat items
SELECT infer.complete('infer_z/m', x) FROM zt ORDER BY id LIMIT 3;
\! mock stat items
RESET pg_inference.enable;

\! mock set defaults
SET client_min_messages = warning;
DROP TABLE zt, zp, zn, zw, zd CASCADE;
DROP FUNCTION score, explained, zf, zwrap;
DROP SERVER infer_z;
