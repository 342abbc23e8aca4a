-- What a call costs the planner: observed latency, prices, settings; and what infer.stat_models shows.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
\! mock set reply=echo
CREATE SERVER infer_c FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('quick', 'complete', 'infer_c', 'costs/quick');
SELECT FROM infer.create_model('slow', 'complete', 'infer_c', 'costs/slow');
CREATE TABLE costs AS SELECT i AS id, 'x' || i AS x, CASE WHEN i % 2 = 0 THEN 'quick' ELSE 'slow' END AS model
  FROM generate_series(1, 100) AS i;
VACUUM ANALYZE costs;
-- the calls of a plan, in the order in which they are made
CREATE FUNCTION order_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  result text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
    CONTINUE WHEN line !~ 'Call:';
    result := concat_ws(', ', result, substring(line FROM '(quick|slow|dear|cheap)'));
  END LOOP;
  RETURN result;
END $$;
-- the COST of the one call of a query over the table
CREATE FUNCTION cost_in(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
  RETURN round((plan->0->'Plan'->>'Total Cost')::numeric / 100 / 0.0025, -2);
END $$;
SET pg_inference.observed_costs = on;

-- nothing was observed: the default, and the order of the text
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('slow', x) <> 'x3' AND infer.complete('quick', x) = 'x7'$$);
SELECT infer.call_cost('slow', 'complete'), infer.call_cost('nowhere/m', 'chat'), infer.call_cost('no such model', 'embed');
SELECT infer.call_cost('slow', 'sing');
SELECT cost_in($$SELECT infer.complete('slow', x) FROM costs$$);
SET pg_inference.call_cost = 3000;
SELECT cost_in($$SELECT infer.complete('slow', x) FROM costs$$), infer.call_cost('slow', 'complete');
RESET pg_inference.call_cost;

SELECT id FROM costs WHERE infer.complete('slow', x) <> 'x3' AND infer.complete('quick', x) = 'x7';
SELECT model, rows FROM infer.stat_models WHERE server = 'infer_c' ORDER BY model;
SELECT infer.stat_reset();

-- after some calls the quick one comes first, and only what it lets pass goes to the slow one
SELECT count(infer.complete('quick', x)) FROM costs;
\! mock set base_ms=300
SELECT count(infer.complete('slow', x)) FROM costs;
\! mock set base_ms=0
SELECT model, server, remote_model, task, requests, rows, rows_per_request, latency >= '300ms' AS is_slow,
  latency = row_latency AS single, input_tokens_per_row >= 1 AS input, output_tokens_per_row >= 1 AS output,
  last_answer BETWEEN now() - interval '1min' AND clock_timestamp() AS recent, database = current_database() AS here
FROM infer.stat_models WHERE server = 'infer_c' ORDER BY model;
SELECT infer.call_cost('slow', 'complete') > 10000 AS dear, infer.call_cost('quick', 'complete') < infer.call_cost('slow', 'complete') AS cheaper;
SELECT bool_and(cost = infer.call_cost(model, task)) FROM infer.stat_models WHERE server = 'infer_c';
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('slow', x) <> 'x3' AND infer.complete('quick', x) = 'x7'$$);
SELECT id FROM costs WHERE infer.complete('slow', x) <> 'x3' AND infer.complete('quick', x) = 'x7';
SELECT model, rows FROM infer.stat_models WHERE server = 'infer_c' ORDER BY model;
SET pg_inference.observed_costs = off;
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('slow', x) <> 'x3' AND infer.complete('quick', x) = 'x7'$$);
SELECT infer.call_cost('slow', 'complete'), infer.call_cost('quick', 'complete');
SET pg_inference.observed_costs = on;
-- with and without a name; another task is another thing
SELECT infer.call_cost('infer_c/costs/slow', 'complete') = infer.call_cost('slow', 'complete') AS same;
SELECT infer.call_cost('slow', 'chat');
-- the cost stands in the plan; a model that is no constant has the default
SELECT abs(cost_in($$SELECT infer.complete('slow', x) FROM costs$$) - infer.call_cost('slow', 'complete')) < 100 AS same;
SELECT cost_in($$SELECT infer.complete(model, x) FROM costs$$);
PREPARE by_model(text) AS SELECT infer.complete($1, x) FROM costs;
SET plan_cache_mode = force_generic_plan;
SELECT cost_in($$EXECUTE by_model('slow')$$);
SET plan_cache_mode = force_custom_plan;
SELECT cost_in($$EXECUTE by_model('slow')$$) > 10000 AS dear;
RESET plan_cache_mode;
DEALLOCATE by_model;
-- planning needs no privilege, and sends nothing
CREATE ROLE infer_costs_user;
GRANT SELECT ON costs TO infer_costs_user;
\! mock reset
SET ROLE infer_costs_user;
SELECT cost_in($$SELECT infer.complete('slow', x) FROM costs$$) > 10000 AS dear;
SELECT cost_in($$SELECT infer.complete('infer_c/costs/slow', x) FROM costs$$) > 10000 AS dear;
SELECT cost_in($$SELECT infer.complete(NULL, x) FROM costs$$) AS nothing_to_call;
SELECT cost_in($$SELECT infer.complete('', x) FROM costs$$);
SELECT cost_in($$SELECT infer.complete('/', x) FROM costs$$);
SELECT cost_in(format($$SELECT infer.complete(%L, x) FROM costs$$, repeat('infer_c/', 1000)));
RESET ROLE;
\! mock stat requests
-- nor an extension in good order
BEGIN;
ALTER TABLE infer.placement_catalog DROP CONSTRAINT placement_catalog_model, DROP CONSTRAINT placement_catalog_pkey;
ALTER TABLE infer.model_catalog DROP CONSTRAINT model_catalog_pkey;
SELECT cost_in($$SELECT infer.complete('slow', x) FROM costs$$) > 10000 AS dear;
ALTER SCHEMA infer RENAME TO infer_away;
SELECT cost_in($$SELECT infer_away.complete('slow', x) FROM costs$$) > 0 AS planned;
ROLLBACK;

-- a batch counts by its rows; direct calls count like others; failed ones do not
\! mock set base_ms=300
SELECT count(infer.embed('infer_c/costs/slow', x, '{"dimensions": 2}')) FROM costs WHERE id <= 32;
\! mock set base_ms=0
SELECT requests, rows, rows_per_request, latency >= '300ms' AS is_slow, row_latency < '200ms' AS by_row, output_tokens_per_row
FROM infer.stat_models WHERE server = 'infer_c' AND task = 'embed';
SELECT infer.chat('infer_c/costs/slow', '[{"role": "user", "content": "a"}]');
SELECT infer.call('infer_c/', '{"model": "m", "prompt": "a"}', '{"path": "/completions"}') IS NOT NULL AS answered;
SELECT infer.try_complete('infer_c/refused', 'a [[mock:400]]') IS NULL;
SELECT infer.try_complete('infer_c/failed', 'a [[mock:json]]') IS NULL;
SELECT remote_model, task, requests, rows FROM infer.stat_models WHERE server = 'infer_c' AND model IS NULL
ORDER BY remote_model, task;
-- a very long name
\! mock set base_ms=300
SELECT infer.complete('infer_c/' || repeat('m', 1000), 'a');
SELECT substring(remote_model, '^hash:') AS hashed, infer.call_cost('infer_c/' || repeat('m', 1000), 'complete') > 10000 AS dear
FROM infer.stat_models WHERE server = 'infer_c' AND remote_model LIKE 'hash:%';
\! mock set base_ms=0

-- prices order calls alike: 250 tokens in and 100 out until answers say how many
SELECT FROM infer.create_model('dear', 'complete', 'infer_c', 'costs/dear', input_price => 10, output_price => 40);
SELECT FROM infer.create_model('cheap', 'complete', 'infer_c', 'costs/cheap', input_price => 0.1, output_price => 0.4);
SELECT infer.call_cost('dear', 'complete'), infer.call_cost('cheap', 'complete');
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('dear', x) <> 'x3' AND infer.complete('cheap', x) = 'x7'$$);
SELECT id FROM costs WHERE infer.complete('dear', x) <> 'x3' AND infer.complete('cheap', x) = 'x7';
SELECT model, rows FROM infer.stat_models WHERE model IN ('cheap', 'dear') ORDER BY model;
SET pg_inference.price_seconds = 0;
SET pg_inference.observed_costs = off;
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('dear', x) <> 'x3' AND infer.complete('cheap', x) = 'x7'$$);
RESET pg_inference.price_seconds;
-- a new price counts at once, where the transaction sees it
BEGIN;
SELECT infer.alter_model('cheap', input_price => 100);
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('dear', x) <> 'x3' AND infer.complete('cheap', x) = 'x7'$$);
ROLLBACK;
SELECT order_of($$SELECT id FROM costs WHERE infer.complete('dear', x) <> 'x3' AND infer.complete('cheap', x) = 'x7'$$);
SET pg_inference.observed_costs = on;
-- of a model that runs in several places: the mean of those that have answered, by weight; each has its row
SELECT FROM infer.create_model('both', 'complete', 'infer_c', 'costs/quick');
SELECT infer.call_cost('both', 'complete') = infer.call_cost('quick', 'complete') AS one;
SELECT FROM infer.add_placement('both', 'infer_c', 'costs/slow');
SELECT infer.call_cost('both', 'complete') > infer.call_cost('quick', 'complete') AS more,
  infer.call_cost('both', 'complete') < infer.call_cost('slow', 'complete') AS less;
SELECT FROM infer.add_placement('both', 'infer_c', 'costs/unheard of', weight => 1000000);
SELECT infer.call_cost('both', 'complete') > infer.call_cost('quick', 'complete') AS more,
  infer.call_cost('both', 'complete') < infer.call_cost('slow', 'complete') AS less;
SELECT FROM infer.alter_placement('both', 'infer_c', 'costs/slow', weight => 10000);
SELECT infer.call_cost('both', 'complete') = infer.call_cost('slow', 'complete') AS nearly_all;
SELECT remote_model, task FROM infer.stat_models WHERE model = 'both' ORDER BY remote_model, task;
SELECT infer.drop_model('both');
-- also of one that comes with its version, as a restore has it
SELECT FROM infer.create_model('both', 'complete');
SELECT infer.call_cost('both', 'complete');
INSERT INTO infer.placement_catalog (model, server, remote_model, set_version) VALUES ('both', 'infer_c', 'costs/slow', 1);
SELECT infer.call_cost('both', 'complete') = infer.call_cost('slow', 'complete') AS same;
SELECT infer.drop_model('both');
-- dropped, and made anew
BEGIN;
SELECT infer.drop_model('slow');
SELECT infer.call_cost('slow', 'complete');
SELECT FROM infer.create_model('slow', 'complete', 'infer_c', 'other');
SELECT infer.call_cost('slow', 'complete');
SELECT infer.alter_model('slow', remote_model => 'costs/slow');
SELECT infer.call_cost('slow', 'complete') > 10000 AS dear;
ROLLBACK;

-- more models than there is room for: the oldest go, calls go on
SELECT count(infer.complete('infer_c/many' || i, 'a')) FROM generate_series(1, 1500) AS i;
SELECT count(*) BETWEEN 300 AND 512 AS bounded, count(*) FILTER (WHERE substring(remote_model, 5)::int > 750) > 250 AS young
FROM infer.stat_models WHERE remote_model ~ '^many\d+$';

-- all is forgotten
SELECT infer.stat_reset();
SELECT count(*) FROM infer.stat_models;
SELECT infer.call_cost('slow', 'complete'), infer.call_cost('quick', 'complete');
-- servers that are gone, renamed
\! mock set base_ms=300
SELECT infer.complete('quick', 'a');
SELECT infer.call_cost('quick', 'complete') > 10000 AS dear;
ALTER SERVER infer_c RENAME TO infer_c2;
SELECT infer.call_cost('quick', 'complete'), infer.call_cost('infer_c2/costs/quick', 'complete') > 10000 AS dear;
SELECT model, server FROM infer.stat_models;
SELECT infer.complete('infer_c2/costs/quick', 'b');
SELECT model, server, requests FROM infer.stat_models;
DROP SERVER infer_c2;
SELECT model, server, cost FROM infer.stat_models;
SELECT infer.stat_reset();

SELECT infer.drop_model(name) FROM infer.models WHERE name IN ('quick', 'slow', 'dear', 'cheap');
DROP FUNCTION order_of, cost_in;
DROP TABLE costs;
DROP ROLE infer_costs_user;
