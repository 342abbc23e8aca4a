-- Runs what stands in table shapes.
--
-- want is "calls/requests", with "d" for calls made one by one, "+" between such parts, and nothing
-- where the calls may be as many as without InferScan, in as many requests.
CREATE FUNCTION most(want text, part int) RETURNS bigint LANGUAGE sql AS $$
  SELECT sum(substring(w FROM CASE part WHEN 1 THEN '^\d+' ELSE '(\d+)d?$' END)::int)
  FROM regexp_split_to_table(want, '\s*\+\s*') AS w
$$;
CREATE VIEW runs AS SELECT row_number() OVER (ORDER BY NULLIF(regexp_replace(n, '[^0-9].*', ''), '')::int, n COLLATE "C") AS n,
  pre, with_answers(q) AS q, post, true AS explained,
  format('judge plan_%s %s %s', CASE WHEN n ~ '^[0-9]' THEN 'shape_' || n ELSE n END, most(want, 1), most(want, 2)) AS verdict
FROM shapes;
\ir run_cases.sql

SET client_min_messages = warning;
RESET search_path;
DROP SCHEMA shapes CASCADE;
SELECT FROM infer.drop_model('e');
DROP SERVER infer_shapes, infer_loopback CASCADE;
DROP ROLE infer_shapes_user;
