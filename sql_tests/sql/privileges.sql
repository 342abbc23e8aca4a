-- Who may call what, directly, through views and functions; and the installation script's own guard.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_p FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set reply=echo
CREATE ROLE infer_priv_owner;
CREATE ROLE infer_priv_user;
GRANT USAGE ON FOREIGN SERVER infer_p TO infer_priv_owner;
CREATE TABLE pt AS SELECT i AS id, 'x' || i AS x FROM generate_series(1, 20) AS i;
GRANT ALL ON pt TO infer_priv_user, infer_priv_owner;
SELECT FROM infer.create_model('priv', 'complete', 'infer_p');
SELECT FROM infer.create_model('privemb', 'embed', 'infer_p');
CREATE VIEW pv AS SELECT id, infer.complete('priv', x) AS c FROM pt;
ALTER VIEW pv OWNER TO infer_priv_owner;
GRANT SELECT ON pv TO infer_priv_user;
CREATE FUNCTION pdefiner(q text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT infer.complete('priv', q) $$;
CREATE FUNCTION pdefiner_rows() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT infer.complete('priv', x) FROM pt ORDER BY id LIMIT 2 $$;
CREATE FUNCTION pinvoker(q text) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN infer.complete('priv', q); END $$;
ALTER FUNCTION pdefiner OWNER TO infer_priv_owner;
ALTER FUNCTION pdefiner_rows OWNER TO infer_priv_owner;
\pset format unaligned
\pset tuples_only on

-- a role without USAGE on the server sends nothing, whichever way it tries
\! mock reset
SET ROLE infer_priv_user;
SELECT infer.complete('infer_p/m', 'a');
SELECT infer.complete('priv', 'a');
SELECT infer.embed('privemb', x) FROM pt;
SELECT infer.chat('priv', '[{"role": "user", "content": "a"}]');
SELECT infer.call('priv', '{"a": 1}', '{"path": "/completions"}');
SELECT count(infer.complete('priv', x)) FROM pt;
SELECT count(*) FROM pt WHERE infer.complete('priv', x) = 'x1';
SELECT infer.try_complete('priv', 'a');
SELECT count(infer.try_complete('priv', x)) FROM pt;
SELECT infer.complete('priv', 'a', '{}', '{"on_error": "null"}');
SELECT infer.complete('priv', 'a') FROM pt LIMIT 1;
SELECT pinvoker('a');
-- through a view: USAGE is the caller's, for the function runs as the caller
SELECT count(c) FROM pv;
INSERT INTO pt SELECT id + 100, infer.complete('priv', x) FROM pt;
UPDATE pt SET x = infer.complete('priv', x);
DO $$ BEGIN PERFORM infer.complete('priv', 'a'); EXCEPTION WHEN insufficient_privilege THEN RAISE INFO 'caught'; END $$;
SET pg_inference.enable = off;
SELECT count(infer.complete('priv', x)) FROM pt;
RESET pg_inference.enable;
-- planning is free for all
EXPLAIN (COSTS OFF) SELECT infer.complete('priv', x) FROM pt;
-- nor does a role create models on such a server, or servers on its own
SELECT infer.create_model('priv2', 'complete', 'infer_p');
CREATE SERVER infer_p2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://localhost/v1');
RESET ROLE;
\! mock stat requests

-- a function that runs as its owner calls with its owner's rights
SET ROLE infer_priv_user;
SELECT pdefiner('a');
SELECT pdefiner(x) FROM pt ORDER BY id LIMIT 2;
SELECT pdefiner_rows();
-- also if it is asked twice by different roles in one statement: nobody gets another's answer by its memo
SELECT pdefiner('b'), infer.complete('priv', 'b');
SELECT pdefiner('c') FROM pt WHERE infer.complete('priv', 'c') = 'c';
RESET ROLE;
SET ROLE infer_priv_owner;
SELECT count(c) FROM pv;
RESET ROLE;

-- the catalog of models, its trigger and the extension's functions
SET ROLE infer_priv_user;
SELECT count(*) FROM infer.model_catalog WHERE name = 'priv';
INSERT INTO infer.model_catalog SELECT * FROM infer.model_catalog;
UPDATE infer.model_catalog SET owner = 'another';
DELETE FROM infer.model_catalog;
TRUNCATE infer.model_catalog;
INSERT INTO infer.placement_catalog SELECT * FROM infer.placement_catalog;
UPDATE infer.placement_catalog SET server = 'another';
DELETE FROM infer.placement_catalog;
TRUNCATE infer.placement_catalog;
SELECT setval('infer.set_versions', 1);
CREATE TRIGGER t AFTER INSERT ON infer.model_catalog EXECUTE FUNCTION infer.note_model_change();
CREATE TABLE infer.mine (a int);
SELECT infer.note_model_change();
SELECT infer.count_model_version();
SELECT infer.count_placement_version();
SELECT infer.fdw_validator(ARRAY['url=ftp://x'], 'pg_foreign_server'::regclass);
RESET ROLE;
SELECT infer.note_model_change();
SELECT infer.count_model_version();
SELECT infer.count_placement_version();
CREATE TRIGGER t AFTER INSERT ON pt EXECUTE FUNCTION infer.note_model_change();
DROP TRIGGER IF EXISTS t ON pt;
CREATE TRIGGER t BEFORE INSERT ON pt FOR EACH ROW EXECUTE FUNCTION infer.count_model_version();
INSERT INTO pt SELECT * FROM pt LIMIT 1;
DROP TRIGGER t ON pt;
CREATE TRIGGER t AFTER INSERT ON pt FOR EACH ROW EXECUTE FUNCTION infer.count_placement_version();
INSERT INTO pt SELECT * FROM pt LIMIT 1;
DROP TRIGGER t ON pt;
-- PUBLIC may execute just these
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'infer'::regnamespace
  AND has_function_privilege('infer_priv_user', p.oid, 'EXECUTE') ORDER BY p.oid::regprocedure::text COLLATE "C";
-- none of them runs as its owner, none is trusted to keep what it sees from those it must not tell
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'infer'::regnamespace
  AND (p.prosecdef OR p.proleakproof OR p.proconfig IS NOT NULL OR p.prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c'));
-- those that call models are not for parallel workers, nor is anything that a worker would see otherwise
SELECT string_agg(p.proname, ' ' ORDER BY p.proname COLLATE "C") AS names, p.provolatile, p.proparallel FROM pg_proc p
  WHERE p.pronamespace = 'infer'::regnamespace GROUP BY 2, 3 ORDER BY 2, 3;
-- what is granted on tables and views; all views are for everybody to see their own, or for pg_read_all_stats
SELECT c.relname, c.relkind, coalesce(a.grantee::regrole::text, '') AS grantee, string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type)
  FROM pg_class c, LATERAL aclexplode(c.relacl) a WHERE c.relnamespace = 'infer'::regnamespace AND a.grantee <> c.relowner
  GROUP BY 1, 2, 3 ORDER BY c.relname COLLATE "C", 3;
-- nobody but superusers gets to the wrapper without a grant, nor makes anything in the schema
SELECT fdwacl IS NULL FROM pg_foreign_data_wrapper WHERE fdwname = 'pg_inference';
SELECT has_schema_privilege('infer_priv_user', 'infer', 'USAGE'), has_schema_privilege('infer_priv_user', 'infer', 'CREATE');
-- everything has a comment
SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
WHERE e.extname = 'pg_inference' AND d.deptype = 'e' AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_foreign_data_wrapper'::regclass)
  AND obj_description(d.objid, d.classid::regclass::name) IS NULL;

-- the script is for CREATE EXTENSION alone
\getenv srcdir PG_ABS_SRCDIR
\set script :srcdir '/../sql/pg_inference--0.1.0.sql'
\i :script
-- nobody who made the schema before can have put something of his beside the functions
CREATE DATABASE infer_priv_trap TEMPLATE template0;
ALTER DATABASE infer_priv_trap OWNER TO infer_priv_user;
\set before :DBNAME
\connect infer_priv_trap
SET ROLE infer_priv_user;
CREATE SCHEMA infer;
CREATE FUNCTION infer.complete(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'trapped' $$;
RESET ROLE;
\set VERBOSITY terse
CREATE EXTENSION pg_inference;
ALTER SCHEMA infer OWNER TO CURRENT_USER;
DROP FUNCTION infer.complete(text, text);
CREATE EXTENSION pg_inference;
SELECT infer.version() <> '';
\set VERBOSITY default
\connect :before
DROP DATABASE infer_priv_trap;
-- dropping the extension takes servers and models along only if told so
\set VERBOSITY terse
DROP EXTENSION pg_inference;
\set VERBOSITY default
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION pg_inference CASCADE;
SELECT count(*) FROM pg_foreign_server WHERE srvname = 'infer_p';
SELECT count(*) FROM pg_views WHERE viewname = 'pv';
CREATE EXTENSION pg_inference;
SELECT count(*) FROM infer.models;
ROLLBACK;

\! mock set defaults
DROP VIEW pv;
DROP FUNCTION pdefiner, pdefiner_rows, pinvoker;
DROP TABLE pt;
SELECT FROM infer.drop_model('priv');
SELECT FROM infer.drop_model('privemb');
DROP SERVER infer_p;
DROP ROLE infer_priv_user;
DROP ROLE infer_priv_owner;
