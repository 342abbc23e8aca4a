# This extension, told how many requests the server takes at a time, except in J6, where nobody says.
title="pg_inference"
extension=pg_inference
preload=pg_inference
setup() { # a server object for each concurrency, for a permit table remembers the first limit it was told
    sql -v v1="$MOCK_URL/v1" <<'SQL'
DROP EXTENSION IF EXISTS pg_inference CASCADE;
CREATE EXTENSION pg_inference;
CREATE SERVER bench16 FOREIGN DATA WRAPPER pg_inference
    OPTIONS (url :'v1', max_concurrency '16', max_batch_size '128', admission_key 'bench16');
CREATE SERVER bench64 FOREIGN DATA WRAPPER pg_inference
    OPTIONS (url :'v1', max_concurrency '64', max_batch_size '128', admission_key 'bench64');
CREATE SERVER bench FOREIGN DATA WRAPPER pg_inference OPTIONS (url :'v1', admission_key 'bench');
SQL
}
embed() { # encoding
    echo "CREATE TABLE out AS SELECT id, infer.embed('bench' || :conc || '/mock', body$1) AS v FROM input;" | sql
}
chat() { # server, settings
    echo "$2 CREATE TABLE out AS SELECT id, infer.complete('$1/mock', body) AS answer FROM input;" | sql
}
job_J1() { embed ", '{\"encoding_format\": \"float\"}'"; }
job_J1b() { embed ""; }
job_J2() { chat "bench$CONC"; }
job_J3() { chat "bench$CONC" "SET pg_inference.max_attempts = 100;"; }
job_J4() { chat "bench$CONC"; }
job_J5() {
    echo "CREATE TABLE out AS SELECT id FROM input
        WHERE kind = 'target' AND infer.complete('bench$CONC/mock', body) = 'yes' LIMIT 10;" | sql
}
job_J6() { chat bench "SET pg_inference.max_attempts = 100;"; }
job_J7() { chat "bench$CONC"; }
