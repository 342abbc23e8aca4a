-- What is known of servers: infer.stat_servers, stat_nodes and latency_histogram(); who sees what.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\getenv mock_url MOCK_URL
\set url :mock_url '/v1'
\pset null (null)
SELECT current_user AS me \gset
CREATE ROLE infer_route_user LOGIN;
CREATE ROLE infer_route_other LOGIN;
CREATE ROLE infer_route_reader LOGIN;
GRANT pg_read_all_stats TO infer_route_reader;
CREATE SERVER infer_r1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', node 'rack', admission_key 'route_r1', max_concurrency '8');
CREATE SERVER infer_r2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', node 'rack', admission_key 'route_r2', max_concurrency '4');
CREATE SERVER infer_r3 FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1', admission_key 'route_r3', max_concurrency '4');
GRANT USAGE ON FOREIGN SERVER infer_r1, infer_r3 TO infer_route_user;
-- parts of it that are the same every time, of servers of this test
CREATE VIEW seen AS SELECT server, node, in_flight, waiting, outstanding, answers, failures, errors,
    not_admitted, maybe_executed, executed, last_failure
  FROM infer.stat_servers WHERE database = current_database() AND server LIKE 'infer\_r_' ORDER BY server;
CREATE VIEW nodes AS SELECT node, servers, healthy, in_flight, duration_weight FROM infer.stat_nodes
  WHERE database = current_database() AND node IN ('rack', 'infer_r3') ORDER BY node;
GRANT SELECT ON seen, nodes TO PUBLIC;

\! mock set base_ms=50
-- a server is there from its first use on
SELECT * FROM seen;
SELECT infer.complete('infer_r1/m', 'one') IS NOT NULL AS answered;
SELECT count(infer.complete('infer_r2/m', 'row ' || i)) FROM generate_series(1, 3) AS i;
SELECT * FROM seen;

-- what fails is counted by reason and by what is proved, and what is given up is not
SELECT reason, execution FROM infer.try_complete('infer_r3/m', 'refused', '{}', '{"max_attempts": 1}');
SELECT reason, execution FROM infer.try_complete('infer_r1/m', '[[mock:400]]', '{}', '{"max_attempts": 1}');
SELECT reason, execution FROM infer.try_complete('infer_r1/m', '[[mock:500]]', '{}', '{"max_attempts": 1}');
SET statement_timeout = '200ms';
SELECT infer.complete('infer_r2/m', '[[mock:hang]]');
RESET statement_timeout;
SELECT * FROM seen;

-- times, limits and places
SELECT server, since <= now() AND since > now() - interval '1 hour' AS since, last_answer <= clock_timestamp() AS last_answer,
    current_limit, penalty, excluded_until IS NULL AS chosen, draining_until IS NULL AS takes,
    latency_p50 BETWEEN interval '50us' AND interval '10s' AS p50, latency_p99 >= latency_p50 AS p99,
    admission_key, generation > 0 AS generation, service_class, incarnation, incarnations, hedges_sent, hedges_won, late
  FROM infer.stat_servers WHERE database = current_database() AND server LIKE 'infer\_r_' ORDER BY server;

-- left out because it has refused; left alone after failures: as failed as one that does not answer
\! mock set retry_after=50
SELECT reason FROM infer.try_complete('infer_r2/m', '[[mock:429]]', '{}', '{"max_attempts": 1}');
\! mock set retry_after=0
SET pg_inference.failure_cooldown = '1h';
SELECT count(reason) FROM generate_series(1, 3) AS i, infer.try_complete('infer_r3/m', 'refused ' || i, '{}', '{"max_attempts": 1}');
RESET pg_inference.failure_cooldown;
SELECT server, state, why, since <= now() AS since, cooldown_until > now() + interval '10 min' AS cools,
    excluded_until > now() + interval '10 s' AS excluded, errors FROM infer.stat_servers
  WHERE database = current_database() AND server LIKE 'infer\_r_' ORDER BY server;
SELECT * FROM nodes;

-- the histogram
SELECT sum(answers) AS answers, sum(recent) AS recent, max(length(bar)) AS bar, bool_and(from_latency < to_latency) AS ordered,
    bool_and(bar = repeat('#', length(bar))) AS bars
  FROM infer.latency_histogram('infer_r2');
SELECT * FROM infer.latency_histogram('infer_r3');
SELECT * FROM infer.latency_histogram('infer_none');

-- privileges: servers of this database that one may use; all of them for those who read statistics
\connect - infer_route_user
SELECT server FROM seen;
SELECT * FROM nodes;
SELECT count(*) > 0 AS rows FROM infer.latency_histogram('infer_r1');
SELECT * FROM infer.latency_histogram('infer_r2');
\connect - infer_route_other
SELECT * FROM seen;
\connect - infer_route_reader
SELECT server FROM seen;
SELECT count(*) > 0 AS rows FROM infer.latency_histogram('infer_r2');
\connect - :me

-- ALTER SERVER: the same endpoint keeps what is known of it, another one begins anew
CREATE TEMP TABLE before AS SELECT server, generation FROM infer.stat_servers
  WHERE database = current_database() AND server LIKE 'infer\_r_';
ALTER SERVER infer_r1 OPTIONS (SET node 'shelf');
ALTER SERVER infer_r2 OPTIONS (SET url 'http://127.0.0.1:1/v1');
ALTER SERVER infer_r3 RENAME TO infer_r4;
SELECT infer.complete('infer_r1/m', 'two') IS NOT NULL AS answered;
SELECT reason FROM infer.try_complete('infer_r2/m', 'elsewhere', '{}', '{"max_attempts": 1}');
SET pg_inference.failure_patience = 0;
SELECT count(reason) FROM infer.try_complete('infer_r4/m', 'renamed', '{}', '{"max_attempts": 1}');
RESET pg_inference.failure_patience;
SELECT server, node, answers, failures > 0 AS failures FROM seen;
SELECT s.server, s.generation = b.generation AS same FROM infer.stat_servers AS s JOIN before AS b USING (server)
  WHERE s.database = current_database() ORDER BY server;

-- what a transaction may still take back is not for others to see
BEGIN;
ALTER SERVER infer_r1 OPTIONS (SET node 'nowhere');
SELECT infer.complete('infer_r1/m', 'three') IS NOT NULL AS answered;
SELECT server, node, answers FROM seen WHERE server = 'infer_r1';
ROLLBACK;
SELECT infer.complete('infer_r1/m', 'four') IS NOT NULL AS answered;
SELECT server, node, answers FROM seen WHERE server = 'infer_r1';

-- counters begin anew, the rest stays
SELECT infer.stat_reset();
SELECT server, node, answers, failures, errors, latency_p50 IS NULL AS forgotten FROM infer.stat_servers
  WHERE database = current_database() AND server LIKE 'infer\_r_' ORDER BY server;

-- one that is dropped is gone from here, and one of the same name is another one
DROP SERVER infer_r1, infer_r2, infer_r4;
SELECT * FROM seen;
CREATE SERVER infer_r1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'url', admission_key 'route_r1', max_concurrency '8');
SELECT infer.complete('infer_r1/m', 'five') IS NOT NULL AS answered;
SELECT server, node, answers FROM seen;
SELECT s.generation > 0 AS generation FROM infer.stat_servers AS s WHERE s.database = current_database() AND server = 'infer_r1';

-- the weights of classes: a list, or nothing
ALTER SYSTEM SET pg_inference.health_weights = 'chat';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=20,';
ALTER SYSTEM SET pg_inference.health_weights = '=20';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=-1';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=inf';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=20x';

DROP VIEW seen, nodes;
DROP SERVER infer_r1;
DROP ROLE infer_route_user, infer_route_other, infer_route_reader;
