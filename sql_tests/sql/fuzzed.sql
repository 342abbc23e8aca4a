-- What the fuzzer (sql_tests/fuzz) has found, a shape a finding. Each query runs without InferScan and with it:
-- the same rows and as many executed texts.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_z FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
CREATE SCHEMA fuzzed;
SET search_path = fuzzed;
CREATE TABLE t AS SELECT i AS id, 'x' || i AS x, i % 5 AS g FROM generate_series(1, 20) AS i;
CREATE TABLE b AS SELECT i AS id, 'b' || i AS txt, i % 3 AS g FROM generate_series(1, 30) AS i;
ANALYZE t, b;
CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('infer_z/m', $1, '{"max_tokens": 1}') $$;
-- true for no text
CREATE FUNCTION never(text) RETURNS bool LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('infer_z/m', $1, '{"dimensions": 2}'))[1] > 2 $$;
\pset format unaligned
\pset tuples_only on
\set without 'SET pg_inference.enable = off;'
\set with 'SET pg_inference.enable = on; SELECT;'

-- A condition that leaves no row of one side spares the join the other side, calls and all: it does not float then.
\set q 'SELECT t.id, s.e FROM t JOIN (SELECT g, max(slow(txt)) AS e FROM b GROUP BY g) AS s ON s.g = t.id WHERE never(t.x);'
SET enable_hashjoin = off;
SET enable_mergejoin = off;
\! mock reset
:without :q
\! mock stat items
:with :q
\! mock stat items
RESET enable_hashjoin;
RESET enable_mergejoin;

-- A relation that is known to be empty leaves its columns in a Result, which is no row to be made part of the outer side.
\set q 'SELECT t.id, s.c FROM t LEFT JOIN (SELECT CASE WHEN never(txt) THEN txt ELSE slow(txt) END AS c, g FROM b WHERE 4 = 1) AS s ON s.g = t.id ORDER BY t.id LIMIT 2;'
SET enable_hashjoin = off;
SET enable_mergejoin = off;
:without :q
:with :q
RESET enable_hashjoin;
RESET enable_mergejoin;

SET client_min_messages = warning;
DROP SCHEMA fuzzed CASCADE;
DROP SERVER infer_z CASCADE;
