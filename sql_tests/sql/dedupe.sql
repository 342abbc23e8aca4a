-- Equal inputs of a statement are asked once: fault_F85, and the memo that sees to it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_d FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set reply=echo
CREATE TABLE dt AS SELECT i AS id, 'x' || i AS x, 'y' || i % 7 AS y FROM generate_series(1, 100) AS i;
ANALYZE dt;
\pset format unaligned
\pset tuples_only on

-- fault_F85: the same call in SELECT, WHERE and ORDER BY
\! mock reset
SELECT infer.complete('infer_d/m', x) FROM dt WHERE infer.complete('infer_d/m', x) = 'x7'
  ORDER BY infer.complete('infer_d/m', x);
\! mock stat items duplicate_items
\! mock reset
SELECT infer.complete('infer_d/m', y), count(*) FROM dt WHERE infer.complete('infer_d/m', y) <> 'y0'
  GROUP BY infer.complete('infer_d/m', y) HAVING infer.complete('infer_d/m', max(y)) < 'y4'
  ORDER BY infer.complete('infer_d/m', y);
\! mock stat items duplicate_items
-- fault_F85: all columns of an outcome
\! mock reset
SELECT value, reason, http_status, attempts FROM (
  SELECT (infer.try_complete('infer_d/m', x)).* FROM dt) AS s ORDER BY value COLLATE "C" LIMIT 2;
\! mock stat items duplicate_items
\! mock reset
SELECT count(*), count(s.value), count(s.error) FROM dt, infer.try_complete('infer_d/m', x) AS s;
\! mock stat items duplicate_items
-- equal rows
\! mock reset
SELECT count(infer.complete('infer_d/m', y)), count(DISTINCT infer.complete('infer_d/m', y)) FROM dt;
\! mock stat items duplicate_items
-- equal only if all of it is equal
\! mock reset
SELECT count(infer.complete('infer_d/m', 'a')), count(infer.complete('infer_d/m', 'a', '{"temperature": 1}')),
  count(infer.complete('infer_d/n', 'a')), count(infer.complete('infer_d/m', 'a ')),
  count(infer.complete('infer_d/m', 'a', '{}', '{"timeout": "10s"}')),
  count(infer.chat('infer_d/m', '[{"role": "user", "content": "a"}]')) FROM dt;
\! mock stat requests

-- twins share an answer
\! mock reset
SELECT infer.complete('infer_d/m', x), (infer.try_complete('infer_d/m', x)).value FROM dt WHERE id = 1;
\! mock stat items

-- two nodes of one plan, and a sub-plan's
\! mock reset
SELECT count(*) FROM (SELECT infer.complete('infer_d/m', x) FROM dt UNION ALL SELECT infer.complete('infer_d/m', x) FROM dt) AS s(c)
  WHERE c <> '';
\! mock stat items duplicate_items
\! mock reset
SELECT count(*) FROM dt AS a JOIN dt AS b ON infer.complete('infer_d/m', a.x) = infer.complete('infer_d/m', b.x);
\! mock stat items duplicate_items
\! mock reset
SELECT count((SELECT infer.complete('infer_d/m', a.y) WHERE a.id > 50)) FROM dt AS a WHERE infer.complete('infer_d/m', y) IS NOT NULL;
\! mock stat items duplicate_items

-- the function's own body shares it: PL/pgSQL, a FROM-less sub-query, a CHECK constraint, a trigger
CREATE FUNCTION dwrap(q text) RETURNS text LANGUAGE plpgsql STABLE AS
  $$ BEGIN RETURN infer.complete('infer_d/m', q); END $$;
\! mock reset
SELECT count(*) FROM dt WHERE dwrap(y) = infer.complete('infer_d/m', y);
\! mock stat items duplicate_items
\! mock reset
SELECT infer.complete('infer_d/m', 'a') = infer.complete('infer_d/m', 'a');
\! mock stat items
CREATE TABLE dc (c text CHECK (infer.complete('infer_d/m', c) <> ''), d text);
CREATE FUNCTION dtrig() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN NEW.d := infer.complete('infer_d/m', NEW.c); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON dc FOR EACH ROW EXECUTE FUNCTION dtrig();
\! mock reset
INSERT INTO dc SELECT y FROM dt WHERE infer.complete('infer_d/m', y) <> 'y0';
\! mock stat items duplicate_items
SELECT count(*) FROM dc WHERE c = d;
-- a DO block is one statement
\! mock reset
DO $$
BEGIN
  FOR i IN 1..5 LOOP
    PERFORM infer.complete('infer_d/m', 'loop'), infer.complete('infer_d/m', x) FROM dt WHERE id < 3;
  END LOOP;
  BEGIN
    PERFORM infer.complete('infer_d/m', 'loop');
    RAISE division_by_zero;
  EXCEPTION WHEN division_by_zero THEN
    PERFORM infer.complete('infer_d/m', 'loop');
  END;
END $$;
\! mock stat items duplicate_items

-- the next statement starts anew, also in a transaction
\! mock reset
BEGIN;
SELECT infer.complete('infer_d/m', 'a');
SELECT infer.complete('infer_d/m', 'a');
COMMIT;
\! mock stat items

-- a failed input is not asked again in its statement
\! mock reset
SELECT count(o.value), count(o.error), min(o.reason) FROM dt, infer.try_complete('infer_d/m', y || CASE WHEN y = 'y1' THEN ' [[mock:400]]' ELSE '' END) AS o;
\! mock stat requests failed
\! mock reset
SELECT count(infer.complete('infer_d/m', 'bad [[mock:400]]', '{}', '{"on_error": "null"}')), count(*) FROM dt;
\! mock stat requests
\! mock reset
DO $$
BEGIN
  FOR i IN 1..5 LOOP
    BEGIN
      PERFORM infer.complete('infer_d/m', 'bad [[mock:400]]');
    EXCEPTION WHEN SQLSTATE 'RN000' THEN
      RAISE INFO '%', SQLSTATE;
    END;
  END LOOP;
END $$;
\! mock stat requests

-- more than the memo holds: asked again, and right
CREATE TABLE dbig AS SELECT i AS id, repeat(md5(i::text), 64) AS x FROM generate_series(1, 100) AS i;
SET pg_inference.memo_memory = '64kB';
SELECT count(*), count(DISTINCT c) FROM (
  SELECT infer.complete('infer_d/m', x) AS c, x FROM dbig UNION ALL SELECT infer.complete('infer_d/m', x), x FROM dbig) AS s
  WHERE c = x;
RESET pg_inference.memo_memory;

\! mock set defaults
DROP TABLE dt, dc, dbig;
DROP FUNCTION dwrap, dtrig;
DROP SERVER infer_d;
