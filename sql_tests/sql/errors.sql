-- What becomes of calls that fail when the statement goes on: their causes afterwards
-- (infer.statement_errors), and the share of them that it bears.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_e FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'errors');
\pset format unaligned
\! mock set reply=echo retry_after=0
SET pg_inference.max_attempts = 1;
CREATE TABLE faults AS SELECT i AS id, format('row %s [[mock:%s]]', i, fault) AS x
FROM unnest('{400,401,403,404,429,500,503}'::text[]) WITH ORDINALITY AS f(fault, i);

-- nothing has failed yet, and asking is no statement that makes calls
SELECT count(*) FROM infer.statement_errors();

-- fault_F92: seven different failures in one statement are seven causes afterwards, each with its row
SELECT count(*), count(infer.complete('infer_e/m', x, '{}', '{"on_error": "null"}')) FROM faults;
SELECT f.id, e.calls, e.model, e.server, e.task, e.reason, e.execution, e.sqlstate, e.http_status, e.attempts, e.error
FROM infer.statement_errors() AS e JOIN faults AS f ON input_md5 = md5(x) ORDER BY id;
SELECT array_agg(ordinal ORDER BY ordinal), bool_and(at BETWEEN now() - interval '1 minute' AND clock_timestamp()) FROM infer.statement_errors();
-- the same when nobody makes them overlap, or when they are outcomes
SET pg_inference.enable = off;
SELECT count((infer.try_complete('infer_e/m', x)).error) FROM faults;
SELECT ordinal, reason FROM infer.statement_errors();
RESET pg_inference.enable;
-- an input that is asked for again in the statement has failed once
SELECT count((infer.try_complete('infer_e/m', x)).error) FROM faults, generate_series(1, 3) WHERE id < 3;
SELECT reason, calls FROM infer.statement_errors() ORDER BY reason COLLATE "C";
-- ... and a statement whose calls succeed leaves nothing
SELECT infer.complete('infer_e/m', 'fine');
SELECT count(*) FROM infer.statement_errors();

-- after an error, which has the row that raised it and those that were asked for with it
SELECT infer.complete('infer_e/m', x) FROM faults WHERE id = 4;
SELECT ordinal, calls, reason, http_status FROM infer.statement_errors();
-- ... after ROLLBACK, and after a cancel; statements without calls change nothing
BEGIN;
SELECT infer.complete('infer_e/m', x, '{}', '{"on_error": "null"}') IS NULL FROM faults WHERE id = 2;
ROLLBACK;
SELECT count(*) FROM faults;
SELECT ordinal, reason FROM infer.statement_errors();
SELECT infer.complete('infer_e/m', x, '{}', '{"on_error": "null"}') IS NULL AND pg_cancel_backend(pg_backend_pid()) AND pg_sleep(10) IS NULL FROM faults WHERE id = 6;
SELECT ordinal, reason FROM infer.statement_errors();
-- a call that never left has a cause too
CREATE SERVER infer_nobody FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1');
SELECT (infer.try_embed('infer_nobody/m', 'x')).reason;
SELECT model, task, reason, execution, sqlstate, http_status, attempts FROM infer.statement_errors();

-- a statement is what the client sent: in a block, it is what failed so far, in whatever it calls
DO $$
BEGIN
  PERFORM infer.try_complete('infer_e/m', 'one [[mock:400]]');
  EXECUTE $q$SELECT infer.try_complete('infer_e/m', 'two [[mock:404]]')$q$;
  RAISE NOTICE 'so far %', (SELECT array_agg(reason ORDER BY ordinal) FROM infer.statement_errors());
  BEGIN
    PERFORM infer.complete('infer_e/m', 'three [[mock:500]]');
  EXCEPTION WHEN SQLSTATE 'RM000' OR SQLSTATE 'RMSRV' THEN NULL;
  END;
END $$;
SELECT ordinal, reason FROM infer.statement_errors();
-- ... and each FETCH: its causes are those of the answers that came while it ran
BEGIN;
DECLARE c CURSOR FOR SELECT id, (infer.try_complete('infer_e/m', x)).reason FROM faults ORDER BY id;
FETCH ALL FROM c;
SELECT count(*) FROM infer.statement_errors();
COMMIT;

-- a document has the MD5 of its text
SELECT (infer.try_chat('infer_e/m', '[{"role": "user", "content": "ü [[mock:404]]"}]')).reason;
SELECT task, input_md5 = md5('[{"role": "user", "content": "ü [[mock:404]]"}]'::jsonb::text) AS same FROM infer.statement_errors();

-- the first thousand in full, the others by cause
SET pg_inference.enable = off;
SELECT count((infer.try_embed('infer_e/m' || i % 2, 'text ' || i || CASE WHEN i <= 1100 THEN '[[mock:400]]' ELSE '[[mock:503]]' END)).error) FROM generate_series(1, 1150) AS i;
SELECT count(*), sum(calls), max(ordinal), count(DISTINCT input_md5) FROM infer.statement_errors() WHERE ordinal IS NOT NULL;
SELECT calls, model, server, task, reason, execution, sqlstate, http_status, attempts, error, input_md5, at IS NOT NULL AS at
FROM infer.statement_errors() WHERE ordinal IS NULL ORDER BY http_status, model COLLATE "C";
-- ... of which there are not many; what has no place is counted together
SELECT count((infer.try_embed('infer_e/m' || i, 'text ' || i || '[[mock:400]]')).error) FROM generate_series(1, 1260) AS i;
SELECT count(*), sum(calls), count(*) FILTER (WHERE model IS NULL) AS rest, sum(calls) FILTER (WHERE model IS NULL) AS in_rest
FROM infer.statement_errors() WHERE ordinal IS NULL;
-- bounded, whatever names are made up
SELECT count((infer.try_embed('infer_e/m' || i || repeat('ü', 1000), 'text ' || i || '[[mock:400]]')).error) FROM generate_series(1, 1260) AS i;
SELECT max(octet_length(model)), count(*) FROM infer.statement_errors();
SELECT sum(total_bytes) BETWEEN 500000 AND 1100000 AS bounded FROM pg_backend_memory_contexts WHERE name = 'pg_inference causes';
RESET pg_inference.enable;

-- max_error_ratio: a statement that goes past failures is stopped when too many of its calls fail.
-- Off by default; one of ten may fail at 0.05, for of fewer than a hundred calls as many may as of a
-- hundred
CREATE TABLE many AS SELECT i AS id, 'many ' || i AS x FROM generate_series(1, 400) AS i;
SET pg_inference.on_error = 'null';
SHOW pg_inference.max_error_ratio;
SELECT count(*), count(infer.complete('infer_e/m', x || '[[mock:400]]')) FROM many;
SET pg_inference.max_error_ratio = 0.05;
SELECT count(*), count(infer.complete('infer_e/m', x || CASE WHEN id = 1 THEN '[[mock:400]]' ELSE '' END)) FROM many WHERE id <= 10;
-- five may fail, six may not, however they are asked for; a distinct input fails once
SELECT count(*), count(infer.complete('infer_e/m', 'x' || least(id, 5) || '[[mock:400]]')) FROM many;
SELECT count(*), count(infer.complete('infer_e/m', 'x' || least(id, 6) || '[[mock:400]]')) FROM many;
SELECT count((infer.try_embed('infer_e/m', x || '[[mock:400]]')).error) FROM many WHERE id <= 7;
SET pg_inference.enable = off;
SELECT count((infer.try_embed('infer_e/m', x || '[[mock:400]]')).error) FROM many WHERE id <= 5;
-- ... nothing further is sent
\! mock reset
SELECT count((infer.try_embed('infer_e/m', x || '[[mock:400]]')).error) FROM many;
\! mock stat requests
SELECT count(*), min(reason) FROM infer.statement_errors();
-- over more than a hundred calls it is their share: of the first 200 every twentieth fails, then every tenth
\! mock reset
SELECT count((infer.try_complete('infer_e/m', x || CASE WHEN id % 20 = 0 OR (id > 200 AND id % 10 = 0) THEN '[[mock:400]]' ELSE '' END)).error) FROM many;
\! mock stat requests
-- its proof is that of its calls: some were executed (RX), one may have been (RM), none was (RN)
SET pg_inference.max_error_ratio = 0;
DO $$ BEGIN PERFORM infer.complete('infer_e/m', 'fine'); PERFORM infer.complete('infer_e/m', 'x [[mock:400]]'); EXCEPTION WHEN SQLSTATE 'RX000' THEN RAISE NOTICE 'executed: % %', SQLSTATE, SQLERRM; END $$;
DO $$ BEGIN PERFORM infer.complete('infer_e/m', 'x [[mock:500]]'); EXCEPTION WHEN SQLSTATE 'RM000' THEN RAISE NOTICE 'may have been executed: % %', SQLSTATE, SQLERRM; END $$;
DO $$ BEGIN PERFORM infer.complete('infer_e/m', 'x [[mock:400]]'); EXCEPTION WHEN SQLSTATE 'RN000' THEN RAISE NOTICE 'not executed: % %', SQLSTATE, SQLERRM; END $$;
-- who catches it has stopped the statement all the same; the next one begins anew
\! mock reset
DO $$ BEGIN
  FOR i IN 1..3 LOOP
    BEGIN PERFORM infer.complete('infer_e/m', i || ' [[mock:400]]'); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', i, SQLERRM; END;
  END LOOP;
END $$;
\! mock stat requests
SELECT infer.complete('infer_e/m', 'fine');
-- a failure that raises by itself says more
SELECT infer.complete('infer_e/m', 'x [[mock:401]]', options => '{"on_error": "fail"}');
-- with InferScan: raised when the next row is due, which waits for nothing then, be it an answer that
-- hangs; and nothing is left in flight
RESET pg_inference.enable;
SET pg_inference.max_error_ratio = 0.02;
\set VERBOSITY terse
SELECT infer.complete('infer_e/m', x || CASE WHEN id = 1 THEN '[[mock:hang]]' WHEN id < 5 THEN '[[mock:400]]' ELSE '' END, '{}', '{"timeout": "60s"}') FROM many WHERE id <= 10;
SELECT in_flight FROM infer.stat_admission WHERE key = 'errors';
-- an answer that is asked for again after a pause is not waited for either
\! mock set retry_after=30
SELECT infer.complete('infer_e/m', x || CASE WHEN id = 1 THEN '[[mock:429]]' WHEN id < 5 THEN '[[mock:400]]' ELSE '' END, '{}', '{"timeout": "60s", "max_attempts": 4, "admission_key": "errors_pause"}') FROM many WHERE id <= 10;
\! mock set retry_after=0
SELECT waiting, in_flight FROM infer.stat_admission WHERE key = 'errors_pause';
-- ... nor are rows sent that are read after it
CREATE FUNCTION until_stopped() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
  LOOP
    PERFORM infer.complete('infer_e/m', 'probe');
    PERFORM pg_sleep(0.001);
  END LOOP;
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END $$;
SET pg_inference.max_error_ratio = 0;
\! mock reset
SELECT id, s, infer.complete('infer_e/m', x || CASE id WHEN 1 THEN '[[mock:400]]' ELSE '' END) FROM (SELECT id, x, CASE id WHEN 2 THEN until_stopped() END AS s FROM many WHERE id <= 10 OFFSET 0) AS t;
\! mock items | grep -c many
\set VERBOSITY default
DROP FUNCTION until_stopped();
RESET pg_inference.max_error_ratio;
RESET pg_inference.on_error;
DROP TABLE many;

-- another role's failures in this session are for those who may act as it, or read all statistics
CREATE ROLE regress_infer_definer;
CREATE ROLE regress_infer_caller;
GRANT USAGE ON FOREIGN SERVER infer_e TO regress_infer_definer, regress_infer_caller;
CREATE FUNCTION asked_for() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT (infer.try_complete('infer_e/m', 'secret [[mock:404]]')).reason $$;
ALTER FUNCTION asked_for() OWNER TO regress_infer_definer;
SET ROLE regress_infer_caller;
SELECT asked_for(), (infer.try_complete('infer_e/m', 'mine [[mock:400]]')).reason;
SELECT reason FROM infer.statement_errors();
RESET ROLE;
SELECT reason FROM infer.statement_errors() ORDER BY reason COLLATE "C";
GRANT pg_read_all_stats TO regress_infer_caller;
SET ROLE regress_infer_caller;
SELECT reason FROM infer.statement_errors() ORDER BY reason COLLATE "C";
RESET ROLE;

-- who gets the session from a pool does not see them
DISCARD TEMP;
SELECT count(*) FROM infer.statement_errors();
DISCARD ALL;
SELECT count(*) FROM infer.statement_errors();

\! mock set defaults
DROP FUNCTION asked_for();
DROP TABLE faults;
DROP SERVER infer_nobody;
DROP SERVER infer_e;
DROP ROLE regress_infer_definer, regress_infer_caller;
