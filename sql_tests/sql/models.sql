-- Models: creating, altering, dropping; owners; how changes are seen.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'

CREATE SERVER infer_m1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
CREATE SERVER infer_m2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
CREATE ROLE infer_models_a;
CREATE ROLE infer_models_b;
CREATE ROLE infer_models_member IN ROLE infer_models_a;
GRANT USAGE ON FOREIGN SERVER infer_m1 TO infer_models_a, infer_models_b;

-- creating
SET ROLE infer_models_a;
SELECT infer.create_model('gen', task => 'complete', server => 'infer_m1', remote_model => 'llama');
SELECT infer.create_model('emb', 'embed', 'infer_m1');
SELECT infer.create_model('gen', 'complete', 'infer_m1');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.create_model('a/b', 'complete', 'infer_m1');
SELECT infer.create_model('', 'complete', 'infer_m1');
SELECT infer.create_model(repeat('x', 256), 'complete', 'infer_m1');
SELECT infer.create_model(E'a\nb', 'complete', 'infer_m1');
SELECT infer.create_model('x', 'sing', 'infer_m1');
SELECT infer.create_model('x', 'complete', 'nowhere');
SELECT infer.create_model('x', 'complete', 'infer_m1', '');
SELECT infer.create_model(NULL, 'complete', 'infer_m1');
SELECT infer.create_model('x', NULL, 'infer_m1');
SELECT infer.create_model('x', 'complete', NULL, 'y');
-- prices are numbers, not negative
SELECT infer.create_model('x', 'complete', 'infer_m1', input_price => -0.01);
SELECT infer.create_model('x', 'complete', 'infer_m1', input_price => 'Infinity');
SELECT infer.create_model('x', 'complete', 'infer_m1', output_price => 'NaN');
\echo :LAST_ERROR_SQLSTATE
-- and only the server's owner says them
SELECT infer.create_model('priced', 'complete', 'infer_m1', input_price => 0.02, output_price => 1e-300);
RESET ROLE;
SELECT infer.create_model('priced', 'complete', 'infer_m1', input_price => 0.02, output_price => 1e-300);
SELECT infer.alter_model('priced', output_price => -1);
SELECT infer.alter_model('priced', output_price => 0);
SELECT remote_model, input_price, output_price FROM infer.models WHERE name = 'priced';
SELECT infer.alter_model('priced', remote_model => 'p', input_price => 1e308);
SELECT remote_model, input_price, output_price FROM infer.models WHERE name = 'priced';
SELECT infer.drop_model('priced');
SET ROLE infer_models_a;
-- takes USAGE on the server
SELECT infer.create_model('x', 'complete', 'infer_m2');
\echo :LAST_ERROR_SQLSTATE
SELECT name, task, server, remote_model, owner, input_price, output_price FROM infer.models ORDER BY name;

-- the catalog itself is closed, but for looking
SELECT name, owner FROM infer.model_catalog ORDER BY name;
INSERT INTO infer.model_catalog VALUES ('x', 'complete', 'infer_models_a');
UPDATE infer.model_catalog SET owner = 'infer_models_a';
DELETE FROM infer.model_catalog;

-- using
SELECT infer.complete('gen', 'hello') = infer.complete('infer_m1/llama', 'hello') AS same;
SELECT infer.chat('gen', '[{"role": "user", "content": "hello"}]') IS NOT NULL AS answered;
SELECT infer.embed('gen', 'hello');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.complete('emb', 'hello');
SELECT array_length(infer.embed('emb', 'hello', '{"dimensions": 8}'), 1);

-- nobody alters another's model
SET ROLE infer_models_b;
SELECT infer.alter_model('gen', remote_model => 'evil');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.drop_model('gen');
\echo :LAST_ERROR_SQLSTATE
-- but members of the owning role do
SET ROLE infer_models_member;
SELECT infer.alter_model('gen', remote_model => 'llama-2');
SET ROLE infer_models_a;
SELECT infer.alter_model('gen', server => 'infer_m2');
SELECT infer.alter_model('gen', server => 'nowhere');
SELECT infer.alter_model('gen');
SELECT infer.alter_model('nothing', remote_model => 'x');
SELECT infer.drop_model('nothing');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
SELECT infer.alter_model('gen', server => 'infer_m2');
SELECT name, task, server, remote_model, owner, input_price, output_price FROM infer.models ORDER BY name;

-- a model's owner uses it only with USAGE on its server
SET ROLE infer_models_a;
SELECT infer.complete('gen', 'hello');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER infer_m2 TO infer_models_a;
SET ROLE infer_models_a;
SELECT infer.complete('gen', 'hello') IS NOT NULL AS answered;
RESET ROLE;

-- nothing in the caller's search_path takes part
CREATE SCHEMA infer_trap;
CREATE TABLE infer_trap.model_catalog (name text);
CREATE FUNCTION infer_trap.eq(text, text) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN RAISE 'trapped'; END $$;
CREATE OPERATOR infer_trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = infer_trap.eq);
SET search_path = infer_trap, pg_catalog;
SELECT infer.create_model('trap', 'complete', 'infer_m1');
SELECT infer.alter_model('trap', remote_model => 'x');
SELECT infer.drop_model('trap');
RESET search_path;
DROP SCHEMA infer_trap CASCADE;

-- changes belong to the transaction
BEGIN;
SELECT infer.create_model('later', 'complete', 'infer_m1');
SELECT infer.complete('later', 'hello') IS NOT NULL AS answered;
SAVEPOINT s;
SELECT infer.drop_model('later');
SELECT infer.complete('later', 'hello');
ROLLBACK TO s;
SELECT infer.complete('later', 'hello') IS NOT NULL AS answered;
ROLLBACK;
SELECT infer.complete('later', 'hello');
-- the likeliest slip: a server where a model is wanted
SELECT infer.complete('infer_m1', 'hello');
SELECT infer.call('infer_m1', '{"model": "llama"}');

-- a read-only transaction may read
BEGIN READ ONLY;
SELECT infer.complete('gen', 'hello') IS NOT NULL AS answered;
SELECT infer.drop_model('gen');
ROLLBACK;

-- a superuser who writes the catalog by hand is noticed as well
INSERT INTO infer.model_catalog VALUES ('byhand', 'complete', 'infer_models_b');
INSERT INTO infer.placement_catalog VALUES ('byhand', 'infer_m1', 'x');
SELECT infer.complete('byhand', 'hello') IS NOT NULL AS answered;
UPDATE infer.model_catalog SET task = 'embed' WHERE name = 'byhand';
SELECT infer.complete('byhand', 'hello');
\set VERBOSITY terse
UPDATE infer.model_catalog SET input_price = 'NaN' WHERE name = 'byhand';
UPDATE infer.model_catalog SET output_price = -1 WHERE name = 'byhand';
\set VERBOSITY default
SELECT infer.drop_model('byhand');

-- an owner that is gone: superusers only
CREATE ROLE infer_models_gone;
GRANT USAGE ON FOREIGN SERVER infer_m1 TO infer_models_gone;
SET ROLE infer_models_gone;
SELECT infer.create_model('orphan', 'complete', 'infer_m1');
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER infer_m1 FROM infer_models_gone;
DROP ROLE infer_models_gone;
SET ROLE infer_models_a;
SELECT infer.drop_model('orphan');
RESET ROLE;
SELECT infer.drop_model('orphan');

-- a server that is gone
DROP SERVER infer_m2;
SELECT infer.complete('gen', 'hello');
SELECT infer.alter_model('gen', server => 'infer_m1');
SELECT infer.complete('gen', 'hello') IS NOT NULL AS answered;

SELECT infer.drop_model('gen');
SELECT infer.drop_model('emb');
SELECT infer.complete('gen', 'hello');
SELECT count(*) FROM infer.models;
DROP SERVER infer_m1;
DROP ROLE infer_models_member;
DROP ROLE infer_models_a;
DROP ROLE infer_models_b;
