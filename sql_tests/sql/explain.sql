-- What EXPLAIN says of an InferScan, in all formats.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_x FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', max_batch_size '16', max_concurrency '4', admission_key 'infer_explain');
\! mock set reply=echo retry_after=0
-- 100 rows, 40 texts in 90 of them, NULL in 10, one of them fails
CREATE TABLE xt AS SELECT i AS id, CASE WHEN i % 10 <> 0 THEN 'x' || CASE WHEN i % 40 = 7 THEN '[[mock:400]]' ELSE (i % 40)::text END END AS x
  FROM generate_series(1, 100) AS i;
ANALYZE xt;
SET max_parallel_workers_per_gather = 0;
\pset format unaligned
\pset tuples_only on

-- without ANALYZE: the steps in their order, in SQL
EXPLAIN (COSTS OFF) SELECT id, infer.embed('infer_x/m', x) FROM xt WHERE infer.complete('infer_x/m', x) <> 'a';
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, infer.embed('infer_x/m', x) FROM xt AS a WHERE infer.complete('infer_x/m', x) <> 'a' AND id > 3;
-- guards: what must hold before a call is made; a volatile one is computed once
EXPLAIN (COSTS OFF) SELECT coalesce(infer.complete('infer_x/m', x), infer.complete('infer_x/m', 'b' || x)) FROM xt;
EXPLAIN (COSTS OFF) SELECT id = 1 OR infer.complete('infer_x/m', x) = 'a' FROM xt;
EXPLAIN (COSTS OFF) SELECT CASE WHEN random() < 0.5 THEN infer.complete('infer_x/m', x) END FROM xt;
-- where in a plan: above LIMIT, below an aggregate and a sort
EXPLAIN (COSTS OFF) SELECT infer.complete('infer_x/m', x) FROM xt LIMIT 3;
EXPLAIN (COSTS OFF) SELECT sum(length(infer.complete('infer_x/m', x))) FROM xt;
EXPLAIN (COSTS OFF) SELECT infer.complete('infer_x/m', x), id FROM xt ORDER BY id LIMIT 3;
EXPLAIN (COSTS OFF) SELECT id FROM xt ORDER BY infer.complete('infer_x/m', x);
EXPLAIN (COSTS OFF) INSERT INTO xt SELECT id, infer.complete('infer_x/m', x) FROM xt;

-- the properties of the node, with their order, in the formats for programs; %s is a figure
CREATE FUNCTION explained(query text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  plan text;
BEGIN
  EXECUTE format('EXPLAIN (COSTS OFF, %s) %s', options, query) INTO plan;
  RETURN plan;
END $$;
\set query 'SELECT infer.complete(''infer_x/m'', x, ''{}'', ''{"on_error": "null"}'') FROM xt'
SELECT explained(:'query', 'ANALYZE, FORMAT JSON')::json AS plan \gset
SELECT string_agg(key || CASE json_typeof(value) WHEN 'number' THEN ': %s' ELSE ': ' || value END, E'\n' ORDER BY n)
FROM json_each(:'plan'::json -> 0 -> 'Plan') WITH ORDINALITY AS e(key, value, n)
WHERE n >= (SELECT n FROM json_object_keys(:'plan'::json -> 0 -> 'Plan') WITH ORDINALITY AS k(key, n) WHERE key = 'Steps')
  AND key <> 'Plans' AND key NOT LIKE '%Blocks' AND key NOT LIKE 'I/O%' AND key NOT LIKE '%I/O%';
-- the figures that can be known
SELECT key, value FROM json_each(:'plan'::json -> 0 -> 'Plan') AS e(key, value)
WHERE key IN ('Custom Plan Provider', 'Calls', 'Distinct Inputs', 'Memo Hits', 'Memo Evictions', 'Null Inputs', 'Errors', 'Rows Removed by Filter', 'Requests',
  'Retries', 'Overloads', 'Errors by Reason', 'Retries by Reason');
SELECT (p ->> 'Peak In Flight')::int BETWEEN 1 AND 4 AS peak, (p ->> 'Rows Ahead')::int BETWEEN 1 AND 1024 AS rows_ahead,
  (p ->> 'Bytes Sent')::int > 2000 AS bytes_sent, (p ->> 'Bytes Received')::int > 2000 AS bytes_received,
  (p ->> 'Prompt Tokens')::int >= 35 AS prompt_tokens, (p ->> 'Completion Tokens')::int = 35 * 16 AS completion_tokens,
  (p ->> 'Latency Min')::float8 > 0 AS latency_min, (p ->> 'Latency Max')::float8 >= (p ->> 'Latency Avg')::float8 AS latency_max
FROM (SELECT :'plan'::json -> 0 -> 'Plan') AS j(p);
-- YAML and XML have the same
CREATE TEMPORARY TABLE figures AS SELECT key FROM json_each(:'plan'::json -> 0 -> 'Plan') WITH ORDINALITY AS e(key, value, n)
WHERE json_typeof(value) = 'number' AND n > (SELECT n FROM json_object_keys(:'plan'::json -> 0 -> 'Plan') WITH ORDINALITY AS k(key, n) WHERE key = 'Steps')
  AND key NOT LIKE '%Blocks' AND key NOT LIKE '%I/O%';
SELECT count(*) FILTER (WHERE explained ~ ('\n +' || key || ': [0-9.]+\n')) = count(*) AS yaml FROM figures, explained(:'query', 'ANALYZE, FORMAT YAML');
SELECT count(*) FILTER (WHERE explained ~ ('<' || replace(key, ' ', '-') || '>[0-9.]+</')) = count(*) AS xml FROM figures, explained(:'query', 'ANALYZE, FORMAT XML');
SELECT explained(:'query', 'ANALYZE, FORMAT YAML') ~ '\n +Errors by Reason: *\n +bad_request: 1 *\n' AS yaml;
SELECT explained(:'query', 'ANALYZE, FORMAT XML') ~ '<Errors-by-Reason>\s*<bad_request>1</bad_request>\s*</Errors-by-Reason>' AS xml;
SELECT explained(:'query', 'FORMAT YAML') ~ '\n +Steps: +\n +- "Call: infer.complete\(' AS yaml,
  explained(:'query', 'FORMAT XML') ~ '<Steps>\s*<Item>Call: infer.complete\(.*</Item>\s*</Steps>' AS xml;
-- without ANALYZE no figures; without TIMING no times
SELECT count(*) FROM json_object_keys(explained(:'query', 'FORMAT JSON')::json -> 0 -> 'Plan') AS key JOIN figures USING (key);
SELECT string_agg(key, ', ') FROM figures WHERE key NOT IN (
  SELECT json_object_keys(explained(:'query', 'ANALYZE, TIMING OFF, FORMAT JSON')::json -> 0 -> 'Plan'));

-- TEXT is for people: only what is not zero
CREATE FUNCTION lines(query text, options text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE format('EXPLAIN (COSTS OFF, SUMMARY OFF, %s) %s', options, query) LOOP
    IF line ~ '^ *(Calls|Requests|Bytes Sent|Latency): ' THEN
      RETURN NEXT regexp_replace(regexp_replace(trim(line), '[0-9]+\.[0-9]+', '%s', 'g'),
        '(Peak In Flight|Rows Ahead|Window|Window Min|Limit|Bytes Sent|Bytes Received|Prompt Tokens): [0-9]+', '\1: %s', 'g');
    END IF;
  END LOOP;
END $$;
SELECT lines(:'query', 'ANALYZE');
SELECT lines('SELECT infer.complete(''infer_x/m'', ''a'' || id) FROM xt', 'ANALYZE, TIMING OFF');
SELECT lines('SELECT id FROM xt WHERE infer.complete(''infer_x/m'', ''a'' || id) > ''a5''', 'ANALYZE, TIMING OFF');
-- retries and overloads
SELECT lines('SELECT infer.complete(''infer_x/m'', ''[[mock:429]]'', ''{}'', ''{"on_error": "null", "max_attempts": 2}'') FROM xt WHERE id <= 2', 'ANALYZE, TIMING OFF');
SELECT lines('SELECT infer.complete(''infer_x/m'', x || '' [[mock:429]]'', ''{}'', ''{"on_error": "null", "max_attempts": 2}'') FROM xt WHERE id <= 2', 'ANALYZE, TIMING OFF');
-- ... by reason, the most frequent first
SELECT lines('SELECT infer.complete(''infer_x/m'', id || CASE WHEN id <= 2 THEN '' [[mock:429]]'' WHEN id <= 5 THEN '' [[mock:404]]'' WHEN id = 6 THEN '' [[mock:400]]'' ELSE '''' END, ''{}'', ''{"on_error": "null", "max_attempts": 2}'') FROM xt WHERE id <= 9', 'ANALYZE, TIMING OFF');
-- a scan that reads no row
SELECT lines('SELECT infer.complete(''infer_x/m'', x) FROM xt LIMIT 0', 'ANALYZE, TIMING OFF');
-- requests given up at a LIMIT have no latency
SELECT (p ->> 'Latency Avg')::float8 BETWEEN (p ->> 'Latency Min')::float8 AND (p ->> 'Latency Max')::float8 AS average FROM (SELECT
  explained('SELECT id FROM xt WHERE infer.complete(''infer_x/m'', ''c'' || id) <> ''a'' LIMIT 1', 'ANALYZE, FORMAT JSON')::json #> '{0,Plan,Plans,0}') AS j(p);
-- a call's cost is time on the network: it is no reason to compile expressions
SET jit = on;
SET jit_above_cost = 1000;
SELECT explained('SELECT infer.complete(''infer_x/m'', ''d'' || id) FROM xt', 'ANALYZE, COSTS ON, FORMAT JSON')::jsonb -> 0 ? 'JIT' AS compiled;
RESET jit;
RESET jit_above_cost;
-- figures are totals over all rescans
SELECT lines('SELECT a, (SELECT string_agg(infer.complete(''infer_x/m'', a || x), '''') FROM xt WHERE id IN (1, 2, 10)) FROM generate_series(1, 2) AS a', 'ANALYZE, TIMING OFF');

\! mock set defaults
DROP TABLE xt;
DROP FUNCTION explained, lines;
DROP SERVER infer_x;
