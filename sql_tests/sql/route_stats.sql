-- What is known of servers: infer.stat_servers, stat_nodes and latency_histogram(); who sees what.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_inference;
RESET client_min_messages;
\pset null (null)
SELECT current_user AS me \gset
CREATE ROLE infer_route_user LOGIN;
CREATE ROLE infer_route_reader LOGIN;
GRANT pg_read_all_stats TO infer_route_reader;
CREATE SERVER infer_r1 FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1', admission_key 'route_r1');
CREATE SERVER infer_r2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:1/v1', admission_key 'route_r2');
GRANT USAGE ON FOREIGN SERVER infer_r1 TO infer_route_user;

-- the histogram, of servers that one may use
SELECT * FROM infer.latency_histogram('infer_r1');
SELECT * FROM infer.latency_histogram('infer_none');
\connect - infer_route_user
SELECT * FROM infer.latency_histogram('infer_r1');
SELECT * FROM infer.latency_histogram('infer_r2');
\connect - infer_route_reader
SELECT * FROM infer.latency_histogram('infer_r2');
\connect - :me

-- the weights of classes: a list, or nothing
ALTER SYSTEM SET pg_inference.health_weights = 'chat';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=20,';
ALTER SYSTEM SET pg_inference.health_weights = '=20';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=-1';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=inf';
ALTER SYSTEM SET pg_inference.health_weights = 'chat=20x';

DROP SERVER infer_r1, infer_r2;
DROP ROLE infer_route_user, infer_route_reader;
