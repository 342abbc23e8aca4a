-- The reference's statements on the ledger and on the operator from end to end, each under its
-- number; ../../docs/conformance.md says where the others are tested, or why they are not.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_r FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'rpc');
CREATE TABLE rt AS SELECT i AS id, 'text ' || i AS x, i * 10 AS extra FROM generate_series(1, 500) AS i;
ANALYZE rt;
CREATE FUNCTION remb(input text, options jsonb DEFAULT '{}') RETURNS real[] LANGUAGE sql STABLE AS
  $$ SELECT infer.embed('infer_r/m', input, '{"dimensions": 4}', options) $$;
-- what is right: the answer that the text gets alone
SET pg_inference.enable = off;
CREATE TABLE rright AS SELECT id, remb(x) AS e FROM rt;
RESET pg_inference.enable;
\pset format unaligned
\pset tuples_only on
\! mock set reply=echo retry_after=0

-- rpc_F1, rpc_E1: each row has the answer of its own prompt, in input order whichever answer comes
-- first (here the first row's is the last); and nothing is in flight after that
\! mock set base_ms=5 token_ms=1
SELECT id, infer.complete('infer_r/m', rpad('row ' || id, 100 / id, '.'), '{"max_tokens": 100}') FROM rt WHERE id <= 3;
SELECT in_flight FROM infer.stat_admission WHERE key = 'rpc';
\! mock set token_ms=0 base_ms=0
-- rpc_F2: columns that pass through stay with their row
SET pg_inference.streaming_mode = per_row;
SELECT count(*) FROM (SELECT id, x, extra, infer.complete('infer_r/m', x) AS c FROM rt) AS s WHERE x = 'text ' || id AND extra = id * 10 AND c = x;
SET pg_inference.streaming_mode = batch;
SELECT count(*) FROM (SELECT id, x, extra, remb(x) AS e FROM rt) AS s JOIN rright AS r USING (id) WHERE x = 'text ' || id AND extra = id * 10 AND s.e = r.e;
-- rpc_F3: a NULL input is a NULL result, and the row is there; in both modes
SET pg_inference.streaming_mode = per_row;
\! mock reset
SELECT id, remb(CASE WHEN id <> 2 THEN x END) IS NULL FROM rt WHERE id <= 3;
\! mock stat items
SET pg_inference.streaming_mode = batch;
\! mock reset
SELECT id, remb(CASE WHEN id <> 2 THEN x END) IS NULL FROM rt WHERE id <= 3;
\! mock stat items requests
-- rpc_F29: where nothing needs the server (NULLs, and what the statement has asked already) no
-- permit is taken, and no controller moves
CREATE TEMP TABLE before AS SELECT granted, current_limit, decreases FROM infer.stat_admission WHERE key = 'rpc';
SELECT count(*), count(remb(CASE WHEN id < 0 THEN x END)) FROM rt;
SELECT b = a FROM before AS b, (SELECT granted, current_limit, decreases FROM infer.stat_admission WHERE key = 'rpc') AS a;
SELECT count(remb(left(x, 4))) FROM rt WHERE id <= 10 AND extra > 0;
SELECT a.granted - b.granted FROM before AS b, infer.stat_admission AS a WHERE key = 'rpc';
-- (those were in one batch; these come one by one, when the answer is there)
SET pg_inference.enable = off;
SELECT count(remb(left(x, 3))) FROM rt WHERE id <= 10 AND extra > 0;
RESET pg_inference.enable;
SELECT a.granted - b.granted FROM before AS b, infer.stat_admission AS a WHERE key = 'rpc';
DROP TABLE before;

-- rpc_F5: with size 0, one request at the end of the input; and rows of two inputs are all returned
SET pg_inference.dispatch_batch_size = 0;
\! mock reset
SELECT count(remb(x)) FROM rt WHERE id <= 50;
\! mock stat requests items
\! mock reset
SELECT count(remb(y)) FROM (SELECT x AS y FROM rt WHERE id <= 20 UNION ALL SELECT x || '!' FROM rt WHERE id <= 20 OFFSET 0) AS s;
\! mock stat requests items
-- rpc_F12, rpc_E4: seven rows, two a request
SET pg_inference.dispatch_batch_size = 2;
\! mock reset
SELECT count(*), count(s.e = r.e OR NULL) FROM (SELECT id, remb(x) AS e FROM rt WHERE id <= 7) AS s JOIN rright AS r USING (id);
\! mock stat requests items
-- rpc_F6, rpc_E7: answers in reverse order find their rows
SET pg_inference.dispatch_batch_size = 5;
\! mock set fault_order=100
\! mock reset
SELECT count(*), count(s.e = r.e OR NULL) FROM (SELECT id, remb(x) AS e FROM rt WHERE id <= 10) AS s JOIN rright AS r USING (id);
\! mock stat requests faults
\! mock set fault_order=0

-- rpc_F7, rpc_E3: of five rows the first and the third fail: exactly those are NULL, and nothing is
-- in flight after that
SELECT id, remb(x || CASE WHEN id IN (1, 3) THEN '[[mock:400]]' ELSE '' END, '{"on_error": "null"}') IS NULL FROM rt WHERE id <= 5;
SELECT in_flight FROM infer.stat_admission WHERE key = 'rpc';
-- rpc_F8, rpc_E6: all of a request fails: NULLs, each with the error if that is asked for
\! mock set fault_500=100
\! mock reset
SELECT id, remb(x, '{"on_error": "null"}') IS NULL FROM rt WHERE id <= 5;
\! mock stat requests
SELECT count(*), count(o.value), count(o.error), min(o.reason), max(o.reason) FROM rt, infer.try_embed('infer_r/m', x) AS o WHERE id <= 5;
-- rpc_F9: or the query does
SELECT id, remb(x) IS NULL FROM rt WHERE id <= 5;
\echo :LAST_ERROR_SQLSTATE
\! mock set fault_500=0
-- rpc_F10: an answer too few, without numbers: the query fails whatever on_error says
\! mock set fault_noindexshort=100
SELECT id, remb(x, '{"on_error": "null"}') IS NULL FROM rt WHERE id <= 5;
\echo :LAST_ERROR_SQLSTATE
\! mock set fault_noindexshort=0
-- rpc_F11: a number twice, or out of range: the same
\! mock set fault_dupindex=100
SELECT id, remb(x, '{"on_error": "null"}') IS NULL FROM rt WHERE id <= 5;
\echo :LAST_ERROR_SQLSTATE
\! mock set fault_dupindex=0 fault_badindex=100
SELECT id, remb(x, '{"on_error": "null"}') IS NULL FROM rt WHERE id <= 5;
\echo :LAST_ERROR_SQLSTATE
\! mock set fault_badindex=0 fault_negindex=100
SELECT id, remb(x, '{"on_error": "null"}') IS NULL FROM rt WHERE id <= 5;
\echo :LAST_ERROR_SQLSTATE
\! mock set fault_negindex=0
-- rpc_F28, rpc_G4: a row that got no answer is an error, and never a NULL that nobody asked for
\! mock set fault_missing3=100
SELECT id, remb(x) IS NULL FROM rt WHERE id <= 5;
\echo :LAST_ERROR_SQLSTATE
\! mock set fault_missing3=0

-- rpc_F18: a model that is not there: the error says so, before or in the middle; the session goes on
SELECT infer.embed('infer_nowhere', x) FROM rt;
SELECT infer.embed(CASE WHEN id < 100 THEN 'infer_r/m' ELSE 'infer_nowhere' END, x) IS NULL FROM rt OFFSET 98;
SELECT in_flight FROM infer.stat_admission WHERE key = 'rpc';
SELECT remb(x) IS NULL FROM rt WHERE id = 1;

-- rpc_F13, rpc_E2: two requests at a time of 100 ms each: eight take four times that, in which the
-- session sleeps (this is what it has waited, in ms)
CREATE FUNCTION figure(query text, name text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  plan jsonb;
BEGIN
  EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) ' || query INTO plan;
  RETURN (SELECT sum(v::float8) FROM jsonb_path_query(plan, ('$.**."' || name || '"')::jsonpath) AS v);
END $$;
SET pg_inference.congestion_max_window = 2;
SET pg_inference.dispatch_batch_size = 1;
\! mock set base_ms=100
SELECT w >= 300 FROM figure('SELECT remb(x) FROM rt WHERE id <= 8', 'Network Wait') AS w;
\! mock stat max_in_flight
\! mock set base_ms=5
-- rpc_F22, rpc_E9: never more in flight than the window, for any size of requests
\! mock reset
SELECT figure('SELECT remb(x) FROM rt', 'Peak In Flight');
\! mock stat max_in_flight
SET pg_inference.dispatch_batch_size = 7;
\! mock reset
SELECT figure('SELECT remb(x) FROM rt', 'Peak In Flight');
\! mock stat max_in_flight
SET pg_inference.streaming_mode = per_row;
\! mock reset
SELECT figure('SELECT remb(x) FROM rt WHERE id <= 100', 'Peak In Flight');
\! mock stat max_in_flight
-- rpc_G7: bad requests say nothing of load: they move neither window nor limit; overload moves both
SET pg_inference.max_attempts = 1;
SET pg_inference.congestion_max_window = 8;
CREATE TEMP TABLE before AS SELECT current_limit, decreases FROM infer.stat_admission WHERE key = 'rpc';
SELECT figure($$SELECT remb(x || '[[mock:400]]', '{"on_error": "null"}') FROM rt WHERE id <= 40$$, 'Window Min');
SELECT a.current_limit = b.current_limit, a.decreases - b.decreases FROM before AS b, infer.stat_admission AS a WHERE key = 'rpc';
SELECT figure($$SELECT remb(x || '[[mock:429]]', '{"on_error": "null"}') FROM rt WHERE id <= 8$$, 'Window Min');
SELECT a.current_limit < b.current_limit, a.decreases - b.decreases FROM before AS b, infer.stat_admission AS a WHERE key = 'rpc';
DROP TABLE before;
RESET pg_inference.max_attempts;
RESET pg_inference.congestion_max_window;
RESET pg_inference.dispatch_batch_size;

-- rpc_F15, rpc_F17, rpc_F24: one request at a time, for the server says so: they never overlap, and
-- the end of the input is not the end while rows wait for a permit
CREATE SERVER infer_r_one FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'rpc one', max_concurrency '1');
SET pg_inference.streaming_mode = batch;
SET pg_inference.dispatch_batch_size = 4;
\! mock reset
SELECT count(infer.embed('infer_r_one/m', x)) FROM rt WHERE id <= 8 * 16;
\! mock stat requests items max_in_flight
SET pg_inference.streaming_mode = per_row;
\! mock reset
SELECT count(infer.embed('infer_r_one/m', x)) FROM rt WHERE id <= 40;
\! mock stat requests items max_in_flight
SELECT current_limit, peak, in_flight FROM infer.stat_admission WHERE key = 'rpc one';
RESET pg_inference.dispatch_batch_size;

-- rpc_F19: 64 good rows, 96 that are refused for overload, 320 good ones. (If a refusal is final:
-- with retries, as is the default, all are answered.)
SET pg_inference.max_attempts = 1;
SET pg_inference.limiter_min_limit = 4;
SET pg_inference.congestion_max_window = 32;
CREATE SERVER infer_r_storm FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'rpc storm', max_concurrency '64');
CREATE SERVER infer_r_storms FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'rpc storms', max_concurrency '64');
CREATE VIEW rstorm AS SELECT id, x || CASE WHEN id BETWEEN 65 AND 160 THEN '[[mock:429]]' ELSE '' END AS x FROM rt WHERE id <= 480;
SELECT count(*), count(o.value), count(o.error) FILTER (WHERE o.reason = 'overloaded' AND id BETWEEN 65 AND 160)
  FROM rstorm, infer.try_embed('infer_r_storm/m', x) AS o;
SELECT overloaded, decreases > 0, low_water > 0 AND low_water < 16, current_limit > low_water, in_flight FROM infer.stat_admission WHERE key = 'rpc storm';
-- rpc_F20: the same with sixteen rows a request, eight of them at a time: 16 are good, 24 refused, 80 good
SET pg_inference.streaming_mode = batch;
SET pg_inference.dispatch_batch_size = 16;
SET pg_inference.congestion_max_window = 8;
CREATE VIEW rstorms AS SELECT i AS id, 'storm ' || i || CASE WHEN i BETWEEN 257 AND 640 THEN '[[mock:429]]' ELSE '' END AS x FROM generate_series(1, 1920) AS i;
SELECT count(*), count(o.value), count(o.error) FILTER (WHERE o.reason = 'overloaded' AND id BETWEEN 257 AND 640)
  FROM rstorms, infer.try_embed('infer_r_storms/m', x) AS o;
SELECT overloaded, decreases > 0, low_water > 0 AND low_water < 16, current_limit > low_water, in_flight FROM infer.stat_admission WHERE key = 'rpc storms';
RESET pg_inference.max_attempts;
RESET pg_inference.limiter_min_limit;
RESET pg_inference.congestion_max_window;
RESET pg_inference.dispatch_batch_size;
RESET pg_inference.streaming_mode;

-- rpc_B20: which limiter a server has: the same key, the same one; another key, another one
CREATE SERVER infer_r_twin FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'rpc one', max_concurrency '1');
SELECT granted FROM infer.stat_admission WHERE key = 'rpc one' \gset
SELECT infer.embed('infer_r_twin/m', 'a') IS NOT NULL, infer.embed('infer_r/m', 'a') IS NOT NULL,
  infer.embed('infer_r_one/m', 'a', options => '{"admission_key": "rpc other"}') IS NOT NULL;
SELECT key, CASE key WHEN 'rpc one' THEN granted - :granted ELSE granted END FROM infer.stat_admission
  WHERE key IN ('rpc one', 'rpc other') ORDER BY key;

\! mock set defaults
DROP VIEW rstorm, rstorms;
DROP TABLE rt, rright;
DROP FUNCTION remb, figure;
DROP SERVER infer_r;
DROP SERVER infer_r_one;
DROP SERVER infer_r_twin;
DROP SERVER infer_r_storm;
DROP SERVER infer_r_storms;
