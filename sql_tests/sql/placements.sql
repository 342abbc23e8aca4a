-- Placements: models on several servers. Who may say so, what is refused, and the version of the set.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
SET timezone = 'UTC';

CREATE SERVER infer_a FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
CREATE SERVER infer_b FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
CREATE SERVER infer_c FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
CREATE ROLE infer_place_a;
CREATE ROLE infer_place_b;
GRANT USAGE ON FOREIGN SERVER infer_a, infer_b TO infer_place_a;
\pset format unaligned
\pset tuples_only on

-- gw_2: the version of a model's set, and whether it grew since this was asked last
CREATE TABLE seen (model text PRIMARY KEY, version bigint);
CREATE FUNCTION grew(model text) RETURNS text LANGUAGE sql AS $$
	WITH now AS (SELECT name, set_version FROM infer.models WHERE name = $1),
	before AS (SELECT version FROM seen WHERE seen.model = $1),
	note AS (INSERT INTO seen SELECT * FROM now
		ON CONFLICT (model) DO UPDATE SET version = excluded.version)
	SELECT CASE WHEN set_version > coalesce((SELECT version FROM before), 0) THEN 'grew'
		WHEN set_version = (SELECT version FROM before) THEN 'the same' ELSE 'shrank' END FROM now $$;

-- a model without a server: an empty set is legal, a call of it is a separate error (fail_P59)
SET ROLE infer_place_a;
SELECT infer.create_model('gen', 'complete');
SELECT name, server, remote_model, placements FROM infer.models WHERE name = 'gen';
RESET ROLE;
SELECT grew('gen');
SET ROLE infer_place_a;
SELECT infer.complete('gen', 'x');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.alter_model('gen', server => 'infer_a');
-- gw_2: adding
SELECT infer.add_placement('gen', 'infer_a', 'llama');
SELECT server, remote_model, placements FROM infer.models WHERE name = 'gen';
SELECT infer.complete('gen', 'hello') = infer.complete('infer_a/llama', 'hello') AS same;
-- what it is called is what the others call it
SELECT infer.add_placement('gen', 'infer_b', version => '2.05', weight => 0.5, feeds => '{news,mail}',
	ts_range => '[2024-01-01,2025-01-01)', is_primary => true, service_class => 'chat');
SELECT * FROM infer.placements WHERE model = 'gen' ORDER BY model, server, remote_model;
SELECT server, remote_model, placements FROM infer.models WHERE name = 'gen';
-- the same model may run on a server under several names
SELECT infer.add_placement('gen', 'infer_b', 'llama-2');
SELECT infer.add_placement('gen', 'infer_a');
-- fail_P59: a placement is there once
SELECT infer.add_placement('gen', 'infer_a', 'llama');
\echo :LAST_ERROR_SQLSTATE
-- bad input
SELECT infer.add_placement('gen', 'infer_c');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.add_placement('gen', 'nowhere', 'm');
SELECT infer.add_placement('nothing', 'infer_a', 'm');
SELECT infer.add_placement(NULL, 'infer_a', 'm');
SELECT infer.add_placement('gen', NULL, 'm');
SELECT infer.add_placement('gen', 'infer_a', '');
SELECT infer.add_placement('gen', 'infer_a', 'm', version => v) FROM unnest('{2}'::text[]) AS v;
SELECT infer.add_placement('gen', 'infer_a', 'm', version => '2.5');
SELECT infer.add_placement('gen', 'infer_a', 'm', version => '2.051');
SELECT infer.add_placement('gen', 'infer_a', 'm', version => '02.05');
SELECT infer.add_placement('gen', 'infer_a', 'm', version => '123456.05');
SELECT infer.add_placement('gen', 'infer_a', 'm', version => '');
SELECT infer.add_placement('gen', 'infer_a', 'm', weight => 0);
SELECT infer.add_placement('gen', 'infer_a', 'm', weight => 'NaN');
SELECT infer.add_placement('gen', 'infer_a', 'm', weight => 1000001);
SELECT infer.add_placement('gen', 'infer_a', 'm', weight => -1);
SELECT infer.add_placement('gen', 'infer_a', 'm', feeds => '{a,NULL}');
SELECT infer.add_placement('gen', 'infer_a', 'm', feeds => '{a,a}');
SELECT infer.add_placement('gen', 'infer_a', 'm', feeds => '{{a},{b}}');
SELECT infer.add_placement('gen', 'infer_a', 'm', feeds => ARRAY['']);
SELECT infer.add_placement('gen', 'infer_a', 'm', feeds => array_agg('f' || i)) FROM generate_series(1, 65) AS i;
SELECT infer.add_placement('gen', 'infer_a', 'm', ts_range => 'empty');
SELECT infer.add_placement('gen', 'infer_a', 'm', service_class => E'b\u00e4r');
SELECT infer.add_placement('gen', 'infer_a', 'm', service_class => repeat('x', 64));
-- gw_2: changing what is said of one
SELECT infer.alter_placement('gen', 'infer_a', weight => 3, version => '1.00');
SELECT infer.alter_placement('gen', 'infer_b', 'llama', reset => '{version,weight,feeds,ts_range,is_primary,service_class}');
SELECT * FROM infer.placements WHERE model = 'gen' ORDER BY model, server, remote_model;
SELECT infer.alter_placement('gen', 'infer_b', weight => 3);
SELECT infer.alter_placement('gen', 'infer_b', 'other', weight => 3);
SELECT infer.alter_placement('gen', 'infer_c', weight => 3);
SELECT infer.alter_placement('gen', 'infer_a');
SELECT infer.alter_placement('gen', 'infer_a', weight => 0);
SELECT infer.alter_placement('gen', 'infer_a', weight => 3, reset => '{weight}');
SELECT infer.alter_placement('gen', 'infer_a', reset => '{server}');
-- alter_model is for models with one
SELECT infer.alter_model('gen', server => 'infer_b');
SELECT infer.alter_model('gen', remote_model => 'other');
-- gw_2: dropping
SELECT infer.drop_placement('gen', 'infer_b');
SELECT infer.drop_placement('gen', 'infer_b', 'other');
SELECT infer.drop_placement('gen', 'infer_c');
SELECT infer.drop_placement('gen', 'infer_b', 'llama-2');
SELECT infer.drop_placement('gen', 'infer_a');
SELECT server, remote_model, placements FROM infer.models WHERE name = 'gen';
SELECT infer.alter_model('gen', server => 'infer_a', remote_model => 'moved');
SELECT server, remote_model, placements FROM infer.models WHERE name = 'gen';

-- privileges: the model's owner, with USAGE on the server
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER infer_a TO infer_place_b;
SET ROLE infer_place_b;
SELECT infer.add_placement('gen', 'infer_a', 'evil');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.alter_placement('gen', 'infer_a', weight => 2);
SELECT infer.drop_placement('gen', 'infer_a');
SELECT infer.replace_placements('gen', '[]', 1000000000);
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
-- budgets trust prices: with them, placements are for the servers' owners
SELECT infer.create_model('priced', 'complete', input_price => 1, output_price => 2);
ALTER SERVER infer_b OWNER TO infer_place_a;
UPDATE infer.model_catalog SET owner = 'infer_place_a' WHERE name = 'priced';
SET ROLE infer_place_a;
SELECT infer.add_placement('priced', 'infer_b');
SELECT infer.add_placement('priced', 'infer_a');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.replace_placements('priced', '[{"server": "infer_a"}]', 1000000000);
\echo :LAST_ERROR_SQLSTATE
SELECT infer.alter_model('priced', reset => '{input_price,output_price}');
SELECT infer.add_placement('priced', 'infer_a');
SELECT infer.alter_model('priced', input_price => 0);
SELECT infer.alter_model('priced', input_price => 0, reset => '{input_price}');
SELECT server, input_price, output_price, placements FROM infer.models WHERE name = 'priced';
SELECT infer.drop_model('priced');
SELECT count(*) FROM infer.placements WHERE model = 'priced';
RESET ROLE;

-- read-only transactions change nothing
BEGIN READ ONLY;
SELECT infer.add_placement('gen', 'infer_b');
ROLLBACK;
BEGIN READ ONLY;
SELECT infer.replace_placements('gen', '[]', 1000000000);
ROLLBACK;

-- fail_P59: the version of the set grows with each change of the model or its placements
SELECT grew('gen');
SELECT grew('gen');
SELECT FROM infer.add_placement('gen', 'infer_b'); SELECT grew('gen');
SELECT FROM infer.alter_placement('gen', 'infer_b', weight => 2); SELECT grew('gen');
SELECT FROM infer.drop_placement('gen', 'infer_b'); SELECT grew('gen');
SELECT FROM infer.alter_model('gen', remote_model => 'llama'); SELECT grew('gen');
SELECT FROM infer.alter_model('gen', input_price => 1); SELECT grew('gen');
-- ... by whomever
INSERT INTO infer.placement_catalog (model, server, remote_model) VALUES ('gen', 'infer_c', 'x'); SELECT grew('gen');
UPDATE infer.placement_catalog SET weight = 2 WHERE model = 'gen'; SELECT grew('gen');
DELETE FROM infer.placement_catalog WHERE server = 'infer_c'; SELECT grew('gen');
UPDATE infer.model_catalog SET set_version = 1 WHERE name = 'gen'; SELECT grew('gen');
BEGIN; TRUNCATE infer.placement_catalog; SELECT grew('gen'); ROLLBACK;
\set VERBOSITY sqlstate
INSERT INTO infer.placement_catalog (model, server, remote_model) VALUES ('nothing', 'infer_c', 'x');
INSERT INTO infer.placement_catalog (model, server, remote_model, version) VALUES ('gen', 'infer_c', 'x', '1');
INSERT INTO infer.placement_catalog (model, server, remote_model, weight) VALUES ('gen', 'infer_c', 'x', 'NaN');
\set VERBOSITY default
-- ... but what a dump brings along is as it was
BEGIN;
CREATE TABLE dumped_models AS TABLE infer.model_catalog;
CREATE TABLE dumped_placements AS TABLE infer.placement_catalog;
DELETE FROM infer.model_catalog;
SELECT count(*) FROM infer.placement_catalog;
INSERT INTO infer.model_catalog TABLE dumped_models;
INSERT INTO infer.placement_catalog TABLE dumped_placements;
(TABLE infer.model_catalog EXCEPT TABLE dumped_models) UNION ALL (TABLE dumped_models EXCEPT TABLE infer.model_catalog);
(TABLE infer.placement_catalog EXCEPT TABLE dumped_placements) UNION ALL (TABLE dumped_placements EXCEPT TABLE infer.placement_catalog);
SELECT infer.complete('gen', 'x') IS NOT NULL AS answered;
SELECT FROM infer.add_placement('gen', 'infer_c', 'x'); SELECT grew('gen');
ROLLBACK;
-- ... and it grows also when it is dropped and made again, whatever version it had
SELECT FROM infer.drop_model('gen');
SELECT FROM infer.create_model('gen', 'complete', 'infer_a', 'llama'); SELECT grew('gen');
SELECT infer.replace_placements('gen', '[]', set_version + 1000) FROM infer.models WHERE name = 'gen'; SELECT grew('gen');
SELECT FROM infer.drop_model('gen');
SELECT FROM infer.create_model('gen', 'complete', 'infer_a', 'llama'); SELECT grew('gen');
SELECT infer.replace_placements('gen', '[]', set_version + 1000) FROM infer.models WHERE name = 'gen'; SELECT grew('gen');
BEGIN;
TRUNCATE infer.model_catalog CASCADE;
SELECT FROM infer.create_model('gen', 'complete', 'infer_a', 'llama'); SELECT grew('gen');
ROLLBACK;
-- ... but stays with a change that is rolled back
BEGIN; SELECT FROM infer.add_placement('gen', 'infer_c', 'x'); ROLLBACK; SELECT grew('gen');

-- fail_P59: a whole set is taken with a later version only, and then has just that version
SELECT set_version + 10 AS next FROM infer.models WHERE name = 'gen' \gset
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "remote_model": "llama", "version": "1.10", "weight": 2.5,
	"feeds": ["x", "y"], "ts_range": "[2024-01-01,)", "is_primary": true, "service_class": "chat"}, {"server": "infer_b", "remote_model": "llama"}]', :next);
SELECT * FROM infer.placements WHERE model = 'gen' ORDER BY server;
SELECT set_version = :next FROM infer.models WHERE name = 'gen';
\set VERBOSITY sqlstate
SELECT infer.replace_placements('gen', '[]', :next - 1);
SELECT infer.replace_placements('gen', '[]', :next);
\set VERBOSITY default
\set ECHO none
SELECT regexp_replace(:'LAST_ERROR_MESSAGE', '\d+', 'N', 'g');
\set ECHO all
SELECT infer.replace_placements('gen', '[{"server": "infer_c", "remote_model": null, "weight": null}]', :next + 1);
SELECT * FROM infer.placements WHERE model = 'gen' ORDER BY server;
-- a set that is refused changes nothing
SELECT infer.replace_placements('gen', '[{"server": "infer_a"}, {"server": "infer_b"}, {"server": "infer_a"}]', :next + 2);
\echo :LAST_ERROR_SQLSTATE
SELECT infer.replace_placements('gen', '[{"server": "infer_a"}, {"server": "nowhere"}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "wait": 2}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "weight": "2"}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "weight": 0}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "version": 2.05}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "version": "2"}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "feeds": "x"}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "feeds": ["x", 1]}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "feeds": ["x", ["y"]]}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "ts_range": "x"}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": "infer_a", "is_primary": "true"}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"server": {}}]', :next + 2);
SELECT infer.replace_placements('gen', '[{"weight": 1}]', :next + 2);
SELECT infer.replace_placements('gen', '["infer_a"]', :next + 2);
SELECT infer.replace_placements('gen', '{"server": "infer_a"}', :next + 2);
SELECT infer.replace_placements('gen', '"infer_a"', :next + 2);
SELECT infer.replace_placements('gen', '[]', 0);
SELECT infer.replace_placements('gen', '[]', 9223372036854775807);
SELECT infer.replace_placements('gen', '[]', NULL);
SELECT infer.replace_placements('gen', NULL, :next + 2);
SELECT infer.replace_placements('nothing', '[]', :next + 2);
SELECT infer.replace_placements('gen', jsonb_agg(jsonb_build_object('server', 'infer_a', 'remote_model', 'm' || i)), :next + 2)
	FROM generate_series(1, 65) AS i;
SELECT server, remote_model FROM infer.placements WHERE model = 'gen' ORDER BY server;
SELECT set_version = :next + 1 FROM infer.models WHERE name = 'gen';
-- ... and other changes count on from there
SELECT FROM infer.alter_placement('gen', 'infer_c', weight => 2);
SELECT set_version > :next + 1 FROM infer.models WHERE name = 'gen';

-- nothing in the caller's search_path takes part
CREATE SCHEMA infer_trap;
CREATE FUNCTION infer_trap.eq(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE OPERATOR infer_trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = infer_trap.eq);
CREATE TABLE infer_trap.placement_catalog (model text);
SET search_path = infer_trap, pg_catalog;
SELECT FROM infer.add_placement('gen', 'infer_a', 'trap');
SELECT FROM infer.alter_placement('gen', 'infer_a', weight => 2);
SELECT FROM infer.drop_placement('gen', 'infer_a');
SELECT FROM infer.replace_placements('gen', '[{"server": "infer_c"}]', (SELECT set_version + 1 FROM infer.models WHERE name OPERATOR(pg_catalog.=) 'gen'));
RESET search_path;
\set VERBOSITY terse
DROP SCHEMA infer_trap CASCADE;
\set VERBOSITY default

-- whoever calls needs USAGE on one of the servers
SELECT FROM infer.add_placement('gen', 'infer_a');
SET ROLE infer_place_b;
SELECT infer.complete('gen', 'x') IS NOT NULL AS answered;
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER infer_a FROM infer_place_b;
SET ROLE infer_place_b;
SELECT infer.complete('gen', 'x');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
-- a server that is gone leaves its placements behind, and calls go to the others
DROP SERVER infer_c;
SELECT server, problem FROM infer.placements WHERE model = 'gen' ORDER BY server;
SELECT infer.complete('gen', 'x') IS NOT NULL AS answered;
SELECT FROM infer.drop_placement('gen', 'infer_a');
SELECT model, server, problem FROM infer.placements WHERE model = 'gen' ORDER BY server;
SELECT infer.complete('gen', 'x');
CREATE FOREIGN DATA WRAPPER infer_other;
CREATE SERVER infer_c FOREIGN DATA WRAPPER infer_other;
SELECT model, server, problem FROM infer.placements WHERE model = 'gen' ORDER BY server;
DROP SERVER infer_c;
DROP FOREIGN DATA WRAPPER infer_other;
CREATE SERVER infer_c FOREIGN DATA WRAPPER pg_inference;
SELECT model, server, problem FROM infer.placements WHERE model = 'gen' ORDER BY server;
SELECT infer.complete('gen', 'x');
DROP SERVER infer_c;
SELECT FROM infer.drop_placement('gen', 'infer_c');

SELECT FROM infer.drop_model('gen');
SELECT count(*) FROM infer.placement_catalog;
DROP FUNCTION grew;
DROP TABLE seen;
DROP SERVER infer_a;
DROP SERVER infer_b;
DROP ROLE infer_place_a;
DROP ROLE infer_place_b;
