-- Keys: where they may come from, who may say so, where they may go, and that nobody sees them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\getenv builddir PG_ABS_BUILDDIR
\set url :mock_url '/v1'
\set key_file :builddir '/results/secrets.key'
\! mock set api_key=sk-right-1
\! umask 077; echo sk-right-1 >"$PG_ABS_BUILDDIR/results/secrets.key"

CREATE SERVER infer_k FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
CREATE ROLE infer_secrets_user;
CREATE ROLE infer_secrets_reader IN ROLE pg_read_server_files;
GRANT USAGE ON FOREIGN SERVER infer_k TO infer_secrets_user, infer_secrets_reader;

-- without a mapping, no key is sent
SELECT (infer.try_complete('infer_k/m', 'hello')).reason;

-- an ordinary role names no file and no variable of the database server
SET ROLE infer_secrets_user;
CREATE USER MAPPING FOR infer_secrets_user SERVER infer_k OPTIONS (api_key_file '/etc/passwd');
\echo :LAST_ERROR_SQLSTATE
CREATE USER MAPPING FOR infer_secrets_user SERVER infer_k OPTIONS (api_key_env 'PATH');
\echo :LAST_ERROR_SQLSTATE
-- nor a key in SQL text, which would be logged
CREATE USER MAPPING FOR infer_secrets_user SERVER infer_k OPTIONS (api_key 'sk-inline');
\echo :LAST_ERROR_SQLSTATE
SET pg_inference.allow_inline_keys = on;
RESET ROLE;

-- bad options: named, but not their values
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (apikey 'sk-mistyped');
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (api_key_file 'relative.key');
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (api_key_file '');
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (api_key_env 'not a name');
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (api_key_env '');
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (api_key_env 'A', api_key_file '/b');

-- a mapping of PUBLIC, then one of the user's own
CREATE USER MAPPING FOR PUBLIC SERVER infer_k OPTIONS (api_key_file :'key_file');
SET ROLE infer_secrets_user;
SELECT (o).value IS NOT NULL AS answered, (o).reason
FROM infer.try_complete('infer_k/m', 'hello 1') AS o;
RESET ROLE;
CREATE USER MAPPING FOR infer_secrets_user SERVER infer_k
  OPTIONS (api_key_file '/nonexistent/pg_inference.key');
SET ROLE infer_secrets_user;
SELECT infer.complete('infer_k/m', 'hello 2');
-- who may not name a file cannot keep one while changing the mapping, only drop it
ALTER USER MAPPING FOR infer_secrets_user SERVER infer_k OPTIONS (SET api_key_file '/etc/passwd');
ALTER USER MAPPING FOR infer_secrets_user SERVER infer_k OPTIONS (ADD api_key_env 'PATH');
ALTER USER MAPPING FOR infer_secrets_user SERVER infer_k OPTIONS (DROP api_key_file);
-- a mapping of one's own without a key is no key
SELECT (infer.try_complete('infer_k/m', 'hello 3')).reason;
DROP USER MAPPING FOR infer_secrets_user SERVER infer_k;
RESET ROLE;

-- a reader of server files may name one
SET ROLE infer_secrets_reader;
CREATE USER MAPPING FOR infer_secrets_reader SERVER infer_k OPTIONS (api_key_file :'key_file');
SELECT infer.complete('infer_k/m', 'hello 4') IS NOT NULL AS answered;
DROP USER MAPPING FOR infer_secrets_reader SERVER infer_k;
RESET ROLE;

-- the file is read for each attempt: a new key counts at once
\! mock set api_key=sk-right-2
SELECT (infer.try_complete('infer_k/m', 'hello 5')).reason;
\! printf 'sk-right-2\r\n' >"$PG_ABS_BUILDDIR/results/secrets.key"
SELECT infer.complete('infer_k/m', 'hello 6') IS NOT NULL AS answered;

-- files that hold no key
CREATE FUNCTION pg_temp.try_key(prompt text) RETURNS text LANGUAGE sql AS
  $$ SELECT (o).reason FROM infer.try_complete('infer_k/m', prompt) AS o $$;
\! : >"$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('empty');
\! printf 'sk-right-2\r\nX-Evil: 1' >"$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('two lines');
\! printf 'sk\0right' >"$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('binary');
\! head -c 20000 /dev/zero | tr '\0' x >"$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('too long');
\! rm "$PG_ABS_BUILDDIR/results/secrets.key"; mkfifo "$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('a pipe');
\! rm "$PG_ABS_BUILDDIR/results/secrets.key"; mkdir "$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('a directory');
\! rmdir "$PG_ABS_BUILDDIR/results/secrets.key"
SELECT pg_temp.try_key('no file');
-- variables
ALTER USER MAPPING FOR PUBLIC SERVER infer_k
  OPTIONS (DROP api_key_file, ADD api_key_env 'PG_INFERENCE_NO_SUCH_VARIABLE');
SELECT infer.complete('infer_k/m', 'hello 7');

-- no key over the open network, unless the server says so
CREATE SERVER infer_far FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url 'http://inference.invalid/v1');
CREATE USER MAPPING FOR PUBLIC SERVER infer_far OPTIONS (api_key_env 'PATH');
SELECT infer.complete('infer_far/m', 'hello 8');

-- nobody reads a mapping's options but those whom PostgreSQL lets
SET ROLE infer_secrets_user;
SELECT umoptions IS NULL AS hidden FROM pg_user_mappings WHERE srvname LIKE 'infer!_%' ESCAPE '!';
RESET ROLE;

\! mock set defaults
DROP SERVER infer_k CASCADE;
DROP SERVER infer_far CASCADE;
DROP ROLE infer_secrets_user;
DROP ROLE infer_secrets_reader;
