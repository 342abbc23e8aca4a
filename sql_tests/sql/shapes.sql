-- Query shapes: with InferScan and without, the same rows in the same order, and no more calls.
--
-- A shape is a query, with statements before it and after it where it needs some. Each runs in a
-- transaction of its own which is rolled back, first with pg_inference.enable off, then on. Where no
-- number of calls is given, InferScan may make as many as PostgreSQL does without it. The third word
-- of a result says whether the plan has an InferScan; where it has none, calls are made one by one.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv builddir PG_ABS_BUILDDIR
\set url :mock_url '/v1'
\set dir :builddir '/results'
\set script :dir '/shapes_script.sql'
\! mock set reply=echo
CREATE SCHEMA shapes;
SET search_path = shapes;
CREATE SERVER infer_shapes FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('c', 'complete', 'infer_shapes');
SELECT FROM infer.create_model('e', 'embed', 'infer_shapes');

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
CREATE TABLE lab AS SELECT 'x' || i AS name, i AS n FROM generate_series(1, 50) AS i;
ALTER TABLE lab ADD PRIMARY KEY (name);
CREATE TABLE nn AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'n' || i END AS x FROM generate_series(1, 20) AS i;
CREATE TABLE sink (id int PRIMARY KEY, e text);
CREATE TABLE rl AS SELECT * FROM t;
ALTER TABLE rl ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON rl USING (g < 2);
CREATE TABLE u AS SELECT k, 'x' || i AS name FROM generate_series(0, 4) AS k, generate_series(1, 20) AS i;
CREATE UNIQUE INDEX ON u (k, name);
VACUUM ANALYZE u, t, b, big, p, lab, nn, sink, rl;

-- inlined by the planner, so that queries are short
CREATE FUNCTION slow(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;
CREATE FUNCTION slow2(text, text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1 || $2) $$;
CREATE FUNCTION score(text) RETURNS float8 LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 2}'))[1]::float8 / 2 + 0.5 $$;
CREATE FUNCTION keep(text) RETURNS bool LANGUAGE sql STABLE AS
  $$ SELECT (infer.embed('e', $1, '{"dimensions": 3}'))[1] > -0.3 $$;
-- not inlined
CREATE FUNCTION plw(text) RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN infer.complete('c', $1); END $$;
CREATE FUNCTION plx() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  a text := 'a';
  r text;
BEGIN
  FOR i IN 1..3 LOOP
    r := infer.complete('c', a || i);
  END LOOP;
  RETURN r || infer.complete('c', a || 1);
END $$;
CREATE FUNCTION plfor() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  r record;
  s text := '';
BEGIN
  FOR r IN SELECT slow(x) AS c FROM t ORDER BY id LOOP
    s := s || r.c;
  END LOOP;
  RETURN s;
END $$;
CREATE FUNCTION plinto() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  r text;
BEGIN
  SELECT slow(x) INTO r FROM t ORDER BY id;
  RETURN r;
END $$;
CREATE VIEW vw AS SELECT id, slow(x) AS e FROM t;
CREATE VIEW vwsb WITH (security_barrier) AS SELECT id, slow(x) AS e FROM t WHERE keep(x);
CREATE ROLE infer_shapes_user;
GRANT USAGE ON SCHEMA shapes TO infer_shapes_user;
GRANT SELECT ON rl TO infer_shapes_user;
GRANT USAGE ON FOREIGN SERVER infer_shapes TO infer_shapes_user;

CREATE TABLE shapes (n text PRIMARY KEY, q text, most int, pre text, post text);
INSERT INTO shapes (n, q) VALUES
  ('01', $$select id, slow(x) from t$$),
  ('02', $$select slow(x), slow(x)||'!' from t$$),
  ('03', $$select slow(x), score(y) from t$$),
  ('04', $$select slow2(slow(x), y) from t$$),
  ('05', $$select id from t where keep(x)$$),
  ('06', $$select id from t where keep(x) and id<=20$$),
  ('07', $$select id from t where keep(x) and score(y)>0.5$$),
  ('08', $$select id, score(x) from t where score(x)>0.5$$),
  ('09', $$select id from t where g=1 or keep(x)$$),
  ('10', $$select id, case when g=1 then slow(x) else '-' end from t$$),
  ('11', $$select id, case when g=1 then slow(x) when g=2 then slow(y) else '-' end from t$$),
  ('12', $$select id, case slow(y) when 'y1' then slow(x) else y end from t$$),
  ('13', $$select id, coalesce(slow(x), 'none') from nn$$),
  ('14', $$select id, coalesce(x, slow('q'||id)) from nn$$),
  ('15', $$select id, slow(x) from nn$$),
  ('23', $$select id from t order by score(x), id$$),
  ('26', $$select sum(score(x)) from t$$),
  ('27', $$select g, sum(score(x)), max(slow(y)) from t group by g$$),
  ('29', $$select g, slow(string_agg(x,',' order by id)) from t group by g$$),
  ('30', $$select g from t group by g having score(min(x))>0.3$$),
  ('31', $$select g from t group by g having count(*)>5 and keep(max(y))$$),
  ('32', $$select count(distinct slow(y)) from t$$),
  ('33', $$select string_agg(x,',' order by score(x), id) from t$$),
  ('34', $$select g, slow(y), count(*) from t group by grouping sets ((g),(slow(y)),())$$),
  ('35', $$select id, sum(score(x)) over (partition by g order by id) from t$$),
  ('36', $$select id, slow(x), row_number() over (order by id) from t$$),
  ('37', $$select id, slow(lag(x) over (order by id)) from t$$),
  ('38', $$select id, rank() over (order by score(x), id) from t$$),
  ('39', $$select distinct slow(y) from t$$),
  ('41', $$select distinct on (slow(y)) slow(y), id from t order by slow(y), id$$),
  ('42', $$select t.id, b.id, slow(b.txt) from t join b on b.tid=t.id where t.g=1$$),
  ('43', $$select t.id, b.id from t join b on b.tid=t.id where keep(b.txt) and t.g=1$$),
  ('44', $$select big.id from t join big on big.k=t.id where t.id=5 and keep(big.body)$$),
  ('45', $$select t.id,b.id from t join b on b.tid=t.id where t.g=1 and score(t.x||b.txt)>0.5$$),
  ('48', $$select t.id, b.id from t left join b on b.tid=t.id and keep(b.txt) where t.id<30$$),
  ('49', $$select t.id, b.id from t left join b on b.tid=t.id and keep(t.x||b.txt) where t.id<30$$),
  ('50', $$select t.id, b.id from t left join b on b.tid=t.id where coalesce(slow(b.txt),'z')<>'b1'$$),
  ('51', $$select a.id, slow(c.txt) from t a full join b c on a.id=c.tid$$),
  ('52', $$select a.id, c.id from t a join t c on score(a.x||c.x)<0.1 where a.id<12 and c.id<12$$),
  ('56', $$select id from t where slow(x) in (select name from lab)$$),
  ('58', $$select id, (select min(slow(b.txt)) from b where b.tid=t.id) from t$$),
  ('59', $$select id, (select count(*) from lab where lab.name=slow(t.x)) from t$$),
  ('60', $$select id, slow((select min(txt) from b where b.tid=t.id)) from t$$),
  ('61', $$select id from t where slow(y) = any(array['y1','y2'])$$),
  ('66', $$select slow('a'), slow('b')$$),
  ('67', $$select e, e from (select slow(x) e from t) s$$),
  ('68', $$select e from (select id, score(x) e from t) s where e>0.5$$),
  ('70', $$with c as materialized (select id, slow(x) e from t) select c1.e, c2.e from c c1 join c c2 on c1.id=c2.id$$),
  ('71', $$with c as (select id, slow(x) e from t) select e from c where id<10$$),
  ('72', $$with c as not materialized (select id, slow(x) e from t) select c1.e, c2.e from c c1 join c c2 using(id) where c1.id<10$$),
  ('73', $$select slow(x) from t union all select slow(txt) from b$$),
  ('74', $$select slow(y) from t union select slow(y) from t where id<20$$),
  ('75', $$select slow(y) from t except select 'y1'$$),
  ('76', $$with recursive r(n,e) as (select 1, slow('a'||1) union all select n+1, slow('a'||n+1) from r where n<5) select * from r$$),
  ('77', $$select id, slow(x) from p$$),
  ('78', $$select id from p where keep(x)$$),
  ('80', $$select generate_series(1,3), slow(x) from t where id<10$$),
  ('81', $$select generate_series(1, length(slow(x))) from t where id<10$$),
  ('82', $$select slow(x||generate_series(1,3)) from t where id<10$$),
  ('83', $$select t.id, f from t, lateral slow(t.x) f$$),
  ('84', $$select t.id, f.e from t, lateral (select slow(t.x) e) f$$),
  ('85', $$select t.id, f.e from t, lateral (select string_agg(slow(b.txt),',' order by b.id) e from b where b.tid=t.id) f$$),
  ('86', $$select slow(c) from (values ('a'),('b'),('c')) v(c)$$),
  ('87', $$select * from (values (1,slow('a')),(2,slow('b'))) v(i,c)$$),
  ('88', $$select slow('g'||g) from generate_series(1,40) g$$),
  ('91', $$with i as (insert into sink select id, x from t returning id, slow(e) z) select * from i$$),
  ('96', $$with u as (update t set y=y where id<=20 returning id, slow(y) z) select * from u$$),
  ('100', $$select id, slow(x) from t where id<=20 for update$$),
  ('103', $$select id from t where (slow(y), id) < ('y3', 50)$$),
  ('104', $$select array[slow(x), slow(y)] from t$$),
  ('105', $$select score(x)::numeric(4,2) + 1 from t$$),
  ('108', $$select * from (select id, score(x) sc from t order by score(x) desc, id limit 20) q where sc<0.95 order by id$$),
  ('109', $$select slow(t::text) from t$$),
  ('110', $$select slow(tableoid::regclass::text) from p$$),
  ('117', $$select id, infer.complete('c', x) from t$$),
  ('118', $$select id, plw(x) from t where id<=10$$),
  ('119', $$select * from vw where id<10$$),
  ('120', $$select id,e from vwsb where id<10$$),
  ('133', $$select plx()$$),
  ('134', $$select plfor()$$),
  ('137', $$select nullif(slow(y),'y1'), greatest(slow(x),slow(y)) from t$$),
  ('139', $$select case when keep(x) then slow(x) else slow(y) end from t$$),
  ('144', $$select count(*) from t where keep(x)$$),
  ('145', $$select id from t where g<3 order by score(x)*2, id limit 4$$),
  ('146', $$select slow(y) e, g, count(*) from t group by rollup(1,2)$$),
  ('147', $$select unnest(string_to_array(slow(x),'1')) from t$$),
  ('149', $$select jsonb_build_object('a', slow(x)) from t$$);
-- with the most calls it may make
INSERT INTO shapes (n, q, most) VALUES
  ('17', $$select count(*) from (select case when random()<0.5 then slow(x) else '-' end from t offset 0) q$$, 100),
  ('18', $$select id, slow(x) from t limit 7$$, 7),
  ('19', $$select id, slow(x) from t order by id limit 7 offset 20$$, 7),
  ('20', $$select id from t where keep(x) limit 3$$, 16),
  ('21', $$select id from t where keep(x) order by v, id limit 3$$, 16),
  ('22', $$select id, slow(x) from t order by v,id limit 5$$, 5),
  ('24', $$select id, slow(y) from t order by score(x), id limit 5$$, 105),
  ('25', $$select slow(y), count(*) from t group by slow(y)$$, 7),
  ('28', $$select sum(score(x)) filter (where g=1) from t$$, 20),
  ('40', $$select distinct on (g) g, slow(x) from t order by g, id$$, 5),
  ('46', $$select t.id, lab.n from t join lab on lab.name=slow(t.x)$$, 100),
  ('47', $$select a.id, c.id from t a join t c on slow(a.y)=slow(c.y) where a.id<10 and c.id<10$$, 7),
  ('53', $$select id from t where exists (select 1 from b where b.tid=t.id and keep(b.txt))$$, 300),
  ('54', $$select id from t where t.id<30 and exists (select 1 from b where b.tid=t.id and keep(t.x||b.txt))$$, 87),
  ('55', $$select id from t where not exists (select 1 from b where b.tid=t.id and keep(b.txt))$$, 300),
  ('57', $$select name from lab where name in (select slow(x) from t)$$, 100),
  ('62', $$select id from t order by abs(v - (infer.embed('e', 'query'))[1]), id limit 3$$, 1),
  ('63', $$select id from t where v > (infer.embed('e', 'query'))[1]$$, 1),
  ('64', $$select id, v-(infer.embed('e', 'query'))[1] from t order by abs(v - (infer.embed('e', 'query'))[1]), id limit 3$$, 1),
  ('65', $$select id, case when id<0 then slow('never') else x end from t$$, 0),
  ('69', $$select s.e, b.id from (select id, score(x) e from t) s join b on b.tid=s.id where e>0.5$$, 100),
  ('79', $$select id, slow(x) from p order by id limit 5$$, 5),
  ('101', $$select id, slow(x) from t where keep(y) order by id limit 4 for update$$, 26),
  ('102', $$select id, slow(x) from t order by g fetch first 3 rows with ties$$, 20),
  ('106', $$select count(*) from (select slow(x) from t limit 10) q$$, 0),
  ('107', $$select count(*) from (select id, slow(x) from t) q$$, 0),
  ('126', $$select count(*) from (select slow(x) from t tablesample system(100) offset 0) q$$, 0),
  ('135', $$select plinto()$$, 16),
  ('138', $$select id, (g=1 and keep(x)) from t$$, 20),
  ('140', $$select id from t where id in (select tid from b where keep(txt))$$, 300),
  ('141', $$select id from t where id not in (select tid from b where keep(txt))$$, 300),
  ('142', $$select max(id) from t where keep(x)$$, 16),
  ('148', $$select t.id, l.e from t, lateral (select slow(b.txt) e from b where b.tid=t.id order by b.id limit 1) l$$, 300),
  ('143', $$select first_value(slow(x)) over (partition by g order by id) from t$$, 100);
-- with statements before and after
INSERT INTO shapes (n, q, most, pre, post) VALUES
  ('89', $$insert into sink select id, slow(x) from t$$, 100,
    '', 'select * from sink'),
  ('90', $$insert into sink values (1,slow('a')),(2,slow('b'))$$, 2,
    '', 'select * from sink'),
  ('92', $$update t set y=slow(x) where id<=40$$, 40,
    '', 'select id,y from t'),
  ('93', $$update t set y=slow(b.txt) from b where b.id=t.id$$, 100,
    '', 'select id,y from t'),
  ('94', $$update t set y='z' where keep(x)$$, 100,
    '', 'select id,y from t'),
  ('95', $$delete from t where keep(x)$$, 100,
    '', 'select id from t'),
  ('97', $$insert into sink select id, x from t where id<4 on conflict (id) do update set e=slow(excluded.e||'!')$$, 1,
    $$insert into sink values (1,'o')$$, 'select * from sink'),
  ('98', $$merge into sink s using (select id, x from t where id<20) q on s.id=q.id when matched then update set e=slow(q.x) when not matched then insert values (q.id, slow(q.x))$$, 19,
    $$insert into sink values (1,'o'),(2,'o')$$, 'select * from sink'),
  ('99', $$merge into sink s using (select id, slow(x) e from t where id<20 offset 0) q on s.id=q.id when matched then update set e=q.e when not matched then insert values (q.id, q.e)$$, 19,
    $$insert into sink values (1,'o'),(2,'o')$$, 'select * from sink'),
  ('111', $$select a.id, c.id from t a join t c on a.id=c.id and keep(c.x)$$, NULL,
    'set local enable_hashjoin=off; set local enable_nestloop=off', ''),
  ('112', $$select a.id, c.id from b a left join t c on a.tid=c.id and keep(c.x)$$, NULL,
    'set local enable_hashjoin=off; set local enable_nestloop=off', ''),
  ('113', $$select t.id,b.id from t join b on b.tid=t.id where keep(b.txt)$$, NULL,
    'set local enable_hashjoin=off; set local enable_mergejoin=off; set local enable_memoize=off', ''),
  ('114', $$select b.id from b join t on b.tid=t.id where keep(t.x)$$, NULL,
    'set local enable_hashjoin=off; set local enable_mergejoin=off', ''),
  ('115', $$select t.id,b.id from t left join b on b.tid=t.id and keep(b.txt)$$, NULL,
    'set local enable_hashjoin=off; set local enable_mergejoin=off', ''),
  ('116', $$select t.id, lab.n from t join lab on lab.name=slow(t.x)$$, NULL,
    'set local enable_hashjoin=off; set local enable_mergejoin=off; set local enable_seqscan=off', ''),
  ('121', $$select id, infer.complete('c', x) from rl$$, 40,
    'set local role infer_shapes_user', ''),
  ('123', $$select id, slow(body) from big where id%200=0 order by id$$, NULL,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('124', $$select id from big where id%200=0 and keep(body) order by id$$, NULL,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('125', $$select round(sum(score(body))::numeric, 9) from big where id%200=0$$, NULL,
    'set local parallel_setup_cost=0; set local parallel_tuple_cost=0; set local min_parallel_table_scan_size=0', ''),
  ('127', $$create temp table cta as select id, slow(x) e from t$$, 100,
    '', 'select * from cta'),
  ('128', $$execute q(20)$$, 19,
    'prepare q(int) as select id, slow(x) from t where id<$1; set local plan_cache_mode=force_generic_plan', ''),
  ('129', $$execute q('a')$$, 1,
    $$prepare q(text) as select id from t where v>(infer.embed('e', $1))[1]; set local plan_cache_mode=force_generic_plan$$, ''),
  ('130', $$execute q('a')$$, 1,
    $$prepare q(text) as select id from t where v>(infer.embed('e', $1))[1]; set local plan_cache_mode=force_custom_plan$$, ''),
  ('131', $$declare c cursor for select id, slow(x) from t$$, 16,
    '', 'fetch 5 from c'),
  ('132', $$declare c scroll cursor for select id, slow(x) from t$$, 16,
    '', 'fetch 5 from c; fetch backward 3 from c'),
  ('150', $$select id%2, max(slow(x)) from p group by 1$$, NULL,
    'set local enable_partitionwise_aggregate=on', '');

-- pitfalls of rewriting a plan, by their names in src/scan/README.md
INSERT INTO shapes (n, q, most) VALUES
  ('P18', $$select count(*) from (select case when random() < 0.5 then slow(x) else '-' end c from t offset 0) q where c is null$$, 100),
  ('volatile', $$select id, random() < 2, slow(y) from t where keep(x) order by id limit 5$$, 26);
INSERT INTO shapes (n, q, pre, post) VALUES
  ('P5', $$select slow(x) from t order by y desc, id$$, '', ''),
  ('P5_update', $$update t set y = slow(t.x || b.id) from b where b.tid = t.id and b.id < 50$$, '', 'select id, y from t order by id'),
  ('P6', $$insert into sink select id, slow(x) from t order by slow(y), id$$, '', 'select * from sink'),
  ('P7', $$select g, max(e), round(sum(score(e || g))::numeric, 9) from (select g, slow(x) e from t) s group by g order by g$$, '', ''),
  ('P7_virtual', $$select g, max(e), count(slow(e || g)) from (select id, g, slow(x) e from t order by id limit 60) s group by g order by g$$, '', ''),
  ('P8', $$select t.id, b.id from t join b on b.tid = t.id and b.id > t.g where keep(b.txt || t.y)$$,
    'set local enable_hashjoin=off; set local enable_mergejoin=off; set local enable_memoize=off', ''),
  ('P9', $$select t.id, u.k, u.name from t join u on u.k = t.g and u.name = slow(t.x)$$,
    'set local enable_hashjoin=off; set local enable_mergejoin=off; set local enable_indexscan=off; set local enable_indexonlyscan=off; set local enable_bitmapscan=off', ''),
  ('P9_hash', $$select t.id, u.k, u.name from t join u on u.k = t.g and u.name = slow(t.x)$$, 'set local enable_nestloop=off; set local enable_mergejoin=off', ''),
  ('P9_merge', $$select t.id, u.k, u.name from t join u on u.k = t.g and u.name = slow(t.x)$$, 'set local enable_nestloop=off; set local enable_hashjoin=off', ''),
  ('P10', $$select a.id, c.id from b a join t c on a.tid = c.id where keep(c.x) order by 1$$, 'set local enable_hashjoin=off; set local enable_nestloop=off', ''),
  ('P10_both', $$select a.id, c.id from b a join b c on a.tid = c.tid where keep(c.txt) and keep(a.txt) order by 1, 2$$,
    'set local enable_hashjoin=off; set local enable_nestloop=off', ''),
  ('P16', $$select a.id, c.id from t a join t c on a.g < c.g where keep(c.x) and a.id < 20$$, '', ''),
  ('P18_subplan', $$select case when exists (select 1 from b where b.tid = t.id and b.id < 100) then slow(x) else y end from t$$, '', ''),
  ('P19', $$select s.e, s.id from (select id, slow(x) e from t order by id limit 50) s where s.e > 'x3' and s.id % 2 = 0$$, '', ''),
  ('P20', $$select slow(x || (select count(*) from b where b.tid = t.id)), slow(x || (select count(*) from b where b.tid = t.id)) from t$$, '', ''),
  ('P21', $$select slow(x || (select max(id) from b)) from t where id < (select 20)$$, '', ''),
  ('P28', $$select t.id, b.id, slow(b.txt) from t left join b on b.tid = t.id and score(t.x) > 0.5 where keep(t.y || t.id) and t.id < 50$$, '', ''),
  ('P28_full', $$select t.id, b.id from (select * from t where keep(x)) t full join b on b.tid = t.id where keep(coalesce(b.txt, t.y))$$, '', ''),
  ('order', $$select 10 / (id - 5) from t where slow(x) <> 'x5'$$, '', ''),
  ('order_join', $$select 10 / (t.id - 5), b.id from t join b on b.tid = t.id where slow(t.x) <> 'x5'$$, '', ''),
  ('order_agg', $$select sum(10 / (id - 5)) from t where slow(x) <> 'x5'$$, '', ''),
  ('order_sort', $$select id from t where slow(x) <> 'x5' order by 10 / (id - 5), id limit 7$$, '', ''),
  ('nulls', $$select id, slow(x), slow(x) is null, coalesce(slow(slow(x)), '-') from nn where slow(x) is null or slow(x) > 'n2'$$, '', ''),
  ('outcome', $$select (infer.try_complete('c', x)).value, (o).execution from (select x, infer.try_complete('c', x) o from t) s where (o).error is null$$, '', ''),
  ('no_columns', $$select count(*) from (select from t where keep(x) offset 0) s$$, '', ''),
  ('whole_row', $$select t, slow(x), t.* from t where keep(x)$$, '', ''),
  ('correlated', $$select id, (select string_agg(slow(b.txt || t.x), ',' order by b.id) from b where b.tid = t.id and keep(b.txt)) from t where id < 10$$, '', ''),
  ('lateral_two', $$select t.id, l.e, m.e from t, lateral (select slow(t.x) e) l, lateral (select slow(l.e || t.y) e) m where keep(l.e)$$, '', ''),
  ('cte_dml', $$with d as (delete from t where keep(x) returning id, slow(y) e), i as (insert into sink select id, e from d returning *) select * from i order by id$$,
    '', 'select count(*) from t'),
  ('with_ties', $$select id, slow(x) from t where keep(y) order by g fetch first 3 rows with ties$$, '', ''),
  ('windows', $$select id, slow(x || rank() over w), sum(length(slow(y))) over w from t window w as (partition by g order by id) order by id$$, '', ''),
  ('group_by_call', $$select slow(y) || g, count(*) filter (where keep(x)) from t group by 1, slow(y) having keep(slow(y)) order by 1$$, '', '');

\pset format unaligned
\pset tuples_only on
\set ECHO none
\o :script
SELECT format($run$
BEGIN;
SET LOCAL pg_inference.enable = off;
%1$s;
\o %5$s/shapes_off.txt
%2$s;
%3$s;
ROLLBACK;
\o
DEALLOCATE ALL;
\! shape off %5$s
BEGIN;
%1$s;
\o %5$s/shapes_plan.txt
EXPLAIN (VERBOSE, COSTS OFF) %2$s;
\o %5$s/shapes_on.txt
%2$s;
%3$s;
ROLLBACK;
\o
DEALLOCATE ALL;
\! shape judge %5$s plan_%4$s %6$s
$run$, coalesce(pre, ''), q, coalesce(post, ''), CASE WHEN n ~ '^[0-9]' THEN 'shape_' || n ELSE n END, :'dir', most)
FROM shapes ORDER BY NULLIF(regexp_replace(n, '[^0-9].*', ''), '')::int, n COLLATE "C";
\o
\! shape begin $PG_ABS_BUILDDIR/results
\i :script

\! mock set defaults
RESET search_path;
DROP SCHEMA shapes CASCADE;
SELECT FROM infer.drop_model('c');
SELECT FROM infer.drop_model('e');
DROP SERVER infer_shapes;
DROP ROLE infer_shapes_user;
