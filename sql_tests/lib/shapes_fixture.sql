-- The tables and functions that query shapes speak of; the caller has set :url.
--
-- All calls are embeddings, for they go out sixteen to a request. slow() reads an embedding as text,
-- score() and keep() look at one number of it; three lengths, so that they never share an answer.
-- They are inlined: plans hold the calls themselves. What slow() answers to 'y1' stands in a query as
-- the literal 'Y1' (see with_answers). keep() passes 60 of the texts x1 to x100.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
CREATE SCHEMA shapes;
SET search_path = shapes;
CREATE SERVER infer_shapes FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('e', 'embed', 'infer_shapes');

CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT infer.embed('e', $1, '{"dimensions": 2}')::text $$;
CREATE FUNCTION slow2(text, text) RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT infer.embed('e', $1 || $2, '{"dimensions": 2}')::text $$;
CREATE FUNCTION nslow(text) RETURNS text LANGUAGE sql STABLE AS
  $$ SELECT infer.embed('e', coalesce($1, 'nothing'), '{"dimensions": 2}')::text $$;
CREATE FUNCTION inl(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT slow($1) || '' $$;
CREATE FUNCTION score(text) RETURNS float8 LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 3}'))[1]::float8 / 2 + 0.5 $$;
CREATE FUNCTION keep(text) RETURNS bool LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 4}'))[1] > 0 $$;

CREATE TABLE t AS SELECT i AS id, 'x' || i AS x, 'y' || i % 7 AS y, i % 5 AS g, (i * 37 % 100) / 100.0::float8 AS v
  FROM generate_series(1, 100) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE b AS SELECT i AS id, i * 13 % 100 + 1 AS tid, 'b' || i AS txt FROM generate_series(1, 300) AS i;
ALTER TABLE b ADD PRIMARY KEY (id);
CREATE INDEX ON b (tid);
CREATE TABLE big AS SELECT i AS id, i % 1000 AS k, 'body ' || i AS body FROM generate_series(1, 20000) AS i;
ALTER TABLE big ADD PRIMARY KEY (id);
CREATE INDEX ON big (k);
CREATE TABLE p (id int, x text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (20);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (20) TO (40);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (40) TO (61);
INSERT INTO p SELECT i, 'p' || i FROM generate_series(1, 60) AS i;
CREATE TABLE lab AS SELECT slow('x' || i) AS name, i AS n FROM generate_series(1, 50) AS i;
ALTER TABLE lab ADD PRIMARY KEY (name);
CREATE TABLE nn AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'n' || i END AS x FROM generate_series(1, 20) AS i;
CREATE TABLE sink (id int PRIMARY KEY, e text);
CREATE TABLE rl AS SELECT * FROM t;
ALTER TABLE rl ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON rl USING (g < 2);
-- what is rolled back stays in these tables, and plans must not change when somebody tidies up
ALTER TABLE t SET (autovacuum_enabled = off);
ALTER TABLE b SET (autovacuum_enabled = off);
ALTER TABLE sink SET (autovacuum_enabled = off);
VACUUM ANALYZE t, b, big, p, lab, nn, sink, rl;
CREATE VIEW vw AS SELECT id, slow(x) AS e FROM t;
CREATE VIEW vwsb WITH (security_barrier) AS SELECT id, slow(x) AS e FROM t WHERE g < 4;

-- the same server once more, as a foreign one
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA public;
SELECT current_setting('unix_socket_directories') AS socket_dir, current_setting('port') AS port, current_database() AS db \gset
CREATE SERVER infer_loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'socket_dir', port :'port', dbname :'db');
CREATE USER MAPPING FOR CURRENT_USER SERVER infer_loopback;
CREATE FOREIGN TABLE ft (id int, x text, y text, g int, v float8) SERVER infer_loopback OPTIONS (schema_name 'shapes', table_name 't');
ANALYZE ft;

CREATE ROLE infer_shapes_user;
GRANT USAGE ON SCHEMA shapes TO infer_shapes_user;
GRANT SELECT ON rl TO infer_shapes_user;
GRANT USAGE ON FOREIGN SERVER infer_shapes TO infer_shapes_user;

CREATE FUNCTION with_answers(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  word text;
BEGIN
  FOREACH word IN ARRAY ARRAY['Y1', 'Y2', 'Y3', 'B1', 'X5'] LOOP
    IF q LIKE '%''' || word || '''%' THEN
      q := replace(q, quote_literal(word), quote_literal(slow(lower(word))));
    END IF;
  END LOOP;
  RETURN q;
END $$;
CREATE TABLE shapes (n text PRIMARY KEY, want text, q text, pre text, post text);
