-- INSERT, UPDATE, DELETE and MERGE: with InferScan and without, the same rows returned and the same
-- tables afterwards, how many calls in how many requests (of at most 16), and how many InferScans
-- the plan has. See shapes.sql.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set run :srcdir '/lib/run_cases.sql'
\! mock set reply=echo
CREATE SCHEMA dml;
SET search_path = dml;
CREATE SERVER infer_dml FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('c', 'complete', 'infer_dml');
SELECT FROM infer.create_model('e', 'embed', 'infer_dml');
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION emb(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.embed('e', $1, '{"dimensions": 2}')::text $$;
CREATE FUNCTION ask(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;

CREATE TABLE t AS SELECT i AS id, 't' || i AS x, 'y' || i AS y FROM generate_series(1, 40) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE s AS SELECT i AS id, 's' || i AS x, CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END AS y FROM generate_series(11, 50) AS i;
CREATE TABLE sink (id int PRIMARY KEY, e text);
INSERT INTO sink VALUES (1, 'old'), (2, 'old'), (12, 'old'), (13, 'old');
-- partitions of different layouts
CREATE TABLE p (id int, x text, y text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (20);
CREATE TABLE p1 (y text, z int, x text, id int);
ALTER TABLE p1 DROP z;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (20) TO (40);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (40) TO (100);
INSERT INTO p SELECT i, 'p' || i, 'y' || i FROM generate_series(1, 60) AS i;
CREATE TABLE h (id int, x text);
CREATE TABLE h1 (extra int, x text, id int);
ALTER TABLE h1 INHERIT h;
INSERT INTO h SELECT i, 'h' || i FROM generate_series(1, 20) AS i;
INSERT INTO h1 SELECT i, 'k' || i, i + 20 FROM generate_series(1, 20) AS i;
CREATE TABLE gen (id int GENERATED ALWAYS AS IDENTITY, x text, n int GENERATED ALWAYS AS (length(x)) STORED, d text DEFAULT 'none');
CREATE TABLE checked (id int, x text CHECK (x <> 'no'), e text);
CREATE TABLE log (what text);
CREATE TABLE trig (id int, x text);
INSERT INTO trig SELECT i, 'z' || i FROM generate_series(1, 5) AS i;
CREATE FUNCTION skip_some() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES (TG_OP || ' ' || NEW.x);
  IF NEW.id = 3 THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER skip BEFORE INSERT OR UPDATE ON trig FOR EACH ROW EXECUTE FUNCTION skip_some();
CREATE VIEW few AS SELECT id, x, y FROM t WHERE id < 20 WITH CHECK OPTION;
CREATE VIEW ruled AS SELECT id, e FROM sink;
CREATE RULE ruled_insert AS ON INSERT TO ruled DO INSTEAD INSERT INTO sink VALUES (new.id, new.e || '!') RETURNING id, e;
CREATE RULE ruled_update AS ON UPDATE TO ruled DO INSTEAD UPDATE sink SET e = ask(new.e) WHERE id = old.id RETURNING id, e;
CREATE VIEW instead AS SELECT id, e FROM sink;
CREATE FUNCTION instead_of() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES (TG_OP || ' ' || NEW.e);
  RETURN NEW;
END $$;
CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE ON instead FOR EACH ROW EXECUTE FUNCTION instead_of();
CREATE TABLE rls (id int, x text);
INSERT INTO rls SELECT i, 'r' || i FROM generate_series(1, 20) AS i;
ALTER TABLE rls ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON rls USING (id < 10) WITH CHECK (x <> 'no');
CREATE ROLE infer_dml_user;
GRANT USAGE ON SCHEMA dml TO infer_dml_user;
GRANT ALL ON rls, s TO infer_dml_user;
GRANT USAGE ON FOREIGN SERVER infer_dml TO infer_dml_user;
-- all may be seen, some changed: MERGE refuses a row before it computes its action
CREATE TABLE refused (id int, x text);
INSERT INTO refused SELECT i, 'r' || i FROM generate_series(11, 20) AS i;
ALTER TABLE refused ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON refused FOR SELECT USING (true);
CREATE POLICY changed ON refused FOR UPDATE USING (id < 15);
GRANT ALL ON refused, log TO infer_dml_user;
ANALYZE t, s, p, h, sink;

CREATE TABLE queries (n serial, name text PRIMARY KEY, q text, post text, pre text);
-- VALUES
INSERT INTO queries (name, q, post) VALUES
  ('insert_values', $$insert into sink values (3, emb('a')), (4, emb('b')), (5, emb('c'))$$, 'table sink'),
  ('insert_values_returning', $$insert into sink values (3, emb('a')), (4, emb('b')) returning *, ask(e)$$, 'table sink'),
  ('insert_values_mixed', $$insert into sink values (3, emb('a')), (4, 'b'), (5, default), (6, null)$$, 'table sink'),
  ('insert_values_partitioned', $$insert into p values (1, emb('a'), 'z'), (30, emb('b'), 'z'), (50, emb('c'), 'z') returning tableoid::regclass, *$$, 'select * from p where y = ''z'''),
  ('insert_values_generated', $$insert into gen (x) values (emb('a')), (emb('b')) returning *$$, 'select x, n, d from gen'),
  ('insert_values_default', $$insert into gen (x, d) values (emb('a'), default), (emb('b'), emb('c')) returning x, n, d$$, ''),
  ('insert_values_identity', $$insert into gen (id, x) overriding system value values (7, emb('a')), (8, emb('b')) returning *$$, ''),
  ('insert_values_view', $$insert into few values (-1, emb('a'), emb('b')), (-2, emb('c'), emb('d')) returning *$$, 'select * from t where id < 0'),
  ('insert_values_check_option', $$do 'begin insert into few values (1000, emb(''a''), ''b''), (-2, emb(''c''), ''d''); exception when with_check_option_violation then insert into log values (''refused''); end'$$, 'table log'),
  ('insert_values_rule', $$insert into ruled values (3, emb('a')), (4, emb('b')) returning *$$, 'table sink'),
  ('insert_values_instead', $$insert into instead values (3, emb('a')), (4, emb('b')) returning *$$, 'table log'),
  ('insert_values_trigger', $$insert into trig values (3, emb('a')), (4, emb('b')) returning *$$, 'table log'),
  ('insert_values_conflict', $$insert into sink values (1, emb('a')), (2, emb('b')), (3, emb('c')) on conflict (id) do update set e = sink.e || excluded.e returning *$$, 'table sink'),
  ('insert_values_conflict_nothing', $$insert into sink values (1, emb('a')), (2, emb('b')), (3, emb('c')) on conflict do nothing$$, 'table sink'),
  ('update_from_values', $$update t set y = v.e from (values (1, emb('a')), (2, emb('b')), (3, 'c')) v(i, e) where t.id = v.i$$, 'select * from t where id < 5 order by id'),
  ('delete_using_values', $$delete from t using (values (ask('t3')), (ask('t4'))) v(e) where t.x = v.e returning t.*, v$$, 'select count(*) from t'),
-- a row's calls are made once, whether or not it conflicts
  ('on_conflict_update', $$insert into sink select id, x from s where id < 20 on conflict (id) do update set e = emb(excluded.e) returning *$$, 'select * from sink order by id'),
  ('on_conflict_where', $$insert into sink select id, x from s where id < 20 on conflict (id) do update set e = excluded.e where ask(excluded.e) = 's12' returning *$$, ''),
-- several result relations
  ('update_partitions', $$update p set x = emb(x) returning id, tableoid::regclass, x$$, 'select * from p order by id'),
  ('update_partitions_returning', $$update p set y = y || '!' where id % 2 = 0 returning id, emb(y), x$$, 'select * from p order by id'),
  ('update_returning_case', $$update p set y = y || '!' where id < 50 returning case when id % 10 = 0 then emb(x || y) end, id$$, ''),
  ('update_returning_row', $$update p set y = y || '!' where id % 20 = 0 returning emb(p::text), p$$, ''),
  ('update_returning_from', $$update p set y = s.y from s where s.id = p.id and s.id < 30 returning p.id, emb(s.x || p.y)$$, ''),
  ('delete_partitions_returning', $$delete from p where id % 3 = 0 returning emb(x), id$$, 'select count(*) from p'),
  ('delete_using', $$delete from p using s where s.id = p.id and ask(s.x) < 's2' returning p.id, emb(s.x)$$, 'select count(*) from p'),
  ('update_inherited', $$update h set x = emb(x) returning id, ask(x)$$, 'select * from h order by id'),
  ('move_rows', $$update p set id = id + 20, x = emb(x) where id between 10 and 30 returning tableoid::regclass, id, emb(y)$$, 'select tableoid::regclass, * from p order by id'),
  ('update_from_lateral', $$update t set y = l.e from s, lateral infer.complete('c', s.x) as l(e) where s.id = t.id returning t.id, t.y, l.e$$, 'select * from t order by id'),
  ('update_from_try', $$update t set y = l.value from s, lateral infer.try_complete('c', s.x) as l where s.id = t.id and l.error is null returning t.id, t.y, (l).execution$$, ''),
  ('lateral_row', $$select s.id, to_jsonb(l) - '{elapsed,usage}'::text[], l is null from s, lateral infer.try_complete('c', case when s.id % 2 = 0 then s.x end) l where s.id < 15$$, ''),
  ('update_multiexpr', $$update t set (x, y) = (select emb(s.x), s.y from s where s.id = t.id) where id > 30$$, 'select * from t order by id'),
  ('update_trigger', $$update trig set x = emb(x) returning id, ask(x)$$, 'table log'),
  ('update_view', $$update few set x = emb(x) where ask(y) <> 'y3' returning id, x$$, ''),
  ('update_rule', $$update ruled set e = 'new' || id where id < 10 returning *$$, 'table sink'),
  ('update_instead', $$update instead set e = emb(e) where id < 10 returning *$$, 'table log'),
  ('check', $$insert into checked select id, ask(x), emb(x) from t$$, 'select * from checked'),
  ('cte', $$with u as (update p set y = emb(y) where id % 2 = 0 returning id, ask(x) a), d as (delete from t using u where u.id = t.id and u.a <> 'p4' returning t.id, emb(t.y) b) select * from u left join d using (id) order by id$$, 'select count(*) from t'),
  ('cte_unread', $$with u as (update p set y = y || '!' where id % 2 = 0 returning emb(y)) select 1$$, 'select * from p order by id');
-- MERGE
INSERT INTO queries (name, q, post) VALUES
  ('merge', $$merge into sink using s on s.id = sink.id when matched then update set e = emb(s.x) when not matched then insert values (s.id, emb(s.x))$$, 'select * from sink order by id'),
  ('merge_insert', $$merge into sink using s on s.id = sink.id when not matched then insert values (s.id, emb(s.x))$$, 'select * from sink order by id'),
  ('merge_update', $$merge into sink using s on s.id = sink.id when matched then update set e = sink.e || emb(s.x)$$, 'select * from sink order by id'),
  ('merge_conditions', $$merge into sink using s on s.id = sink.id when matched and s.y = 'odd' then delete when matched then update set e = emb(s.x)
    when not matched and s.y = 'odd' then do nothing when not matched and s.id < 30 then insert values (s.id, emb(s.x)) when not matched then insert values (s.id, 'none')$$, 'select * from sink order by id'),
  ('merge_call_in_condition', $$merge into sink using s on s.id = sink.id when matched and ask(s.y) = 'odd' then delete when matched then update set e = ask(s.x)
    when not matched and ask(s.y) = 'odd' and emb(s.x) < '{0' then insert values (s.id, ask(s.x)) when not matched and s.id < 15 then insert values (s.id, emb(s.x))$$, 'select * from sink order by id'),
  ('merge_target_condition', $$merge into sink using s on s.id = sink.id when matched and sink.id = 12 then do nothing when matched then update set e = ask(s.x) when not matched then do nothing$$, 'select * from sink order by id'),
  ('merge_target_in_call', $$merge into sink using s on s.id = sink.id when matched then update set e = ask(s.x || sink.e)$$, 'select * from sink order by id'),
  ('merge_guards', $$merge into sink using s on s.id = sink.id when matched then update set e = case when sink.id = 12 then ask(s.x) else 'other' end
    when not matched then insert values (s.id, case when s.id % 5 = 0 then emb(s.x) end)$$, 'select * from sink order by id'),
  ('merge_many', 'merge into sink using s on s.id = sink.id' || repeat(' when matched and s.id < 0 then do nothing', 16) || ' when matched then update set e = emb(s.x)', 'select * from sink order by id'),
  ('merge_random', $$merge into sink using s on s.id = sink.id when not matched and random() < 2 then insert values (s.id, ask(s.x))$$, 'select * from sink order by id'),
  ('merge_source_filter', $$merge into sink using (select * from s where ask(s.x) < 's2') q on q.id = sink.id when not matched then insert values (q.id, emb(q.x))$$, 'select * from sink order by id'),
  ('merge_source_call', $$merge into sink using (select id, emb(x) e from s offset 0) q on q.id = sink.id when matched then update set e = q.e when not matched then insert values (q.id, q.e)$$, 'select * from sink order by id'),
  ('merge_values', $$merge into sink using (values (1, 'a'), (5, 'b')) v(i, x) on v.i = sink.id when matched then update set e = emb(v.x) when not matched then insert values (v.i, emb(v.x))$$, 'select * from sink order by id'),
  ('merge_join_on_call', $$merge into t using s on t.x = 't' || substr(ask(s.x), 2) when matched then update set y = emb(s.y) when not matched then insert values (s.id, ask(s.x), 'new')$$, 'select * from t order by id'),
  ('merge_partitions', $$merge into p using s on s.id = p.id when matched and s.y = 'odd' then update set x = emb(s.x) when matched then delete when not matched then insert values (s.id + 40, emb(s.x), ask(s.y))$$, 'select tableoid::regclass, * from p order by id'),
  ('merge_moves_rows', $$merge into p using s on s.id = p.id when matched and s.id < 20 then update set id = p.id + 20, x = emb(s.x)$$, 'select tableoid::regclass, * from p order by id'),
  ('merge_trigger', $$merge into trig using (select id - 10 as id, x from s where id < 18) q on q.id = trig.id when matched then update set x = emb(q.x) when not matched then insert values (q.id, emb(q.x))$$, 'select * from trig, log order by id, what'),
  ('merge_subselect', $$merge into sink using s on s.id = sink.id when not matched then insert values (s.id, ask(s.x || (select max(id) from t)))$$, 'select * from sink order by id'),
  ('merge_correlated', $$merge into sink using s on s.id = sink.id when not matched then insert values (s.id, emb((select max(t.x) from t where t.id = s.id)))$$, 'select * from sink order by id');
INSERT INTO queries (name, pre, q, post) VALUES
  ('insert_parameters', 'prepare i(int, text) as insert into sink values ($1, ask($2)), ($1 + 1, ask($2 || 1)) returning *; set local plan_cache_mode = force_generic_plan',
    $$execute i(3, 'a')$$, 'table sink'),
  ('merge_row_security', 'set local role infer_dml_user', $$merge into rls using s on s.id = rls.id + 10 when matched and s.id < 19 then update set x = emb(s.x) when not matched then insert values (s.id - 40, emb(s.x))$$, 'select * from rls order by id');
INSERT INTO queries (name, pre, q, post) VALUES
  ('merge_refused', 'set local role infer_dml_user', $$do 'begin merge into refused using (select id, x from s where id between 15 and 18) q on q.id = refused.id
    when matched then update set x = ask(q.x); exception when insufficient_privilege then insert into log values (''refused''); end'$$, 'table log');
INSERT INTO queries (name, pre, q, post) SELECT 'plpgsql_values', '', $$do 'declare a text := ''a''; begin insert into sink values (3, emb(a)), (4, emb(a || a)), (5, emb(''c'')); end'$$, 'table sink';

CREATE VIEW runs AS SELECT n, concat('alter table gen alter id restart; ', pre) AS pre, q, post, q NOT LIKE 'do %' AS explained,
  'count ' || name AS verdict FROM queries;
\set ECHO none
\i :run
\set ECHO all

-- where it stands
EXPLAIN (COSTS OFF, VERBOSE) MERGE INTO sink USING s ON s.id = sink.id WHEN MATCHED AND s.y = 'odd' THEN DELETE
  WHEN MATCHED THEN UPDATE SET e = ask(s.x) WHEN NOT MATCHED THEN INSERT VALUES (s.id, ask(s.x));
EXPLAIN (COSTS OFF, VERBOSE) UPDATE p SET y = 'z' WHERE id < 30 RETURNING id, emb(x);
EXPLAIN (COSTS OFF, VERBOSE) UPDATE t SET y = l.e FROM s, LATERAL infer.complete('c', s.x) AS l(e) WHERE s.id = t.id;

\! mock set defaults
RESET search_path;
DROP SCHEMA dml CASCADE;
SELECT FROM infer.drop_model('c');
SELECT FROM infer.drop_model('e');
DROP SERVER infer_dml;
DROP ROLE infer_dml_user;
