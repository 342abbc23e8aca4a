-- What a model says of how its requests find a server: min_version, ts_args, class_fns, fallbacks,
-- routing, affinity, strategy.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_o FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'model_options');
CREATE ROLE infer_options_user;
GRANT USAGE ON FOREIGN SERVER infer_o TO infer_options_user;
CREATE FUNCTION opt_fn(model text, header jsonb, args jsonb, config jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $2';
CREATE FUNCTION opt_fn(model text) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
CREATE FUNCTION opt_text(model text, header jsonb, args jsonb, config jsonb) RETURNS text LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION opt_set(model text, header jsonb, args jsonb, config jsonb) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT $2';
CREATE VIEW opts AS SELECT name, min_version, ts_args, class_fns, fallbacks, routing, affinity, affinity_bytes, strategy FROM infer.models;
GRANT SELECT ON opts TO PUBLIC;
\pset format unaligned
\pset tuples_only on
\pset null -

-- defaults, and all of them given
SELECT FROM infer.create_model('opt_plain', 'complete', 'infer_o');
SELECT FROM infer.create_model('opt_all', 'complete', 'infer_o', min_version => '2.05', ts_args => '{from,to}',
	class_fns => '{"opt_fn(text,jsonb,jsonb,jsonb)"}', fallbacks => '{opt_plain}', routing => '{"priority": "LOW"}',
	affinity => 'prefix', affinity_bytes => 512, strategy => 'rr');
SELECT * FROM opts WHERE name LIKE 'opt%' ORDER BY name;
-- NULL leaves them as they are, reset gives back the default
SELECT FROM infer.alter_model('opt_all', affinity_bytes => 1024);
SELECT * FROM opts WHERE name = 'opt_all';
SELECT FROM infer.alter_model('opt_all', reset => '{min_version,ts_args,class_fns,fallbacks,routing,affinity,affinity_bytes,strategy}');
SELECT * FROM opts WHERE name = 'opt_all';
SELECT infer.alter_model('opt_all', reset => '{name}');
SELECT infer.alter_model('opt_all', reset => '{affinity}', affinity => 'prefix');
SELECT infer.alter_model('opt_all');

-- what they do not take
SELECT infer.alter_model('opt_all', min_version => '2');
SELECT infer.alter_model('opt_all', ts_args => '{a,b,c}');
SELECT infer.alter_model('opt_all', ts_args => '{a,a}');
SELECT infer.alter_model('opt_all', ts_args => '{NULL}');
SELECT infer.alter_model('opt_all', routing => '[]');
SELECT infer.alter_model('opt_all', routing => '{"prority": "LOW"}');
SELECT infer.alter_model('opt_all', routing => '{"priority": "urgent"}');
SELECT infer.alter_model('opt_all', affinity => 'suffix');
SELECT infer.alter_model('opt_all', affinity_bytes => 0);
SELECT infer.alter_model('opt_all', affinity_bytes => 65537);
SELECT infer.alter_model('opt_all', strategy => 'random');

-- functions are kept with their schema, take what they have to, and are for superusers to name
SELECT infer.alter_model('opt_all', class_fns => '{opt_fn(text)}');
SELECT infer.alter_model('opt_all', class_fns => '{"opt_text(text,jsonb,jsonb,jsonb)"}');
SELECT infer.alter_model('opt_all', class_fns => '{"opt_set(text,jsonb,jsonb,jsonb)"}');
SELECT infer.alter_model('opt_all', class_fns => '{"opt_none(text,jsonb,jsonb,jsonb)"}');
SELECT infer.alter_model('opt_all', class_fns => '{opt_fn}');
SELECT FROM infer.alter_model('opt_all', class_fns => '{"opt_fn(text, jsonb, jsonb, jsonb)"}');
SELECT class_fns FROM opts WHERE name = 'opt_all';
SELECT FROM infer.alter_model('opt_all', class_fns => '{}');
SELECT class_fns FROM opts WHERE name = 'opt_all';
SET ROLE infer_options_user;
SELECT infer.create_model('opt_user', 'complete', 'infer_o', class_fns => '{"public.opt_fn(text,jsonb,jsonb,jsonb)"}');
\echo :LAST_ERROR_SQLSTATE
SELECT FROM infer.create_model('opt_user', 'complete', 'infer_o', class_fns => '{}', strategy => 'rr');
SELECT infer.alter_model('opt_user', class_fns => '{"public.opt_fn(text,jsonb,jsonb,jsonb)"}');
SELECT FROM infer.drop_model('opt_user');
RESET ROLE;

-- fallbacks: models that exist, for the same, and no circles
SELECT FROM infer.create_model('opt_a', 'complete', 'infer_o', fallbacks => '{opt_plain}');
SELECT FROM infer.create_model('opt_b', 'chat', 'infer_o', fallbacks => '{opt_a,opt_plain}');
SELECT FROM infer.create_model('opt_emb', 'embed', 'infer_o');
SELECT infer.alter_model('opt_a', fallbacks => '{opt_a}');
SELECT infer.alter_model('opt_a', fallbacks => '{opt_b}');
SELECT infer.alter_model('opt_plain', fallbacks => '{opt_emb,opt_b}');
SELECT infer.alter_model('opt_plain', fallbacks => '{opt_b}');
SELECT infer.alter_model('opt_plain', fallbacks => '{opt_none}');
SELECT infer.alter_model('opt_plain', fallbacks => '{opt_emb}');
SELECT infer.alter_model('opt_plain', fallbacks => '{infer_o/m}');
SELECT infer.create_model('opt_c', 'complete', fallbacks => '{opt_c}');
-- a model that was dropped and made again may not close one either
SELECT FROM infer.drop_model('opt_plain');
SELECT infer.create_model('opt_plain', 'complete', 'infer_o', fallbacks => '{opt_b}');
SELECT infer.complete('opt_a', 'x') IS NOT NULL AS answered;
-- a model that runs nowhere is served by its fallback, one that is gone is passed over
\! mock set reply=echo
SELECT FROM infer.create_model('opt_plain', 'complete', 'infer_o', 'plain');
SELECT FROM infer.create_model('opt_nowhere', 'complete', fallbacks => '{opt_plain}');
SELECT infer.complete('opt_nowhere', 'x');
SELECT (infer.try_complete('opt_nowhere', 'x')).server;
SELECT FROM infer.drop_model('opt_plain');
SELECT infer.complete('opt_nowhere', 'x');
-- a fallback's own least version is kept
SELECT FROM infer.create_model('opt_plain', 'complete', min_version => '2.00');
SELECT FROM infer.add_placement('opt_plain', 'infer_o', version => '1.99');
SELECT infer.complete('opt_nowhere', 'x');
SELECT FROM infer.alter_placement('opt_plain', 'infer_o', version => '2.00');
SELECT infer.complete('opt_nowhere', 'x');
-- circles that were made behind our back do no harm
UPDATE infer.model_catalog SET fallbacks = '{opt_b}' WHERE name = 'opt_a';
SELECT infer.complete('opt_a', 'x'), infer.chat('opt_b', '[{"role": "user", "content": "y"}]');
SELECT infer.alter_model('opt_nowhere', fallbacks => '{opt_a}');
SELECT infer.complete('opt_nowhere', 'x');

-- gw_4: a model's routing is below the setting's and the call's
SELECT FROM infer.create_model('opt_slow', 'complete', 'infer_o', routing => '{"timeout": "1ms"}');
\! mock set base_ms=300
SELECT (infer.try_complete('opt_slow', 'a')).reason;
SELECT (infer.try_complete('opt_slow', 'a', '{}', '{"timeout": "60s"}')).reason;
SET pg_inference.routing = '{"timeout": "60s"}';
SELECT (infer.try_complete('opt_slow', 'a')).reason;
RESET pg_inference.routing;
SELECT FROM infer.alter_model('opt_slow', reset => '{routing}');
SELECT (infer.try_complete('opt_slow', 'a')).reason;
\! mock set defaults

-- changing them counts as a change of the set
SELECT set_version AS before FROM infer.models WHERE name = 'opt_a' \gset
SELECT FROM infer.alter_model('opt_a', strategy => 'rr');
SELECT set_version > :before FROM infer.models WHERE name = 'opt_a';

DROP VIEW opts;
SELECT count(infer.drop_model(name)::text) FROM infer.models WHERE name LIKE 'opt%';
DROP FUNCTION opt_fn(text), opt_fn(text,jsonb,jsonb,jsonb), opt_text, opt_set;
DROP SERVER infer_o;
DROP ROLE infer_options_user;
