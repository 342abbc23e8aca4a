-- Nearest neighbours, with contrib cube: embeddings as a sort key, and as what an index is searched for.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
CREATE EXTENSION cube;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_nn FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set dim=3 reply=echo
SELECT FROM infer.create_model('e', 'embed', 'infer_nn');
CREATE TABLE items (id int PRIMARY KEY, body text, v cube);
INSERT INTO items SELECT i, 'text ' || i FROM generate_series(1, 200) AS i;
CREATE TABLE questions AS SELECT i AS id, 'text ' || i * 7 AS q FROM generate_series(1, 5) AS i;
ANALYZE items, questions;
\pset format unaligned
\pset tuples_only on
-- a plan as text; before 17, an InitPlan's result is written $0
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    RETURN NEXT replace(replace(line, ' (returns $0)', ''), '$0', '(InitPlan 1).col1');
  END LOOP;
END $$;

-- the column is filled in batches
\! mock reset
SELECT plan($$UPDATE items SET v = cube(infer.embed('e', body)::float8[])$$);
UPDATE items SET v = cube(infer.embed('e', body)::float8[]);
\! mock stat items requests
VACUUM ANALYZE items;

-- a sort key: all rows are asked for, in batches, the rest of the row for those that are kept
\set ranked 'SELECT id, infer.complete(''infer_nn/m'', body) FROM items ORDER BY cube(infer.embed(''e'', body)::float8[]) <-> cube(ARRAY[0.6, 0, 0.8]::float8[]), id LIMIT 3'
\! mock reset
SELECT plan(:'ranked');
:ranked;
\! mock stat items requests
SET pg_inference.enable = off;
:ranked;
RESET pg_inference.enable;
PREPARE ranked(cube, int) AS SELECT id FROM items ORDER BY cube(infer.embed('e', body)::float8[]) <-> $1, id LIMIT $2;
SET plan_cache_mode = force_generic_plan;
\! mock reset
EXECUTE ranked(cube(ARRAY[0.6, 0, 0.8]::float8[]), 3);
\! mock stat items requests
RESET plan_cache_mode;

-- a GiST index: one call, whose result the index is searched for; none when it is only planned
CREATE INDEX near ON items USING gist (v);
SET enable_sort = off;
\! mock reset
SELECT plan($$SELECT id FROM items ORDER BY v <-> cube(infer.embed('e', 'text 7')::float8[]) LIMIT 4$$);
\! mock stat requests
SELECT id FROM items ORDER BY v <-> cube(infer.embed('e', 'text 7')::float8[]) LIMIT 4;
\! mock stat items
-- as a parameter, with a generic plan and without
PREPARE near(text) AS SELECT id FROM items ORDER BY v <-> cube(infer.embed('e', $1)::float8[]) LIMIT 4;
SET plan_cache_mode = force_generic_plan;
SELECT plan($$EXECUTE near('text 7')$$);
EXECUTE near('text 7');
SET plan_cache_mode = force_custom_plan;
SELECT plan($$EXECUTE near('text 7')$$);
EXECUTE near('text 7');
RESET plan_cache_mode;
DEALLOCATE near;
-- two conditions on the same text, one call
\! mock reset
SELECT id, round((v <-> cube(infer.embed('e', 'text 7')::float8[]))::numeric, 3) < 0.5 FROM items ORDER BY v <-> cube(infer.embed('e', 'text 7')::float8[]) LIMIT 2;
\! mock stat items
-- one search a question: their embeddings are made first, in one batch
\set each 'SELECT q.id, n.id FROM (SELECT id, cube(infer.embed(''e'', q)::float8[]) AS v FROM questions OFFSET 0) q, LATERAL (SELECT id FROM items ORDER BY items.v <-> q.v LIMIT 2) n'
\! mock reset
SELECT plan(:'each');
:each;
\! mock stat items requests
SET pg_inference.enable = off;
:each;
RESET pg_inference.enable;
-- the index and the sort agree
SET enable_indexscan = off;
SET enable_sort = on;
SELECT id FROM items ORDER BY v <-> cube(infer.embed('e', 'text 7')::float8[]) LIMIT 4;
RESET enable_indexscan;
DROP INDEX near;

\! mock set defaults
SELECT FROM infer.drop_model('e');
DROP TABLE items, questions;
DROP FUNCTION plan;
DROP EXTENSION cube;
DROP SERVER infer_nn;
