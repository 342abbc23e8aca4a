-- MERGE as PostgreSQL 17 has it: WHEN NOT MATCHED BY SOURCE, RETURNING. See dml.sql.
SELECT current_setting('server_version_num')::int < 170000 AS too_old \gset
\if :too_old
\quit
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
\getenv mock_url MOCK_URL
\getenv srcdir PG_ABS_SRCDIR
\set url :mock_url '/v1'
\set run :srcdir '/lib/run_cases.sql'
\! mock set reply=echo
CREATE SCHEMA merging;
SET search_path = merging;
CREATE SERVER infer_merge FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', max_batch_size '16');
SELECT FROM infer.create_model('c', 'complete', 'infer_merge');
SELECT FROM infer.create_model('e', 'embed', 'infer_merge');
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION emb(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.embed('e', $1, '{"dimensions": 2}')::text $$;
CREATE FUNCTION ask(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;
CREATE TABLE s AS SELECT i AS id, 's' || i AS x, CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END AS y FROM generate_series(11, 50) AS i;
CREATE TABLE sink (id int PRIMARY KEY, e text);
INSERT INTO sink SELECT i, 'old' || i FROM generate_series(1, 20) AS i;
CREATE TABLE p (id int, e text) PARTITION BY RANGE (id);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (15);
CREATE TABLE p1 (e text, id int);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (15) TO (100);
INSERT INTO p TABLE sink;
CREATE VIEW instead AS SELECT id, e FROM sink;
CREATE FUNCTION instead_of() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    UPDATE sink SET e = NEW.e WHERE id = OLD.id;
  ELSE
    INSERT INTO sink VALUES (NEW.id, NEW.e);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE ON instead FOR EACH ROW EXECUTE FUNCTION instead_of();
ANALYZE s, sink, p;
CREATE TABLE queries (n serial, name text PRIMARY KEY, q text, post text);
INSERT INTO queries (name, q, post) VALUES
  ('by_source', $$merge into sink using s on s.id = sink.id when matched then update set e = emb(s.x) when not matched by source then update set e = emb(sink.e)
    when not matched by target then insert values (s.id, emb(s.x))$$, 'select * from sink order by id'),
  ('by_source_call_of_source', $$merge into sink using s on s.id = sink.id when matched and s.y = 'odd' then do nothing when matched then update set e = ask(coalesce(s.x, 'none'))
    when not matched by source then delete when not matched by target and s.y = 'odd' then insert values (s.id, emb(s.x))$$, 'select * from sink order by id'),
  ('returning', $$merge into sink using s on s.id = sink.id when matched then update set e = emb(s.x) when not matched then insert values (s.id, emb(s.x))
    returning merge_action(), ask(s.x || sink.id), sink.*$$, 'select * from sink order by id'),
  ('returning_action', $$merge into sink using s on s.id = sink.id when matched then delete when not matched and s.id < 30 then insert values (s.id, s.y)
    returning case merge_action() when 'DELETE' then emb(sink.e) else ask(s.y) end, ask(merge_action() || s.y)$$, 'select * from sink order by id'),
  ('partitions', $$merge into p using s on s.id = p.id when matched then update set e = emb(s.x) when not matched then insert values (s.id + 40, emb(s.x))
    returning merge_action(), emb(p.e || s.y), p.id$$, 'select * from p order by id'),
  ('cte', $$with m as (merge into sink using s on s.id = sink.id when matched then update set e = emb(s.x) when not matched by source then delete returning merge_action() a, emb(sink.e) b, sink.id) select * from m order by id$$,
    'select * from sink order by id'),
  ('instead', $$merge into instead v using s on s.id = v.id when matched then update set e = ask(s.x) when not matched and s.id < 25 then insert values (s.id, ask(s.x)) returning v.*$$,
    'select * from sink order by id');

CREATE VIEW runs AS SELECT n, NULL AS pre, q, post, true AS explained, 'count ' || name AS verdict FROM queries;
\set ECHO none
\i :run
\set ECHO all

\! mock set defaults
RESET search_path;
DROP SCHEMA merging CASCADE;
SELECT FROM infer.drop_model('c');
SELECT FROM infer.drop_model('e');
DROP SERVER infer_merge;
