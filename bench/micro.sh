#!/bin/bash
# What each step costs inside PostgreSQL, without HTTP: parsing answers with SQL's own means, building and storing real[1536].
# micro.sh [-w WORK] [-r REPS]: needs a cluster and mock server that run.sh --keep left running. Prints Markdown, CPU us per row.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=/var/tmp/pg_inference-bench reps=5 pg_port=5455 mock_port=8455
while [ $# -gt 0 ]; do
    case $1 in -w) work=$2; shift ;; -r) reps=$2; shift ;; --pg-port) pg_port=$2; shift ;; --mock-port) mock_port=$2; shift ;; *) sed -n 2,3p "$0"; exit 2 ;; esac
    shift
done
export PGHOST=$work/sock PGPORT=$pg_port PGUSER=postgres PGDATABASE=bench
sql() { psql -X -q -v ON_ERROR_STOP=1 "$@"; }
postmaster=$(head -1 "$work/pgdata/postmaster.pid") || exit 1
if [ "$(sql -At -c "select to_regclass('resp') is null")" = t ]; then
    curl -sf -X POST "http://127.0.0.1:$mock_port/control?defaults" >/dev/null
    /usr/bin/python3 - "$work/docs.tsv" "http://127.0.0.1:$mock_port/v1/embeddings" >"$work/resp.tsv" <<'PY'
import json, sys, urllib.request
rows = [l.rstrip("\n").split("\t", 1)[1] for l in open(sys.argv[1])][:1280]
for enc in ("float", "base64"):
    for i in range(0, len(rows), 128):
        r = urllib.request.urlopen(urllib.request.Request(sys.argv[2], json.dumps({"model": "m", "input": rows[i:i + 128], "encoding_format": enc}).encode()))
        print(enc + "\t" + r.read().decode())
PY
    sql -c "CREATE TABLE resp(enc text, body text)" -c "ALTER TABLE resp ALTER body SET STORAGE EXTERNAL" -c "\\copy resp FROM '$work/resp.tsv'" \
        -c "CREATE TABLE elem (a text)" -c "ALTER TABLE elem ALTER a SET STORAGE EXTERNAL" -c "INSERT INTO elem SELECT e ->> 'embedding' FROM resp, json_array_elements(body::json -> 'data') e WHERE enc = 'float'" \
        -c "CREATE TABLE arr AS SELECT id, v FROM exp_docs WHERE id <= 1280" || exit 1
fi
lines=$work/micro.jsonl; : >"$lines"
m() { # label rows sql
    sql -c "DROP TABLE IF EXISTS o" -c CHECKPOINT 2>/dev/null
    "$work/bin/meter" -g "$postmaster" -- psql -X -q -v ON_ERROR_STOP=1 -c "SET jit = off; SET max_parallel_workers_per_gather = 0; $3" 3>"$work/micro.meter" >/dev/null || exit 1
    /usr/bin/python3 -c 'import json,sys; m=json.load(open(sys.argv[3])); print(json.dumps({"l":sys.argv[1],"us":m["cpu_pg_s"]/int(sys.argv[2])*1e6,"ms":m["wall_s"]/int(sys.argv[2])*1e6,"exit":m["exit"]}))' "$1" "$2" "$work/micro.meter" >>"$lines"
}
R="(SELECT body FROM resp WHERE enc = 'float')"
for r in $(seq "$reps"); do
    m "connect, nothing else (per 1,280 rows)" 1280 "SELECT 1"
    m "read the answers' text (detoast)" 1280 "SELECT sum(length(body)) FROM $R x"
    m "cast to json (validate)" 1280 "SELECT count(body::json) FROM $R x"
    m "cast to jsonb" 1280 "SELECT count(body::jsonb) FROM $R x"
    m "json: array elements, ->> 'embedding'" 1280 "SELECT sum(length(e ->> 'embedding')) FROM $R x, json_array_elements(body::json -> 'data') e"
    m "jsonb: array elements, ->> 'embedding'" 1280 "SELECT sum(length(e ->> 'embedding')) FROM $R x, jsonb_array_elements(body::jsonb -> 'data') e"
    m "text of one array to real[] (translate and cast)" 1280 "SELECT count(translate(a, '[]', '{}')::real[]) FROM elem"
    m "jsonb array to real[] (jsonb_array_elements_text, array_agg)" 1280 "SELECT count((SELECT array_agg(x::real) FROM jsonb_array_elements_text(a::jsonb) x)) FROM elem"
    m "base64 text from jsonb, decode() to bytea" 1280 "SELECT sum(length(decode(e ->> 'embedding', 'base64'))) FROM resp x, jsonb_array_elements(body::jsonb -> 'data') e WHERE enc = 'base64'"
    m "read real[1536] from TOAST" 1280 "SELECT sum(v[1]) FROM arr"
    m "CTAS real[1536], pglz (default)" 1280 "SET default_toast_compression = pglz; CREATE TABLE o AS SELECT * FROM arr"
    m "CTAS real[1536], lz4" 1280 "SET default_toast_compression = lz4; CREATE TABLE o AS SELECT * FROM arr"
    m "INSERT real[1536], STORAGE EXTERNAL" 1280 "CREATE TABLE o (id int, v real[]); ALTER TABLE o ALTER v SET STORAGE EXTERNAL; INSERT INTO o SELECT * FROM arr"
    m "INSERT real[1536], EXTERNAL, unlogged" 1280 "CREATE UNLOGGED TABLE o (id int, v real[]); ALTER TABLE o ALTER v SET STORAGE EXTERNAL; INSERT INTO o SELECT * FROM arr"
    m "CTAS real[384] (inline, no TOAST), pglz" 1280 "CREATE TABLE o AS SELECT id, v[1:384] AS v FROM arr"
done
/usr/bin/python3 - "$lines" <<'PY'
import json, statistics as st, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
print("| step, per row of 1536 dims (20.8 KB of JSON) | CPU us/row, median | min | max |\n|---|---|---|---|")
for l in dict.fromkeys(r["l"] for r in rows):
    x = [r["us"] for r in rows if r["l"] == l]
    print(f"| {l} | {st.median(x):.0f} | {min(x):.0f} | {max(x):.0f} |")
PY
