-- More query shapes, judged as those of shapes.sql are: the pitfalls of rewriting a plan, by their
-- names in src/scan/README.md, and what else people write.
SET client_min_messages = warning;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set fixture :srcdir '/lib/shapes_fixture.sql'
\set run :srcdir '/lib/shapes_run.sql'
\set ECHO none
\i :fixture
\set ECHO all
CREATE TABLE u AS SELECT k, slow('x' || i) AS name FROM generate_series(0, 4) AS k, generate_series(1, 20) AS i;
CREATE UNIQUE INDEX ON u (k, name);
CREATE TABLE inh (id int, x text);
CREATE TABLE inh_more (y text, id int, x text);
ALTER TABLE inh_more INHERIT inh;
INSERT INTO inh SELECT id, x FROM t WHERE id <= 30;
INSERT INTO inh_more SELECT y, id, x FROM t WHERE id BETWEEN 31 AND 60;
CREATE TABLE rlc AS SELECT * FROM t;
ALTER TABLE rlc ENABLE ROW LEVEL SECURITY;
CREATE POLICY kept ON rlc USING (keep(x));
GRANT SELECT ON rlc TO infer_shapes_user;
-- a table of which two halves are remote
CREATE TABLE halves (id int, x text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE halves_1 PARTITION OF halves FOR VALUES FROM (0) TO (51) SERVER infer_loopback OPTIONS (schema_name 'shapes', table_name 't');
CREATE FOREIGN TABLE halves_2 PARTITION OF halves FOR VALUES FROM (51) TO (101) SERVER infer_loopback OPTIONS (schema_name 'shapes', table_name 'lower_half');
CREATE VIEW lower_half AS SELECT * FROM t WHERE id > 50;
ALTER FOREIGN TABLE halves_1 OPTIONS (SET table_name 'upper_half');
CREATE VIEW upper_half AS SELECT * FROM t WHERE id <= 50;
ALTER SERVER infer_loopback OPTIONS (ADD async_capable 'true');
VACUUM ANALYZE u, inh, inh_more, rlc;

-- pitfalls
CREATE FUNCTION state_of(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE query;
  RETURN 'fine';
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE;
END $$;
INSERT INTO shapes (n, want, q) VALUES
  ('P5', NULL, $$select slow(x) from t order by y desc, id$$),
  ('P6', NULL, $$insert into sink select id, slow(x) from t order by slow(y), id returning *$$),
  ('P7', NULL, $$select g, max(e), round(sum(score(e || g))::numeric, 9) from (select g, slow(x) e from t) s group by g order by g$$),
  ('P7_virtual', NULL, $$select g, max(e), count(slow(e || g)) from (select id, g, slow(x) e from t order by id limit 60) s group by g order by g$$),
  ('P16', NULL, $$select a.id, c.id from t a join t c on a.g < c.g where keep(c.x) and a.id < 20$$),
  ('P18_subplan', NULL, $$select case when exists (select 1 from b where b.tid = t.id and b.id < 100) then slow(x) else y end from t$$),
  ('P19', NULL, $$select s.e, s.id from (select id, slow(x) e from t order by id limit 50) s where s.e > '{0' and s.id % 2 = 0$$),
  ('P20', NULL, $$select slow(x || (select count(*) from b where b.tid = t.id)), slow(x || (select count(*) from b where b.tid = t.id)) from t$$),
  ('P21', NULL, $$select slow(x || (select max(id) from b)) from t where id < (select 20)$$),
  ('P28', NULL, $$select t.id, b.id, slow(b.txt) from t left join b on b.tid = t.id and score(t.x) > 0.5 where keep(t.y || t.id) and t.id < 50$$),
  ('P28_full', NULL, $$select t.id, b.id from (select * from t where keep(x)) t full join b on b.tid = t.id where keep(coalesce(b.txt, t.y))$$),
  ('order', NULL, $$select 10 / (id - 5) from t where slow(x) <> 'X5'$$),
  ('order_join', NULL, $$select 10 / (t.id - 5), b.id from t join b on b.tid = t.id where slow(t.x) <> 'X5'$$),
  ('order_agg', NULL, $$select sum(10 / (id - 5)) from t where slow(x) <> 'X5'$$),
  ('order_sort', NULL, $$select id from t where slow(x) <> 'X5' order by 10 / (id - 5), id limit 7$$),
  ('nulls', NULL, $$select id, slow(x), slow(x) is null, coalesce(slow(slow(x)), '-') from nn where slow(x) is null or slow(x) > '{0'$$),
  ('outcome', NULL, $$select (infer.try_embed('e', x)).value, (o).execution from (select x, infer.try_embed('e', x) o from t) s where (o).error is null$$),
  ('no_columns', NULL, $$select count(*) from (select from t where keep(x) offset 0) s$$),
  ('whole_row', NULL, $$select t, slow(x), t.* from t where keep(x)$$),
  ('volatile', '26/2', $$select id, random() < 2, slow(y) from t where keep(x) order by id limit 5$$),
  ('correlated', NULL, $$select id, (select string_agg(slow(b.txt || t.x), ',' order by b.id) from b where b.tid = t.id and keep(b.txt)) from t where id < 10$$),
  ('lateral_two', NULL, $$select t.id, l.e, m.e from t, lateral (select slow(t.x) e) l, lateral (select slow(l.e || t.y) e) m where keep(l.e)$$),
  ('with_ties', NULL, $$select * from (select id, slow(x) from t where keep(y) order by g fetch first 3 rows with ties) s order by id$$),
  ('windows', NULL, $$select id, slow(x || rank() over w), sum(length(slow(y))) over w from t window w as (partition by g order by id) order by id$$),
  ('group_by_call', NULL, $$select slow(y) || g, count(*) filter (where keep(x)) from t group by 1, slow(y) having keep(slow(y)) order by 1$$);
INSERT INTO shapes (n, want, q, pre, post) VALUES
  ('P18', NULL, $$select c is null, count(*) from (select case when random() < 0.5 then slow(x) else '-' end c from t offset 0) q group by 1$$, 'set local seed=0.5', ''),
  ('P5_update', NULL, $$update t set y = slow(t.x || b.id) from b where b.tid = t.id and b.id < 50$$, '', 'select id, y from t order by id'),
  ('P8', NULL, $$select t.id, b.id from t join b on b.tid = t.id and b.id > t.g where keep(b.txt || t.y)$$,
    'set local enable_hashjoin=off; set local enable_mergejoin=off; set local enable_memoize=off', ''),
  ('P9', NULL, $$select t.id, u.k, u.name from t join u on u.k = t.g and u.name = slow(t.x)$$,
    'set local enable_hashjoin=off; set local enable_mergejoin=off; set local enable_indexscan=off; set local enable_indexonlyscan=off; set local enable_bitmapscan=off', ''),
  ('P9_hash', NULL, $$select t.id, u.k, u.name from t join u on u.k = t.g and u.name = slow(t.x)$$, 'set local enable_nestloop=off; set local enable_mergejoin=off', ''),
  ('P9_merge', NULL, $$select t.id, u.k, u.name from t join u on u.k = t.g and u.name = slow(t.x)$$, 'set local enable_nestloop=off; set local enable_hashjoin=off', ''),
  ('P10', NULL, $$select a.id, c.id from b a join t c on a.tid = c.id where keep(c.x) order by 1$$, 'set local enable_hashjoin=off; set local enable_nestloop=off', ''),
  ('P10_both', NULL, $$select a.id, c.id from b a join b c on a.tid = c.tid where keep(c.txt) and keep(a.txt) order by 1, 2$$,
    'set local enable_hashjoin=off; set local enable_nestloop=off', ''),
  ('cte_dml', NULL, $$with d as (delete from t where keep(x) returning id, slow(y) e), i as (insert into sink select id, e from d returning *) select * from i order by id$$,
    '', 'select count(*) from t');

-- grouping
INSERT INTO shapes (n, want, q) VALUES
  ('grouping_sets', '100/7', $$select g, max(slow(x)), grouping(g) from t group by grouping sets ((g),()) order by g$$),
  ('grouping_cube', '107/8', $$select g, slow(y), max(slow(x)) from t group by cube(g, slow(y)) having max(slow(x)) > '{0' order by 1, 2$$),
  ('grouping_above', '6/1', $$select g, slow('sum ' || sum(id)) from t group by rollup(g) order by g$$),
  ('filter_call', '100/7', $$select count(*) filter (where keep(x)) from t$$),
  ('filter_and_argument', '40/4', $$select max(slow(x)) filter (where g = 1 and keep(x)) from t$$),
  ('aggregate_order', '100/7', $$select array_agg(id order by score(x), id) from t$$),
  ('aggregate_distinct', '7/1', $$select string_agg(distinct slow(y), ',' order by slow(y)) from t$$),
  ('aggregate_within', '107/8', $$select percentile_disc(0.5) within group (order by score(x)), mode() within group (order by slow(y)) from t$$),
  ('aggregate_nested', '14/2', $$select max(slow(slow(y))) from t$$),
  ('aggregate_same', '100/7', $$select sum(score(x)), avg(score(x)), max(score(x)) from t$$),
  ('aggregate_json', '100/7', $$select jsonb_object_agg(id, slow(x)) from t$$),
  ('having_call', '14/2', $$select slow(y), count(*) from t group by slow(y) having keep(slow(y)) order by 1$$),
  ('distinct_on_limit', '2/1', $$select distinct on (g) g, id, slow(x) from t order by g, v limit 2$$),
  ('window_frame_rows', '100/7', $$select id, max(slow(x)) over (order by id rows between 2 preceding and current row) from t$$),
  ('window_frame_range', '100/7', $$select id, min(slow(x)) over (order by v range between 0.05 preceding and 0.05 following exclude current row) from t$$),
  ('window_frame_groups', '7/1', $$select id, count(slow(y)) over (order by g groups between 1 preceding and current row exclude ties) from t$$),
  ('window_filter', '100/7', $$select id, count(*) filter (where keep(x)) over (partition by g) from t$$),
  ('window_keys', '107/8', $$select id, row_number() over (partition by slow(y) order by score(x)) from t$$),
  ('window_lag', '100/7', $$select id, lag(slow(x), 1, y) over (partition by g order by id) from t$$),
  ('window_first', NULL, $$select id, first_value(slow(x)) over (partition by g order by id) from t$$),
  ('window_last', NULL, $$select id, last_value(slow(x)) over (partition by g order by id rows between current row and unbounded following) from t$$),
  ('window_nth', NULL, $$select id, nth_value(slow(x), 2) over (partition by g order by id) from t$$),
  ('window_last_frame', '100/7', $$select id, last_value(slow(x)) over (partition by g order by id) from t$$),
  ('window_top', NULL, $$select * from (select id, slow(x) e, row_number() over (partition by g order by id) rn from t) s where rn = 1$$),
  ('limit_below', '10/1', $$select count(*), max(e) from (select slow(x) e from t order by v limit 10) s$$);
-- sets, recursion, sub-queries
INSERT INTO shapes (n, want, q) VALUES
  ('union', '100/7', $$select slow(x) from t where id <= 60 union select slow(x) from t where id > 40$$),
  ('union_all', '100/7', $$select slow(x) from t where id <= 60 union all select slow(x) from t where id > 40$$),
  ('intersect', '100/7', $$select slow(x) from t where id <= 60 intersect select slow(x) from t where id > 40$$),
  ('intersect_all', '7/1', $$select slow(y) from t where id <= 60 intersect all select slow(y) from t where id > 40$$),
  ('except', '100/7', $$select slow(x) from t where id <= 60 except select slow(x) from t where id > 40$$),
  ('except_all', '7/1', $$select slow(y) from t where id <= 60 except all select slow(y) from t where id > 40$$),
  ('union_all_limit', '5/1', $$select slow(x) e from t union all select slow(txt) from b limit 5$$),
  ('union_all_order_limit', NULL, $$select id, slow(x) e from t union all select id, slow(txt) from b order by id limit 5$$),
  ('recursive', '30/10', $$with recursive r(id, e) as (select id, slow(x) from t where id <= 3 union all select t.id, slow(t.x) from r join t on t.id = r.id + 10) select * from r$$),
  ('recursive_filter', NULL, $$with recursive r(id) as (select id from t where id <= 3 union select t.id from r join t on t.id = r.id + 10 where keep(t.x)) select * from r$$),
  ('lateral_columns', '107/8', $$select t.id, l.* from t, lateral (select slow(t.x) a, score(t.y) b, t.g * 2 c) l$$),
  ('lateral_left', '107/8', $$select t.id, l.* from t left join lateral (select slow(t.x) a, score(t.y) b, t.g * 2 c) l on true$$),
  ('lateral_function', '100/7', $$select t.id, f from t, lateral infer.embed('e', t.x) f$$),
  ('lateral_filter', '107/8', $$select t.id, f from t, lateral slow(t.x) f where keep(t.y)$$),
  ('lateral_rows', '300/19', $$select t.id, l.e from t, lateral (select b.id, slow(b.txt || t.x) e from b where b.tid = t.id) l$$),
  ('subplan_hashed', '100/7', $$select id, slow(x) in (select name from lab) from t$$),
  ('subplan_not_in', '100/7', $$select id from t where slow(x) not in (select name from lab)$$),
  ('subplan_correlated', NULL, $$select id from t where slow(x) >= all (select name from lab where n < t.id % 5)$$),
  ('subplan_exists_or', NULL, $$select id from t where g = 1 or exists (select 1 from b where b.tid = t.id and keep(b.txt))$$),
  ('subplan_all', '100/7', $$select id from t where slow(x) >= all (select name from lab where n < 5)$$),
  ('subplan_array', '20/2', $$select array(select slow(txt) from b where id <= 20 order by id)$$),
  ('init_plan', '32/2', $$select id from t where v > (select avg(score(x)) from t where id <= 32)$$),
  ('anti_join', '100/7', $$select id from t where not exists (select 1 from lab where name = slow(t.x))$$),
  ('full_join', '100/7', $$select t.id, n from t full join lab on lab.name = slow(t.x)$$),
  ('right_join', '100/7', $$select t.id, n from lab right join t on lab.name = slow(t.x) order by 1$$),
  ('cross_join', '10/1', $$select a.id, slow(a.x), n from t a, lab where n <= 3 and a.id <= 10$$),
  ('semantic_join', '100/7', $$select a.id, c.id from t a join t c on keep(a.x || c.x) where a.id <= 10 and c.id <= 10$$);
-- expressions
INSERT INTO shapes (n, want, q) VALUES
  ('between', '100/7', $$select id from t where score(x) between 0.2 and 0.6$$),
  ('in_list', '107/8', $$select id from t where slow(y) in ('Y1', 'Y2', slow(x))$$),
  ('all_fields', '20/2', $$select (o).value, (o).error, (o).attempts from (select infer.try_embed('e', x) o from t where id > 80) s$$),
  ('ordinality', '3/1', $$select slow(e), n from unnest(array['a','b','c']) with ordinality u(e, n)$$),
  ('json_rows', '2/1', $$select slow(j->>'a') from jsonb_array_elements('[{"a": "1"}, {"a": "2"}]') j$$),
  ('srf_filter', NULL, $$select * from (select id, unnest(array[slow(x), y]) e from t) s where e > '{0'$$);

-- data-modifying statements, targets with children, foreign tables
INSERT INTO shapes (n, want, q, pre, post) VALUES
  ('insert_returning', '200/14', $$insert into sink select id, slow(x) from t returning e, slow(e)$$, '', ''),
  ('update_returning', '40/4', $$update t set y = slow(x) where id <= 20 returning id, slow(y)$$, '', ''),
  ('delete_using', '60/4', $$delete from t using b where b.tid = t.id and t.g = 1 and keep(b.txt) returning b.id$$, '', 'select id from t order by id'),
  ('merge_delete', '100/7', $$merge into t using (select id, keep(x) as k from t offset 0) s on s.id = t.id when matched and not s.k then delete when matched then update set y = 'kept'$$, '', 'select id, y from t order by id'),
  ('partitions_update', '60/6', $$update p set x = slow(x) where id <= 60$$, '', 'select * from p order by id'),
  ('partitions_move', '60/6', $$update p set id = 60 - id where keep(x)$$, '', 'select * from p order by id'),
  ('partitions_returning', '60/6', $$delete from p returning id, slow(x)$$, '', ''),
  ('inherited', '60/4', $$select id, slow(x) from inh order by id$$, '', ''),
  ('inherited_limit', '5/1', $$select id, slow(x) from inh order by id limit 5$$, '', ''),
  ('inherited_update', '60/4', $$update inh set x = slow(x)$$, '', 'select * from inh order by id'),
  ('inherited_returning', '60/4', $$delete from inh where id > 0 returning id, slow(x)$$, '', ''),
  ('foreign', '20/2', $$select id, slow(x) from ft where id <= 20$$, '', ''),
  ('foreign_limit', '5/1', $$select id, slow(x) from ft order by id limit 5$$, '', ''),
  ('foreign_join', '20/2', $$select a.id, slow(a.x || c.y) from ft a join ft c using (id) where a.id <= 20 order by 1$$, '', ''),
  ('foreign_lock', '5/1', $$select id, slow(x) from ft where id <= 5 order by id for update$$, '', ''),
  ('foreign_update', '20/2', $$update ft set y = slow(x) where id <= 20$$, '', 'select id, y from ft order by id'),
  ('foreign_delete', '100/7', $$delete from ft where keep(x)$$, '', 'select id from ft order by id'),
  ('foreign_direct', '19d', $$update ft set g = 1 where id < 20 returning id, slow(x)$$, '', ''),
  ('foreign_async', '100/8', $$select id, slow(x) from halves where id > 0 order by id$$, '', ''),
  ('foreign_async_filter', '100/8', $$select id from halves where keep(x) order by id$$, '', ''),
  ('foreign_async_union', '60/4', $$select id, slow(x) from halves_1 where id <= 30 union all select id, slow(x) from halves_2 where id > 70 order by 1$$, '', '');
-- what FROM makes of an answer is executed for each row, though nobody reads it
INSERT INTO shapes (n, want, q)
SELECT 'lateral_fails_' || n, want, format('select state_of(%L)', q) FROM (VALUES
  ('unread', '100/7', $$select id from t, cast(slow(x) as int) f$$),
  ('beside', '100/7', $$select id, b from t, rows from (cast(slow(x) as int), nslow(x)) f(a, b)$$),
  ('left', '100/7', $$select id from t left join lateral cast(slow(x) as int) f on g = 1$$),
  ('left_read', '100/7', $$select id, f from t left join lateral cast(slow(x) as int) f on g = 9$$),
  ('left_condition', '100/7', $$select id from t left join lateral cast(slow(x) as int) f on f > 0$$),
  ('read', '100/7', $$select id, f from t, cast(slow(x) as int) f$$)) AS v(n, want, q);
-- row-level security, cursors, prepared statements, parallel plans
INSERT INTO shapes (n, want, q, pre, post) VALUES
  ('rls_call', NULL, $$select id, slow(x) from rlc where slow(y) > '{0' and g < 3$$, 'set local role infer_shapes_user', ''),
  ('scroll_filter', NULL, $$declare c scroll cursor for select id, slow(x) from t where keep(x) order by id$$,
    '', 'fetch 5 from c; fetch backward 9 from c; fetch absolute 20 from c; fetch last from c'),
  ('prepared_custom', '19/2', $$execute q(20)$$,
    'prepare q(int) as select id, slow(x) from t where id < $1; set local plan_cache_mode=force_custom_plan', ''),
  ('prepared_limit', '4/1', $$execute q(4)$$,
    'prepare q(int) as select id, slow(x) from t order by id limit $1; set local plan_cache_mode=force_generic_plan', ''),
  ('parallel_filter', '160/12', $$select id, slow(x) from t where keep(x) and id > 0$$,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('parallel_merge', '100/7', $$select id, slow(body) from big where id % 200 = 0 order by body$$,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('parallel_join', '100/7', $$select big.id, slow(big.body || t.x) from big join t on t.id = big.k where big.id <= 1000 order by 1$$,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('parallel_limit', '5/1', $$select id, slow(body) from big where id % 200 = 0 order by body limit 5$$,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('parallel_group', '100/7', $$select id % 3, max(slow(body)) from big where id % 200 = 0 group by 1 order by 1$$,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', '');

\set ECHO none
\i :run
