-- How rows are put into requests, and how answers find back: fault_F47, fault_F90; rpc_F27.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_b FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
CREATE TABLE bt AS SELECT i AS id, 'text ' || i AS x, 'text ' || i % 50 AS y FROM generate_series(1, 1000) AS i;
ANALYZE bt;
\pset format unaligned
\pset tuples_only on
-- what is right: the answer that the text gets alone
CREATE FUNCTION emb(input text, options jsonb DEFAULT '{}') RETURNS real[] LANGUAGE sql STABLE AS
  $$ SELECT infer.embed('infer_b/m', input, '{"dimensions": 4}', options) $$;
SET pg_inference.enable = off;
CREATE TABLE bright AS SELECT id, x, infer.embed('infer_b/m', x, '{"dimensions": 4}', '{"streaming_mode": "per_row"}') AS e FROM bt;
RESET pg_inference.enable;
\! mock stat requests items

-- fault_F47: with batches, requests = distinct inputs / batch size, rounded up
SET pg_inference.streaming_mode = batch;
\! mock reset
CREATE TABLE br AS SELECT id, infer.embed('infer_b/m', x, '{"dimensions": 4}') AS e FROM bt;
\! mock stat requests items duplicate_items
SELECT count(*) FROM br JOIN bright USING (id) WHERE br.e = bright.e;
\! mock reset
SELECT count(infer.embed('infer_b/m', y, '{"dimensions": 4}')) FROM bt;
\! mock stat requests items duplicate_items
SET pg_inference.dispatch_batch_size = 7;
\! mock reset
SELECT count(emb(x)) FROM bt WHERE id <= 100;
\! mock stat requests items
SET pg_inference.dispatch_batch_size = 100;
\! mock reset
SELECT count(emb(x)) FROM bt WHERE id <= 100;
\! mock stat requests items
SET pg_inference.dispatch_batch_size = 0;
\! mock reset
SELECT count(emb(x)) FROM bt WHERE id <= 100;
\! mock stat requests items
RESET pg_inference.dispatch_batch_size;
-- automatic: at most a tenth more, for all rows are wanted
SET pg_inference.streaming_mode = automatic;
\! mock reset
SELECT count(emb(x)) FROM bt;
\! mock stat items
\! [ "$(mock stat requests | tr -dc 0-9)" -le 70 ] && echo few enough
-- one row a request
SET pg_inference.streaming_mode = per_row;
\! mock reset
SELECT count(emb(x)) FROM bt WHERE id <= 100;
\! mock stat requests items
RESET pg_inference.streaming_mode;
-- the option goes before the setting
\! mock reset
SELECT count(emb(x, '{"streaming_mode": "per_row"}')) FROM bt WHERE id <= 20;
\! mock stat requests items
\! mock reset
SELECT count(emb(x, '{"streaming_mode": "batch", "dispatch_batch_size": 5}')) FROM bt WHERE id <= 20;
\! mock stat requests items
-- completions have a request each
\! mock reset
SELECT count(infer.complete('infer_b/m', x)) FROM bt WHERE id <= 20;
\! mock stat requests items
-- different models, parameters or options do not share a request
\! mock reset
SET pg_inference.streaming_mode = batch;
SELECT count(infer.embed('infer_b/' || id % 2, x, jsonb_build_object('dimensions', 3 + id / 2 % 2))) FROM bt WHERE id <= 64;
\! mock stat requests items
RESET pg_inference.streaming_mode;

-- a batch that fills up while answers are taken leaves at once, not when somebody looks for permits
SET pg_inference.streaming_mode = batch;
SET statement_timeout = '5s';
DO $$
BEGIN
  FOR i IN 1..10 LOOP
    PERFORM id FROM bt WHERE id <= 100 AND ((emb(i || ' ' || id % 7))[1] > 2 OR emb(i || x) IS NULL);
  END LOOP;
END $$;
RESET statement_timeout;
RESET pg_inference.streaming_mode;

-- rpc_F27: the server's limits, by count (its default, without the option) and by bytes
ALTER SERVER infer_b OPTIONS (DROP max_batch_size);
SET pg_inference.streaming_mode = batch;
\! mock reset
SELECT count(emb(x)) FROM bt WHERE id <= 1000;
\! [ "$(mock stat requests | tr -dc 0-9)" -le 32 ] && echo few enough
ALTER SERVER infer_b OPTIONS (ADD max_batch_bytes '100');
\! mock reset
SELECT count(infer.embed('infer_b/m', repeat('x', 10) || id % 9 + 1, '{"dimensions": 4}')) FROM bt WHERE id <= 9;
\! mock stat requests items
-- an input that is larger than the limit goes alone
\! mock reset
SELECT count(infer.embed('infer_b/m', repeat('x', 200) || id, '{"dimensions": 4}')) FROM bt WHERE id <= 3;
\! mock stat requests items
ALTER SERVER infer_b OPTIONS (DROP max_batch_bytes, ADD max_batch_size '16');

-- a server that takes less than we think: split, and never lost
\! mock set limit_items=5
\! mock reset
SELECT count(*) FROM (SELECT x, emb(x) AS e FROM bt WHERE id <= 32) AS s JOIN bright USING (x) WHERE s.e = bright.e;
\! mock stat items duplicate_items
\! [ "$(mock stat requests | tr -dc 0-9)" -le 14 ] && echo few enough
\! mock set defaults
-- (it takes more again, and somebody says so)
ALTER SERVER infer_b OPTIONS (ADD node 'again');
-- one poisoned row of a batch is its own failure, others get their answers
\! mock reset
SELECT count(o.value), count(o.error), min(o.reason), min(o.execution) FILTER (WHERE o.error IS NOT NULL) FROM bt,
  infer.try_embed('infer_b/m', x || CASE id WHEN 9 THEN ' [[mock:413]]' ELSE '' END, '{"dimensions": 4}') AS o WHERE id <= 16;
\! mock stat items duplicate_items
\! mock reset
SELECT count(o.value), count(o.error), min(o.reason), min(o.execution) FILTER (WHERE o.error IS NOT NULL) FROM bt,
  infer.try_embed('infer_b/m', x || CASE id WHEN 9 THEN ' [[mock:400]]' ELSE '' END, '{"dimensions": 4}') AS o WHERE id <= 16;
\! mock stat items duplicate_items
SELECT count(emb(x || CASE id WHEN 9 THEN ' [[mock:413]]' ELSE '' END)) FROM bt WHERE id <= 16;
\echo :LAST_ERROR_SQLSTATE
SELECT count(emb(x || CASE id WHEN 9 THEN ' [[mock:413]]' ELSE '' END, '{"on_error": "null"}')) FROM bt WHERE id <= 16;

-- fault_F90: answers in another order, or not to be told apart. One batch of 16, asked for that fault by its row 9
CREATE FUNCTION misplace(fault text) RETURNS TABLE (right_ones bigint, others bigint, failed bigint, failures text)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT count(*) FILTER (WHERE (o).value = e), count(*) FILTER (WHERE (o).value <> e),
    count((o).error), string_agg(DISTINCT (o).reason || '/' || (o).execution, ' ')
    FROM (SELECT id, infer.try_embed('infer_b/m', CASE WHEN id = 9 THEN 'a [[mock:' || fault || ']]' ELSE x END,
      '{"dimensions": 4}') AS o FROM bt WHERE id <= 16) AS s JOIN bright USING (id);
EXCEPTION WHEN OTHERS THEN
  RETURN QUERY VALUES (NULL::bigint, NULL::bigint, 16::bigint, SQLSTATE || ': ' || SQLERRM);
END $$;
SELECT * FROM misplace('order');
SELECT * FROM misplace('noindex');
SELECT * FROM misplace('missing3');
SELECT * FROM misplace('someindex');
SELECT * FROM misplace('count');
SELECT * FROM misplace('dupindex');
SELECT * FROM misplace('badindex');
SELECT * FROM misplace('negindex');
SELECT * FROM misplace('noindexshort');
SELECT * FROM misplace('dim');
-- results that cannot be told apart fail the query, whatever on_error says
SELECT count(emb(CASE id WHEN 1 THEN 'a [[mock:dupindex]]' ELSE x END, '{"on_error": "null"}')) FROM bt WHERE id <= 16;
\echo :LAST_ERROR_SQLSTATE

-- other shapes of good answers
\! mock set chunked=1 gzip=1
SELECT count(*) FROM (SELECT id, emb(x) AS e FROM bt) AS s JOIN bright USING (id) WHERE s.e = bright.e;
\! mock set defaults

-- a row's second call leaves as soon as its first one is answered: nobody waits for a permit where
-- there are plenty (such a wait is noticed once a second)
SET pg_inference.streaming_mode = 'per_row';
CREATE FUNCTION permit_wait(n int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  plan jsonb;
BEGIN
  EXECUTE format('EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) SELECT count(infer.complete(''infer_b/m'', %1$s || infer.complete(''infer_b/m'', %1$s || x)))
    FROM bt WHERE id <= 2', n) INTO plan;
  RETURN (SELECT sum(w::float8) FROM jsonb_path_query(plan, '$.**."Permit Wait"') AS w);
END $$;
SELECT sum(permit_wait(n)) FROM generate_series(1, 40) AS n;
RESET pg_inference.streaming_mode;
-- a merge join ends with the side that ends first, here after 21 rows: a small window, not all 1000
SET enable_hashjoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(e) FROM (SELECT id, emb(x) AS e FROM bt ORDER BY id OFFSET 0) AS s JOIN generate_series(1, 20) AS n ON n = id;
\! mock reset
SELECT count(e) FROM (SELECT id, emb(x) AS e FROM bt ORDER BY id OFFSET 0) AS s JOIN generate_series(1, 20) AS n ON n = id;
\! mock stat items | awk -F= '{ print ($2 < 150 ? "few" : $2) }'
-- unless it returns the rest of that side too
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT count(e) FROM (SELECT id, emb(x) AS e FROM bt ORDER BY id OFFSET 0) AS s LEFT JOIN generate_series(1, 20) AS n ON n = id
\g | awk '/Rows Ahead/ { print ($NF > 600 ? "many" : $NF) " rows ahead" }'
RESET enable_hashjoin;
RESET enable_nestloop;

-- a row that waits for long does not keep the server idle: rows behind it are read and answered
SET pg_inference.request_timeout = '2s';
SET pg_inference.max_attempts = 1;
CREATE FUNCTION rows_ahead() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  plan jsonb;
BEGIN
  EXPLAIN (ANALYZE, FORMAT JSON)
  SELECT infer.complete('infer_b/m', CASE i WHEN 1 THEN '[[mock:hang]]' ELSE 'ahead ' || i END, '{}', '{"on_error": "null"}')
    FROM generate_series(1, 3000) AS i INTO plan;
  RETURN jsonb_path_query_first(plan, '$.**."Rows Ahead"');
END $$;
SELECT rows_ahead();
-- rpc_G8: but not more than there is memory for
SET pg_inference.buffer_memory = '256kB';
SELECT rows_ahead() < 1024;
RESET pg_inference.buffer_memory;
RESET pg_inference.max_attempts;
RESET pg_inference.request_timeout;
DROP FUNCTION rows_ahead;
DROP TABLE bt, br, bright;
DROP FUNCTION emb, misplace, permit_wait;
DROP SERVER infer_b;
