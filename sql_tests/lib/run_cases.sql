-- Runs what stands in table or view runs (n, pre, q, post, explained, verdict).
--
-- Each case runs in a transaction of its own which is rolled back, first with InferScan off, then
-- on: pre, then q and post, whose rows are compared. explained says whether q has a plan; verdict is
-- what lib/shape is told. Requests are filled, for when a request leaves that is not full is a
-- matter of time.
SET pg_inference.streaming_mode = batch;
\getenv builddir PG_ABS_BUILDDIR
\set dir :builddir '/results'
\pset format unaligned
\pset tuples_only on
\set script :dir '/shapes_script.sql'
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
\! shape off
BEGIN;
%1$s;
\o %5$s/shapes_plan.txt
%4$s;
\o %5$s/shapes_on.txt
%2$s;
%3$s;
ROLLBACK;
\o
DEALLOCATE ALL;
DISCARD PLANS;
\! shape %6$s
$run$, pre, q, post, CASE WHEN explained THEN 'EXPLAIN (VERBOSE, COSTS OFF) ' || q END, :'dir', verdict)
FROM runs ORDER BY n;
\o
\! shape begin
\i :script
RESET pg_inference.streaming_mode;
