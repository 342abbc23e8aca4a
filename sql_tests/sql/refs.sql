-- Service references: infer.ref(), their text and bytes, and what a call by one never does
\getenv mock_url MOCK_URL
SELECT :'mock_url' || '/v1' AS url \gset
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
-- probes find out nothing here (t/270_incarnations.pl is about them)
\! mock set dim=2 health_status=0 incarnation=first
CREATE SERVER infer_ref FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', incarnation 'header:x-incarnation');
CREATE SERVER "infer ref: two" FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', incarnation 'field:system_fingerprint');
CREATE SERVER infer_ref_plain FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
SELECT infer.create_model('ref_embed', task => 'embed', server => 'infer_ref', remote_model => 'org/mock');
SELECT infer.create_model('ref_many', task => 'complete', server => 'infer_ref', remote_model => 'mock');
SELECT infer.add_placement('ref_many', server => 'infer ref: two');
-- the place in the table of servers, which differs from run to run, becomes N.N
CREATE FUNCTION pg_temp.mask(ref text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(ref, ':[0-9]+\.[0-9]+:', ':N.N:') $$;
-- what a statement comes to: its error's SQLSTATE, message, detail and hint
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text; hint text; result text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', SQLSTATE || ' ' || regexp_replace(SQLERRM, ':[0-9]+\.[0-9]+:', ':N.N:'), 'DETAIL: ' || nullif(detail, ''), 'HINT: ' || nullif(hint, ''));
END $$;

-- its text and bytes, once and for all
SELECT infer.ref_to_bytes('infer:ref:1:gpu%201%2Fa%3Ab%C3%A9:7.4242424242:boot-1.5~x:org%2Fmodel%3Aq4%25');
SELECT infer.ref_from_bytes('\x49520100000007fcde41b2000b67707520312f613a62c3a9000a626f6f742d312e357e78000d6f72672f6d6f64656c3a7134251113b665');
SELECT infer.ref_to_bytes(NULL) IS NULL, infer.ref_from_bytes(NULL) IS NULL, infer.ref(NULL) IS NULL;
SELECT pg_temp.try(format('SELECT infer.ref_to_bytes(%L)', ref)) FROM (VALUES ('infer:ref:1:s:0.1:i'), ('infer:ref:2:s:0.1:i:m'),
	('infer:ref:1:s:0.1:i:a b'), ('gpu/model')) AS v(ref);
WITH good AS (SELECT infer.ref_to_bytes('infer:ref:1:gpu:7.42:boot:org%2Fmodel') AS b)
SELECT pg_temp.try(format('SELECT infer.ref_from_bytes(%L)', part)) AS error, count(*) FROM good,
	LATERAL (SELECT substr(b, 1, n) AS part FROM generate_series(0, length(b) - 1) AS n
		UNION ALL SELECT set_byte(b, n, get_byte(b, n) # x) FROM generate_series(0, length(b) - 1) AS n, unnest('{1,128,255}'::int[]) AS x
		UNION ALL SELECT b || '\x00'::bytea) AS garbled
	GROUP BY 1 ORDER BY 2 DESC, 1;

-- nothing is known of a server that nobody has called; nothing is sent to find out
SELECT pg_temp.try($$SELECT infer.ref('ref_embed')$$);
\! mock reset
SELECT pg_temp.try($$SELECT infer.ref('infer_ref_plain/mock')$$);
SELECT infer.embed('ref_embed', 'one') IS NOT NULL, infer.complete('infer_ref_plain/mock', 'two') IS NOT NULL,
	infer.complete('infer ref: two/mock', 'three') IS NOT NULL;
SELECT pg_temp.mask(infer.ref('ref_embed'));
SELECT pg_temp.mask(infer.ref('infer_ref_plain/mock'));
SELECT pg_temp.mask(infer.ref('infer ref: two/a model:é'));
SELECT pg_temp.mask(infer.ref('infer_ref/'));
SELECT pg_temp.mask(infer.ref('ref_many', server => 'infer ref: two')), pg_temp.mask(infer.ref('ref_many', server => 'infer_ref'));
SELECT pg_temp.mask(infer.ref('ref_many')) IN ('infer:ref:1:infer_ref:N.N:first:mock', 'infer:ref:1:infer%20ref%3A%20two:N.N:first:mock') AS one_of_them;
SELECT pg_temp.try(q) FROM unnest(ARRAY[$$SELECT infer.ref('ref_many', server => 'infer_ref_plain')$$, $$SELECT infer.ref('no_such_model')$$,
	$$SELECT infer.ref(infer.ref('ref_embed'))$$]) AS q;
SELECT infer.ref_from_bytes(infer.ref_to_bytes(infer.ref('ref_embed'))) = infer.ref('ref_embed') AS same;
\! mock stat requests

-- in place of a model's name, in all functions
SELECT infer.ref('ref_embed') AS ref, infer.ref('infer_ref_plain/mock') AS plain, infer.ref('infer ref: two/mock') AS field, infer.ref('infer_ref/') AS raw \gset
SELECT infer.embed(:'ref', 'one') = infer.embed('ref_embed', 'one') AS same, infer.complete(:'field', 'p') = infer.complete('infer ref: two/mock', 'p') AS same,
	infer.chat(:'plain', '[{"role": "user", "content": "c"}]') IS NOT NULL AS chat,
	infer.call(:'raw', '{"model": "m", "input": "r"}', options => '{"path": "/embeddings"}') -> 'model' AS model;
SELECT (infer.try_embed(:'ref', 'two')).server, (infer.try_complete(:'field', 'two')).reason;
SELECT count(infer.embed(:'ref', 'many ' || i)) FROM generate_series(1, 100) AS i;
SELECT pg_temp.try(format('SELECT infer.embed(%L, %L)', :'raw', 'x'));
SELECT pg_temp.try(format('SELECT infer.embed(%L, %L)', :'ref' || ':', 'x'));
SELECT pg_temp.try(format('SELECT infer.create_model(%L, %L)', 'infer:ref:1:s:0.1::m', 'embed'));
-- as plain data
CREATE TEMP TABLE kept AS SELECT :'field'::text AS ref;
SELECT infer.complete(ref, 'p') IS NOT NULL FROM kept;

-- it needs USAGE on the server, as the server itself does
CREATE ROLE infer_ref_user;
GRANT USAGE ON FOREIGN SERVER infer_ref_plain TO infer_ref_user;
SET ROLE infer_ref_user;
SELECT pg_temp.try(format('SELECT infer.embed(%L, %L)', :'ref', 'x'));
SELECT pg_temp.try($$SELECT infer.ref('ref_embed')$$);
SELECT pg_temp.try($$SELECT infer.ref('ref_many', server => 'infer_ref')$$);
SELECT infer.complete(:'plain', 'mine') IS NOT NULL AS mine;
RESET ROLE;

-- the server is started anew, and nobody has noticed: the answer does not count, and is not asked for again
\! mock set incarnation=second
\! mock reset
SELECT pg_temp.try(format('SELECT infer.embed(%L, %L, options => %L)', :'ref', 'stale', '{"retry": "ambiguous", "delivery": "reliable"}'));
SELECT value, reason, execution, http_status, attempts, usage IS NOT NULL AS usage FROM infer.try_complete(:'field', 'stale too');
\! mock stat requests items
-- now it is known: nothing is sent
SELECT pg_temp.try(format('SELECT infer.embed(%L, %L)', :'ref', 'unsent'));
SELECT value, reason, execution, http_status, attempts, server FROM infer.try_complete(:'field', 'unsent too');
SELECT infer.embed(:'ref', 'null', options => '{"on_error": "null"}') IS NULL AS "null";
SELECT count(*), count(infer.embed(:'ref', 'scan ' || i, options => '{"on_error": "null"}')) FROM generate_series(1, 50) AS i;
\! mock stat requests items
-- without an incarnation, the place is all that there is
SELECT infer.complete(:'plain', 'still') IS NOT NULL AS still;
SELECT infer.embed(infer.ref('ref_embed'), 'fresh') IS NOT NULL AS fresh;
SELECT server, incarnation, incarnations, errors FROM infer.stat_servers WHERE database = current_database() AND server LIKE 'infer%ref%' ORDER BY server COLLATE "C";
-- an answer that does not say whose it is
SELECT infer.ref('ref_embed') AS ref \gset
\! mock set incarnation=
SELECT reason, execution, pg_temp.mask(error) FROM infer.try_embed(:'ref', 'nameless');
\! mock set incarnation=second
SELECT reason FROM infer.try_embed(:'ref', 'named again');

-- another option: what was known is not; without one, nobody knows
ALTER SERVER infer_ref OPTIONS (SET incarnation 'field:system_fingerprint');
SELECT pg_temp.try($$SELECT infer.ref('ref_embed')$$);
SELECT reason FROM infer.try_embed(:'ref', 'the same, said elsewhere');
SELECT infer.ref('ref_embed') = :'ref' AS same;
ALTER SERVER infer_ref OPTIONS (DROP incarnation);
SELECT reason, execution, pg_temp.mask(error) FROM infer.try_embed(:'ref', 'unknown');
-- a change of other options is none of the server, one of its url is
ALTER SERVER infer_ref OPTIONS (ADD incarnation 'header:x-incarnation', ADD node 'n');
SELECT reason FROM infer.try_embed(:'ref', 'node');
SELECT replace(:'url', '127.0.0.1', 'localhost') AS other \gset
ALTER SERVER infer_ref OPTIONS (SET url :'other');
\! mock reset
SELECT reason, execution, attempts, pg_temp.mask(error) FROM infer.try_embed(:'ref', 'url');
ALTER SERVER infer_ref OPTIONS (SET url :'url');
SELECT reason, execution FROM infer.try_embed(:'ref', 'the url as it was');
DROP SERVER infer_ref_plain;
SELECT pg_temp.try(format('SELECT infer.complete(%L, %L)', :'plain', 'gone'));
CREATE SERVER infer_ref_plain FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url');
SELECT reason, execution FROM infer.try_complete(:'plain', 'another one of its name');
\! mock stat requests

-- mixed_incarnations: a statement's answers are of one incarnation
\! mock set defaults dim=2 health_status=0 incarnation=third
SELECT infer.embed('ref_embed', 'settle') IS NOT NULL;
\! mock reset
\! mock set after_items=10 incarnation=fourth
SELECT count(*) FROM generate_series(1, 20) AS i WHERE infer.embed('ref_embed', 'mixed ' || i, options => '{"dispatch_batch_size": 1, "max_concurrency": 1}') IS NOT NULL;
\! mock reset
\! mock set after_items=10 incarnation=fifth
SELECT reason, execution, count(*) FROM (SELECT o.reason, o.execution FROM generate_series(1, 20) AS i,
	LATERAL infer.try_embed('ref_embed', 'strict ' || i, options => '{"dispatch_batch_size": 1, "max_concurrency": 1, "mixed_incarnations": "error"}') AS o) AS s
	GROUP BY 1, 2 ORDER BY 1 NULLS FIRST, 2;
\! mock stat requests
SET pg_inference.mixed_incarnations = error;
\! mock reset
\! mock set after_items=10 incarnation=sixth
SELECT pg_temp.try($$SELECT count(infer.embed('ref_embed', 'strict ' || i, options => '{"dispatch_batch_size": 1, "max_concurrency": 1}')) FROM generate_series(1, 20) AS i$$);
SELECT pg_temp.try($$SELECT count(infer.embed('ref_embed', 'next ' || i)) FROM generate_series(1, 20) AS i$$);
SELECT pg_temp.try($$SELECT infer.embed('ref_embed', 'x', options => '{"mixed_incarnations": "maybe"}')$$);
RESET pg_inference.mixed_incarnations;

\! mock set defaults
SELECT infer.drop_model('ref_embed'), infer.drop_model('ref_many');
DROP SERVER infer_ref, infer_ref_plain, "infer ref: two";
DROP ROLE infer_ref_user;
