-- What the fuzzer (sql_tests/fuzz) has found, a row a finding: with InferScan and without, the same rows and as
-- many calls.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set run :srcdir '/lib/run_cases.sql'
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
CREATE TABLE queries (n serial, name text, pre text, q text);
INSERT INTO queries (name, pre, q) VALUES
  -- a condition that leaves no row of one side spares the join the other side, calls and all: it does not float then
  ('side_without_rows', 'set local enable_hashjoin = off; set local enable_mergejoin = off',
    $$select t.id, s.e from t join (select g, max(slow(txt)) as e from b group by g) as s on s.g = t.id where never(t.x)$$),
  -- a relation that is known to be empty leaves its columns in a Result, which is no row to be made part of the outer side
  ('empty_relation', 'set local enable_hashjoin = off; set local enable_mergejoin = off',
    $$select t.id, s.c from t left join (select case when never(txt) then txt else slow(txt) end as c, g from b where 4 = 1) as s on s.g = t.id order by t.id limit 2$$),
  -- a hash join whose table is empty asks for one outer row at most, and for none if the table is made without calls
  ('empty_hash_table', 'set local enable_nestloop = off; set local enable_mergejoin = off',
    $$with c as materialized (select g from b where never(txt)) select count(*) from t join c on c.g = t.g where not never(t.x)$$),
  ('empty_cheap_hash_table', 'set local enable_nestloop = off; set local enable_mergejoin = off',
    $$select count(*) from t join b on b.g = t.g where not never(t.x) and length(b.txt) > 20$$),
  -- ... and if there is a first row, for all others at once
  ('hash_table', 'set local enable_nestloop = off; set local enable_mergejoin = off; set local pg_inference.streaming_mode = batch',
    $$with c as materialized (select g from b where not never(txt)) select count(*) from t join c on c.g = t.g where not never(t.x)$$);
CREATE VIEW runs AS SELECT n, pre, q, 'select ''end''' AS post, true AS explained, 'count ' || name AS verdict FROM queries;
\set ECHO none
\i :run
\set ECHO all

SET client_min_messages = warning;
DROP SCHEMA fuzzed CASCADE;
DROP SERVER infer_z CASCADE;
