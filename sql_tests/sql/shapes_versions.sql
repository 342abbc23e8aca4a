-- Query shapes that not every version of PostgreSQL has, judged as those of shapes.sql are: plan_S18.
-- shapes_versions.out is that of 15 and 16, shapes_versions_1.out that of 17, _2 that of 18.
SET client_min_messages = warning;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set fixture :srcdir '/lib/shapes_fixture.sql'
\set run :srcdir '/lib/shapes_run.sql'
\set ECHO none
\i :fixture
\set ECHO all
SELECT :SERVER_VERSION_NUM >= 170000 AS is_17, :SERVER_VERSION_NUM >= 180000 AS is_18 \gset
INSERT INTO shapes (n, want, q) VALUES
  ('merge', '19/2', $$merge into sink s using (select id, slow(x) e from t where id<20 offset 0) q on s.id=q.id when not matched then insert values (q.id, q.e)$$);
UPDATE shapes SET post = 'select * from sink order by id';
\if :is_17
INSERT INTO shapes (n, want, q, pre, post) VALUES
  ('S18_merge_action', '38/4', $$merge into sink s using (select id, slow(x) e from t where id<20 offset 0) q on s.id=q.id when matched then update set e=q.e when not matched then insert values (q.id, q.e) returning merge_action(), s.id, s.e, slow(q.e)$$,
    $$insert into sink values (1,'o'),(2,'o')$$, 'select * from sink order by id'),
  ('S18_merge_in_cte', '38/4', $$with m as (merge into sink s using (select id, x e from t where id<20) q on s.id=q.id when not matched then insert values (q.id, q.e) returning merge_action() a, slow(s.e) c) select a, slow(c) from m$$,
    '', 'select * from sink order by id'),
  ('merge_by_source', '100/7', $$merge into t using (select id from t where keep(x)) s on s.id=t.id when not matched by source then delete when matched then do nothing$$,
    'set local enable_nestloop=off', 'select id from t order by id'),
  ('json_table', '2/1', $$select slow(a) from json_table('[{"a": "1"}, {"a": "2"}]', '$[*]' columns (a text path '$.a')) j$$, '', ''),
  ('json_value', '100/7', $$select json_value(jsonb_build_object('a', slow(x)), '$.a') from t$$, '', ''),
  ('json_exists', '20/2', $$select id from t where id<=20 and not json_exists(jsonb_build_object(slow(x), 1), '$.a' error on error)$$, '', ''),
  ('json_passing', NULL, $$select json_query(jsonb '[1, 2]', '$[*] ? (@ < $n)' passing length(slow(y)) as n with wrapper), json_value(nullif(to_jsonb(x), '"x1"'), '$' passing slow(x) as n) from t where id < 4$$, '', ''),
  ('json_object', '107/8', $$select json_object('id': id, 'e': slow(x), 'y': slow(y) null on null returning jsonb) from t$$, '', ''),
  ('json_objectagg', '100/7', $$select json_objectagg(id: slow(x)) from t$$, '', ''),
  ('json_arrayagg', '105/8', $$select g, slow(json_arrayagg(slow(x) order by id)::text) from t group by g order by g$$, '', ''),
  ('json_case', '107/9', $$select case slow(y) when json_object('a': x)::text then 'never' when 'Y1' then json_value(to_jsonb(slow(x)), '$') else json_array(slow(x))::text end from t$$, '', ''),
  ('is_json', '100/7', $$select id from t where not slow(x) is json array$$, '', ''),
  ('any_value', '7/1', $$select g, any_value(slow(y)) is not null from t group by g order by g$$, '', '');
\endif
\if :is_18
CREATE TABLE generated (id int, x text, z text GENERATED ALWAYS AS (x || '!') VIRTUAL);
INSERT INTO generated SELECT id, x FROM t WHERE id <= 20;
INSERT INTO shapes (n, want, q, pre, post) VALUES
  ('S18_old_new', '40/4', $$update t set y=slow(x) where id<=20 returning old.y, new.y, slow(new.y||old.y)$$, '', 'select id, y from t order by id'),
  ('S18_old_deleted', '20/2', $$delete from t where id<=20 returning old.id, new.id, slow(old.x), slow(new.x)$$, '', 'select id from t order by id'),
  ('S18_old_conflict', '3/1', $$insert into sink select id, x from t where id<4 on conflict (id) do update set e=excluded.e returning old.e, new.e, slow(coalesce(old.e, new.e))$$,
    $$insert into sink values (1,'o')$$, 'select * from sink order by id'),
  ('S18_merge_old', '38/4', $$merge into sink s using (select id, slow(x) e from t where id<20 offset 0) q on s.id=q.id when matched then update set e=q.e when not matched then insert values (q.id, q.e) returning merge_action(), old.e, new.e, slow(coalesce(old.e, 'new')||q.id)$$,
    $$insert into sink values (1,'o'),(2,'o')$$, 'select * from sink order by id'),
  ('S18_old_row', '40/4', $$update t set y=slow(x) where id<=20 returning old, slow(new::text)$$, '', 'select id, y from t order by id'),
  ('generated_column', '40/4', $$select id, slow(z) from generated where keep(z) or id > 0$$, '', '');
\endif

\set ECHO none
\i :run
