-- Where a request goes, and why not elsewhere: infer.explain_route(), times among a call's parameters
-- (ts_args), and classification functions (class_fns).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
SET timezone = 'UTC';
\pset format unaligned
\pset tuples_only on

CREATE SERVER route_a1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', node 'route_a', admission_key 'route');
CREATE SERVER route_a2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', node 'route_a', admission_key 'route');
CREATE SERVER route_b1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', node 'route_b', admission_key 'route');
CREATE SERVER route_b2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', node 'route_b', admission_key 'route');
CREATE ROLE route_user;
SELECT FROM infer.create_model('route', 'complete');
SELECT FROM unnest('{route_a1,route_a2,route_b1,route_b2}'::text[]) s, infer.add_placement('route', s, 'mock');

-- who is left, sorted, and who is in the plan; else why nobody is
CREATE FUNCTION left_by(header jsonb, parameters jsonb DEFAULT '{}', model text DEFAULT 'route') RETURNS text LANGUAGE sql AS $$
	WITH rows AS (SELECT replace(r.server, 'route_', '') AS s, r.* FROM infer.explain_route(model, header, parameters) r)
	SELECT coalesce((SELECT string_agg(s, ' ' ORDER BY s) || coalesce(' / ' || string_agg(s, ' ' ORDER BY s)
			FILTER (WHERE verdict = 'chosen' AND (SELECT count(*) FROM rows WHERE phase = 3) <> 1), '') FROM rows WHERE phase = 3),
		(SELECT verdict || ': ' || reason FROM rows WHERE server IS NULL AND phase = 1)) $$;
CREATE FUNCTION why(header jsonb, server text, model text DEFAULT 'route') RETURNS text LANGUAGE sql AS $$
	SELECT verdict || ' ' || coalesce(reason, '') FROM infer.explain_route(model, header) r WHERE r.server = 'route_' || $2 $$;

-- all that a row tells
\pset tuples_only off
SELECT phase, server, node, verdict, reason, remote_model, service_class, version, tier
	FROM infer.explain_route('route', '{"route_prefs": {"exclude": ["route_a1"], "prefer": ["route_b2"]}}');
SELECT phase, node, verdict, reason, score FROM infer.explain_route('route', '{"nodes": ["route_b"]}') WHERE phase = 2;
\pset tuples_only on

-- gw_3: the table of preferences
SELECT left_by('{"route_prefs": {"include": ["route_b1"]}}');
SELECT why('{"route_prefs": {"include": ["route_b1"]}}', 'b2');
SELECT left_by('{"route_prefs": {"include": ["route_a1", "route_b1"]}}');
SELECT left_by('{"route_prefs": {"include": ["nowhere"]}}');
SELECT left_by('{"route_prefs": {"include": ["route_b1"], "exclude": ["route_b"]}}');
SELECT left_by('{"route_prefs": {"exclude": ["route_a1", "route_b"]}}');
SELECT why('{"route_prefs": {"exclude": ["route_a1"]}}', 'a1');
SELECT left_by('{"route_prefs": {"exclude": ["route_a", "route_b"]}}');
SELECT left_by('{"route_prefs": {"prefer": ["route_b2"]}}');
SELECT left_by('{"route_prefs": {"avoid": ["route_a1", "route_a2", "route_b2"]}}');
SELECT left_by('{"route_prefs": {"exclude": ["route_a"], "prefer": ["route_b1"]}}');
SELECT left_by('{"nodes": ["route_a"], "route_prefs": {"avoid": ["route_a2"]}}');
SELECT left_by('{"nodes": ["elsewhere"]}');
SELECT left_by('{"node": ["route_a"]}');
SELECT left_by('[]');
SELECT left_by('{}', model => 'nothing');
-- the setting and the model are weaker places
SET pg_inference.routing = '{"route_prefs": {"include": ["route_a2"]}}';
SELECT left_by('{}');
SELECT left_by('{"route_prefs": {"include": ["route_b2"]}}');
SELECT FROM infer.alter_model('route', routing => '{"nodes": ["route_b"]}');
SELECT left_by('{}');
RESET pg_inference.routing;
SELECT left_by('{"route_prefs": {"prefer": ["route_b1"]}}');
SELECT FROM infer.alter_model('route', reset => '{routing}');

-- fail_P50: what is near comes first
SET pg_inference.locality = 'route_b';
SELECT node FROM infer.explain_route('route') WHERE phase = 2;
SET pg_inference.locality = 'route_a';
SELECT node FROM infer.explain_route('route') WHERE phase = 2;
RESET pg_inference.locality;

-- gw_3: feeds, ranges of time, versions
SELECT FROM infer.alter_placement('route', 'route_a1', feeds => '{news,mail}', ts_range => '[2024-01-01,2025-01-01)', version => '1.00');
SELECT FROM infer.alter_placement('route', 'route_a2', feeds => '{mail}', ts_range => '[2025-01-01,)', version => '1.02');
SELECT FROM infer.alter_placement('route', 'route_b1', version => '2.00', is_primary => true);
SELECT FROM infer.alter_placement('route', 'route_b2', version => '1.00');
SELECT left_by('{"test_ctl": "ANY", "feeds": ["mail"], "route_prefs": {"prefer": ["route_a2"]}}');
SELECT left_by('{"test_ctl": "ANY", "feeds": ["mail", "news"]}');
SELECT left_by('{"test_ctl": "ANY", "feeds": ["weather"]}');
SELECT left_by('{"test_ctl": "ANY", "nodes": ["route_a"], "ts_range": "[2024-12-31,2025-01-01)"}');
SELECT left_by('{"test_ctl": "ANY", "nodes": ["route_a"], "ts_range": "[2025-01-01,2026-01-01)"}');
SELECT left_by('{"test_ctl": "ANY", "nodes": ["route_a"], "ts_range": "[2020-01-01,2021-01-01)"}');
SELECT left_by('{"version": "2.00"}');
SELECT left_by('{"version": "3.00"}');
SELECT left_by('{"nodes": ["route_a"]}'), left_by('{"nodes": ["route_a"], "test_ctl": "TEST"}');
SELECT FROM infer.alter_model('route', min_version => '1.01');
SELECT left_by('{}'), left_by('{"test_ctl": "TEST"}'), left_by('{"version": "1.00", "nodes": ["route_a"]}');
SELECT why('{}', 'a1'), why('{}', 'b1');
SET pg_inference.test_percent = 100;
SELECT left_by('{"test_ctl": "RANDOM"}');
SET pg_inference.test_percent = 0;
SELECT left_by('{"test_ctl": "RANDOM"}');
RESET pg_inference.test_percent;
SELECT FROM infer.alter_model('route', min_version => '3.00');
SELECT left_by('{}');
SELECT FROM infer.alter_model('route', reset => '{min_version}');
SELECT left_by('{"test_ctl": "ANY", "is_mut": true}');

-- gw_3: service classes
SELECT FROM (VALUES ('route_a1', 'chat'), ('route_a2', 'rerank'), ('route_b1', 'chat'), ('route_b2', 'judge')) v (s, c), infer.alter_placement('route', s, version => '1.00', service_class => c);
SELECT left_by('{"service_classes": ["judge"]}');
SELECT left_by('{"service_classes": ["rerank", "chat"]}');
SELECT left_by('{"service_classes": ["rerank", "judge"]}');
SELECT left_by('{"service_classes": ["rerank", "judge"], "is_solo": true}');
SELECT left_by('{"service_classes": ["rerank", "paint"]}');

-- a placement that the caller has no right to
GRANT USAGE ON FOREIGN SERVER route_b2 TO route_user;
SET ROLE route_user;
SELECT left_by('{}'), why('{}', 'a1');
SELECT left_by('{"route_prefs": {"include": ["route_a1"]}}');
SELECT left_by('{}', model => 'route_b2/mock'), left_by('{}', model => 'route_a1/mock');
RESET ROLE;
-- one without any
SELECT FROM infer.create_model('route_empty', 'complete');
SELECT left_by('{}', model => 'route_empty');

-- gw_3: ts_args. One: from the earliest to the latest of it; two: from the first to the second; null is without a bound
SELECT FROM infer.create_model('route_one', 'complete', ts_args => '{at}');
SELECT FROM infer.create_model('route_two', 'complete', ts_args => '{since,until}');
SELECT FROM unnest('{route_one,route_two}'::text[]) m, infer.add_placement(m, 'route_a1', 'mock', ts_range => '[2024-01-01,2025-01-01)');
SELECT FROM unnest('{route_one,route_two}'::text[]) m, infer.add_placement(m, 'route_b1', 'mock', ts_range => '[2025-01-01,2026-01-01)');
SELECT p, regexp_replace(left_by('{}', p::jsonb, 'route_one'), ' /.*', '') FROM unnest(ARRAY[
	'{}', '{"at": "2024-05-05"}', '{"at": "2025-01-01"}', '{"at": ["2025-02-02", "2025-03-03"]}',
	'{"at": ["2025-02-02", "2024-03-03"]}', '{"at": null}', '{"at": []}', '{"at": "2030-01-01"}', '{"at": ["2024-02-02", null]}',
	'{"at": "infinity"}', '{"at": "2024-12-31 23:59:59.999999"}']) p;
SELECT p, regexp_replace(left_by('{}', p::jsonb, 'route_two'), ' /.*', '') FROM unnest(ARRAY[
	'{}', '{"since": "2024-05-05", "until": "2024-06-06"}', '{"since": "2024-05-05", "until": "2025-01-01"}',
	'{"since": "2024-05-05"}', '{"since": "2025-05-05"}', '{"until": "2024-05-05"}', '{"since": null, "until": "2024-05-05"}',
	'{"since": "2025-05-05", "until": null}', '{"since": ["2026-05-05", "2025-05-05"], "until": "2027-01-01"}']) p;
SELECT left_by('{"ts_range": "[2025-05-05,2025-05-06)"}', '{"at": "2024-05-05"}', 'route_one');
SELECT left_by('{}', '{"at": 7}', 'route_one');
SELECT left_by('{}', '{"at": {"x": 1}}', 'route_one');
SELECT left_by('{}', '{"at": "soon"}', 'route_one');

-- a call reads them as well
SELECT infer.complete('route_one', 'x', '{"at": 7}');
SELECT p, (infer.try_complete('route_one', 'x', p::jsonb)).server FROM unnest(ARRAY['{"at": "2024-05-05"}', '{"at": "2025-05-05"}']) p;

-- gw_3: class_fns run in order, each gets what the last one returned
CREATE TABLE route_calls (fn text, model text, header jsonb, args jsonb, config jsonb);
GRANT INSERT, SELECT ON route_calls TO route_user;
CREATE FUNCTION route_first(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$
	INSERT INTO route_calls VALUES ('first', $1, $2, $3, $4);
	SELECT $2 || '{"nodes": ["route_a", "route_b"]}' || jsonb_build_object('test_ctl', coalesce($3 ->> 'which', 'ANY')) $$;
CREATE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$
	INSERT INTO route_calls VALUES ('second as ' || current_user, $1, $2, $3, $4);
	SELECT $2 || '{"nodes": ["route_b"]}' $$;
SELECT FROM infer.create_model('route_classed', 'complete', routing => '{"duration": "LONG", "timeout": "7s", "route_prefs": {"avoid": ["route_a1"], "prefer": ["route_b1"]}}',
	class_fns => '{"route_first(text,jsonb,jsonb,jsonb)","route_second(text,jsonb,jsonb,jsonb)"}');
SELECT FROM unnest('{route_a1,route_b1,route_b2}'::text[]) s, infer.add_placement('route_classed', s, 'mock', service_class => 'chat');
SET pg_inference.routing = '{"duration": "SHORT"}';
SELECT left_by('{"route_prefs": {"prefer": ["route_b2"]}, "feeds": []}', '{"which": "PROD"}', 'route_classed');
RESET pg_inference.routing;
SELECT fn, model, header, args FROM route_calls;
SELECT config - 'set_version' FROM route_calls LIMIT 1;
TRUNCATE route_calls;
-- once in a statement for each header and parameters, whatever the number of rows, and of calls of other models
SELECT count(infer.complete('route_classed', 'row ' || i)) FROM generate_series(1, 20) i;
SELECT fn, count(*) FROM route_calls GROUP BY 1 ORDER BY 1;
TRUNCATE route_calls;
SELECT count(infer.complete('route_classed', 'row ' || i, jsonb_build_object('seed', i % 3), '{"streaming_mode": "per_row"}')) FROM generate_series(1, 20) i;
SELECT fn, args, header -> 'streaming_mode' AS no_option, count(*) FROM route_calls GROUP BY 1, 2, 3 ORDER BY 1, 2;
TRUNCATE route_calls;
-- not when a plan is made, or shown
\o /dev/null
EXPLAIN SELECT infer.complete('route_classed', 'row');
\o
SELECT count(*) FROM route_calls;
-- with the rights of the caller, who must be allowed to run them
GRANT USAGE ON FOREIGN SERVER route_b1 TO route_user;
SET ROLE route_user;
SELECT infer.complete('route_classed', 'x') IS NOT NULL;
SELECT fn FROM route_calls;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION route_second FROM PUBLIC;
SET ROLE route_user;
SELECT infer.complete('route_classed', 'y');
SELECT infer.try_complete('route_classed', 'y');
RESET ROLE;
GRANT EXECUTE ON FUNCTION route_second TO PUBLIC;
-- in the caller's transaction
TRUNCATE route_calls;
BEGIN;
SELECT infer.complete('route_classed', 'z') IS NOT NULL;
SELECT count(*) FROM route_calls;
ROLLBACK;
SELECT count(*) FROM route_calls;

-- an error in one fails the request before anything is sent
\! mock reset
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not on a Monday' USING ERRCODE = 'P0042'; END $$;
SELECT infer.complete('route_classed', 'refused');
\echo :LAST_ERROR_SQLSTATE
SELECT left_by('{}', model => 'route_classed');
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
SELECT infer.complete('route_classed', 'refused');
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '[]'::jsonb $$;
SELECT infer.complete('route_classed', 'refused');
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"prority": "LOW"}'::jsonb $$;
SELECT infer.complete('route_classed', 'refused');
\! mock stat requests
-- what they return is the header of the call
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT $2 || '{"timeout": "50ms"}' $$;
CREATE FUNCTION route_third(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT $2 - 'nodes' || jsonb_build_object('route_prefs', jsonb_build_object('include', jsonb_build_array($3 ->> 'to'))) $$;
SELECT FROM infer.create_model('route_told', 'complete', class_fns => '{"route_third(text,jsonb,jsonb,jsonb)"}');
SELECT FROM unnest('{route_a1,route_b1,route_b2}'::text[]) s, infer.add_placement('route_told', s, 'mock');
SELECT (infer.try_complete('route_told', 'x', jsonb_build_object('to', s))).server FROM unnest('{route_a1,route_b1,route_b2}'::text[]) s;
\! mock set base_ms=5000
SELECT (infer.try_complete('route_classed', 'slow', '{}', '{"timeout": "1min"}')).reason;
\! mock reset
-- one that calls a model, this one included, and one that never comes to an end
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE WHEN $3 ? 'inner' THEN $2 ELSE $2 || jsonb_build_object('is_mut', infer.complete($1, 'inner', '{"inner": 1}') IS NOT NULL) END $$;
SELECT infer.complete('route_classed', 'outer') IS NOT NULL;
CREATE OR REPLACE FUNCTION route_second(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN RETURN CASE WHEN infer.complete($1, 'inner') IS NULL THEN $2 END; END $$;
\set VERBOSITY sqlstate
SELECT infer.complete('route_classed', 'outer');
\set VERBOSITY default
DROP FUNCTION route_second;
SELECT infer.complete('route_classed', 'outer');
-- placements whose server is gone, or has no url
DROP SERVER route_a1;
ALTER SERVER route_b1 OPTIONS (DROP url);
SELECT phase, server, node, verdict, reason, remote_model, tier FROM infer.explain_route('route') WHERE phase = 1;
SELECT why('{}', b) = 'eliminated ' || problem FROM unnest('{a1,b1}'::text[]) b JOIN infer.placements ON server = 'route_' || b AND model = 'route';
SELECT infer.ref('route', server => 'route_a1');
SELECT infer.ref('route', server => 'route_b1');
SELECT count(infer.drop_model(name)::text) FROM infer.models WHERE name LIKE 'route%';
DROP FUNCTION left_by, why, route_first, route_third;
DROP TABLE route_calls;
DROP SERVER route_a2, route_b1, route_b2 CASCADE;
DROP ROLE route_user;
