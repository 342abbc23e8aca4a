# This extension, told how many requests the server takes at a time, except in the jobs where nobody says.
title="pg_inference"
extension=pg_inference
preload=pg_inference
setup() { sql -c "DROP EXTENSION IF EXISTS pg_inference CASCADE" -c "CREATE EXTENSION pg_inference"; }
before() { # an admission key of its own for each run, of which nothing is known
    local told=", max_concurrency '$CONC'"
    case $JOB in J2w | J2c | J2jw | J6 | J6L | J8) told='' ;; esac
    sql -c "DROP SERVER IF EXISTS bench" \
        -c "CREATE SERVER bench FOREIGN DATA WRAPPER pg_inference
            OPTIONS (url '$MOCK_URL/v1', max_batch_size '128', admission_key '$JOB-$(date +%s%N)'$told)" || return
    case $JOB in J2w | J2jw) chat && sql -c "DROP TABLE out" ;; esac
}
embed() { # encoding
    echo "CREATE TABLE out AS SELECT id, infer.embed('bench/mock', body$1) AS v FROM input;" | sql
}
chat() {
    echo "SET pg_inference.max_attempts = 100;
        CREATE TABLE out AS SELECT id, infer.complete('bench/mock', body) AS answer FROM input;" | sql
}
job_J1() { embed ", '{\"encoding_format\": \"float\"}'"; }
job_J1b() { embed ""; }
job_J2() { chat; }
job_J2w() { chat; }
job_J2c() { chat; }
job_J2j() { chat; }
job_J2jw() { chat; }
job_J3() { chat; }
job_J4() { chat; }
job_J5() {
    echo "CREATE TABLE out AS SELECT id FROM input
        WHERE kind = 'target' AND infer.complete('bench/mock', body) = 'yes' LIMIT 10;" | sql
}
job_J6() { chat; }
job_J6L() { chat; }
job_J7() { chat; }
job_J8() { chat; }
job_J8b() { chat; }
