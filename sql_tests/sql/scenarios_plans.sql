-- What the shapes cannot say of plans: plan_S13, S19, S20 and the pitfalls P10, P12, P25; where
-- an InferScan stands in a parallel plan, and what is left alone.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA public;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
CREATE SERVER infer_sp FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SET pg_inference.streaming_mode = batch;
CREATE TABLE sp AS SELECT i AS id, 'x' || i AS x, i % 5 AS g FROM generate_series(1, 100) AS i;
ALTER TABLE sp ADD PRIMARY KEY (id);
CREATE TABLE spb AS SELECT i AS id, i * 13 % 100 + 1 AS tid, 'b' || i AS txt FROM generate_series(1, 300) AS i;
CREATE INDEX ON spb (tid);
CREATE TABLE spd AS SELECT i AS id, i / 3 AS tid FROM generate_series(1, 20) AS i;
CREATE INDEX ON spd (tid);
CREATE TABLE spbig AS SELECT i AS id, 'body ' || i AS body FROM generate_series(1, 20000) AS i;
VACUUM ANALYZE sp, spb, spd, spbig;
CREATE FUNCTION keep(text) RETURNS bool LANGUAGE sql STABLE PARALLEL RESTRICTED AS
  $$ SELECT (infer.embed('infer_sp/m', $1, '{"dimensions": 4}'))[1] > 0 $$;
CREATE FUNCTION score(text) RETURNS float8 LANGUAGE sql STABLE PARALLEL RESTRICTED AS
  $$ SELECT (infer.embed('infer_sp/m', $1, '{"dimensions": 3}'))[1]::float8 $$;
\pset format unaligned
\pset tuples_only on

-- plan_S13: a security barrier's condition is decided before that of a query that joins it
CREATE VIEW spsb WITH (security_barrier) AS SELECT id, x, score(x) AS e FROM sp WHERE score(x) > 0;
EXPLAIN (COSTS OFF) SELECT v.id, b.id FROM spsb AS v JOIN spb AS b ON b.tid = v.id WHERE keep(v.x);
\! mock reset
SELECT count(*) AS passed FROM spsb \gset
\! mock reset
SELECT count(*) > 0 FROM spsb AS v JOIN spb AS b ON b.tid = v.id WHERE keep(v.x);
\set items `mock stat items | sed s/items=//`
SELECT :items = 100 + :passed;

-- plan_S19, P10: a merge join goes back on its inner side, which an InferScan cannot
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT a.id, c.id FROM spd AS a JOIN spb AS c ON a.tid = c.tid WHERE keep(c.txt);
SELECT count(*) AS n, sum(a.id * c.id) AS sum FROM spd AS a JOIN spb AS c ON a.tid = c.tid WHERE keep(c.txt) \gset on_
SET pg_inference.enable = off;
SELECT count(*) AS n, sum(a.id * c.id) AS sum FROM spd AS a JOIN spb AS c ON a.tid = c.tid WHERE keep(c.txt) \gset off_
RESET pg_inference.enable;
SELECT :on_n = :off_n AND :on_sum = :off_sum, :on_n;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;

-- calls that are PARALLEL RESTRICTED, as ours: in the leader, above Gather
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT id, score(body) FROM spbig WHERE id % 200 = 0;
EXPLAIN (COSTS OFF) SELECT max(score(body)) FROM spbig WHERE id % 200 = 0;
EXPLAIN (COSTS OFF) SELECT id FROM spbig WHERE id % 200 = 0 ORDER BY body, score(body) LIMIT 5;
-- plan_S20: the same function declared PARALLEL SAFE works in the workers
CREATE FUNCTION pembed(text, text, jsonb, jsonb) RETURNS real[] AS 'pg_inference', 'infer_embed' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000;
CREATE FUNCTION pscore(text) RETURNS float8 LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT (pembed('infer_sp/m', $1, '{"dimensions": 3}', '{}'))[1]::float8 $$;
EXPLAIN (COSTS OFF) SELECT sum(pscore(body)) FROM spbig WHERE id % 200 = 0;
SELECT round(sum(score(body))::numeric, 6) AS sum FROM spbig WHERE id % 200 = 0 \gset
SET parallel_leader_participation = off;
\! mock reset
SELECT round(sum(pscore(body))::numeric, 6) = :sum FROM spbig WHERE id % 200 = 0;
\! mock stat items duplicate_items
RESET parallel_leader_participation;
-- P25: a parameter that is set above Gather and read below it
\! mock reset
SELECT count(score(body)) FROM spbig WHERE id % 200 = 0 AND id > (SELECT 9000 + score(x) * 1000 FROM sp WHERE id = 7);
\! mock stat items
SET pg_inference.enable = off;
SELECT count(score(body)) FROM spbig WHERE id % 200 = 0 AND id > (SELECT 9000 + score(x) * 1000 FROM sp WHERE id = 7);
RESET pg_inference.enable;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- P12: an asynchronous scan is none below an InferScan; a direct modification stays what it is
SELECT current_setting('unix_socket_directories') AS socket_dir, current_setting('port') AS port, current_database() AS db \gset
CREATE SERVER infer_sploop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'socket_dir', port :'port', dbname :'db', async_capable 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER infer_sploop;
CREATE TABLE sph (id int, x text, g int) PARTITION BY LIST (g);
CREATE FOREIGN TABLE sph1 PARTITION OF sph FOR VALUES IN (1) SERVER infer_sploop OPTIONS (table_name 'sp');
CREATE TABLE sph2 PARTITION OF sph FOR VALUES IN (2);
INSERT INTO sph2 SELECT id, x, g FROM sp WHERE g = 2;
EXPLAIN (COSTS OFF) SELECT id, x FROM sph;
SELECT count(*) AS n FROM sph WHERE keep(x) \gset on_
SET pg_inference.enable = off;
SELECT count(*) AS n FROM sph WHERE keep(x) \gset off_
RESET pg_inference.enable;
SELECT :on_n = :off_n, :on_n;
EXPLAIN (COSTS OFF) UPDATE sph1 SET x = 'direct' WHERE id = 1 RETURNING score(x);
EXPLAIN (COSTS OFF) UPDATE sph1 SET x = 'not direct' WHERE keep(x);

SET client_min_messages = warning;
RESET pg_inference.streaming_mode;
DROP TABLE sp, spb, spd, spbig, sph CASCADE;
DROP FUNCTION keep, score, pembed, pscore;
DROP SERVER infer_sp CASCADE;
DROP SERVER infer_sploop CASCADE;
