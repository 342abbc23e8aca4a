-- What the fuzzer's queries read and write. Small: every call without InferScan is made one by one.
SET client_min_messages = warning;
CREATE EXTENSION pg_inference;
CREATE SCHEMA fz;
SET search_path = fz;
CREATE SERVER mock FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '8');
SELECT FROM infer.create_model('c', 'complete', 'mock');
SELECT FROM infer.create_model('e', 'embed', 'mock');

CREATE TABLE t AS SELECT i AS id, 'x' || i AS x, 'y' || i % 7 AS y, i % 5 AS g, (i * 37 % 100) / 100.0::float8 AS v
  FROM generate_series(1, 40) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE b AS SELECT i AS id, i * 13 % 40 + 1 AS tid, CASE WHEN i % 9 > 0 THEN 'b' || i % 50 END AS txt
  FROM generate_series(1, 80) AS i;
ALTER TABLE b ADD PRIMARY KEY (id);
CREATE INDEX ON b (tid);
CREATE TABLE nn AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'n' || i END AS x FROM generate_series(1, 20) AS i;
ALTER TABLE nn ADD PRIMARY KEY (id);
CREATE TABLE lab AS SELECT 'x' || i AS name, i AS n FROM generate_series(1, 25) AS i;
ALTER TABLE lab ADD PRIMARY KEY (name);
-- partitions with other layouts than their parent's
CREATE TABLE p (id int PRIMARY KEY, x text, k int) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (15);
CREATE TABLE p1 (junk bool, x text, k int, id int NOT NULL);
ALTER TABLE p1 DROP COLUMN junk;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (15) TO (30);
CREATE TABLE p2 PARTITION OF p DEFAULT;
INSERT INTO p SELECT i, 'p' || i, i % 4 FROM generate_series(1, 40) AS i;
CREATE TABLE h (id int PRIMARY KEY, x text, k int);
CREATE TABLE h1 (extra text, PRIMARY KEY (id)) INHERITS (h);
CREATE TABLE h2 (k int, x text, id int PRIMARY KEY);
ALTER TABLE h2 INHERIT h;
INSERT INTO h SELECT i, 'h' || i, i % 3 FROM generate_series(1, 8) AS i;
INSERT INTO h1 SELECT i, 'h' || i, i % 3, 'e' || i FROM generate_series(9, 16) AS i;
INSERT INTO h2 SELECT i % 3, 'h' || i % 10, i FROM generate_series(17, 24) AS i;
-- some rows fail when asked; ok says which do not
CREATE TABLE bad AS SELECT i AS id, CASE WHEN i % 6 = 0 THEN '[[mock:400]] ' ELSE 'g' END || i AS x, i % 6 > 0 AS ok
  FROM generate_series(1, 30) AS i;
ALTER TABLE bad ADD PRIMARY KEY (id);
CREATE TABLE rl AS SELECT id, x, g FROM t;
ALTER TABLE rl ADD PRIMARY KEY (id);
CREATE TABLE wide AS SELECT i AS id, string_agg(md5(i || '.' || j), ' ') AS x
  FROM generate_series(1, 3) AS i, generate_series(1, 20000) AS j GROUP BY i;
ALTER TABLE wide ADD PRIMARY KEY (id);
CREATE TABLE chats AS SELECT i AS id, CASE WHEN i % 5 > 0 THEN jsonb_build_array(jsonb_build_object('role', 'user', 'content', 'm' || i)) END AS m
  FROM generate_series(1, 15) AS i;
ALTER TABLE chats ADD PRIMARY KEY (id);
CREATE TABLE big AS SELECT i AS id, i % 10 AS k, 'z' || i % 60 AS x FROM generate_series(1, 3000) AS i;
ALTER TABLE big ADD PRIMARY KEY (id);
-- written only
CREATE TABLE sink (id int PRIMARY KEY, e text, n int DEFAULT 7, CHECK (n <> -12345), twice int GENERATED ALWAYS AS (n * 2) STORED);
INSERT INTO sink SELECT i, 'o' || i, i % 4 FROM generate_series(3, 30, 3) AS i;
CREATE TABLE psink (id int PRIMARY KEY, e text, n int) PARTITION BY RANGE (id);
CREATE TABLE psink0 PARTITION OF psink FOR VALUES FROM (0) TO (12);
CREATE TABLE psink1 (n int, junk bool, e text, id int NOT NULL);
ALTER TABLE psink1 DROP COLUMN junk;
ALTER TABLE psink ATTACH PARTITION psink1 FOR VALUES FROM (12) TO (25);
CREATE TABLE psink2 PARTITION OF psink DEFAULT;
INSERT INTO psink SELECT i, 'o' || i, i % 4 FROM generate_series(3, 30, 3) AS i;
CREATE TABLE lines (no serial, line text);

-- inlined by the planner
CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;
CREATE FUNCTION slow2(text, text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1 || $2) $$;
CREATE FUNCTION nslow(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT coalesce(infer.complete('c', $1), 'none') $$;
CREATE FUNCTION score(text) RETURNS float8 LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 2}'))[1]::float8 / 2 + 0.5 $$;
CREATE FUNCTION keep(text) RETURNS bool LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 3}'))[1] > -0.3 $$;
CREATE FUNCTION vec(text) RETURNS real[] LANGUAGE sql STABLE AS $$ SELECT infer.embed('e', $1, '{"dimensions": 3}') $$;
CREATE FUNCTION tried(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT (infer.try_complete('c', $1)).value $$;
CREATE FUNCTION says(text) RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT infer.chat('c', jsonb_build_array(jsonb_build_object('role', 'user', 'content', coalesce($1, 'nothing')))) $$;
CREATE FUNCTION raw(text) RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT infer.call('c', jsonb_build_object('prompt', coalesce($1, 'nothing')), '{"path": "/completions"}') #>> '{choices,0,text}' $$;
-- not inlined
CREATE FUNCTION plw(text) RETURNS text LANGUAGE plpgsql STABLE COST 5000 AS $$ BEGIN RETURN infer.complete('c', $1); END $$;
-- cheap, and it fails for most ids: whoever calls it too early is seen
CREATE FUNCTION brittle(id int) RETURNS int LANGUAGE plpgsql STABLE COST 1 AS
  $$ BEGIN IF id > 20 THEN RAISE 'brittle: %', id; END IF; RETURN id; END $$;

CREATE VIEW vw AS SELECT id, g, slow(x) AS e FROM t;
CREATE VIEW vwsb WITH (security_barrier) AS SELECT id, g, slow(x) AS e FROM t WHERE keep(x) AND g < 4;
CREATE VIEW vwagg AS SELECT g AS id, max(slow(x)) AS e, count(*)::int AS n FROM t WHERE id < 25 GROUP BY g;
ALTER TABLE rl ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON rl USING (g < 3 AND brittle(LEAST(id, 20)) > 0 AND keep(x));
GRANT USAGE ON SCHEMA fz, infer TO fz_reader;
GRANT ALL ON ALL TABLES IN SCHEMA fz TO fz_reader;
GRANT ALL ON ALL SEQUENCES IN SCHEMA fz TO fz_reader;
GRANT USAGE ON FOREIGN SERVER mock TO fz_reader;
ANALYZE;
