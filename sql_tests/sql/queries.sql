-- The examples of docs/queries.md with their plans; scripts/checks/plans compares the page with what
-- is expected here.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_q FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
\! mock set dim=4 reply=yesno
SELECT FROM infer.create_model('embedder', 'embed', 'infer_q');
SELECT FROM infer.create_model('llm', 'complete', 'infer_q');
CREATE SCHEMA queries;
SET search_path = queries, public;
CREATE TABLE docs (id int PRIMARY KEY, author int, lang text, body text, embedding real[]);
INSERT INTO docs SELECT i, i % 10, CASE WHEN i % 4 = 0 THEN 'de' ELSE 'en' END, 'text ' || i % 60 FROM generate_series(1, 120) AS i;
CREATE TABLE authors AS SELECT i AS id, 'author ' || i AS name, 'bio ' || i AS bio FROM generate_series(0, 9) AS i;
CREATE TABLE topics AS SELECT topic, i AS n FROM unnest(ARRAY['yes', 'no', 'perhaps']) WITH ORDINALITY AS t(topic, i);
CREATE TABLE letters (id int, body text, kind text);
ANALYZE docs, authors, topics, letters;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
\pset format unaligned
\pset tuples_only on

-- What versions spell differently: before 17, an InitPlan's result is $0; from 18 on, columns below a
-- grouping have the table's name, and windows have a line of their own.
CREATE FUNCTION planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    CONTINUE WHEN line ~ '^ *Window: ';
    RETURN NEXT replace(replace(replace(line, ' (returns $0)', ''), '$0', '(InitPlan 1).col1'), 'docs.', '');
  END LOOP;
END $$;

EXPLAIN (COSTS OFF)
UPDATE docs SET embedding = infer.embed('embedder', body) WHERE embedding IS NULL;

EXPLAIN (COSTS OFF)
SELECT id FROM docs
 WHERE infer.complete('llm', 'Spam? ' || body) = 'yes' AND lang = 'en';

EXPLAIN (COSTS OFF)
SELECT id, infer.complete('llm', 'Translate: ' || body) FROM docs
 WHERE infer.complete('llm', 'Spam? ' || body) = 'no' ORDER BY id LIMIT 5;

EXPLAIN (COSTS OFF)
SELECT id, infer.complete('llm', 'Translate: ' || body) FROM docs ORDER BY author, id LIMIT 5;

SELECT planned($$
SELECT infer.complete('llm', 'Topic of: ' || body) AS topic, count(*) FROM docs GROUP BY topic
$$);

SELECT planned($$
SELECT author, count(*) FILTER (WHERE infer.complete('llm', 'Spam? ' || body) = 'yes') FROM docs GROUP BY author
$$);

SELECT planned($$
SELECT author, infer.complete('llm', 'Summarise: ' || string_agg(body, ' ')) FROM docs
 GROUP BY author HAVING count(*) > 3
$$);

SELECT planned($$
SELECT id, rank() OVER (PARTITION BY author ORDER BY infer.complete('llm', 'Grade: ' || body)) FROM docs
$$);

EXPLAIN (COSTS OFF)
SELECT d.id, a.name FROM docs d JOIN authors a
    ON infer.complete('llm', 'Did the author of ' || a.bio || ' write this? ' || d.body) = 'yes';

EXPLAIN (COSTS OFF)
SELECT d.id, a.name FROM docs d JOIN authors a
    ON a.id = d.author AND infer.complete('llm', 'Does ' || a.bio || ' fit ' || d.body) = 'yes';

EXPLAIN (COSTS OFF)
SELECT d.id, t.n FROM docs d JOIN topics t ON t.topic = infer.complete('llm', 'Topic of: ' || d.body);

EXPLAIN (COSTS OFF)
SELECT id, o.value, o.error FROM docs, infer.try_complete('llm', 'Translate: ' || body) AS o
 WHERE o.error IS NOT NULL;

EXPLAIN (COSTS OFF)
SELECT id, o.value FROM docs LEFT JOIN LATERAL infer.try_complete('llm', 'Translate: ' || body) AS o ON lang = 'de';

EXPLAIN (COSTS OFF)
WITH answers AS MATERIALIZED (
  SELECT id, author, infer.complete('llm', 'Topic of: ' || body) AS topic FROM docs)
SELECT a.id, b.id FROM answers a JOIN answers b ON a.author = b.author AND a.topic = b.topic AND a.id < b.id;

EXPLAIN (COSTS OFF)
INSERT INTO letters SELECT id, body FROM docs
  RETURNING id, infer.complete('llm', 'Kind of: ' || body);

EXPLAIN (COSTS OFF)
SELECT id, CASE WHEN lang = 'de' THEN infer.complete('llm', 'Translate: ' || body) ELSE body END FROM docs;

EXPLAIN (COSTS OFF)
SELECT id FROM docs WHERE author = 3 OR infer.complete('llm', 'Spam? ' || body) = 'yes';

EXPLAIN (COSTS OFF)
SELECT infer.complete('llm', 'Shorten: ' || infer.complete('llm', 'Translate: ' || body)) FROM docs;

SELECT planned($$
SELECT id FROM docs WHERE embedding = infer.embed('embedder', 'a text')
$$);

EXPLAIN (COSTS OFF)
INSERT INTO letters VALUES (1, infer.complete('llm', 'Write to Ann')), (2, infer.complete('llm', 'Write to Bob'));

EXPLAIN (COSTS OFF)
SELECT infer.complete('llm', 'Translate: ' || text) FROM (
  SELECT body AS text FROM docs UNION ALL SELECT bio FROM authors) AS s;

-- figures: what does not depend on how fast the server is
CREATE FUNCTION analyzed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
    CONTINUE WHEN line ~ '^ *(Requests|Window|Bytes Sent): ';
    RETURN NEXT replace(line, '.00 loops', ' loops');
  END LOOP;
END $$;
SELECT analyzed($$
SELECT id FROM docs
 WHERE infer.complete('llm', 'Spam? ' || body) = 'yes' AND lang = 'en'
$$);
SELECT analyzed($$
SELECT id, infer.complete('llm', 'Translate: ' || body) FROM docs ORDER BY author, id LIMIT 5
$$);

-- direct, and how to write it
CREATE FUNCTION translate_slowly(text) RETURNS text LANGUAGE plpgsql STABLE
  AS $$ BEGIN RETURN infer.complete('llm', 'Translate: ' || $1); END $$;
CREATE FUNCTION translate(text) RETURNS text LANGUAGE sql STABLE
  AS $$ SELECT infer.complete('llm', 'Translate: ' || $1) $$;
EXPLAIN (COSTS OFF)
SELECT translate_slowly(body) FROM docs;
EXPLAIN (COSTS OFF)
SELECT translate(body) FROM docs;

EXPLAIN (COSTS OFF)
SELECT a.name, d.id FROM authors a LEFT JOIN docs d
    ON a.id = d.author AND infer.complete('llm', 'Does ' || a.bio || ' fit ' || d.body) = 'yes';
EXPLAIN (COSTS OFF)
SELECT a.name, s.id FROM authors a LEFT JOIN (
  SELECT a.id AS author, d.id FROM authors a JOIN docs d
      ON a.id = d.author AND infer.complete('llm', 'Does ' || a.bio || ' fit ' || d.body) = 'yes') s
  ON s.author = a.id;

\! mock set defaults
SELECT FROM infer.drop_model('embedder');
SELECT FROM infer.drop_model('llm');
DROP SCHEMA queries CASCADE;
DROP SERVER infer_q;
