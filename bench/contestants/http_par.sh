# pgsql-http by hand: batches in SQL, as many sessions as the server has slots, a retry loop in PL/pgSQL.
title="pgsql-http, batched, N sessions"
extension=http
setup() {
    sql <<'SQL'
CREATE EXTENSION IF NOT EXISTS http;
CREATE OR REPLACE FUNCTION httpp_ready(url text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('bench.url', url, false);
    PERFORM http_set_curlopt('CURLOPT_TCP_KEEPALIVE', '1');
    PERFORM http_set_curlopt('CURLOPT_TIMEOUT_MS', '120000');
END $$;
CREATE OR REPLACE FUNCTION httpp_post(path text, body text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r http_response; wait float8;
BEGIN
    FOR attempt IN 1..60 LOOP
        r := http_post(current_setting('bench.url') || path, body, 'application/json');
        IF r.status = 200 THEN RETURN r.content; END IF;
        IF r.status NOT IN (429, 500, 502, 503) THEN RAISE 'HTTP %: %', r.status, r.content; END IF;
        SELECT value::float8 INTO wait FROM unnest(r.headers) WHERE lower(field) = 'retry-after';
        PERFORM pg_sleep(coalesce(wait, least(8, 0.1 * 2 ^ attempt)) * (1 + random() / 4));
    END LOOP;
    RAISE 'gave up';
END $$;
CREATE OR REPLACE FUNCTION httpp_embed(ids int[], bodies text[]) RETURNS TABLE (id int, v real[]) LANGUAGE sql AS $$
    SELECT ids[(e ->> 'index')::int + 1], translate(e ->> 'embedding', '[]', '{}')::real[]
    FROM json_array_elements(httpp_post('/v1/embeddings', json_build_object('model', 'mock', 'input', bodies)::text)::json -> 'data') e $$;
CREATE OR REPLACE FUNCTION httpp_chat(body text) RETURNS text LANGUAGE sql AS $$
    SELECT httpp_post('/v1/chat/completions', json_build_object('model', 'mock', 'messages',
        json_build_array(json_build_object('role', 'user', 'content', body)))::text)::json -> 'choices' -> 0 -> 'message' ->> 'content' $$;
SQL
}
sessions() { # statement with :k and :n, run in CONC sessions at once
    local p=()
    for k in $(seq 0 $((CONC - 1))); do
        printf '%s\n' "SELECT httpp_ready(:'url') \\g /dev/null" "$1" | sql -v k="$k" -v n="$CONC" & p+=($!)
    done
    local rc=0; for x in "${p[@]}"; do wait "$x" || rc=1; done; return $rc
}
job_J1() {
    sql -c "CREATE TABLE out(id int, v real[])"
    sessions "INSERT INTO out SELECT e.* FROM (SELECT array_agg(id) AS ids, array_agg(body) AS bodies FROM input
        WHERE (id - 1) / :batch % :n = :k GROUP BY (id - 1) / :batch) b, httpp_embed(b.ids, b.bodies) e;"
}
job_J2() { sql -c "CREATE TABLE out(id int, answer text)"; sessions "INSERT INTO out SELECT id, httpp_chat(body) FROM input WHERE id % :n = :k;"; }
job_J3() { job_J2; }
job_J6() { job_J2; }
job_J4() { job_J2; }
job_J7() { job_J2; }
cannot_J1b="would need a base64-to-real[] decoder in SQL"
cannot_J5="sessions can't share a LIMIT"
