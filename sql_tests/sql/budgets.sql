-- Budgets of a statement, and of a role's day: checked before anything is sent, exact for calls; who
-- is held to which, and what comes back. Concurrent sessions, restarts and crashes: t/130_usage.pl.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
SELECT current_user AS me \gset
CREATE SERVER infer_b FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'budgets', max_batch_size '8');
CREATE ROLE infer_budget_a LOGIN;
CREATE ROLE infer_budget_b LOGIN;
CREATE ROLE infer_budget_c LOGIN;
GRANT infer_budget_b TO infer_budget_a;
GRANT USAGE ON FOREIGN SERVER infer_b TO infer_budget_a, infer_budget_b, infer_budget_c;
SELECT FROM infer.create_model('b_priced', 'complete', 'infer_b', 'p', 1000, 10000);
SELECT FROM infer.create_model('b_half', 'complete', 'infer_b', 'h', input_price => 1000);
SELECT FROM infer.create_model('b_free', 'complete', 'infer_b', 'f', 0, 0);
SELECT FROM infer.create_model('b_vectors', 'embed', 'infer_b', 'v', input_price => 1000);
CREATE FUNCTION bdefiner(q text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT infer.complete('b_free', q) $$;
CREATE FUNCTION battempt(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; detail text; hint text;
BEGIN
  EXECUTE query INTO result;
  RETURN result;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN format(E'%s: %s\n  %s\n  %s', SQLSTATE, SQLERRM, detail, hint);
END $$;
CREATE VIEW bspent AS
  SELECT sum(attempts) AS attempts, sum(calls) AS calls, sum(input_tokens + output_tokens) AS tokens, round(sum(cost)::numeric, 6) AS cost
  FROM infer.stat_usage WHERE usename = session_user AND datname = current_database() AND server = 'infer_b';
GRANT SELECT ON bspent TO PUBLIC;
\pset format unaligned
\pset tuples_only on
\pset null (null)
-- 2 tokens of a prompt of 8 bytes and 10 of its answer: 0.102 with these prices
\! mock set tokens=10 retry_after=0

--
-- A statement
--
\connect - infer_budget_c
-- fault_F63, fault_F66: it stops at the limit, says which, and what was spent is there to be seen
SET pg_inference.statement_cost_budget = 0.25;
SELECT battempt($$SELECT string_agg(infer.complete('b_priced', '1234567' || i, '{"max_tokens": 10}'), '') IS NOT NULL FROM generate_series(1, 2) AS i$$);
SET pg_inference.enable = off;
SELECT battempt($$SELECT infer.complete('b_priced', 'a234567' || i, '{"max_tokens": 10}') FROM generate_series(1, 9) AS i OFFSET 5$$);
RESET pg_inference.enable;
SELECT * FROM bspent;
-- fault_F67: NULL, and why, where that is asked for; what fits is there
SELECT count(c), count(*) FROM (SELECT infer.complete('b_priced', 'b234567' || i, '{"max_tokens": 10}', '{"on_error": "null"}') AS c FROM generate_series(1, 5) AS i OFFSET 0) AS s;
SELECT (o).reason, (o).execution, count(*) FROM (SELECT infer.try_complete('b_priced', 'c234567' || i, '{"max_tokens": 10}') AS o FROM generate_series(1, 5) AS i OFFSET 0) AS s GROUP BY 1, 2 ORDER BY 1;
SET pg_inference.enable = off;
SELECT (o).reason, (o).execution, count(*) FROM (SELECT infer.try_complete('b_priced', 'd234567' || i, '{"max_tokens": 10}') AS o FROM generate_series(1, 5) AS i OFFSET 0) AS s GROUP BY 1, 2 ORDER BY 1;
RESET pg_inference.enable;
-- a batch is cut where the budget ends: five texts of four bytes are six tokens
SET pg_inference.statement_cost_budget = 0.006;
\! mock reset
SELECT count((o).value), string_agg(DISTINCT (o).reason, ' ') FROM (SELECT infer.try_embed('b_vectors', '123' || i, '{"dimensions": 4}') AS o FROM generate_series(1, 8) AS i OFFSET 0) AS s;
\! mock stat requests items
-- money that cannot be counted is not spent: prices of both kinds are needed, but for embeddings
SELECT battempt($$SELECT infer.complete('b_half', 'x')$$);
SELECT battempt($$SELECT infer.complete('infer_b/p', 'x')$$);
SELECT infer.complete('b_free', 'x') IS NOT NULL;
RESET pg_inference.statement_cost_budget;
-- requests on their way count: four at once do not take what two may
SET pg_inference.statement_token_budget = 24; -- one takes 12, and 13 as long as it is not there
SELECT (o).reason, count(*) FROM (SELECT infer.try_complete('b_priced', 'e234567' || i, '{"max_tokens": 10}') AS o FROM generate_series(1, 4) AS i OFFSET 0) AS s GROUP BY 1 ORDER BY 1;
-- and what was refused is given back
SET pg_inference.statement_token_budget = 26;
SELECT string_agg(coalesce((o).reason, 'answered'), ' ' ORDER BY i) FROM (SELECT i, infer.try_complete('b_priced', CASE WHEN i < 4 THEN '[[mock:403]]' ELSE 'f234567' END || i, '{"max_tokens": 10}', '{"max_concurrency": 1}') AS o FROM generate_series(1, 5) AS i OFFSET 0) AS s;
RESET pg_inference.statement_token_budget;

--
-- A role's day
--
\connect - :me
ALTER ROLE infer_budget_a SET pg_inference.daily_call_budget = 5;
\connect - infer_budget_a
-- nobody gives himself more
SET pg_inference.daily_call_budget = 0;
SELECT set_config('pg_inference.daily_call_budget', '0', false);
RESET pg_inference.daily_call_budget;
ALTER ROLE infer_budget_a SET pg_inference.daily_call_budget = 1000;
ALTER ROLE infer_budget_a RESET pg_inference.daily_call_budget;
ALTER ROLE infer_budget_a RESET ALL;
SELECT infer.reset_usage();
\connect - infer_budget_a
SHOW pg_inference.daily_call_budget;
-- equal inputs are one call, a failed one that was not executed is none
SELECT count(infer.complete('b_free', 'same')) FROM generate_series(1, 20);
SELECT count(infer.complete('b_free', '[[mock:403]]' || i, '{}', '{"on_error": "null"}')) FROM generate_series(1, 20) AS i;
-- one that may have been is one, and so is a batch's row
SELECT reason FROM infer.try_complete('b_free', '[[mock:reset]]');
-- it counts over databases, sessions and roles: neither SET ROLE nor a function of another's leads out, and nobody else pays
\connect - infer_budget_a
SET ROLE infer_budget_b;
SELECT infer.complete('b_free', 'as b') IS NOT NULL;
RESET ROLE;
SELECT bdefiner('as its owner') IS NOT NULL;
\! mock reset
SELECT count((o).value), string_agg(DISTINCT (o).reason || ' ' || (o).execution, ' ') FROM (SELECT infer.try_embed('b_vectors', 'day ' || i, '{"dimensions": 4}') AS o FROM generate_series(1, 4) AS i OFFSET 0) AS s;
\! mock stat requests items
SELECT battempt($$SELECT infer.complete('b_free', 'one more')$$);
SET ROLE infer_budget_b;
SELECT battempt($$SELECT infer.complete('b_free', 'one more')$$);
SELECT battempt($$SELECT bdefiner('one more')$$);
RESET ROLE;
SELECT infer.complete('b_free', 'one more', '{}', '{"on_error": "null"}');
SELECT calls FROM bspent;
\connect - infer_budget_b
SELECT infer.complete('b_free', 'b has none') IS NOT NULL;
-- more, by somebody who may: what was spent still counts
\connect - :me
ALTER ROLE infer_budget_a SET pg_inference.daily_call_budget = 6;
\connect - infer_budget_a
SELECT count(infer.complete('b_free', 'sixth ' || i, '{}', '{"on_error": "null"}')) FROM generate_series(1, 3) AS i;
-- the next day
\connect - :me
ALTER ROLE infer_budget_a SET pg_inference.usage_day_offset = 3;
\connect - infer_budget_a
SELECT count(infer.complete('b_free', 'tomorrow ' || i, '{}', '{"on_error": "null"}')) FROM generate_series(1, 9) AS i;
-- and not the day before again
\connect - :me
ALTER ROLE infer_budget_a SET pg_inference.usage_day_offset = 2;
\connect - infer_budget_a
SELECT count(infer.complete('b_free', 'back ' || i, '{}', '{"on_error": "null"}')) FROM generate_series(1, 3) AS i;

-- tokens: guessed before, corrected after; what may have been executed stays as it was guessed
\connect - :me
ALTER ROLE infer_budget_b SET pg_inference.daily_token_budget = 150;
\connect - infer_budget_b
SELECT calls, tokens FROM bspent;
SELECT battempt($$SELECT infer.complete('infer_b/g', 'a234567b', '{"max_tokens": 200}')$$);
SELECT reason FROM infer.try_complete('infer_b/g', '[[mock:reset]]', '{"max_tokens": 90}');
SELECT tokens FROM bspent;
SELECT reason FROM infer.try_complete('infer_b/g', '[[mock:403]]', '{"max_tokens": 20}');
SELECT infer.complete('infer_b/g', 'b234567b', '{"max_tokens": 10}') IS NOT NULL;
SELECT tokens FROM bspent;
SELECT battempt($$SELECT infer.complete('infer_b/k', 'b234567b', '{"max_tokens": 40}')$$);

-- money
\connect - :me
ALTER ROLE infer_budget_c SET pg_inference.daily_cost_budget = 2;
\connect - infer_budget_c
SELECT cost FROM bspent \gset
SELECT :cost < 2 AND :cost > 1 AS below;
SELECT battempt($$SELECT infer.complete('infer_b/p', 'x')$$);
SELECT count(infer.complete('b_priced', 'g234567' || i, '{}', '{"on_error": "null"}')) BETWEEN 1 AND 8 FROM generate_series(1, 9) AS i;
SELECT cost > 1.9 AND cost <= 2 AS below FROM bspent;
SELECT battempt($$SELECT infer.complete('b_priced', 'h2345678')$$) ~ 'pg_inference.daily_cost_budget is 2, used are 1.9[0-9]* today, and the next call may take 0.10[23]';
-- nobody gets around it by prices of his own
SELECT battempt($$SELECT infer.create_model('b_mine', 'complete', 'infer_b', 'p', 0, 0)$$);
SELECT FROM infer.create_model('b_mine', 'complete', 'infer_b', 'p');
SELECT battempt($$SELECT infer.alter_model('b_mine', output_price => 0)$$);
SELECT battempt($$SELECT infer.complete('b_mine', 'x')$$);

\connect - :me
\! mock set defaults
DROP VIEW bspent;
DROP FUNCTION bdefiner, battempt;
SELECT count(infer.drop_model(name)::text) FROM infer.models WHERE server = 'infer_b';
DROP OWNED BY infer_budget_a, infer_budget_b, infer_budget_c;
DROP SERVER infer_b;
DROP ROLE infer_budget_a;
DROP ROLE infer_budget_b;
DROP ROLE infer_budget_c;
