-- What the planner hook looks at: a statement is left alone unless a call could come out of it, which
-- it can by an SQL function or operator that the planner replaces by its body.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_pl FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
\! mock set reply=echo
CREATE SCHEMA planning;
SET search_path = planning, public;
CREATE TABLE t AS SELECT i AS id, 'x' || i AS x FROM generate_series(1, 20) AS i;
ANALYZE t;
\pset format unaligned
\pset tuples_only on

-- functions: inlined, and not
CREATE FUNCTION one(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('infer_pl/m', $1) $$;
CREATE FUNCTION two(text) RETURNS text LANGUAGE sql STABLE BEGIN ATOMIC SELECT one($1) || '!'; END;
CREATE FUNCTION later(text) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN infer.complete('infer_pl/m', $1); END $$;
EXPLAIN (COSTS OFF) SELECT two(x) FROM t;
EXPLAIN (COSTS OFF) SELECT later(x) FROM t;
-- what a function is may change; so does a plan that is kept
PREPARE kept AS SELECT later(x) FROM t WHERE id < 3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE kept;
EXECUTE kept;
CREATE OR REPLACE FUNCTION later(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('infer_pl/m', $1) || '?' $$;
EXPLAIN (COSTS OFF) SELECT later(x) FROM t;
EXPLAIN (COSTS OFF) EXECUTE kept;
EXECUTE kept;
RESET plan_cache_mode;
-- an operator, as it is written, in a view, in another operator's function
CREATE FUNCTION told(text, text) RETURNS bool LANGUAGE sql STABLE AS $$ SELECT infer.complete('infer_pl/m', $1) = $2 $$;
CREATE OPERATOR ?= (LEFTARG = text, RIGHTARG = text, FUNCTION = told);
CREATE VIEW v AS SELECT id, x FROM t WHERE x ?= 'x4';
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE x ?= 'x3';
EXPLAIN (COSTS OFF) SELECT id FROM v;
SELECT id FROM v;
CREATE FUNCTION untold(text, text) RETURNS bool LANGUAGE sql STABLE AS $$ SELECT NOT $1 OPERATOR(planning.?=) $2 $$;
CREATE OPERATOR ?<> (LEFTARG = text, RIGHTARG = text, FUNCTION = untold);
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE x ?<> 'x3';
\c
SET search_path = planning, public;
\pset format unaligned
\pset tuples_only on
EXPLAIN (COSTS OFF) SELECT id FROM v;
-- a function in FROM, a sub-query, a CTE, RETURNING
CREATE FUNCTION few(int) RETURNS TABLE (id int, e text) LANGUAGE sql STABLE AS $$ SELECT id, one(x) FROM t WHERE id < $1 $$;
EXPLAIN (COSTS OFF) SELECT e FROM few(4);
EXPLAIN (COSTS OFF) SELECT max(id) FROM (SELECT * FROM t WHERE x ?= 'x3' OFFSET 0) s;
EXPLAIN (COSTS OFF) WITH c AS MATERIALIZED (SELECT id FROM t WHERE x ?= 'x3') SELECT * FROM c;
EXPLAIN (COSTS OFF) UPDATE t SET x = x WHERE id = 1 RETURNING one(x);
-- under another name it is the same function
ALTER FUNCTION infer.complete(text, text, jsonb, jsonb) RENAME TO finish;
EXPLAIN (COSTS OFF) SELECT infer.finish('infer_pl/m', x) FROM t;
ALTER FUNCTION infer.finish(text, text, jsonb, jsonb) RENAME TO complete;

\! mock set defaults
SET client_min_messages = warning;
DROP SCHEMA planning CASCADE;
DROP SERVER infer_pl;
