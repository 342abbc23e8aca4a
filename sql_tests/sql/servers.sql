-- Servers: options, privileges, addressing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'

CREATE ROLE infer_servers_user;
CREATE ROLE infer_servers_maker;

-- a bad option is named, and the good ones with it
CREATE SERVER infer_s1 FOREIGN DATA WRAPPER pg_inference OPTIONS (uri 'http://localhost/v1');
CREATE SERVER infer_s1 FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url 'http://localhost/v1', "Url" 'http://localhost/v1');
ALTER FOREIGN DATA WRAPPER pg_inference OPTIONS (ADD url 'http://localhost/v1');

-- urls
CREATE FUNCTION pg_temp.try_url(url text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  problem text;
BEGIN
  EXECUTE format('CREATE SERVER infer_try FOREIGN DATA WRAPPER pg_inference OPTIONS (url %L)', url);
  DROP SERVER infer_try;
  RETURN 'accepted';
EXCEPTION WHEN invalid_parameter_value THEN
  GET STACKED DIAGNOSTICS problem = PG_EXCEPTION_DETAIL;
  RETURN problem;
END $$;
SELECT url, pg_temp.try_url(url) FROM unnest(ARRAY[
  'http://localhost:8000/v1', 'https://api.example.com', 'HTTPS://API.EXAMPLE.COM/v1/',
  'http://[::1]:8000/v1', 'http://10.0.0.5', '',
  'localhost:8000', 'file:///etc/passwd', 'ftp://localhost/', 'http://', 'http:///v1', 'http://:80/',
  'http://user:secret@localhost/', 'http://localhost@example.com/', 'http://localhost/v1?key=secret',
  'http://localhost#x', 'http://local host/', 'http://localhost\@example.com/', E'http://localhost/\r\nX: y',
  'http://localhost:0/', 'http://localhost:65536/', 'http://localhost:port/', 'http://localhost:/',
  'http://[::1/', 'http://[::1]8000/', 'http://[localhost]/', 'http://h%6fst/'])
  WITH ORDINALITY AS u(url, n) ORDER BY n;
SELECT pg_temp.try_url(E'http://h\xc3\xb6st/');
SELECT pg_temp.try_url('http://localhost/' || repeat('x', 2048));

-- other values
CREATE FUNCTION pg_temp.try_option(name text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  problem text;
  detail text;
  hint text;
BEGIN
  EXECUTE format('CREATE SERVER infer_try FOREIGN DATA WRAPPER pg_inference OPTIONS (%I %L)', name,
    value);
  DROP SERVER infer_try;
  RETURN 'accepted';
EXCEPTION WHEN invalid_parameter_value THEN
  GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
    hint = PG_EXCEPTION_HINT;
  RETURN concat_ws(' / ', problem, nullif(detail, ''), nullif(hint, ''));
END $$;
SELECT name, value, pg_temp.try_option(name, value) FROM (VALUES
  (1, 'api', 'openai'), (2, 'api', 'oracle of delphi'),
  (3, 'max_concurrency', '1'), (4, 'max_concurrency', '100000'), (5, 'max_concurrency', '0'),
  (6, 'max_concurrency', '100001'), (7, 'max_concurrency', 'many'),
  (8, 'max_batch_size', '128'), (9, 'max_batch_size', '-1'),
  (10, 'max_batch_bytes', '1MB'), (11, 'max_batch_bytes', '2GB'),
  (12, 'request_timeout', '60s'), (13, 'request_timeout', '250'), (14, 'request_timeout', '0'),
  (15, 'request_timeout', '1 fortnight'),
  (16, 'keep_alive', '4'), (17, 'keep_alive', '1min'), (18, 'keep_alive', '0'),
  (19, 'keep_alive', '2d'),
  (20, 'allow_cleartext', 'on'), (21, 'allow_cleartext', 'perhaps'),
  (22, 'node', 'a'), (23, 'node', ''), (24, 'node', E'a\nb'),
  (25, 'admission_key', 'gpu'),
  (26, 'rpm', '60'), (27, 'rpm', '0'), (28, 'tpm', '1000000'), (29, 'tpm', 'many'),
  (30, 'trust', 'direct'), (31, 'trust', 'blindly'),
  (32, 'max_batch_tokens', '8192'), (33, 'max_batch_tokens', '0'),
  (34, 'idempotency', 'honoured'), (35, 'idempotency', 'on'),
  (36, 'service_class', 'chat'), (37, 'service_class', ''), (38, 'signals', 'on'), (39, 'signals', 'x-request'),
  (40, 'health_path', '/health'), (41, 'health_path', '/v1/models?ready=1'), (42, 'health_path', 'health'),
  (43, 'health_path', '//evil.example/'), (44, 'health_path', '/../admin'), (45, 'health_path', '/a b'), (46, 'health_path', '/a#b'),
  (47, 'incarnation', 'header:x-boot-id'), (48, 'incarnation', 'field:system_fingerprint'),
  (49, 'incarnation', 'metric:process_start_time_seconds'), (50, 'incarnation', 'x-boot-id'), (51, 'incarnation', 'header:'),
  (52, 'incarnation', 'header:a: b'), (53, 'incarnation', 'field:a"b'), (54, 'incarnation', 'metric:a{b="c"}')) AS o(n, name, value) ORDER BY n;
SELECT pg_temp.try_option('admission_key', E'gr\xc3\xb6\xc3\x9fe');
SELECT pg_temp.try_option('admission_key', repeat('k', 127));
SELECT pg_temp.try_option('admission_key', repeat('k', 128));
SELECT pg_temp.try_option('health_path', '/' || repeat('k', 127));
SELECT pg_temp.try_option('incarnation', 'field:' || repeat('k', 122));

-- foreign tables have no use
CREATE SERVER infer_s1 FOREIGN DATA WRAPPER pg_inference
  OPTIONS (url :'url', max_concurrency '8', admission_key 'infer_servers');
CREATE FOREIGN TABLE infer_t (a int) SERVER infer_s1 OPTIONS (b 'c');
CREATE FOREIGN TABLE infer_t (a int) SERVER infer_s1;
SELECT * FROM infer_t;
DROP FOREIGN TABLE infer_t;

-- making servers takes USAGE on the wrapper, using one takes USAGE on it
\! mock reset
SET ROLE infer_servers_user;
CREATE SERVER infer_s2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://localhost/v1');
SELECT infer.complete('infer_s1/m', 'hello');
\echo :LAST_ERROR_SQLSTATE
SELECT (infer.try_complete('infer_s1/m', 'hello')).value;
\echo :LAST_ERROR_SQLSTATE
ALTER SERVER infer_s1 OPTIONS (SET url 'http://example.com/v1');
RESET ROLE;
\! mock stat requests
GRANT USAGE ON FOREIGN SERVER infer_s1 TO infer_servers_user;
SET ROLE infer_servers_user;
SELECT infer.complete('infer_s1/m', 'hello') IS NOT NULL AS answered;
RESET ROLE;
\! mock stat requests
-- a privilege taken away counts at once
REVOKE USAGE ON FOREIGN SERVER infer_s1 FROM infer_servers_user;
SET ROLE infer_servers_user;
SELECT infer.complete('infer_s1/m', 'hello again');
RESET ROLE;
-- and one inherited from another role, too
GRANT USAGE ON FOREIGN SERVER infer_s1 TO infer_servers_maker;
GRANT infer_servers_maker TO infer_servers_user;
SET ROLE infer_servers_user;
SELECT infer.complete('infer_s1/m', 'hello again') IS NOT NULL AS answered;
RESET ROLE;
REVOKE infer_servers_maker FROM infer_servers_user;
SET ROLE infer_servers_user;
SELECT infer.complete('infer_s1/m', 'hello once more');
RESET ROLE;
\! mock stat requests

-- addressing
SELECT infer.complete('nowhere', 'hello');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.complete('nowhere/m', 'hello');
\echo :LAST_ERROR_SQLSTATE
SELECT infer.complete('/m', 'hello');
SELECT infer.complete('infer_s1/', 'hello');
SELECT infer.complete('', 'hello');
-- the first slash divides: the rest is the remote model's name
SELECT infer.complete('infer_s1/org/model', 'hello') IS NOT NULL AS answered;

-- servers of other wrappers and servers without a url
CREATE FOREIGN DATA WRAPPER infer_other;
CREATE SERVER infer_s3 FOREIGN DATA WRAPPER infer_other;
SELECT infer.complete('infer_s3/m', 'hello');
DROP FOREIGN DATA WRAPPER infer_other CASCADE;
CREATE SERVER infer_s4 FOREIGN DATA WRAPPER pg_inference;
SELECT infer.complete('infer_s4/m', 'hello');
ALTER SERVER infer_s4 OPTIONS (ADD url :'url');
SELECT infer.complete('infer_s4/m', 'hello') IS NOT NULL AS answered;
-- servers that share an admission key share its limit: the first one's
ALTER SERVER infer_s4 OPTIONS (ADD admission_key 'infer_servers', ADD max_concurrency '9');
SELECT infer.complete('infer_s4/m', 'hello') IS NOT NULL AS answered;
SELECT key, max_limit, in_flight FROM infer.stat_admission WHERE key = 'infer_servers';
ALTER SERVER infer_s4 OPTIONS (DROP admission_key, DROP max_concurrency);

-- hosts that are not allowed get nothing
SET pg_inference.allowed_hosts = '*.example.com, api.example.org';
ALTER SERVER infer_s4 OPTIONS (SET url 'http://example.net/v1');
SELECT (infer.try_complete('infer_s4/m', 'hello')).reason;
ALTER SERVER infer_s4 OPTIONS (SET url 'http://api.example.com.example.net/v1');
SELECT (infer.try_complete('infer_s4/m', 'hello')).reason;
RESET pg_inference.allowed_hosts;
-- nor do link-local addresses, where machines keep their credentials
ALTER SERVER infer_s4 OPTIONS (SET url 'http://169.254.169.254/latest');
SELECT (infer.try_complete('infer_s4/m', 'hello')).reason;
ALTER SERVER infer_s4 OPTIONS (SET url 'http://[::ffff:169.254.169.254]/latest');
SELECT (infer.try_complete('infer_s4/m', 'hello')).reason;
SET ROLE infer_servers_user;
SET pg_inference.allowed_hosts = '*';
RESET ROLE;

-- a new url counts at once
ALTER SERVER infer_s4 OPTIONS (SET url :'url');
SELECT infer.complete('infer_s4/m', 'hello') IS NOT NULL AS answered;
ALTER SERVER infer_s4 RENAME TO infer_s5;
SELECT infer.complete('infer_s4/m', 'hello');
SELECT infer.complete('infer_s5/m', 'hello') IS NOT NULL AS answered;

DROP SERVER infer_s1;
DROP SERVER infer_s5;
SELECT infer.complete('infer_s5/m', 'hello');
DROP ROLE infer_servers_user;
DROP ROLE infer_servers_maker;
