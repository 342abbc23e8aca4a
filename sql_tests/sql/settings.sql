-- Every setting: default, unit, range, who may change it; and that bad values are refused.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
SELECT infer.version() = (SELECT default_version FROM pg_available_extensions WHERE name = 'pg_inference') AS same_version;

SELECT name, boot_val, unit, min_val, max_val, context FROM pg_settings WHERE name LIKE 'pg_inference.%'
ORDER BY name COLLATE "C";
SELECT name, enumvals FROM pg_settings WHERE name LIKE 'pg_inference.%' AND vartype = 'enum' ORDER BY name COLLATE "C";
-- each is described
SELECT name FROM pg_settings WHERE name LIKE 'pg_inference.%' AND (short_desc = '' OR short_desc NOT LIKE '%.');
-- and nothing else has the prefix
SET pg_inference.enabled = off;
SET pg_inference.max_attempt = 1;

-- bad values; versions of PostgreSQL differ in how they write ranges
CREATE FUNCTION pg_temp.refused(name text, value text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('pg_inference.' || name, value, true);
  RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, ' \(.*\)$', '');
END $$;
SELECT name, value, pg_temp.refused(name, value) FROM (VALUES
  ('enable', 'maybe'), ('streaming_mode', 'rows'), ('on_error', 'ignore'), ('retry', 'always'), ('plan_time_calls', 'sometimes'),
  ('dispatch_batch_size', '-2'), ('request_timeout', '0'), ('connect_timeout', '0s'), ('max_attempts', '0'), ('buffer_memory', '1kB'),
  ('max_response_size', '2GB'), ('memo_memory', '1kB'), ('statement_call_budget', '-1'), ('statement_token_budget', '-1'),
  ('limiter_max_limit', '-1'), ('limiter_adaptive', 'never'), ('limiter_dry_run', 'maybe'), ('limiter_start', '0'), ('limiter_min_limit', '0'),
  ('limiter_decrease_factor', '1'), ('congestion_min_window', '0'), ('congestion_max_window', '-1'), ('congestion_step_coef', '-1'),
  ('priority', 'urgent'), ('short_timeout', '0'), ('epic_timeout', '-1'), ('random_seed', '-1'), ('delivery', 'twice'), ('retained_memory', '0'), ('retry_budget', '0'), ('failure_threshold', '-1'), ('failure_cooldown', '0'), ('max_admission_keys', '1'), ('call_cost', '999'), ('price_seconds', '-1'), ('price_seconds', 'NaN'),
  ('daily_call_budget', '-1'), ('daily_token_budget', '-1'), ('daily_cost_budget', '-1'), ('statement_cost_budget', 'NaN'), ('usage_save_interval', '1s')) AS v(name, value) ORDER BY name COLLATE "C", value COLLATE "C";
SET pg_inference.allowed_hosts = 'http://localhost/v1';
-- units
SET pg_inference.request_timeout = '2min';
SHOW pg_inference.request_timeout;
SET pg_inference.buffer_memory = '64MB';
SHOW pg_inference.buffer_memory;
SET pg_inference.allowed_hosts = 'localhost, *.example.com, 10.0.0.?, [::1]';
SHOW pg_inference.allowed_hosts;
RESET ALL;

-- what only superusers may change
CREATE ROLE infer_settings_user;
SET ROLE infer_settings_user;
SET pg_inference.allowed_hosts = '*';
SET pg_inference.allow_inline_keys = on;
SET pg_inference.limiter_max_limit = 1000;
SET pg_inference.limiter_adaptive = off;
SET pg_inference.retry_budget = 100;
SET pg_inference.limiter_start = 1000;
SET pg_inference.limiter_min_limit = 1000;
SET pg_inference.limiter_decrease_factor = 0.9;
SET pg_inference.failure_threshold = 0;
SET pg_inference.failure_cooldown = 1;
SET pg_inference.priority = vhigh;
SHOW pg_inference.priority;
RESET pg_inference.priority;
SET pg_inference.enable = off;
-- nor see who calls whom
SELECT count(*) FROM infer.stat_admission;
SELECT count(*) FROM infer.stat_models;
SELECT count(*) FROM infer.stat_progress;
SELECT count(*) FROM infer.stat_queue;
SELECT infer.stat_reset();
RESET ROLE;
GRANT pg_read_all_stats TO infer_settings_user;
SET ROLE infer_settings_user;
SELECT count(*) >= 0 AS readable FROM infer.stat_admission;
SELECT count(*) >= 0 AS readable FROM infer.stat_models;
SELECT infer.stat_reset();
RESET ROLE;
RESET pg_inference.enable;
DROP ROLE infer_settings_user;

-- statistics
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_stat FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', admission_key 'infer_settings', max_concurrency '3');
\! mock set retry_after=0
SELECT count(infer.complete('infer_stat/m', 'a' || i)) FROM generate_series(1, 20) AS i;
SELECT reason, execution FROM infer.try_complete('infer_stat/m', 'a [[mock:400]]');
SELECT reason, execution FROM infer.try_complete('infer_stat/m', 'a [[mock:429]]');
SELECT key, max_limit, in_flight, waiting, peak BETWEEN 1 AND 3 AS peak_kept, granted, succeeded, overloaded, failed, ignored
FROM infer.stat_admission WHERE key = 'infer_settings';
SELECT waiting_vhigh, waiting_high, waiting_normal, waiting_low, waiting_vlow, current_limit < 3 AS shrunk, low_water = current_limit AS lowest,
  decreases, epoch, paced, requests_left, tokens_left, retry_after_until
FROM infer.stat_admission WHERE key = 'infer_settings';
SELECT infer.stat_reset();
SELECT key, max_limit, in_flight, waiting, peak, granted, succeeded, overloaded, failed, ignored
FROM infer.stat_admission WHERE key = 'infer_settings';
SELECT low_water = current_limit AS lowest, decreases, epoch, paced FROM infer.stat_admission WHERE key = 'infer_settings';
\! mock set defaults
DROP SERVER infer_stat;

-- What the first use of a key says of its limits counts; another one is told once a session.
CREATE SERVER infer_first FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', admission_key 'infer_first', rpm '100', tpm '20000');
CREATE SERVER infer_second FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', admission_key 'infer_first', rpm '200');
SELECT infer.complete('infer_first/m', 'a') IS NOT NULL AS answered;
SELECT infer.complete('infer_second/m', 'b') IS NOT NULL AS answered;
SELECT infer.complete('infer_second/m', 'c') IS NOT NULL AS answered;
SELECT requests_left, tokens_left BETWEEN 19000 AND 19999 AS tokens_left FROM infer.stat_admission WHERE key = 'infer_first';
-- a setting that was changed since counts as another configuration
\connect -
SET pg_inference.limiter_decrease_factor = 0.8;
SELECT infer.complete('infer_first/m', 'a') IS NOT NULL AS answered;
SELECT max_limit, current_limit FROM infer.stat_admission WHERE key = 'infer_first';
-- where nothing adapts, the limit is what was told
SET pg_inference.limiter_adaptive = off;
SET pg_inference.limiter_max_limit = 7;
CREATE SERVER infer_fixed FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'infer_fixed', max_concurrency '9');
SELECT count(infer.complete('infer_fixed/m', 'a' || i || ' [[mock:429]]', options => '{"on_error": "null", "max_attempts": 1}')) FROM generate_series(1, 9) AS i;
SELECT max_limit, current_limit, decreases, overloaded FROM infer.stat_admission WHERE key = 'infer_fixed';
-- a dry run shows what the limit would be, and holds nobody to it
RESET ALL;
CREATE SERVER infer_held FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'infer_held', max_concurrency '2');
CREATE SERVER infer_dry FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'infer_dry', max_concurrency '2');
\! mock set base_ms=300
SELECT count(infer.complete('infer_held/m', 'held ' || i)) FROM generate_series(1, 6) AS i;
SET pg_inference.limiter_dry_run = on;
SELECT count(infer.complete('infer_dry/m', 'dry ' || i)) FROM generate_series(1, 6) AS i;
\! mock set base_ms=0
SELECT key, max_limit, current_limit, peak, over_limit, in_flight FROM infer.stat_admission WHERE key IN ('infer_held', 'infer_dry') ORDER BY key;
RESET ALL;
DROP SERVER infer_first, infer_second, infer_fixed, infer_held, infer_dry;
