-- Nearest neighbours, with pgvector: embeddings as a sort key, and as what an index is searched for.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
CREATE EXTENSION vector;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_pv FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set dim=3 reply=echo
SELECT FROM infer.create_model('e', 'embed', 'infer_pv');
CREATE TABLE items (id int PRIMARY KEY, body text, v vector(3));
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
SELECT plan($$UPDATE items SET v = infer.embed('e', body)::vector$$);
UPDATE items SET v = infer.embed('e', body)::vector;
\! mock stat items requests
VACUUM ANALYZE items;

-- a sort key: all rows are asked for, in batches, the rest of the row for those that are kept
\set ranked 'SELECT id, infer.complete(''infer_pv/m'', body) FROM items ORDER BY infer.embed(''e'', body)::vector <=> ''[0.6, 0, 0.8]''::vector, id LIMIT 3'
\! mock reset
SELECT plan(:'ranked');
:ranked;
\! mock stat items requests
SET pg_inference.enable = off;
:ranked;
RESET pg_inference.enable;
PREPARE ranked(vector(3), int) AS SELECT id FROM items ORDER BY infer.embed('e', body)::vector <=> $1, id LIMIT $2;
SET plan_cache_mode = force_generic_plan;
\! mock reset
EXECUTE ranked('[0.6, 0, 0.8]'::vector, 3);
\! mock stat items requests
RESET plan_cache_mode;

-- examples of docs/queries.md
SELECT plan($$
SELECT id FROM items ORDER BY infer.embed('e', body)::vector <=> '[0.6, 0, 0.8]' LIMIT 3
$$);
CREATE INDEX near ON items USING hnsw (v vector_cosine_ops);
SET enable_sort = off;
SELECT plan($$
SELECT id FROM items ORDER BY v <=> infer.embed('e', 'how do I cancel an order?')::vector LIMIT 3
$$);
SELECT plan($$
SELECT q.id, n.id FROM questions AS q,
  LATERAL (SELECT id FROM items ORDER BY v <=> infer.embed('e', q.q)::vector LIMIT 2) AS n
$$);
RESET enable_sort;
DROP INDEX near;

-- hnsw: one call, whose result the index is searched for; none when it is only planned
CREATE INDEX near ON items USING hnsw (v vector_cosine_ops);
SET enable_sort = off;
\! mock reset
SELECT plan($$SELECT id FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 4$$);
\! mock stat requests
SELECT id FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 4;
\! mock stat items
-- as a parameter, with a generic plan and without
PREPARE near(text) AS SELECT id FROM items ORDER BY v <=> infer.embed('e', $1)::vector LIMIT 4;
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
SELECT id, round((v <=> infer.embed('e', 'text 7')::vector)::numeric, 3) < 0.5 FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 2;
\! mock stat items
-- one search a question: their embeddings are made first, in one batch
\set each 'SELECT q.id, n.id FROM (SELECT id, infer.embed(''e'', q)::vector AS v FROM questions OFFSET 0) q, LATERAL (SELECT id FROM items ORDER BY items.v <=> q.v LIMIT 2) n'
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
SELECT id FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 4;
RESET enable_indexscan;
DROP INDEX near;

-- ivfflat: one call, whose result the index is searched for; none when it is only planned
CREATE INDEX near ON items USING ivfflat (v vector_cosine_ops) WITH (lists = 1);
SET enable_sort = off;
\! mock reset
SELECT plan($$SELECT id FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 4$$);
\! mock stat requests
SELECT id FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 4;
\! mock stat items
-- as a parameter, with a generic plan and without
PREPARE near(text) AS SELECT id FROM items ORDER BY v <=> infer.embed('e', $1)::vector LIMIT 4;
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
SELECT id, round((v <=> infer.embed('e', 'text 7')::vector)::numeric, 3) < 0.5 FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 2;
\! mock stat items
-- one search a question: their embeddings are made first, in one batch
\set each 'SELECT q.id, n.id FROM (SELECT id, infer.embed(''e'', q)::vector AS v FROM questions OFFSET 0) q, LATERAL (SELECT id FROM items ORDER BY items.v <=> q.v LIMIT 2) n'
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
SELECT id FROM items ORDER BY v <=> infer.embed('e', 'text 7')::vector LIMIT 4;
RESET enable_indexscan;
DROP INDEX near;

\! mock set defaults
SELECT FROM infer.drop_model('e');
DROP TABLE items, questions;
DROP FUNCTION plan;
DROP EXTENSION vector;
DROP SERVER infer_pv;
