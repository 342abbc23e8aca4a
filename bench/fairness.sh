#!/bin/bash
# Many sessions on one key that has a limit: is it kept, is it used, does each session get its share?
# fairness.sh [-n SESSIONS] [-r ROWS] [-l LIMIT] [-b MILLISECONDS]     (50, 1000, 20, 20)
# Makes a throw-away cluster of its own; the extension must be installed. Prints Markdown.
#   throughput    requests per second from the first one to the last answer, over limit / latency
#   shares        rows of each session at the last look before one of them had all of its rows: Jain's index, least, most
# The mock server has no limit of its own, so that one too many would be seen.
set -u
here=$(cd "$(dirname "$0")" && pwd)
sessions=50 rows=1000 limit=20 ms=20
while [ $# -gt 0 ]; do
    case $1 in -n) sessions=$2; shift ;; -r) rows=$2; shift ;; -l) limit=$2; shift ;; -b) ms=$2; shift ;; *) sed -n '2,7s/^# //p' "$0"; exit 2 ;; esac
    shift
done
make -s -C "$here/../sql_tests/mockd" mockd || exit 1
work=$(mktemp -d /var/tmp/pg_inference-fairness.XXXXXX)
chmod 755 "$work"
stop() {
    [ -z "${mock:-}" ] || kill "$mock"
    "$here/../scripts/cluster" stop "$work/cluster"
    rm -rf --one-file-system "$work"
}
trap stop EXIT
"$here/../scripts/cluster" start "$work/cluster" max_connections=$((sessions + 20)) pg_inference.streaming_mode=per_row || exit 1
exec {ready}< <(exec "$here/../sql_tests/mockd/mockd" -p 0 "base_ms=$ms" queue=1000000 tokens=4 2>&1)
mock=$!
read -r -t 10 line <&"$ready" || exit 1
url=${line##*listening on }
export PGHOST=$work/cluster PGUSER=postgres PGDATABASE=postgres
PATH=$("${PG_CONFIG:-pg_config}" --bindir):$PATH
sql() { psql -X -q -At -v ON_ERROR_STOP=1 "$@"; }
sql -c "CREATE EXTENSION pg_inference" \
    -c "CREATE SERVER shared FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1', max_concurrency '$limit')" || exit 1

# all begin at the same time, when all are connected
begin=$(($(date +%s) + 3 + sessions / 20))
pids=()
for i in $(seq "$sessions"); do
    sql -c "SELECT pg_sleep(greatest(0, $begin - extract(epoch FROM clock_timestamp())))" \
        -c "SELECT count(infer.complete('shared/m', 'session $i row ' || i)) FROM generate_series(1, $rows) i" >"$work/out.$i" 2>&1 &
    pids+=($!)
done
while [ "$(date +%s)" -lt $((begin + 1)) ]; do sleep 0.1; done
# one connection looks, until a session is done
printf '%s\n' "SELECT count(*), sum(rows)::float8 ^ 2 / nullif(count(*) * sum(rows::float8 ^ 2), 0), min(rows), max(rows) FROM infer.stat_progress \\watch 0.25" >"$work/look.sql"
sql -F ' ' -f "$work/look.sql" >"$work/looks" 2>&1 &
looker=$!
wait "${pids[@]}"
kill "$looker" || cat "$work/looks"
stats=$(curl -sf "$url/stats")
answered=$(awk -v n="$rows" '$1 == n { s += n } END { print s + 0 }' "$work"/out.*)
read -r _ jain least most < <(awk -v n="$sessions" 'NF == 4 && $1 == n { last = $0 } END { print last }' "$work/looks")
python3 - "$stats" "$sessions" "$rows" "$limit" "$ms" "$answered" "${jain:-0}" "${least:-0}" "${most:-0}" <<'PY'
import json, sys
stats = json.loads(sys.argv[1])
sessions, rows, limit, ms, answered = map(int, sys.argv[2:7])
jain, least, most = map(float, sys.argv[7:])
share = stats["requests"] / stats["span_ms"] * ms / limit
kept = stats["max_in_flight"] <= limit
print("| sessions x rows | answered | limit | most in flight | throughput / capacity | Jain's index of the shares | rows: least, most |")
print("|---|---|---|---|---|---|---|")
print(f"| {sessions} x {rows} | {answered} | {limit} | {stats['max_in_flight']} | {share:.3f} | {jain:.4f} | {least:.0f}, {most:.0f} |")
sys.exit(not (kept and answered == sessions * rows and share >= 0.95 and jain >= 0.9))
PY
