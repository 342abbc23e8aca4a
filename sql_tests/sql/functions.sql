-- The functions: arguments, parameters, options, results, errors; fault_F78.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_f FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
\! mock set reply=echo
\! mock reset

-- how they are declared: what the planner may think of them
SELECT p.oid::regprocedure AS function, p.provolatile, p.proisstrict, p.proparallel, p.procost
FROM pg_proc p WHERE p.pronamespace = 'infer'::regnamespace AND p.procost = 10000
ORDER BY p.proname COLLATE "C";

-- results
SELECT infer.complete('infer_f/m', 'hello');
SELECT infer.complete('infer_f/m', '');
SELECT infer.complete('infer_f/m', E'quote " backslash \\ line\nbreak \t tab \x01 control gr\u00fc\u00df \u20ac');
SELECT infer.chat('infer_f/m', '[{"role": "system", "content": "be brief"},
  {"role": "user", "content": "hello"}]');
SELECT infer.embed('infer_f/m', 'hello', '{"dimensions": 3}');
SELECT pg_typeof(e), array_ndims(e), array_length(e, 1) FROM infer.embed('infer_f/m', 'hello') AS e;
SELECT infer.call('infer_f/m', '{"model": "q", "prompt": "hello", "max_tokens": 1}',
  '{"path": "/completions"}') #>> '{choices,0,text}' AS text;
SELECT jsonb_pretty(infer.call('infer_f/', '{"model": "q", "input": ["a", "b"], "dimensions": 1}',
  '{"path": "/embeddings"}') - 'usage' - 'data');
-- embeddings asked as base64 have the values that JSON has
SELECT infer.embed('infer_f/m', 'hello', '{"dimensions": 5}') =
  (SELECT array_agg(e::real ORDER BY n) FROM jsonb_array_elements(infer.call('infer_f/m',
     '{"input": "hello", "dimensions": 5}', '{"path": "/embeddings"}') #> '{data,0,embedding}')
     WITH ORDINALITY AS a(e, n)) AS same;
SELECT (SELECT sum(v * v) FROM unnest(infer.embed('infer_f/m', 'hello')) AS v)::numeric(6, 4) AS length;

-- what the try_ twins return
\x
SELECT value, error, reason, execution, http_status, attempts, server, usage, elapsed > '0' AS elapsed
FROM infer.try_complete('infer_f/m', 'hello', '{"max_tokens": 3}', '{"truncated": "accept"}');
SELECT value, error, reason, execution, http_status, attempts, server, usage, elapsed > '0' AS elapsed
FROM infer.try_chat('infer_f/m', '[{"role": "user", "content": "hello"}]');
SELECT value, error, reason, execution, http_status, attempts, server, usage, elapsed > '0' AS elapsed
FROM infer.try_embed('infer_f/m', 'hello', '{"dimensions": 2}');
SELECT value #>> '{choices,0,text}' AS value, error, reason, execution, http_status, attempts, server,
  usage, elapsed > '0' AS elapsed
FROM infer.try_call('infer_f/m', '{"prompt": "hello"}', '{"path": "/completions"}');
SELECT value, error, reason, execution, http_status, attempts, server, usage, elapsed > '0' AS elapsed
FROM infer.try_complete('infer_f/m', 'oh [[mock:400]]');
SELECT value, error, reason, execution, http_status, attempts, server, usage, elapsed > '0' AS elapsed
FROM infer.try_embed('infer_f/m', 'oh [[mock:json]]');
\x

-- a NULL argument is a NULL result without a call
\! mock reset
SELECT infer.complete(NULL, 'a'), infer.complete('infer_f/m', NULL), infer.complete('infer_f/m', 'a', NULL),
  infer.complete('infer_f/m', 'a', '{}', NULL), infer.chat('infer_f/m', NULL), infer.embed('infer_f/m', NULL),
  infer.call('infer_f/m', NULL), infer.try_complete('infer_f/m', NULL) IS NULL AS try_complete,
  infer.try_chat(NULL, '[]') IS NULL AS try_chat, infer.try_embed('infer_f/m', NULL) IS NULL AS try_embed,
  infer.try_call('infer_f/m', NULL) IS NULL AS try_call;
\! mock stat requests

-- one error a line: how a statement fails, if it does
CREATE FUNCTION pg_temp.attempt(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  state text;
  message text;
  detail text;
  hint text;
  answer text;
BEGIN
  EXECUTE query INTO answer;
  RETURN coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
    detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  -- the HTTP library's words differ between its versions
  detail := regexp_replace(detail, '(Failed after [0-9]+ attempts?): .*(\. The request)', '\1: (words)\2');
  detail := regexp_replace(detail, '(HTTP status 200 after [0-9]+ attempts?): .*(remaining|missing).*(\. The request)', '\1: (words)\3');
  RETURN concat_ws(E'\n  ', state || ': ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;
CREATE FUNCTION pg_temp.attempt_options(options jsonb, prompt text DEFAULT 'hello') RETURNS text
LANGUAGE sql AS $$
  SELECT pg_temp.attempt(format('SELECT infer.complete(%L, %L, %L, %L)', 'infer_f/m', prompt, '{}', options))
$$;
\pset format unaligned
\pset tuples_only on

-- parameters
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/m', 'a', '[1]')$$);
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/m', 'a', '"temperature"')$$);
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/m', 'a', '{"stream": true}')$$);
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/m', 'a', '{"stream": false}')$$);
-- model, messages and input are the call's own: parameters do not replace them
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/m', 'a', '{"model": "other", "messages": []}')$$);
SELECT pg_temp.attempt($$SELECT array_length(infer.embed('infer_f/m', 'a',
  '{"input": "b", "encoding_format": "float", "dimensions": 7}'), 1)$$);
SELECT pg_temp.attempt($$SELECT infer.chat('infer_f/m', '"a string"')$$);
SELECT pg_temp.attempt($$SELECT infer.chat('infer_f/m', '{"role": "user", "content": "a"}')$$);

-- options: an unknown one names the known ones
\! mock reset
SELECT pg_temp.attempt_options('{"on_eror": "null"}');
SELECT pg_temp.attempt_options('{"Timeout": 5}');
SELECT pg_temp.attempt_options('{"path": "/x"}');
SELECT pg_temp.attempt($$SELECT infer.call('infer_f/m', '{}', '{"temperature": 1}')$$);
SELECT pg_temp.attempt_options('[]');
SELECT pg_temp.attempt_options('"timeout"');
-- bad values
SELECT o, pg_temp.attempt_options(o) FROM unnest(ARRAY[
  '{"on_error": "ignore"}', '{"on_error": null}', '{"on_error": {"then": "null"}}',
  '{"timeout": -5}', '{"timeout": "soon"}', '{"timeout": true}', '{"timeout": -1}',
  '{"streaming_mode": "row"}', '{"retry": "always"}',
  '{"dispatch_batch_size": -2}', '{"dispatch_batch_size": "many"}',
  '{"max_attempts": 0}', '{"max_attempts": "a few"}', '{"max_concurrency": 0}',
  '{"priority": "urgent"}', '{"priority": 1}', '{"rpm": -1}', '{"tpm": "many"}']::jsonb[])
  WITH ORDINALITY AS a(o, n) ORDER BY n;
SELECT p, pg_temp.attempt(format('SELECT infer.call(%L, %L, %L)', 'infer_f/m', '{}',
  jsonb_build_object('path', p))) FROM unnest(ARRAY[
  'completions', '//example.com/', '/../admin', '/%2E%2e/admin', '/a#b', E'/a\r\nX: y', '/a b', '/a\b',
  '@example.com/']) WITH ORDINALITY AS a(p, n) ORDER BY n;
-- none of these sent anything, and the try_ twins raise them, too
SELECT pg_temp.attempt($$SELECT infer.try_complete('infer_f/m', 'a', '{}', '{"on_eror": 1}')$$);
SELECT pg_temp.attempt($$SELECT infer.try_complete('nowhere', 'a')$$);
SELECT pg_temp.attempt($$SELECT infer.complete('nowhere', 'a', '{}', '{"on_error": "null"}')$$);
\! mock stat requests
-- good values
SELECT o, pg_temp.attempt_options(o) FROM unnest(ARRAY[
  '{}', '{"on_error": "fail"}', '{"on_error": "null"}', '{"timeout": "30s"}', '{"timeout": "1min"}',
  '{"timeout": 5000}', '{"streaming_mode": "automatic"}', '{"streaming_mode": "per_row"}',
  '{"streaming_mode": "batch"}', '{"retry": "never"}', '{"retry": "not_admitted"}',
  '{"retry": "ambiguous"}', '{"dispatch_batch_size": -1}', '{"dispatch_batch_size": 0}',
  '{"dispatch_batch_size": "8"}', '{"max_attempts": 1}', '{"max_concurrency": 1}',
  '{"admission_key": "infer_functions"}', '{"priority": "HIGH"}', '{"priority": "vlow"}',
  '{"admission_key": "infer_functions_minute", "rpm": 1000, "tpm": 0}']::jsonb[]) WITH ORDINALITY AS a(o, n) ORDER BY n;
-- each in effect: another admission key, a time limit, fewer attempts, attempts after ambiguity
SELECT key, granted, requests_left, tokens_left FROM infer.stat_admission WHERE key LIKE 'infer_functions%' ORDER BY key;
SELECT pg_temp.attempt_options('{"timeout": "300ms"}', 'wait [[mock:hang]]');
SET pg_inference.request_timeout = '300ms';
SELECT pg_temp.attempt_options('{}', 'wait more [[mock:hang]]');
RESET pg_inference.request_timeout;
\! mock set retry_after=0
\! mock reset
SELECT pg_temp.attempt_options('{"max_attempts": 2}', 'busy [[mock:429]]');
\! mock stat requests
SELECT pg_temp.attempt_options('{"retry": "never"}', 'busy [[mock:429]]');
\! mock stat requests
SET pg_inference.max_attempts = 3;
SELECT pg_temp.attempt_options('{}', 'busy [[mock:429]]');
\! mock stat requests
SET pg_inference.retry = 'never';
SELECT pg_temp.attempt_options('{}', 'busy [[mock:429]]');
\! mock stat requests
RESET pg_inference.retry;
RESET pg_inference.max_attempts;
\! mock reset
SELECT pg_temp.attempt_options('{}', 'down [[mock:500]]');
\! mock stat requests
SELECT pg_temp.attempt_options('{"retry": "ambiguous", "max_attempts": 2}', 'down [[mock:500]]');
\! mock stat requests

-- on_error: as an option, as a setting, and the option wins
SELECT pg_temp.attempt_options('{"on_error": "null"}', 'bad [[mock:400]]');
SET pg_inference.on_error = 'null';
SELECT pg_temp.attempt_options('{}', 'bad [[mock:400]]');
SELECT pg_temp.attempt($$SELECT infer.embed('infer_f/m', 'bad [[mock:400]]') IS NULL$$);
SELECT pg_temp.attempt_options('{"on_error": "fail"}', 'bad [[mock:400]]');
-- a twin's outcome is an outcome in any case
SELECT pg_temp.attempt($$SELECT (infer.try_complete('infer_f/m', 'bad [[mock:400]]')).reason$$);
RESET pg_inference.on_error;

-- fault_F78: what failed, where, with which status, and what is proved; one SQLSTATE each
SELECT pg_temp.attempt_options('{"max_attempts": 1}', 'fault [[mock:' || f || ']]') FROM unnest(ARRAY[
  '400', '401', '403', '404', '413', '429', '500', '503', 'redirect',
  'reset', 'partial', 'json', 'binary', 'nul']) WITH ORDINALITY AS a(f, n) ORDER BY n;
CREATE SERVER infer_f_lost FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://inference.invalid/v1');
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f_lost/m', 'a', '{}', '{"max_attempts": 1}')$$);
CREATE SERVER infer_f_shut FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1');
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f_shut/m', 'a', '{}', '{"max_attempts": 1}')$$);

-- a class of errors is caught by its first two characters' condition
DO $$
BEGIN
  PERFORM infer.complete('infer_f/m', 'caught [[mock:400]]');
EXCEPTION
  WHEN SQLSTATE 'RM000' THEN RAISE INFO 'it may have been executed';
  WHEN SQLSTATE 'RN000' THEN RAISE INFO 'it was not executed: %', SQLSTATE;
END $$;
DO $$
BEGIN
  PERFORM infer.complete('infer_f/m', 'caught [[mock:429]]', '{}', '{"max_attempts": 1}');
EXCEPTION WHEN SQLSTATE 'RNOVL' THEN RAISE INFO 'overloaded: %', SQLERRM;
END $$;

-- the budget of a statement
SET pg_inference.statement_call_budget = 2;
SELECT pg_temp.attempt($$SELECT count(infer.complete('infer_f/m', 'budget ' || i)) FROM generate_series(1, 2) AS i$$);
SELECT pg_temp.attempt($$SELECT count(infer.complete('infer_f/m', 'budget ' || i % 2)) FROM generate_series(1, 9) AS i$$);
SELECT pg_temp.attempt($$SELECT count(infer.complete('infer_f/m', 'budget ' || i)) FROM generate_series(1, 3) AS i$$);
RESET pg_inference.statement_call_budget;
-- a model of which one answer is known: what the next one may take does not depend on what others took
SELECT length(infer.complete('infer_f/counted', 'zero')) > 0;
SET pg_inference.statement_token_budget = 20;
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/counted', 'one') || infer.complete('infer_f/counted', 'two')$$);
SET pg_inference.statement_token_budget = 4;
SELECT pg_temp.attempt($$SELECT infer.complete('infer_f/counted', 'one') || infer.complete('infer_f/counted', 'two')$$);
RESET pg_inference.statement_token_budget;

\! mock set defaults
DROP SERVER infer_f;
DROP SERVER infer_f_lost;
DROP SERVER infer_f_shut;
