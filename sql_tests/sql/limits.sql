-- Who limits an admission key: the server object that came first, and again when it is altered.
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
CREATE ROLE infer_limits_one;
CREATE ROLE infer_limits_two;
CREATE FUNCTION pg_temp.limits() RETURNS text LANGUAGE sql AS $$
  SELECT max_limit || ' at most, now ' || floor(current_limit) || ', a minute ' || (requests_left IS NOT NULL)
  FROM infer.stat_admission WHERE key = 'infer_limits' $$;
CREATE FUNCTION pg_temp.call(server text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM infer.complete(server || '/m', 'limits');
  RETURN pg_temp.limits();
END $$;
CREATE SERVER infer_limits_a FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', admission_key 'infer_limits', max_concurrency '8');
CREATE SERVER infer_limits_b FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', admission_key 'infer_limits', max_concurrency '9');
ALTER SERVER infer_limits_a OWNER TO infer_limits_one;
ALTER SERVER infer_limits_b OWNER TO infer_limits_two;
SELECT pg_temp.call('infer_limits_a');
SELECT pg_temp.call('infer_limits_b');
-- from the next call on
ALTER SERVER infer_limits_a OPTIONS (SET max_concurrency '12', ADD rpm '1000');
SELECT pg_temp.limits();
SELECT pg_temp.call('infer_limits_a');
ALTER SERVER infer_limits_a OPTIONS (DROP max_concurrency, DROP rpm);
SELECT pg_temp.call('infer_limits_a');
ALTER SERVER infer_limits_a OPTIONS (ADD max_concurrency '4');
SELECT pg_temp.call('infer_limits_a');
-- a change of the other one is none
ALTER SERVER infer_limits_b OPTIONS (SET max_concurrency '5');
SELECT pg_temp.call('infer_limits_b');
-- what may be rolled back does not count, and what was before does
BEGIN;
ALTER SERVER infer_limits_a OPTIONS (SET max_concurrency '6');
SELECT pg_temp.call('infer_limits_a');
ROLLBACK;
SELECT pg_temp.call('infer_limits_a');
-- nor do settings of a session
\c
SET pg_inference.limiter_max_limit = 3;
CREATE FUNCTION pg_temp.limits() RETURNS text LANGUAGE sql AS $$
  SELECT max_limit || ' at most, now ' || floor(current_limit) || ', a minute ' || (requests_left IS NOT NULL)
  FROM infer.stat_admission WHERE key = 'infer_limits' $$;
CREATE FUNCTION pg_temp.call(server text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM infer.complete(server || '/m', 'limits');
  RETURN pg_temp.limits();
END $$;
SELECT pg_temp.call('infer_limits_a');
-- unless somebody says so who may
SET ROLE infer_limits_two;
SELECT infer.apply_limits('infer_limits_a');
SELECT infer.apply_limits('infer_limits_b');
SET ROLE infer_limits_one;
SELECT infer.apply_limits('infer_limits_a');
RESET ROLE;
SELECT pg_temp.limits();
RESET pg_inference.limiter_max_limit;
SELECT infer.apply_limits('infer_limits_b');
SELECT pg_temp.limits();
SELECT pg_temp.call('infer_limits_a');
SELECT infer.apply_limits('infer_limits');
SELECT infer.apply_limits(NULL) IS NULL AS null_is_nothing;
-- in a transaction that changes it, for as long as that is so
BEGIN;
ALTER SERVER infer_limits_b OPTIONS (SET max_concurrency '7');
SELECT infer.apply_limits('infer_limits_b');
SELECT pg_temp.limits();
ROLLBACK;
SELECT pg_temp.call('infer_limits_b');
-- a server that is gone has nothing to say
DROP SERVER infer_limits_b;
SELECT pg_temp.call('infer_limits_a');
DROP SERVER infer_limits_a;
DROP OWNED BY infer_limits_one, infer_limits_two;
DROP ROLE infer_limits_one, infer_limits_two;
