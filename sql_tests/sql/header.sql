-- The request header: routing keys in the setting and in a call's options, what they may be, and
-- which place wins. What comes of them is tested where it happens.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_h FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'header');
\! mock set reply=echo
\pset format unaligned
\pset tuples_only on

-- what a call says to these options
CREATE FUNCTION pg_temp.says(options jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  detail text;
  hint text;
BEGIN
  RETURN infer.complete('infer_h/m', 'x', '{}', options);
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;

-- gw_4: every key with every value that it takes
SELECT o, pg_temp.says(o) FROM unnest(ARRAY[
  '{"priority": "VLOW"}', '{"priority": "low"}', '{"priority": "Normal"}', '{"priority": 40}', '{"priority": "50"}',
  '{"duration": "SHORT"}', '{"duration": "MEDIUM"}', '{"duration": "MED"}', '{"duration": "long"}', '{"duration": 4}',
  '{"timeout": "30s"}', '{"timeout": 2000}', '{"timeout": "1 minute 2 seconds"}', '{"timeout": "00:00:10"}', '{"timeout": 0}',
  '{"nodes": []}', '{"feeds": []}', '{"service_classes": []}', '{"test_ctl": "PROD"}', '{"is_mut": false}', '{"is_solo": true}',
  '{"route_prefs": {}}', '{"route_prefs": {"include": [], "exclude": [], "prefer": [], "avoid": []}}',
  '{"is_sequenced": false}']::jsonb[]) AS o;

-- and what it does not take
SELECT o, pg_temp.says(o) FROM unnest(ARRAY[
  '{"priority": "urgent"}', '{"priority": 35}', '{"priority": null}', '{"duration": "ETERNAL"}', '{"duration": 5}', '{"duration": true}',
  '{"timeout": "soon"}', '{"timeout": -1}', '{"timeout": "1 month"}', '{"timeout": "-3 seconds"}', '{"timeout": "100 days"}', '{"timeout": []}',
  '{"nodes": "a"}', '{"nodes": [1]}', '{"nodes": [""]}', '{"nodes": {"a": 1}}', '{"feeds": [null]}', '{"service_classes": [["a"]]}',
  '{"route_prefs": ["a"]}', '{"route_prefs": {"only": ["a"]}}', '{"route_prefs": {"avoid": "a"}}',
  '{"version": "1"}', '{"version": "1.5"}', '{"version": "1.050"}', '{"version": "v1.05"}', '{"version": "1.05 "}', '{"version": 1.5}',
  '{"test_ctl": "STAGING"}', '{"is_mut": "yes"}', '{"is_solo": 1}',
  '{"ts_range": "tomorrow"}', '{"ts_range": "[2026-01-01,2026-01-01)"}', '{"ts_range": ["2026-01-01"]}',
  '{"is_sequenced": true}', '{"sequence_key": "k"}', '{"is_sequenced": 1}',
  '{"Priority": "LOW"}', '{"deadline": 1}']::jsonb[]) AS o;

-- a list has an end
SELECT pg_temp.says(jsonb_build_object('nodes', (SELECT jsonb_agg('n' || i) FROM generate_series(1, 65) AS i)));

-- the setting takes the same, and nothing else
CREATE FUNCTION pg_temp.sets(value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  detail text;
  hint text;
BEGIN
  RETURN set_config('pg_inference.routing', value, true);
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;
SELECT v, pg_temp.sets(v) FROM unnest(ARRAY[
  '{"priority": "LOW", "duration": "LONG", "timeout": "1 minute", "nodes": ["a"], "feeds": ["f"], "service_classes": ["s"], "version": "1.04"}',
  '{"route_prefs": {"exclude": ["a"]}, "test_ctl": "ANY", "is_mut": true, "is_solo": true, "ts_range": "[2026-01-01, 2026-02-01)"}',
  '{"version": 1.40}', ' { } ',
  '', '{', '[]', '"LOW"', '{"max_attempts": 1}', '{"priority": "urgent"}', '{"timeout": "soon"}', '{"nodes": "a"}', '{"route_prefs": {"only": []}}',
  '{"version": "1.5"}', '{"ts_range": "tomorrow"}', '{"is_sequenced": true}']) AS v;
SHOW pg_inference.routing;

-- gw_4: timeouts by duration, of a server that does not answer; to and fro, so that each has to be the
-- right one, however slow the machine is
\! mock set fault_hang=100
CREATE FUNCTION pg_temp.waits(options jsonb, atleast int) RETURNS boolean LANGUAGE sql AS
  $$ SELECT o.reason = 'timeout' AND o.elapsed BETWEEN atleast * interval '1 ms' AND interval '40 s'
     FROM infer.try_complete('infer_h/m', 'x', '{}', options) AS o $$;
SET pg_inference.request_timeout = '25ms';
SET pg_inference.short_timeout = '50ms';
SET pg_inference.medium_timeout = '75ms';
SET pg_inference.long_timeout = '100ms';
SET pg_inference.epic_timeout = '125ms';
SELECT pg_temp.waits('{}', 25), pg_temp.waits('{"duration": "SHORT"}', 50), pg_temp.waits('{"duration": "MED"}', 75),
       pg_temp.waits('{"duration": "LONG"}', 100), pg_temp.waits('{"duration": "EPIC"}', 125);
SET pg_inference.request_timeout = '125ms';
SET pg_inference.short_timeout = '100ms';
SET pg_inference.medium_timeout = '75ms';
SET pg_inference.long_timeout = '50ms';
SET pg_inference.epic_timeout = '25ms';
SELECT pg_temp.waits('{}', 125), pg_temp.waits('{"duration": "SHORT"}', 100), pg_temp.waits('{"duration": "MED"}', 75),
       pg_temp.waits('{"duration": "LONG"}', 50), pg_temp.waits('{"duration": "EPIC"}', 25);
-- a timeout says more than a duration beside it, whichever is longer ...
SELECT pg_temp.waits('{"duration": "EPIC", "timeout": "150ms"}', 150);
SET pg_inference.epic_timeout = '10min';
SELECT pg_temp.waits('{"duration": "EPIC", "timeout": "50ms"}', 50);
-- ... and where both are elsewhere the stronger place counts, be it by its duration
SET pg_inference.routing = '{"timeout": "150ms"}';
SELECT pg_temp.waits('{}', 150), pg_temp.waits('{"timeout": 50}', 50), pg_temp.waits('{"priority": "LOW"}', 150);
SET pg_inference.short_timeout = '200ms';
SELECT pg_temp.waits('{"duration": "SHORT"}', 200);
SET pg_inference.routing = '{"timeout": "10min"}';
SELECT pg_temp.waits('{"timeout": 50}', 50), pg_temp.waits('{"duration": "SHORT"}', 200);
SET pg_inference.routing = '{"duration": "EPIC", "timeout": "10min"}';
SELECT pg_temp.waits('{"timeout": 50}', 50), pg_temp.waits('{"duration": "SHORT"}', 200);
SET pg_inference.routing = '{"duration": "SHORT"}';
SELECT pg_temp.waits('{}', 200), pg_temp.waits('{"timeout": 50}', 50), pg_temp.waits('{"duration": "MEDIUM"}', 75);
-- none at all: until the statement's own
SET statement_timeout = '500ms';
SELECT pg_temp.waits('{"timeout": 0}', 0);
RESET statement_timeout;
