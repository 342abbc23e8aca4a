-- A model on servers with different request_timeout: each attempt has that of its own server.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_t1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', request_timeout '150ms');
CREATE SERVER infer_t2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', request_timeout '30s');
CREATE SERVER infer_t3 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', request_timeout '150ms');
SELECT FROM infer.create_model('infer_t', 'complete', 'infer_t1', 'm');
SELECT FROM infer.add_placement('infer_t', 'infer_t2');
SELECT FROM infer.create_model('infer_t_other', 'complete', 'infer_t2', 'm');
SELECT FROM infer.add_placement('infer_t_other', 'infer_t3');
CREATE FUNCTION pg_temp.asked(model text, first text, options jsonb DEFAULT '{}') RETURNS text BEGIN ATOMIC
	SELECT concat_ws(' ', server, coalesce(reason, 'answered'), execution, attempts)
		FROM infer.try_complete(model, 'asked ' || first || options::text, '{}',
			options || jsonb_build_object('route_prefs', jsonb_build_object('prefer', jsonb_build_array(first))));
END;

\! mock set base_ms=600
SELECT pg_temp.asked('infer_t', 'infer_t1');
SELECT pg_temp.asked('infer_t', 'infer_t2');
SELECT pg_temp.asked('infer_t_other', 'infer_t3');
SELECT pg_temp.asked('infer_t_other', 'infer_t2');
-- what one server had no time for, another one may have: the call has the longest of them in all
SELECT pg_temp.asked('infer_t', 'infer_t1', '{"retry": "ambiguous"}');
-- what the call says goes before what servers say
SELECT pg_temp.asked('infer_t', 'infer_t1', '{"timeout": "30s"}');
SELECT pg_temp.asked('infer_t', 'infer_t2', '{"timeout": "150ms"}');

\! mock set defaults
SELECT FROM infer.drop_model('infer_t');
SELECT FROM infer.drop_model('infer_t_other');
DROP SERVER infer_t1;
DROP SERVER infer_t2;
DROP SERVER infer_t3;
