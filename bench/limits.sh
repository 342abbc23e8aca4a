#!/bin/bash
# The physical limit: what the client's side costs without a database. limits.sh [-w WORK] [--mock-port N] [-r REPS] [--mock-src DIR]
# Prints Markdown; needs wrk and h2load for two of the rows (left out if missing).
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=/var/tmp/pg_inference-bench port=8456 reps=5 mock_src=$here/../sql_tests/mockd
while [ $# -gt 0 ]; do
    case $1 in
    -w) work=$2; shift ;; --mock-port) port=$2; shift ;; -r) reps=$2; shift ;; --mock-src) mock_src=$2; shift ;;
    *) sed -n 2,3p "$0"; exit 2 ;;
    esac
    shift
done
mkdir -p "$work/bin"
bin=$work/bin url=http://127.0.0.1:$port
${CC:-cc} -O2 -o "$bin/meter" "$here/tools/meter.c" && ${CC:-cc} -O2 -o "$bin/driver" "$here/tools/driver.c" -lcurl -ljson-c &&
    make -s -C "$mock_src" OUT="$bin" "$bin/mockd" || exit 1
taskset -c 0 "$bin/mockd" -p "$port" >"$work/mockd-limits.log" & mock=$!
trap 'kill $mock' EXIT
sleep 0.5
lines=$work/limits.jsonl; : >"$lines"
one() { # section label server-settings total-requests rows-per-request command...: the client on the second core
    curl -sf -X POST "$url/control?defaults&$3" >/dev/null; curl -sf -X POST "$url/reset" >/dev/null
    taskset -c 1 "$bin/meter" -m $mock -- "${@:6}" 3>"$work/limits.meter" >"$work/limits.out" 2>&1
    local stats; stats=$(curl -sf "$url/stats")
    /usr/bin/python3 -c '
import json, sys
sec, label, n, rows, meter, stats = sys.argv[1:]
m, s = json.load(open(meter)), json.loads(stats)
n = s["requests"]
print(json.dumps({"sec": sec, "label": label, "rows": int(rows), "requests": n, "failed": s["failed"], "wall": s["span_ms"] / 1e3, "cpu": m["cpu_cmd_s"],
    "mock": m["cpu_mock_s"], "bytes": s["bytes_out"], "foreign": m["foreign"], "util": s["utilisation"], "exit": m["exit"]}))' "$1" "$2" "$4" "$5" "$work/limits.meter" "$stats" >>"$lines"
}
echo '{"model":"mock","dimensions":8,"input":["row 12345678901"]}' >"$work/small.json"
cat >"$work/post.lua" <<'LUA'
wrk.method = "POST"; wrk.body = '{"model":"mock","dimensions":8,"input":["row 12345678901"]}'; wrk.headers["Content-Type"] = "application/json"
LUA
d() { "$bin/driver" -P "$port" "$@"; }
D="$bin/driver -P $port"
for r in $(seq "$reps"); do
    N=30000
    for c in 1 16 64; do
        for m in raw multi socket; do one a "$m, $c in flight" "base_ms=0" $N 1 $D -m $m -n $N -c $c -d 8 -t 15; done
    done
    one a "easy (serial)" "base_ms=0" $N 1 $D -m easy -n $N -d 8 -t 15
    command -v wrk >/dev/null && one a "wrk, 64 in flight" "base_ms=0" 0 1 wrk -t1 -c64 -d2 -s "$work/post.lua" "$url/v1/embeddings"
    command -v h2load >/dev/null && one a "h2load --h1, 64 in flight" "base_ms=0" 0 1 h2load --h1 -n 100000 -c 64 -d "$work/small.json" "$url/v1/embeddings"
    for c in 32 64 128; do
        for m in raw multi socket; do one b "$m, $c in flight" "base_ms=50&slots=64" 3840 1 $D -m $m -n 3840 -c $c -d 8 -t 200; done
    done
    for b in 32 128; do
        for p in none hand jsonc; do
            n=$((12800 / b)); [ $p = jsonc ] && n=$((2560 / b))
            one c "JSON, batch $b, parse $p" "base_ms=0" $n $b $D -m multi -n $n -c 4 -b $b -p $p
        done
        one c "JSON, batch $b, parse hand, 512 KiB receive buffer" "base_ms=0" $((12800 / b)) $b $D -m multi -n $((12800 / b)) -c 4 -b $b -p hand -B 524288
        one c "JSON, batch $b, raw sockets, no parse" "base_ms=0" $((12800 / b)) $b $D -m raw -n $((12800 / b)) -c 4 -b $b
        one c "base64, batch $b" "base_ms=0" $((12800 / b)) $b $D -m multi -n $((12800 / b)) -c 4 -b $b -p b64
        one c "base64, batch $b, 512 KiB receive buffer" "base_ms=0" $((12800 / b)) $b $D -m multi -n $((12800 / b)) -c 4 -b $b -p b64 -B 524288
    done
done
/usr/bin/python3 - "$lines" <<'PY'
import json, statistics as st, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
titles = {"a": "(a) no latency, answers of 240 bytes", "b": "(b) 50 ms, 64 slots: ideal 1,280 requests/s", "c": "(c) batches of 1536-dim embeddings, no latency"}
for sec in "abc":
    print(f"\n### {titles[sec]}\n")
    print("| client | requests/s | client CPU us/request | client CPU us/row | server CPU us/row | MB/s of answers | " + ("of ideal | slot use | " if sec == "b" else "") + "failed | foreign CPU |")
    print("|---" * (10 if sec == "b" else 8) + "|")
    seen = []
    for r in rows:
        if r["sec"] == sec and r["label"] not in seen: seen.append(r["label"])
    for l in seen:
        x = [r for r in rows if r["sec"] == sec and r["label"] == l]
        m = lambda f: st.median(f(r) for r in x)
        lo, hi = min(r["requests"] / r["wall"] for r in x), max(r["requests"] / r["wall"] for r in x)
        print(f"| {l} | {m(lambda r: r['requests'] / r['wall']):.0f} ({lo:.0f}-{hi:.0f}) | {m(lambda r: r['cpu'] / r['requests'] * 1e6):.1f} | {m(lambda r: r['cpu'] / r['requests'] / r['rows'] * 1e6):.1f} "
              f"| {m(lambda r: r['mock'] / r['requests'] / r['rows'] * 1e6):.1f} | {m(lambda r: r['bytes'] / r['wall'] / 1e6):.0f} | "
              + (f"{m(lambda r: r['requests'] / r['wall'] / 1280):.3f} | {m(lambda r: r['util']):.3f} | " if sec == "b" else "") + f"{max(r['failed'] for r in x)} | {m(lambda r: r['foreign']) * 100:.0f} % |")
PY
