#!/bin/bash
# Runs every contestant through every job on the same mock server and writes RESULTS.md. See README.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n 's/^#: //p' "$0"; }
#: usage: run.sh [options]
#:   -w, --work DIR          scratch folder: cluster, binaries, results   (default /var/tmp/pg_inference-bench)
#:   -o, --out FILE          Markdown report                              (default WORK/RESULTS.md)
#:       --mock-src DIR      folder with mockd.c                          (default ../sql_tests/mockd)
#:       --pg-bin DIR        PostgreSQL's bin folder                      (default: pg_config --bindir)
#:       --pg-port N         port of the benchmark's own cluster          (default 5455)
#:       --mock-port N       port of the mock server                      (default 8455)
#:   -j, --jobs "J1 J2 ..."  jobs to run                                  (default: all)
#:   -c, --contestants "A B" contestants to run                           (default: all in contestants/)
#:   -r, --reps N            repetitions, interleaved                     (default 3)
#:       --wait-quiet SEC    before each run wait up to SEC for an idle machine (default 0: don't)
#:       --append            keep earlier results in WORK/results.jsonl
#:       --keep              leave the cluster and the mock server running at the end
#:       --report-only       only write the report again
work=/var/tmp/pg_inference-bench out='' mock_src=$here/../sql_tests/mockd pg_bin='' pg_port=5455 mock_port=8455
all_jobs="J1 J1b J2 J2w J2c J2j J2jw J3 J4 J5 J6 J6L J7 J8 J8b" jobs=$all_jobs contestants='' reps=3 quiet=0 append=0 keep=0 report_only=0
while [ $# -gt 0 ]; do
    case $1 in
    -w | --work) work=$2; shift ;; -o | --out) out=$2; shift ;; --mock-src) mock_src=$2; shift ;;
    --pg-bin) pg_bin=$2; shift ;; --pg-port) pg_port=$2; shift ;; --mock-port) mock_port=$2; shift ;;
    -j | --jobs) jobs=$2; shift ;; -c | --contestants) contestants=$2; shift ;; -r | --reps) reps=$2; shift ;;
    --wait-quiet) quiet=$2; shift ;; --append) append=1 ;; --keep) keep=1 ;; --report-only) report_only=1 ;;
    *) usage; exit 2 ;;
    esac
    shift
done
[ -n "$contestants" ] || contestants=$(cd "$here/contestants" && ls *.sh | sed 's/\.sh$//')
: "${out:=$work/RESULTS.md}"
: "${pg_bin:=$(pg_config --bindir)}"
bin=$work/bin pgdata=$work/pgdata sock=$work/sock results=$work/results.jsonl
python=/usr/bin/python3
export MOCK_URL=http://127.0.0.1:$mock_port PGHOST=$sock PGPORT=$pg_port PGUSER=postgres PGDATABASE=bench here bin work python
export PATH=$pg_bin:$PATH

# ---------------------------------------------------------------- jobs: rows, concurrency, server, ideal seconds
job_rows() {
    case $1 in
    J1 | J1b | J8 | J8b) echo 10000 ;; J2 | J2w | J2c | J3 | J6) echo 2000 ;; J4 | J6L) echo 20000 ;; J5) echo 5000 ;; J7 | J2j*) echo 6400 ;;
    esac
}
job_table() {
    case $1 in J1 | J1b) echo docs ;; J2 | J2w | J2c | J3 | J6) echo prompts ;; J4 | J6L | J7 | J8* | J2j*) echo tiny ;; J5) echo candidates ;; esac
}
job_conc() { case $1 in J1 | J1b | J4 | J6*) echo 16 ;; *) echo 64 ;; esac; }
job_server() { # job, rows
    case $1 in
    J1 | J1b) echo "base_ms=20&item_ms=0.2&slots=16" ;;
    J2 | J2w | J2c) echo "base_ms=100&slots=64" ;;
    J2j | J2jw) echo "base_ms=100&slots=64&jitter=0.5&tokens=4" ;;
    J3) echo "base_ms=100&slots=64&queue=16&retry_after=1" ;;
    J4) echo "base_ms=0&tokens=4" ;;
    J7) echo "base_ms=50&slots=64&tokens=4" ;;
    J6) echo "base_ms=100&slots=256&queue=0&retry_after=1" ;;
    J6L) echo "base_ms=100&slots=256&queue=0&retry_after=1&tokens=4" ;;
    J8) echo "base_ms=100&slots=8&queue=8&retry_after=1&tokens=4" ;;
    J8b) echo "base_ms=100&slots=64&queue=16&retry_after=1&tokens=4" ;;
    J5) echo "base_ms=100&slots=64&reply=yesno&yes_pct=50" ;;
    esac
}
job_later() { # job, rows: changes after so many items, one a line
    case $1 in
    J3) echo "after_items=$(($2 / 2))&slots=8&queue=8" ;;
    J8) echo "after_items=400&slots=64&queue=16" ;;
    J8b) echo "after_items=2000&slots=8&queue=8"; echo "after_items=2400&slots=64&queue=16" ;;
    esac
}
job_recovers() { # job: items until the capacity comes back, items a second from then on
    case $1 in J8) echo "400 640" ;; J8b) echo "2400 640" ;; esac
}
job_title() {
    case $1 in
    J1) echo "embed 10,000 rows (1536 dims, batches of up to 128; 20 ms + 0.2 ms an item, 16 slots), CREATE TABLE AS" ;;
    J1b) echo "as J1, but the client asks for encoding_format=base64" ;;
    J2) echo "complete 2,000 rows, one call each (100 ms, 64 slots), CREATE TABLE AS" ;;
    J2w) echo "as J2, nobody says how many slots; the second statement of its kind" ;;
    J2c) echo "as J2, nobody says how many slots, and nothing is known of the server" ;;
    J2j) echo "complete 6,400 short rows on 64 slots; times are lognormal, median 100 ms, sigma 0.5" ;;
    J2jw) echo "as J2j, nobody says how many slots; the second statement" ;;
    J3) echo "as J2, but after half of the rows 8 slots and a queue of 8, 429 with Retry-After 1 beyond" ;;
    J4) echo "complete 20,000 rows on a server without latency: overhead per row" ;;
    J7) echo "complete 6,400 short rows, one call each (50 ms, 64 slots): 1,280 requests a second are ideal" ;;
    J6) echo "as J2, but the server has 256 slots and no queue, and nobody told the client: fixed contestants use 16 at a time" ;;
    J6L) echo "as J6, 20,000 short rows" ;;
    J8) echo "complete 10,000 short rows (100 ms), nobody says how many slots: 8 at first (queue of 8, 429 with Retry-After 1), 64 after 400 rows" ;;
    J8b) echo "the same with 64 slots, told; 8 after 2,000 rows, 64 again after 400 more" ;;
    J5) echo "filter: 5,000 rows, 100 pass a cheap predicate, LIMIT 10 of those the model says yes to (50 %)" ;;
    esac
}
job_ideal() { # seconds by the service model alone; - if it says nothing
    case $1 in
    J1 | J1b) echo 0.2228 ;; # 10000 * (20/128 + 0.2) / 16 ms
    J2 | J2w | J2c) echo 3.125 ;; # 2000 * 100 / 64 ms
    J2j | J2jw) echo 11.331 ;; # 6400 * 100 / 64 ms, times e^(0.5^2 / 2), the mean of the distribution
    J3) echo 13.3625 ;;      # 1000 at 64 / 100 ms, the 64 in service then, 936 at 8 / 100 ms
    J5) echo 0.1 ;;          # one wave
    J7) echo 5 ;;            # 6400 * 50 / 64 ms
    J6) echo 0.78125 ;;      # 2000 * 100 / 256 ms
    J6L) echo 7.8125 ;;
    J8) echo 20 ;;           # 400 at 8 / 100 ms, 9600 at 64 / 100 ms
    J8b) echo 20.0 ;;        # 2000 at 64, 400 at 8, 7600 at 64
    *) echo - ;;
    esac
}
export BATCH=128

# ---------------------------------------------------------------- helpers for contestants (exported)
sql() { psql -X -q -v ON_ERROR_STOP=1 -v url="$MOCK_URL" -v batch="$BATCH" -v conc="${CONC:-16}" -v rows="${ROWS:-0}" "$@"; }
export -f sql

report() {
    {
        for j in $all_jobs; do printf '%s\t%s\t%s\t%s\t%s\n' "$j" "$(job_rows "$j")" "$(job_ideal "$j")" "$(job_conc "$j")" "$(job_title "$j")"; done
    } >"$work/jobs.tsv"
    "$python" "$here/tools/report.py" "$work/jobs.tsv" "$here/targets.tsv" "$results" >"$out" && echo "report: $out"
}
if [ $report_only = 1 ]; then report; exit; fi

# ---------------------------------------------------------------- build, start
mkdir -p "$bin" "$sock" && chmod 755 "$work" && chown postgres "$sock" 2>/dev/null
cc=${CC:-cc}
$cc -O2 -o "$bin/meter" "$here/tools/meter.c" || exit 1
$cc -O2 -o "$bin/driver" "$here/tools/driver.c" -lcurl -ljson-c || exit 1
make -s -C "$mock_src" OUT="$bin" "$bin/mockd" || exit 1

as_pg() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/tmp PATH="$PATH" "$@"; else "$@"; fi; }
available=$(ls "$("$pg_bin/pg_config" --sharedir)/extension"/*.control | sed 's:.*/::; s/\.control//')
preload='' conf=''
for c in $contestants; do
    x=$(preload='' conf=''; . "$here/contestants/$c.sh"; [ -n "${preload:-}" ] && grep -qx "${extension:-$preload}" <<<"$available" && echo "$preload")
    [ -n "$x" ] && preload=${preload:+$preload,}$x
    x=$(conf=''; . "$here/contestants/$c.sh"; printf '%s' "${conf:-}")
    conf+=$x$'\n'
done
if [ ! -f "$pgdata/PG_VERSION" ]; then
    mkdir -p "$pgdata" && chown postgres "$pgdata" 2>/dev/null
    as_pg "$pg_bin/initdb" -D "$pgdata" -A trust -E UTF8 --locale=C.UTF-8 >"$work/initdb.log" 2>&1 || { cat "$work/initdb.log"; exit 1; }
fi
as_pg "$pg_bin/pg_ctl" -D "$pgdata" -m immediate stop >/dev/null 2>&1
as_pg tee "$pgdata/bench.conf" >/dev/null <<CONF
port = $pg_port
listen_addresses = ''
unix_socket_directories = '$sock'
shared_buffers = 512MB
max_wal_size = 8GB
max_connections = 200
max_worker_processes = 16
autovacuum = off
jit = off
fsync = on
shared_preload_libraries = '$preload'
log_min_messages = error
$conf
CONF
grep -q bench.conf "$pgdata/postgresql.conf" || echo "include 'bench.conf'" >>"$pgdata/postgresql.conf"
as_pg "$pg_bin/pg_ctl" -D "$pgdata" -w -l "$pgdata/server.log" start >/dev/null || { tail "$pgdata/server.log"; exit 1; }
postmaster=$(head -1 "$pgdata/postmaster.pid")
"$bin/mockd" -p "$mock_port" >"$work/mockd.log" 2>&1 &
mock_pid=$!
stop() {
    [ $keep = 1 ] && { echo "left running: postmaster $postmaster, mockd $mock_pid"; return; }
    kill $mock_pid 2>/dev/null
    as_pg "$pg_bin/pg_ctl" -D "$pgdata" -m fast stop >/dev/null 2>&1
}
trap stop EXIT
for _ in $(seq 50); do curl -sf "$MOCK_URL/health" >/dev/null && break; sleep 0.1; done
kill -0 $mock_pid 2>/dev/null || { cat "$work/mockd.log"; exit 1; }
control() { curl -sf -X POST "$MOCK_URL/control?$1" >/dev/null || { echo "mock control failed: $1"; exit 1; }; }
psql -X -q -d postgres -c 'CREATE DATABASE bench' 2>/dev/null
[ "$(psql -XAt -c "select to_regclass('expected_done') is not null")" = t ] || {
    echo "preparing data and expected answers"
    sql -f "$here/sql/data.sql" || exit 1
    for kind in docs:embed prompts:chat tiny:chat candidates:chat; do
        t=${kind%:*}
        control "defaults&tokens=$([ $t = tiny ] && echo 4 || echo 16)&reply=$([ $t = candidates ] && echo yesno || echo words)"
        sql -c "\\copy (SELECT id, body FROM $t ORDER BY id) TO '$work/$t.tsv'" || exit 1
        "$python" "$here/tools/copy_aio.py" "${kind#*:}" "$MOCK_URL" 128 32 "$work/$t.tsv" "$work/$t.out" || exit 1
        if [ $t = docs ]; then sql -c "CREATE TABLE exp_docs(id int, v real[])"; else sql -c "CREATE TABLE exp_$t(id int, answer text)"; fi
        sql -c "\\copy exp_$t FROM '$work/$t.out'" -c "ANALYZE exp_$t" || exit 1
        rm -f "$work/$t.out"
    done
    sql -c "CREATE TABLE expected_done()"
}

# ---------------------------------------------------------------- run
[ $append = 1 ] || : >"$results"
"$python" - >>"$results" <<PY
import json, platform, subprocess
def first(cmd): return subprocess.run(cmd, shell=True, capture_output=True, text=True).stdout.strip()
print(json.dumps({"machine": first("lscpu | sed -n 's/^Model name: *//p'"), "cores": first("nproc"), "kernel": platform.release(),
    "postgres": first("psql -XAt -c 'show server_version'"), "libcurl": first("curl-config --version"), "python": first("$python -V"), "date": first("date -u +%F")}))
PY
declare -A is_set_up
idle_wait() { # until the machine was nearly idle for half a second, or the time is over
    local until=$((SECONDS + quiet)) busy
    [ "$quiet" = 0 ] && return
    while [ $SECONDS -lt $until ]; do
        busy=$(awk '/^cpu /{print $2+$3+$4+$7+$8; exit}' /proc/stat); sleep 0.5
        busy=$(($(awk '/^cpu /{print $2+$3+$4+$7+$8; exit}' /proc/stat) - busy))
        [ $busy -le 12 ] && return
    done
}
note() { # contestant title job text reference: a run that did not take place
    "$python" -c 'import json,sys; print(json.dumps(dict(zip(("contestant","title","job","skipped","reference"),sys.argv[1:]))))' "$1" "$2" "$3" "$4" "${5:-}" >>"$results"
    echo "$3 $1: $4"
}
run_one() { # contestant job rep
    local c=$1 job=$2 rep=$3 scale=1 table
    local title='' extension='' preload='' conf='' reference=''
    unset -f setup before scale_of "job_$job" 2>/dev/null
    unset "cannot_$job" packages
    . "$here/contestants/$c.sh"
    local cannot=cannot_$job
    declare -F "job_$job" >/dev/null || [ -n "${!cannot:-}" ] || return
    if ! declare -F "job_$job" >/dev/null; then [ "$rep" = 1 ] && note "$c" "$title" "$job" "can't: ${!cannot}" "$reference"; return; fi
    if [ -n "$extension" ] && ! grep -qx "$extension" <<<"$available"; then [ "$rep" = 1 ] && note "$c" "$title" "$job" "not installed: $extension"; return; fi
    if [ -z "${is_set_up[$c]:-}" ]; then
        if declare -F setup >/dev/null && ! setup >"$work/setup.$c.log" 2>&1; then
            tail -3 "$work/setup.$c.log"; [ "$rep" = 1 ] && note "$c" "$title" "$job" "setup failed"; return
        fi
        is_set_up[$c]=1
    fi
    declare -F scale_of >/dev/null && scale=$(scale_of "$job")
    export CONC ROWS JOB=$job
    CONC=$(job_conc "$job") ROWS=$(($(job_rows "$job") / scale))
    table=$(job_table "$job")
    sql -c "DROP TABLE IF EXISTS out; DROP VIEW IF EXISTS input; CREATE VIEW input AS SELECT * FROM $table WHERE id <= $ROWS" 2>/dev/null
    sql -c CHECKPOINT
    control "defaults&$(job_server "$job")"
    if declare -F before >/dev/null && ! before >"$work/before.log" 2>&1; then tail -3 "$work/before.log"; return; fi
    curl -sf -X POST "$MOCK_URL/reset" >/dev/null
    local later; while read -r later; do [ -n "$later" ] && control "$later"; done <<<"$(job_later "$job" "$ROWS")"
    idle_wait
    "$python" "$here/tools/timeline.py" "$MOCK_URL" "$work/timeline.$job.$c.tsv" & local timeline=$!
    "$bin/meter" -g "$postmaster" -m $mock_pid -- timeout 600 bash -c ". '$here/contestants/$c.sh'; job_$job" 3>"$work/meter.json" >"$work/run.log" 2>&1
    kill $timeline; wait $timeline 2>/dev/null
    local stats right; stats=$(curl -sf "$MOCK_URL/stats")
    if [ -n "$reference" ]; then right=$ROWS; else
        right=$(sql -At -v job="$job" -f "$here/sql/check_$table.sql" 2>>"$work/run.log"); fi
    "$python" - "$c" "$title" "$job" "$rep" "$scale" "$ROWS" "${right:-0}" "$stats" "$work/meter.json" "${reference:-}" \
        "$work/timeline.$job.$c.tsv" "$(job_recovers "$job")" >>"$results" <<'PY'
import json, sys
c, title, job, rep, scale, rows, right, stats, meter, ref, timeline, recovers = sys.argv[1:]
d = {"contestant": c, "title": title, "job": job, "rep": int(rep), "scale": int(scale), "rows": int(rows), "right": int(right), "reference": bool(ref)}
d.update(json.load(open(meter)))
s = json.loads(stats)
for k in ("requests", "items", "rejected", "failed", "duplicate_items", "max_in_flight", "connections", "bytes_in", "bytes_out", "utilisation", "span_ms"): d[k] = s[k]
if recovers: # seconds from the change until, for a second, nine tenths of what the server can do are done
    before, rate = map(int, recovers.split())
    seen = [tuple(map(float, line.split())) for line in open(timeline)] # time, items, ...
    at = next((t for t, items, *_ in seen if items >= before), None)
    good = (t for t, items, *_ in seen if at is not None and t >= at
            for u, later, *_ in [next((x for x in seen if x[0] >= t + 1), (None, 0))] if u and (later - items) / (u - t) >= 0.9 * rate)
    d["recovered_s"] = next((round(t - at, 2) for t in good), 999)
print(json.dumps(d))
print(f"{job} {c} #{rep}: {d['wall_s']} s (1/{scale} of the rows), right {right}/{rows if job != 'J5' else 10}, {d['requests']} requests, {d['rejected']} rejected, cpu pg {d['cpu_pg_s']} cmd {d['cpu_cmd_s']}, foreign {d['foreign']}", file=sys.stderr)
PY
    [ "$(tail -1 "$work/meter.json" | sed 's/.*"exit":\([0-9]*\).*/\1/')" = 0 ] || { echo "  exit status not 0:"; tail -4 "$work/run.log"; }
}
for rep in $(seq "$reps"); do for job in $jobs; do for c in $contestants; do run_one "$c" "$job" "$rep"; done; done; done
report
