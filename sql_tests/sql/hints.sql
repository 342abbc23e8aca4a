-- How many rows are wanted: LIMIT, FETCH, SELECT INTO, sub-selects of which a row is enough. No call
-- more than the hint allows: as many as it has rows; where calls decide which rows pass, twice as
-- many, for half of them are expected to pass, and some more if fewer do; where one row may be enough,
-- that one first; and who fetches a third time shows that he goes on: half as many rows as he has taken
-- are read ahead for him. PL/pgSQL's loops fetch 10 rows, then 50 at a time.
--
-- A hint is a statement or several. Each runs in a transaction of its own which is rolled back, first
-- with pg_inference.enable off, then on: the same rows, and no more calls than the number given.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set run :srcdir '/lib/run_cases.sql'
\! mock set reply=echo
CREATE SCHEMA hints;
SET search_path = hints;
CREATE SERVER infer_hints FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('c', 'complete', 'infer_hints');
SELECT FROM infer.create_model('e', 'embed', 'infer_hints');
CREATE TABLE t AS SELECT i AS id, 'x' || i AS x, 'y' || i % 7 AS y, i % 5 AS g, (i * 37 % 100) / 100.0::float8 AS v
  FROM generate_series(1, 100) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE b AS SELECT i AS id, i * 13 % 100 + 1 AS tid, 'b' || i AS txt FROM generate_series(1, 300) AS i;
ALTER TABLE b ADD PRIMARY KEY (id);
CREATE INDEX ON b (tid);
CREATE TABLE p (id int, x text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (20);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (20) TO (61);
INSERT INTO p SELECT i, 'p' || i FROM generate_series(1, 60) AS i;
CREATE TABLE sink (id int, e text);
INSERT INTO sink VALUES (1, 'a');
VACUUM ANALYZE t, b, p, sink;
-- inlined by the planner; of keep(x1), keep(x2), ... two in three are true
CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;
CREATE FUNCTION keep(text) RETURNS bool LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 3}'))[1] > -0.3 $$;
-- not inlined: SQL functions that take one row, all, or as many as are asked for
CREATE FUNCTION first_of_t() RETURNS text LANGUAGE sql STABLE AS $$ SELECT slow(x) FROM t ORDER BY id $$;
CREATE FUNCTION all_of_t() RETURNS SETOF text LANGUAGE sql VOLATILE AS $$ SELECT slow(x) FROM t ORDER BY id $$;
-- runs a query within each row of another one
CREATE FUNCTION other(i int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r text;
BEGIN
  SELECT slow(txt) INTO r FROM b WHERE id >= i ORDER BY id;
  RETURN r;
END $$;

CREATE TABLE hints (n int GENERATED ALWAYS AS IDENTITY, name text UNIQUE, most int, q text);
-- LIMIT
INSERT INTO hints (name, most, q) VALUES
  ('limit', 3, $$select slow(x) from t order by id limit 3$$),
  ('limit_offset', 3, $$select slow(x) from t order by id limit 3 offset 5$$),
  ('limit_zero', 0, $$select slow(x) from t limit 0$$),
  ('limit_null', 100, $$select slow(x) from t order by id limit null$$),
  ('limit_all', 95, $$select slow(x) from t order by id limit all offset 5$$),
  ('limit_select', 4, $$select slow(x) from t order by id limit (select 4)$$),
  ('limit_filter', 10, $$select id from t where keep(x) order by id limit 3$$),
  ('shape_20', 16, $$select id from t where keep(x) order by id limit 7$$),
  ('shape_21', 16, $$select id, slow(x) from t where keep(y) order by id offset 5 limit 3$$),
  ('limit_filter_offset', 16, $$select id from t where keep(x) order by id offset 5 limit 3$$),
  ('limit_filter_select', 12, $$select id from t where keep(x) order by id limit (select 4)$$),
  ('limit_output_filter', 10, $$select * from (select id, slow(x) s from t order by id) q where s <> 'z' limit 3$$),
  ('limit_large', 100, $$select slow(x) from t order by id limit 9223372036854775807 offset 9223372036854775807$$),
  ('limit_large_ties', 100, $$select slow(x) from t order by id fetch first 9223372036854775807 rows with ties$$),
  ('generic', 3, $$prepare q(int) as select slow(x) from t order by id limit $1; set local plan_cache_mode = force_generic_plan; execute q(3)$$),
  ('generic_twice', 9, $$prepare q(int) as select slow(x) from t order by id limit $1; set local plan_cache_mode = force_generic_plan; execute q(2); execute q(7)$$),
  ('generic_zero', 0, $$prepare q(int) as select slow(x) from t order by id limit $1; set local plan_cache_mode = force_generic_plan; execute q(0)$$),
  ('generic_null', 100, $$prepare q(int) as select slow(x) from t order by id limit $1; set local plan_cache_mode = force_generic_plan; execute q(null)$$),
  ('generic_offset', 3, $$prepare q(int, int) as select slow(x) from t order by id offset $1 limit $2; set local plan_cache_mode = force_generic_plan; execute q(5, 3)$$),
  ('generic_filter', 10, $$prepare q(int) as select id from t where keep(x) order by id limit $1; set local plan_cache_mode = force_generic_plan; execute q(3)$$),
  ('custom', 3, $$prepare q(int) as select slow(x) from t order by id limit $1; set local plan_cache_mode = force_custom_plan; execute q(3)$$),
  ('ties', 3, $$select slow(x) from t order by id fetch first 3 rows with ties$$),
  ('ties_filter', 10, $$select id from t where keep(x) order by id fetch first 3 rows with ties$$),
  ('ties_many', 20, $$select slow(x) from t order by g fetch first 3 rows with ties$$),
  ('limit_of_limit', 3, $$select * from (select slow(x) s from t order by id limit 10) q limit 3$$),
  ('limit_of_limit_filter', 13, $$select * from (select slow(x) s from t where keep(x) order by id limit 10) q limit 3$$),
  ('limit_of_limit_offset', 6, $$select * from (select slow(x) s from t order by id offset 2 limit 10) q offset 3 limit 3$$),
  ('limit_of_ties', 3, $$select * from (select slow(x) s from t order by id fetch first 10 rows with ties) q limit 3$$),
  ('limit_join', 10, $$select t.id, b.id from t join b on b.tid = t.id where keep(b.txt) order by t.id limit 3$$),
  ('limit_append', 3, $$select slow(x) from t union all select slow(txt) from b limit 3$$),
  ('limit_volatile', 10, $$select * from (select id, slow(x || (random() > 2)) s from t order by id limit 10) q where mod(id, 9) = 0 limit 1$$),
  ('limit_partitions', 3, $$select slow(x) from p order by id limit 3$$),
  ('limit_group', 5, $$select distinct on (g) slow(x) from t order by g, id limit 5$$),
  ('limit_window', 3, $$select slow(x), row_number() over (order by id) from t limit 3$$),
  ('limit_cte', 3, $$with c as materialized (select slow(x) from t) select * from c limit 3$$),
  ('limit_cte_twice', 10, $$with c as materialized (select slow(x) from t) select * from (select * from c limit 2) q union all select * from (select * from c limit 5) r$$),
  ('limit_in_cte', 10, $$with c as materialized (select slow(x) s from t order by id limit 10) select count(*) from c, c d where c.s = d.s$$),
  ('limit_insert', 3, $$insert into sink select id, slow(x) from t order by id limit 3; select * from sink$$),
  ('limit_update', 4, $$update sink set e = 'z' where id in (select id from t where keep(x) order by id limit 2)$$),
  ('limit_recursive', 4, $$with recursive r as (select 1 n, slow('a') s union all select n + 1, slow('a' || n) from r) select * from r limit 4$$),
  ('limit_lock', 4, $$select slow(x) from t order by id limit 4 for update$$),
  ('limit_skip_locked', 10, $$select id from t where keep(x) order by id limit 3 for update skip locked$$),
  ('lateral_limit', 3, $$select t.id, l.e from t, lateral (select slow(b.txt) e from b where b.tid = t.id order by b.id limit 1) l where t.id <= 3$$),
  ('lateral_limit_filter', 15, $$select t.id, l.i from t, lateral (select b.id i from b where b.tid = t.id and keep(b.txt) order by b.id limit 1) l where t.id <= 5$$),
  ('lateral_limit_var', 3, $$select t.id, l.e from t, lateral (select slow(b.txt) e from b where b.id > 0 * t.id order by b.id limit t.id) l where t.id <= 3$$);
-- a cursor's fetches
INSERT INTO hints (name, most, q) VALUES
  ('fetch', 1, $$declare c cursor for select slow(x) from t; fetch c$$),
  ('shape_131', 5, $$declare c cursor for select slow(x) from t; fetch 5 from c$$),
  ('shape_132', 5, $$declare c scroll cursor for select slow(x) from t; fetch 5 from c; fetch backward 3 from c$$),
  ('fetch_all', 100, $$declare c cursor for select slow(x) from t; fetch all from c; fetch 5 from c$$),
  ('fetch_fetch', 10, $$declare c cursor for select slow(x) from t; fetch 5 from c; fetch 5 from c$$),
  ('fetch_less', 8, $$declare c cursor for select slow(x) from t; fetch 5 from c; fetch 3 from c$$),
  ('fetch_few', 23, $$declare c cursor for select slow(x) from t; fetch 20 from c; fetch 3 from c$$),
  ('fetch_more', 25, $$declare c cursor for select slow(x) from t; fetch 5 from c; fetch 20 from c$$),
  ('fetch_three', 15, $$declare c cursor for select slow(x) from t; fetch 5 from c; fetch 5 from c; fetch 5 from c$$),
  ('fetch_four', 22, $$declare c cursor for select slow(x) from t; fetch 5 from c; fetch 5 from c; fetch 5 from c; fetch 5 from c$$),
  ('fetch_one_by_one', 6, $$declare c cursor for select slow(x) from t; fetch c; fetch c; fetch c; fetch c; fetch c$$),
  ('fetch_rest', 29, $$declare c cursor for select slow(x) from t where id < 30; fetch 2 from c; fetch all from c$$),
  ('move', 5, $$declare c cursor for select slow(x) from t; move 5 in c$$),
  ('move_fetch', 8, $$declare c cursor for select slow(x) from t; move 5 in c; fetch 3 from c$$),
  ('fetch_absolute', 7, $$declare c scroll cursor for select slow(x) from t; fetch absolute 4 from c; fetch relative 2 from c$$),
  ('fetch_rewind', 7, $$declare c scroll cursor for select slow(x) from t; fetch 2 from c; move absolute 0 in c; fetch 5 from c$$),
  ('fetch_sorted', 5, $$declare c cursor for select slow(x) from t order by v; fetch 5 from c$$),
  ('fetch_filter', 14, $$declare c cursor for select id from t where keep(x); fetch 5 from c$$),
  ('fetch_filter_twice', 24, $$declare c cursor for select id from t where keep(x); fetch 5 from c; fetch 5 from c$$),
  ('fetch_limit', 3, $$declare c cursor for select slow(x) from t order by id limit 10; fetch 3 from c$$),
  ('fetch_limit_to_end', 10, $$declare c cursor for select slow(x) from t order by id limit 10; fetch 3 from c; fetch 3 from c; fetch 3 from c; fetch 3 from c$$),
  ('fetch_limit_offset', 6, $$declare c cursor for select slow(x) from t order by id limit 10 offset 5; fetch 3 from c; fetch 3 from c$$),
  ('fetch_limit_filter', 10, $$declare c cursor for select id from t where keep(x) order by id limit 10; fetch 3 from c$$),
  ('fetch_limit_filter_offset', 14, $$declare c cursor for select id from t where keep(x) order by id limit 10 offset 2; fetch 3 from c$$),
  ('fetch_cte', 3, $$declare c cursor for with c as materialized (select slow(x) s from t) select * from c; fetch 3 from c$$),
  ('fetch_both', 9, $$declare c cursor for select slow(x) from t; declare d cursor for select slow(x) from t; fetch 3 from c; fetch 3 from d; fetch 3 from c$$),
  ('fetch_nested', 10, $$declare c cursor for select slow(x), other(id) from t; fetch 3 from c; fetch 2 from c$$);
-- PL/pgSQL and SQL functions
INSERT INTO hints (name, most, q) VALUES
  ('into', 1, $$do 'declare r text; begin select slow(x) into r from t order by id; end'$$),
  ('into_strict', 2, $$do 'declare r text; begin select slow(x) into strict r from t where id < 3 order by id; exception when too_many_rows then null; end'$$),
  ('into_filter', 4, $$do 'declare r int; begin select id into r from t where keep(x) order by id; end'$$),
  ('into_limit', 4, $$do 'declare r int; begin select id into r from t where keep(x) order by id limit 20; end'$$),
  ('limit_variable', 3, $$do 'declare r int; n int := 3; begin select count(s) into r from (select slow(x) s from t order by id limit n) q; end'$$),
  ('execute_into', 1, $$do 'declare r text; begin execute ''select slow(x) from t order by id limit 1'' into r; end'$$),
  ('perform', 100, $$do 'begin perform slow(x) from t; end'$$),
  ('assign', 1, $$do 'declare r text; begin r := (select slow(x) from t order by id limit 1); end'$$),
  ('loop', 100, $$do 'declare r record; begin for r in select slow(x) from t loop end loop; end'$$),
  ('loop_exit', 10, $$do 'declare r record; begin for r in select slow(x) from t loop exit; end loop; end'$$),
  ('loop_exit_later', 60, $$do 'declare r record; n int := 0; begin for r in select slow(x) from t loop n := n + 1; exit when n = 11; end loop; end'$$),
  ('variable', 2, $$do 'declare c cursor for select slow(x) from t; r record; begin open c; fetch c into r; fetch c into r; close c; end'$$),
  ('if_exists', 2, $$do 'begin if exists (select 1 from t where keep(x)) then null; end if; end'$$),
  ('shape_135', 1, $$select first_of_t()$$),
  ('sql_from', 1, $$select * from first_of_t()$$),
  ('sql_set', 3, $$select all_of_t() limit 3$$),
  ('sql_all', 100, $$select count(*) from all_of_t()$$);
-- sub-selects
INSERT INTO hints (name, most, q) VALUES
  ('exists', 2, $$select exists (select 1 from t where keep(x))$$),
  ('not_exists', 2, $$select 1 where not exists (select 1 from t where keep(x))$$),
  ('exists_limit', 2, $$select exists (select 1 from t where keep(x) limit (select 10))$$),
  ('scalar', 1, $$select (select slow(x) from t order by id limit 1)$$),
  ('scalar_filter', 2, $$select (select id from t where keep(x) order by id limit 1)$$),
  ('scalar_of_more', 2, $$select (select id from (select id from t where keep(x) order by id limit 10) q limit 1)$$),
  ('shape_142', 4, $$select max(id) from t where keep(x)$$),
  ('row', 1, $$select (1, 'x1') = (select id, slow(x) from t order by id limit 1)$$),
  ('multi', 1, $$update sink set (id, e) = (select id, slow(x) from t order by id limit 1); select * from sink$$),
  ('scalar_too_many', 2, $$do 'begin if ''x1'' = (select slow(x) from t) then null; end if; exception when cardinality_violation then null; end'$$),
  ('row_too_many', 2, $$do 'begin if (1, ''x1'') = (select id, slow(x) from t) then null; end if; exception when cardinality_violation then null; end'$$),
  ('multi_too_many', 2, $$do 'begin update sink set (id, e) = (select id, slow(x) from t); exception when cardinality_violation then null; end'$$),
  ('in_hashed', 100, $$select id, tid in (select id from t where keep(x)) from b where id < 5$$),
  ('in', 2, $$select 'x2' in (select slow(x) from t where t.id >= b.id order by id) from b where id = 1$$),
  ('not_in', 2, $$select 'x2' not in (select slow(x) from t where t.id >= b.id order by id) from b where id = 1$$),
  ('array', 29, $$select array(select slow(x) from t where id < 30)$$),
  ('array_limit', 3, $$select array(select slow(x) from t order by id limit 3)$$),
  ('semi', 4, $$set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_material = off;
    select t.id from t where exists (select 1 from b where b.tid > t.id and keep(b.txt)) and t.id <= 3$$),
  ('anti', 4, $$set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_material = off;
    select t.id from t where not exists (select 1 from b where b.tid > t.id and keep(b.txt)) and t.id <= 3$$),
  ('correlated', 5, $$select b.id from b where exists (select 1 from t where t.id = b.tid and keep(t.x)) and b.id <= 5$$);

-- calls behind the last filter: only for as many rows as are wanted, whatever passes
INSERT INTO hints (name, most, q) VALUES
  ('limit_lock_output', 21, $$select id, slow(x) from t where keep(x) order by id limit 7 for update$$),
  ('limit_lock_nested', 28, $$select id, slow(slow(x) || 'z') from t where keep(x) order by id limit 7 for update$$),
  ('fetch_filter_output', 15, $$declare c cursor for select id, slow(x) from t where keep(x); fetch 5 from c$$),
  ('fetch_all_filter_output', 165, $$declare c cursor for select id, slow(x) from t where keep(x); fetch 5 from c; fetch all from c$$);
-- a hash join may be over when its table, which it builds after fetching an outer row, is empty: no
-- call where the table makes none, else one row's
INSERT INTO hints (name, most, q) VALUES
  ('hash_empty', 0, $$set local enable_nestloop = off; set local enable_mergejoin = off; delete from t;
    select b.id from b join t on t.g = b.id % 5 where keep(b.txt)$$),
  ('hash_empty_calls', NULL, $$set local enable_nestloop = off; set local enable_mergejoin = off;
    select b.id from b join t on t.g = b.id % 5 where keep(b.txt) and slow(t.x) > 'y'$$),
  ('hash_empty_calls_nested', NULL, $$set local enable_nestloop = off; set local enable_mergejoin = off; set local join_collapse_limit = 1;
    select b.id from (b join t on t.g = b.id % 5) join p on p.id = t.id where keep(b.txt) and slow(t.x) > 'y'$$);

CREATE VIEW runs AS SELECT n, NULL AS pre, q, 'select ''end''' AS post, false AS explained,
  format('judge plan_%s %s any', name, coalesce(most::text, '-')) AS verdict FROM hints;
\set ECHO none
\i :run
\set ECHO all

-- plan_S10: a cursor that outlives its transaction is run to its end at commit, and asks nobody again
\! mock reset
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT slow(x) FROM t WHERE id <= 20 ORDER BY id;
FETCH 3 FROM c;
\! mock stat items
COMMIT;
\! mock stat items
FETCH 2 FROM c;
CLOSE c;
-- a client that fetches through a cursor
\! mock reset
\set FETCH_COUNT 10
SELECT slow(x) FROM t ORDER BY id LIMIT 12;
\unset FETCH_COUNT
\! mock stat items

\! mock set defaults
RESET search_path;
DROP SCHEMA hints CASCADE;
SELECT FROM infer.drop_model('c');
SELECT FROM infer.drop_model('e');
DROP SERVER infer_hints;
