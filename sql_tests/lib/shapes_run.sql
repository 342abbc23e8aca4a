-- Runs what stands in table shapes; the caller has set :dir.
--
-- Each shape runs in a transaction of its own which is rolled back, first with InferScan off, then
-- on; lib/shape compares. want is "calls/requests", with "d" for calls made one by one, "+" between
-- such parts, and nothing where the calls may be as many as without InferScan, in as many requests.
-- Requests are filled, for when a request leaves that is not full is a matter of time.
SET pg_inference.streaming_mode = batch;
\pset format unaligned
\pset tuples_only on
\set script :dir '/shapes_script.sql'
CREATE FUNCTION most(want text, part int) RETURNS bigint LANGUAGE sql AS $$
  SELECT sum(substring(w FROM CASE part WHEN 1 THEN '^\d+' ELSE '(\d+)d?$' END)::int)
  FROM regexp_split_to_table(want, '\s*\+\s*') AS w
$$;
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
DISCARD PLANS;
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
DISCARD PLANS;
\! shape judge %5$s plan_%4$s %6$s %7$s
$run$, coalesce(pre, ''), with_answers(q), coalesce(post, ''), CASE WHEN n ~ '^[0-9]' THEN 'shape_' || n ELSE n END, :'dir',
  most(want, 1), most(want, 2))
FROM shapes ORDER BY NULLIF(regexp_replace(n, '[^0-9].*', ''), '')::int, n COLLATE "C";
\o
\! shape begin $PG_ABS_BUILDDIR/results
\i :script

SET client_min_messages = warning;
RESET pg_inference.streaming_mode;
RESET search_path;
DROP SCHEMA shapes CASCADE;
SELECT FROM infer.drop_model('e');
DROP SERVER infer_shapes, infer_loopback CASCADE;
DROP ROLE infer_shapes_user;
