-- One InferScan above an Append or MergeAppend: partitions, UNION ALL, inheritance, and multi-row
-- VALUES. Each query runs with InferScan and without: the same rows, how many calls in how many
-- requests (of at most 16), and how many InferScans the plan has. See shapes.sql.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set run :srcdir '/lib/run_cases.sql'
\! mock set reply=echo
CREATE SCHEMA append;
SET search_path = append;
CREATE SERVER infer_append FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('c', 'complete', 'infer_append');
SELECT FROM infer.create_model('e', 'embed', 'infer_append');
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION emb(text) RETURNS real[] LANGUAGE sql STABLE AS $$ SELECT infer.embed('e', $1, '{"dimensions": 2}') $$;
CREATE FUNCTION score(text) RETURNS float8 LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 2}'))[1]::float8 $$;
CREATE FUNCTION ask(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;
-- cheap, and must not see what row-level security hides
CREATE FUNCTION spy(text) RETURNS bool LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
  IF $1 = 'p3' THEN
    RAISE EXCEPTION 'seen: %', $1;
  END IF;
  RETURN true;
END $$;

-- partitions of different layouts; p1's column z is dropped
CREATE TABLE p (id int, x varchar(20), y text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (20);
CREATE TABLE p1 (y text, z int, x varchar(20), id int);
ALTER TABLE p1 DROP z;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (20) TO (40);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (40) TO (61);
INSERT INTO p SELECT i, 'p' || i, 'y' || i FROM generate_series(1, 60) AS i;
CREATE INDEX ON p (id);
-- an inheritance tree whose child has another order of columns
CREATE TABLE h (id int, x text);
CREATE TABLE h1 (extra int, x text, id int);
ALTER TABLE h1 INHERIT h;
INSERT INTO h SELECT i, 'h' || i FROM generate_series(1, 20) AS i;
INSERT INTO h1 SELECT i, 'k' || i, i + 20 FROM generate_series(1, 20) AS i;
CREATE TABLE t AS SELECT i AS id, 't' || i AS x, ('v' || i)::varchar(30) AS v FROM generate_series(1, 20) AS i;
CREATE TABLE q (id int, x text) PARTITION BY RANGE (id);
CREATE TABLE q0 PARTITION OF q FOR VALUES FROM (0) TO (20);
CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (20) TO (40);
CREATE TABLE q2 PARTITION OF q FOR VALUES FROM (40) TO (61);
INSERT INTO q SELECT i, 'q' || i FROM generate_series(1, 60) AS i;
CREATE TABLE secret AS SELECT * FROM p;
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON p USING (ask(x::text) <> 'p3');
CREATE TABLE sink (gone int, id int, e real[]);
ALTER TABLE sink DROP gone;
CREATE ROLE infer_append_user;
GRANT USAGE ON SCHEMA append TO infer_append_user;
GRANT SELECT ON p TO infer_append_user;
GRANT USAGE ON FOREIGN SERVER infer_append TO infer_append_user;
ANALYZE p, h, t, q, sink;

-- foreign partitions, which Append asks at the same time
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA public;
DO $$ BEGIN
  EXECUTE format('CREATE SERVER infer_append_loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L, async_capable %L)',
    current_setting('unix_socket_directories'), current_setting('port'), current_database(), 'true');
  EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER infer_append_loopback OPTIONS (user %L)', current_user);
END $$;
CREATE TABLE far1 AS SELECT i AS id, 'f' || i AS x FROM generate_series(1, 20) AS i;
CREATE TABLE far2 AS SELECT i AS id, 'g' || i AS x FROM generate_series(21, 40) AS i;
CREATE TABLE f (id int, x text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE f1 PARTITION OF f FOR VALUES FROM (0) TO (21) SERVER infer_append_loopback OPTIONS (table_name 'far1');
CREATE FOREIGN TABLE f2 PARTITION OF f FOR VALUES FROM (21) TO (41) SERVER infer_append_loopback OPTIONS (table_name 'far2');
CREATE TABLE f3 PARTITION OF f FOR VALUES FROM (41) TO (100);
INSERT INTO f3 SELECT i, 'l' || i FROM generate_series(41, 50) AS i;
CREATE SEQUENCE ticks;
CREATE FUNCTION tick(text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN $1 || nextval('append.ticks'); END $$;

CREATE TABLE queries (n serial, name text PRIMARY KEY, q text, pre text, post text);
INSERT INTO queries (name, q) VALUES
  ('partitions', $$select id, emb(x) from p$$),
  ('partitions_filter', $$select id from p where score(x) > 0$$),
  ('partitions_filter_output', $$select id, x, score(y) from p where score(x) > 0$$),
  ('cast_in_one_child', $$select emb(x) from t union all select emb(v) from t$$),
  ('system_columns', $$select tableoid::regclass, ctid, emb(x) from p$$),
  ('whole_row', $$select p, emb(x) from p$$),
  ('whole_row_in_call', $$select emb(p::text) from p$$),
  ('case_guard', $$select case when id % 2 = 0 then emb(x) end from p$$),
  ('nested', $$select emb(x || ask(y)) from p$$),
  ('subplan_argument', $$select emb(x || (select max(t.x) from t where t.id < p.id)) from p$$),
  ('inheritance', $$select id, emb(x) from h$$),
  ('inheritance_filter', $$select tableoid::regclass, id from h where score(x) > 0$$),
  ('union_all', $$select id, emb(x) from t union all select id, emb(x) from h$$),
  ('union_all_constant_arm', $$select c, emb(c) from (select 'a' c union all select x from t) s$$),
  ('union_all_other_arm', $$select emb(x) from t union all select '{1}' union all select emb(x || '!') from t$$),
  ('union_all_other_calls', $$select ask(x) from t union all select emb(x)::text from t$$),
  ('union_all_filters', $$select emb(x) from t where score(x) > 0 union all select emb(v) from t$$),
  ('union_all_swapped', $$select emb(a), emb(b), a, b from (select x a, v::text b from t union all select v, x from t) s$$),
  ('union_all_same', $$select emb(a || b) from (select x a, x b from t union all select x, v from t) s$$),
  ('union_all_random', $$select emb(x) is not null from t union all select emb(x || random()) is not null from t$$),
  ('union_all_limit_arm', $$(select emb(x) from t order by id limit 3) union all (select emb(v) from t order by id limit 3)$$),
  ('union', $$select emb(x) from t union select emb(v) from t order by 1$$),
  ('constant_arms', $$select emb('a') union all select emb('b') union all select emb('c')$$),
  ('false_arm', $$select emb(x) from t where id < 3 union all select emb('never') where now() is null$$),
  ('limit', $$select emb(x) from p order by id limit 3$$),
  ('limit_filter', $$select id from p where score(x) > -2 limit 3$$),
  ('order_by_call', $$select id, emb(y) from p order by score(x), id limit 3$$),
  ('aggregate', $$select count(emb(x)), max(ask(y)) from p$$),
  ('join', $$select p.id, emb(p.x || t.x) from p join t using (id) where score(t.x) > 0$$),
  ('exists', $$select id from t where exists (select from p where p.id = t.id and score(p.x) > 0)$$),
  ('lateral', $$select t.id, l.e from t, lateral (select emb(u.x || t.x) e from (select x from p where id < t.id union all select x from h where id < t.id) u) l where t.id < 4$$),
  ('insert_dropped', $$with i as (insert into sink (id, e) select id, emb(x) from p returning *) select * from i$$),
  ('foreign', $$select id, emb(x) from f order by id$$),
  ('foreign_filter', $$select id, emb(x) from f where score(x || '!') > 0 order by id$$),
  ('foreign_update', $$update f set x = emb(x) where id > 35 returning id, tableoid::regclass, ask(x)$$),
  ('foreign_update_direct', $$with u as (update f set x = 'new' || id where id > 35 returning id, x, ask(x)) select * from u order by id$$),
  ('recursive', $$with recursive r as (select 1 i, emb('a') e union all select i + 1, emb('a' || i) from r where i < 5) select * from r$$);
INSERT INTO queries (name, q, post) VALUES
  ('foreign_update_constant', $$update f set x = case when id > 1000 then ask('never') else 'new' end where id > 35$$, 'select * from f order by id');
INSERT INTO queries (name, pre, q) VALUES
  ('merge_append', 'set local enable_sort = off; set local enable_seqscan = off', $$select id, emb(x) from h order by id, x limit 30$$),
  ('merge_append_key', '', $$select * from (select score(x) s, x from t union all select score(x), x from h) u order by s limit 5$$),
  ('ordered_append', 'set local enable_sort = off; set local enable_seqscan = off', $$select id, emb(x) from p order by id limit 30$$),
  ('pruned', 'prepare k(int) as select id, emb(x) from p where id = $1; set local plan_cache_mode = force_generic_plan', $$execute k(30)$$),
  ('pruned_lateral', 'set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_material = off; set local enable_memoize = off',
    $$select t.id, emb(p.x) from t join p on p.id = t.id + 10 where t.id < 12$$),
  ('partitionwise_join', 'set local enable_partitionwise_join = on', $$select p.id, emb(p.x || q.x) from p join q using (id)$$),
  ('partitionwise_aggregate', 'set local enable_partitionwise_aggregate = on', $$select id, max(score(x)) from p group by id order by id$$),
  ('partitionwise_group', 'set local enable_partitionwise_aggregate = on', $$select id, emb(string_agg(x, ',')) from p group by id order by id$$),
  ('parallel', 'set local max_parallel_workers_per_gather = 2; set local parallel_setup_cost = 0; set local parallel_tuple_cost = 0; set local min_parallel_table_scan_size = 0',
    $$select count(*), sum(cardinality(e)) from (select emb(x) e from p offset 0) s$$),
  ('row_security', 'set local role infer_append_user', $$select id from p where spy(x) order by id limit 4$$);

-- VALUES lists of several rows
INSERT INTO queries (name, q) VALUES
  ('values', $$select * from (values (1, infer.embed('e', 'a')), (2, infer.embed('e', 'b')), (3, infer.embed('e', 'c'))) v(i, e)$$),
  ('values_wrapped', $$select * from (values (1, emb('a')), (2, emb('b'))) v(i, e)$$),
  ('values_alone', $$values (emb('a')), (emb('b')), (emb('c'))$$),
  ('values_mixed', $$select * from (values (1, ask('a')), (2, 'b'), (3, null), (4, ask('c') || ask('d')), (5, ask(ask('e')))) v(i, e)$$),
  ('values_many_forms', $$select * from (values (ask('a')), (ask('b') || 1), (ask('c') || ask('d')), (upper(ask('e'))), (ask(ask('f')))) v(e)$$),
  ('values_casts', $$select pg_typeof(e), pg_typeof(v), v from (values (infer.embed('e', 'a', '{"dimensions": 2}')::float8[], ask('one')::varchar(2)),
    (infer.embed('e', 'b', '{"dimensions": 2}')::float8[], ask('two')::varchar(2))) x(e, v)$$),
  ('values_guarded', $$select * from (values (case when 1 > 0 then ask('a') end), (case when 0 > 1 then ask('never') end), (coalesce(null, ask('b')))) v(e)$$),
  ('values_fails_if_evaluated', $$select t.id, l.e from t, lateral (values (case when t.id = 1 then ask(t.x) end),
    (case when t.id > 1 then ask((10 / (t.id - 1))::text) end)) l(e) where t.id < 4$$),
  ('values_unread', $$select i from (values (1, ask('a')), (2, ask('b'))) v(i, e)$$),
  ('values_filter', $$select e from (values (1, ask('a')), (2, ask('b')), (3, ask('c'))) v(i, e) where i > 1$$),
  ('values_filter_call', $$select i from (values (1, ask('a')), (2, ask('b')), (3, ask('c'))) v(i, e) where e <> 'b'$$),
  ('values_limit', $$select e from (values (1, ask('a')), (2, ask('b')), (3, ask('c'))) v(i, e) limit 1$$),
  ('values_order', $$select e from (values (3, ask('a')), (2, ask('b')), (1, ask('c'))) v(i, e) order by i$$),
  ('values_outer_join', $$select t.id, v.e from t left join (values (1, emb('a')), (2, emb('b'))) v(i, e) on v.i = t.id where t.id < 4$$),
  ('values_join_on_call', $$select t.id, v.i from t join (values (1, ask('t3')), (2, ask('t4'))) v(i, e) on v.e = t.x$$),
  ('values_in', $$select id from t where x in (values (ask('t3')), (ask('t5')))$$),
  ('values_lateral', $$select t.id, l.* from t, lateral (values (t.x, emb(t.x)), (t.v, emb(t.v))) l(a, e) where t.id < 3$$),
  ('values_subselect', $$select * from (values (1, emb((select min(x) from t))), (2, emb((select max(x) from t)))) v(i, e)$$),
  ('values_random', $$select i, e is null, r < 1 from (values (1, emb('a' || random()), random()), (2, emb('b' || random()), random())) v(i, e, r)$$),
  ('values_row', $$select v from (values (1, ask('a')), (2, ask('b'))) v(i, e)$$),
  ('values_order_by_row', $$values (ask('a')), ('b') order by "*VALUES*" desc$$),
  ('values_random_columns', $$select a <> b from (values (ask('a' || random()), ask('a' || random())), (ask('a' || random()), ask('a' || random()))) v(a, b)$$),
  ('values_volatile_above', $$select a = b from (select e a, e b from (values (tick(ask('a'))), (tick(ask('b')))) v(e)) s$$),
  ('values_union_all', $$select * from (values (1, ask('a')), (2, ask('b'))) v(i, e) union all select * from (values (3, ask('c')), (4, ask('d'))) w$$),
  ('values_cte', $$with v(i, e) as materialized (values (1, ask('a')), (2, ask('b'))) select a.e, b.e from v a, v b$$);
INSERT INTO queries (name, pre, q) VALUES
  ('values_parameters', 'prepare v(text, text) as select * from (values (1, ask($1)), (2, ask($2))) v(i, e)', $$execute v('a', 'b')$$),
  ('values_parameters_generic', 'prepare v(text, text) as select * from (values (1, ask($1)), (2, ask($2)), (3, ask($1))) v(i, e); set local plan_cache_mode = force_generic_plan',
    $$execute v('a', 'b')$$),
  ('values_types', 'create temp table vt as select * from (values (ask(''one'')::varchar(5) collate "C"), (ask(''two'')::varchar(5))) v(e)',
    $$select attname, format_type(atttypid, atttypmod), collname from pg_attribute a join pg_collation c on c.oid = attcollation where attrelid = 'vt'::regclass and attnum > 0$$);

-- how full requests are depends on what a foreign server was quick enough to send; and, where rows are
-- read one by one to begin with, on which answers come first
CREATE VIEW runs AS SELECT n, pre, q, post, true AS explained,
  CASE WHEN name LIKE 'foreign%' OR name = 'exists' THEN 'judge ' ELSE 'count ' END || name AS verdict FROM queries;
\set ECHO none
\i :run
\set ECHO all

-- a list of one row is a constant: no call when a query is planned
\! mock reset
DO $do$ BEGIN EXECUTE $$EXPLAIN SELECT id FROM t, (VALUES ((infer.embed('e', 'q', '{"dimensions": 2}'))[1])) AS v(e) WHERE id > v.e$$; END $do$;
\! mock stat items
-- where it stands
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, emb(x) FROM h WHERE score(x) > 0;
EXPLAIN (COSTS OFF, VERBOSE) SELECT c, emb(c) FROM (SELECT 'a' c UNION ALL SELECT x FROM t) s;
EXPLAIN (COSTS OFF, VERBOSE) SELECT emb(x) FROM t UNION ALL SELECT '{1}';
EXPLAIN (COSTS OFF, VERBOSE) SELECT * FROM (VALUES (1, ask('a')), (2, ask('b')), (3, 'c')) AS v(i, e) WHERE i > 1;
EXPLAIN (COSTS OFF, VERBOSE) SELECT emb(x) FROM f;
SET enable_sort = off;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF, VERBOSE) SELECT emb(y), id FROM p ORDER BY id LIMIT 3;
RESET enable_sort;
RESET enable_seqscan;

\! mock set defaults
RESET search_path;
DROP SCHEMA append CASCADE;
SELECT FROM infer.drop_model('c');
SELECT FROM infer.drop_model('e');
DROP SERVER infer_append;
DROP SERVER infer_append_loopback CASCADE;
DROP ROLE infer_append_user;
