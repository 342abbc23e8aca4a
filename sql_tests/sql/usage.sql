-- What calls have taken: infer.stat_usage, visible at once, by role and model; who sees what.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
SELECT current_user AS me \gset
CREATE SERVER infer_u FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'usage', max_batch_size '4');
CREATE SERVER infer_u_shut FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1');
CREATE ROLE infer_usage_a LOGIN;
CREATE ROLE infer_usage_b LOGIN;
GRANT infer_usage_b TO infer_usage_a;
GRANT USAGE ON FOREIGN SERVER infer_u, infer_u_shut TO infer_usage_a, infer_usage_b;
SELECT FROM infer.create_model('priced', 'complete', 'infer_u', 'p', 2, 10);
SELECT FROM infer.create_model('gratis', 'complete', 'infer_u', 'g', 0, 0);
SELECT FROM infer.create_model('half', 'complete', 'infer_u', 'h', input_price => 2);
SELECT FROM infer.create_model('vectors', 'embed', 'infer_u', 'v', input_price => 4);
CREATE FUNCTION udefiner(q text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT infer.complete('priced', q) $$;
CREATE VIEW spent AS
  SELECT remote_model, task, sum(requests) AS requests, sum(attempts) AS attempts, sum(failed) AS failed, sum(calls) AS calls,
    sum(memo_hits) AS memo_hits, sum(input_tokens) AS input, sum(output_tokens) AS output, sum(estimated) AS estimated,
    round(sum(cost)::numeric, 9) AS cost, sum(unpriced) AS unpriced
  FROM infer.stat_usage WHERE usename LIKE 'infer_usage_%' AND datname = current_database() AND server = 'infer_u'
  GROUP BY remote_model, task ORDER BY remote_model COLLATE "C", task;
GRANT SELECT ON spent TO PUBLIC;
\pset format unaligned
\pset null (null)
\! mock set tokens=5 retry_after=0

-- fault_F63: the session that spends sees it at once; equal inputs are a memo hit, and cost nothing
\connect - infer_usage_a
\! mock reset
SELECT infer.complete('priced', '12345678') IS NOT NULL AS answered;
SELECT * FROM spent;
SELECT count(infer.complete('priced', 'text ' || i % 3)) FROM generate_series(1, 9) AS i;
-- one that is not answered is not asked again, either
SELECT count(infer.complete('gratis', '[[mock:403]]' || i % 2, '{}', '{"on_error": "null"}')) FROM generate_series(1, 6) AS i;
SELECT * FROM spent;
SELECT sum(requests) AS requests, sum(attempts) AS attempts FROM spent \gset
\echo :requests :attempts
\! mock stat requests
-- fault_F54: what is shown as attempts are the transmissions
\! mock set fault_429=40
SELECT count(infer.complete('half', 'again ' || i, '{}', '{"max_attempts": 20}')) FROM generate_series(1, 10) AS i;
\! mock set fault_429=0
SELECT requests, calls, attempts > requests AS repeated, failed = attempts - requests AS refused, cost, unpriced FROM spent WHERE remote_model = 'h';
SELECT sum(attempts) AS attempts FROM spent \gset
\echo requests=:attempts
\! mock stat requests
-- a batch that is refused and sent in parts: each of these is another request, its rows are no further calls
SELECT count(infer.embed('vectors', CASE i WHEN 3 THEN '[[mock:400]]' ELSE 'v' || i END, '{"dimensions": 4}', '{"on_error": "null", "dispatch_batch_size": 4}'))
FROM generate_series(1, 4) AS i;
SELECT * FROM spent WHERE remote_model = 'v';
-- without prices, and by another task
SELECT infer.call('infer_u/', '{"model": "x", "messages": [{"role": "user", "content": "12345678"}]}', '{"path": "/chat/completions"}') IS NOT NULL AS answered;
SELECT * FROM spent WHERE task = 'call';
-- what may have been executed without saying what it took is estimated, and so it says
SELECT reason, execution FROM infer.try_complete('infer_u/e', '[[mock:reset]]', '{"max_tokens": 7}');
SELECT reason, execution FROM infer.try_complete('infer_u/f', '[[mock:json]]', '{"max_tokens": 7}');
SELECT * FROM spent WHERE remote_model IN ('e', 'f');
-- what never left is nothing
SELECT reason, execution FROM infer.try_chat('infer_u/n', '{"no": "list"}');
SELECT reason, execution FROM infer.try_complete('infer_u_shut/n', 'a', '{}', '{"max_attempts": 1}');
SELECT count(*) FROM spent WHERE remote_model = 'n';
SELECT count(*) FROM infer.stat_usage WHERE server = 'infer_u_shut';
-- hits of calls that are made one by one are told at the end of their statement at the latest
DO $$ BEGIN FOR i IN 1 .. 5 LOOP PERFORM infer.complete('infer_u/single', 'a'); END LOOP; END $$;
SELECT attempts, memo_hits FROM spent WHERE remote_model = 'single';
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 5 LOOP PERFORM infer.complete('infer_u/single', 'a'); END LOOP; RAISE division_by_zero; END $$;
ROLLBACK;
SELECT attempts, memo_hits FROM spent WHERE remote_model = 'single';

-- who pays is who sits there, whoever he says he is
SELECT udefiner('as its owner') IS NOT NULL AS answered;
SET ROLE infer_usage_b;
SELECT infer.complete('infer_u/setrole', 'as another') IS NOT NULL AS answered;
RESET ROLE;
SELECT usename, sum(attempts) FROM infer.stat_usage WHERE remote_model IN ('p', 'setrole') AND usename LIKE 'infer_usage_%' GROUP BY usename, remote_model ORDER BY 2;

-- one sees one's own, and of those whom one may be
\connect - infer_usage_b
SELECT infer.complete('infer_u/b', 'b') IS NOT NULL AS answered;
SELECT DISTINCT usename FROM infer.stat_usage;
\connect - infer_usage_a
SELECT DISTINCT usename FROM infer.stat_usage ORDER BY usename;
\connect - :me
GRANT pg_read_all_stats TO infer_usage_b;
\connect - infer_usage_b
SELECT count(*) > 5 AS all_of_them FROM infer.stat_usage WHERE usename = 'infer_usage_a';

-- another day, another row
\connect - :me
ALTER ROLE infer_usage_b SET pg_inference.usage_day_offset = 10;
\connect - infer_usage_b
SELECT infer.complete('infer_u/b', 'b') IS NOT NULL AS answered;
SELECT attempts, day - min(day) OVER () IN (10, 11) AS later FROM infer.stat_usage WHERE usename = 'infer_usage_b' ORDER BY day;
SET pg_inference.usage_day_offset = 0;

\connect - :me
\! mock set defaults
DROP VIEW spent;
DROP FUNCTION udefiner;
SELECT count(infer.drop_model(name)::text) FROM infer.models WHERE server = 'infer_u';
DROP OWNED BY infer_usage_a, infer_usage_b;
DROP SERVER infer_u, infer_u_shut;
DROP ROLE infer_usage_a;
DROP ROLE infer_usage_b;
