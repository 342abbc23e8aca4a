#!/bin/bash
# Self-test of mockd: selftest.sh PATH-TO-MOCKD. Needs curl and python3; HTTP/2 checks run if the build has it.
set -u
bin=${1:-./mockd}
log=$(mktemp)
"$bin" -p 0 >"$log" 2>&1 & pid=$!
trap 'kill $pid 2>/dev/null; rm -f "$log" "$log".*' EXIT
for _ in $(seq 50); do grep -q listening "$log" && break; sleep 0.1; done
url=$(sed -n 's/.*listening on //p' "$log")
[ -n "$url" ] || { cat "$log"; echo "0 passed, 1 failed"; exit 1; }
passed=0 failed=0

check() { # check NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1: expected <$2>, got <$3>"; fi
}
json() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)" 2>/dev/null || echo "invalid JSON"; }
set_() { curl -s -X POST "$url/control?defaults&$1" >/dev/null; curl -s -X POST "$url/reset" >/dev/null; }
stat() { curl -s "$url/stats" | json "d['$1']"; }
embed() { curl -s "$url/v1/embeddings" -d "$1"; }
code() { curl -s -o /dev/null -m 60 -w '%{http_code}' "$url$1" "${@:2}"; }
status() { curl -s -o /dev/null -m 60 "$@"; echo $?; } # curl's own exit status
until_() { # until_ NAME VALUE: waits until the counter has that value
    local end=$((SECONDS + 30))
    until [ "$(stat "$1")" = "$2" ]; do [ $SECONDS -lt $end ] || { echo "never came: $*"; return 1; }; done
}
leave() { # leave NAME VALUE [ARGUMENT...]: a client that goes when that counter has that value; the text is "gone"
    curl -s -o /dev/null "${@:3}" "$url/v1/embeddings" -d '{"input":"gone"}' & local client=$!
    until_ "$1" "$2"; kill $client; wait $client
}

# --- answers
check health 200 "$(code /health)"
check models mock "$(curl -s "$url/v1/models" | json "d['data'][0]['id']")"
check probes "[1, 1]" "$(curl -s "$url/stats" | json "[d['probes'],d['model_lists']]")"
curl -s -H 'Authorization: Bearer x' "$url/health" >/dev/null
check probes-with-key 1 "$(stat probes_with_key)"
set_ "health_status=503&models_status=404"
check unhealthy "503 404" "$(code /health) $(code /v1/models)"
set_ incarnation=first
check incarnation first "$(curl -s -D - -o /dev/null "$url/health" | tr -d '\r' | sed -n 's/^X-Incarnation: //p')"
check fingerprints "first first first first" "$(for path in /health /v1/models; do curl -s "$url$path" | json "d['system_fingerprint']"; done | tr '\n' ' ')$(embed '{"input":"a"}' |
    json "d['system_fingerprint']") $(curl -s "$url/v1/chat/completions" -d '{"messages":[{"role":"user","content":"x"}]}' | json "d['system_fingerprint']")"
check metrics 'process_start_time_seconds{run=""} first' "$(curl -s "$url/metrics" | grep '^process')"
set_ health_status=0
check unanswered 28 "$(status -m 0.3 "$url/health")"
set_ ""
check 404 404 "$(code /nope)"
check 405 405 "$(code /v1/embeddings)"
check default-dim 1536 "$(embed '{"model":"m","input":"hello"}' | json "len(d['data'][0]['embedding'])")"
check dims "[8, 8, 8]" "$(embed '{"input":["a","b","c"],"dimensions":8}' | json "[len(e['embedding']) for e in d['data']]")"
check index "[0, 1, 2]" "$(embed '{"input":["a","b","c"],"dimensions":8}' | json "[e['index'] for e in d['data']]")"
check unit-norm 1.0 "$(embed '{"input":"a"}' | json "round(sum(x*x for x in d['data'][0]['embedding']),6)")"
check escapes True "$( (embed '{"input":"\u00e9\ud83d\ude00\n","dimensions":4}'; echo ,; embed '{"input":"é😀\n","dimensions":4}') |
    (echo "["; cat; echo "]") | json "d[0]['data']==d[1]['data']")"
check base64 True "$( (embed '{"input":"z","dimensions":5}'; echo ,; embed '{"input":"z","dimensions":5,"encoding_format":"base64"}') |
    (echo "["; cat; echo "]") | json "all(abs(x-y)<1e-7 for x,y in zip(d[0]['data'][0]['embedding'],__import__('struct').unpack('<5f',__import__('base64').b64decode(d[1]['data'][0]['embedding']))))")"
check tokens-input 1 "$(embed '{"input":[1,2,3],"dimensions":2}' | json "len(d['data'])")"
check tokens-inputs 2 "$(embed '{"input":[[1,2,3],[4]],"dimensions":2}' | json "len(d['data'])")"
chat='{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"say \"hi\""}]}'
check chat 16 "$(curl -s "$url/v1/chat/completions" -d "$chat" | json "len(d['choices'][0]['message']['content'].split())")"
check chat-same True "$( (curl -s "$url/v1/chat/completions" -d "$chat"; echo ,; curl -s "$url/v1/chat/completions" -d "$chat") |
    (echo "["; cat; echo "]") | json "d[0]==d[1]")"
check max-tokens "[3, 'length']" "$(curl -s "$url/v1/chat/completions" -d '{"max_tokens":3,"messages":[{"role":"user","content":"x"}]}' |
    json "[d['usage']['completion_tokens'],d['choices'][0]['finish_reason']]")"
check completions "[0, 1]" "$(curl -s "$url/v1/completions" -d '{"prompt":["a","b"]}' | json "[c['index'] for c in d['choices']]")"
set_ reply=echo
check echo $'s\nsay "hi"' "$(curl -s "$url/v1/chat/completions" -d "$chat" | json "d['choices'][0]['message']['content']")"
set_ "reply=yesno&yes_pct=100"
check yes yes "$(curl -s "$url/v1/chat/completions" -d "$chat" | json "d['choices'][0]['message']['content']")"
set_ reply=json
check json-reply True "$(curl -s "$url/v1/chat/completions" -d "$chat" | json "'label' in json.loads(d['choices'][0]['message']['content'])")"
set_ ""
whole=$(curl -s "$url/v1/chat/completions" -d "$chat" | json "d['choices'][0]['message']['content']")
sse() { curl -sN "$@" "$url/v1/chat/completions" -d "${chat/\"model\"/\"stream\":true,\"model\"}"; }
join="''.join(json.loads(l[6:])['choices'][0]['delta']['content'] for l in sys.stdin.read().split(chr(10)) if l.startswith('data: {'))"
check stream "$whole" "$(sse | python3 -c "import json,sys; print($join)")"
check stream-end "data: [DONE]" "$(sse | grep . | tail -1)"
set_ token_ms=10
check stream-paced "$whole" "$(sse | python3 -c "import json,sys; print($join)")"

# --- bad requests
set_ ""
for bad in '' '[]' '{' '{"input":' '{"input":"a"' '{"input":"\x"}' '{"input":"\ud83d"}x' '{"input":[]}' '{"input":{}}' '{"model":"m"}' '{"input":"a"}}' '{"input":"a","dimensions":0}' '{"input":"a","dimensions":1e9}' '{"input":tru"e}'; do
    check "bad $bad" 400 "$(code /v1/embeddings -X POST -d "$bad")"
done
check deep 400 "$(code /v1/embeddings -d "{\"x\":$(printf '[%.0s' $(seq 5000))}")"
check long-path 404 "$(code "/$(printf 'p%.0s' $(seq 600))")"
check bad-http 400 "$(printf 'NONSENSE\r\n\r\n' | timeout 5 python3 -c "
import socket,sys; s=socket.create_connection(('127.0.0.1',${url##*:})); s.sendall(sys.stdin.buffer.read()); print(s.recv(100).split()[1].decode())")"
set_ limit_items=2
check limit-items 413 "$(code /v1/embeddings -d '{"input":["a","b","c"]}')"
set_ limit_tokens=10
check limit-tokens 413 "$(code /v1/embeddings -d "{\"input\":\"$(printf 'x%.0s' $(seq 50))\"}")"
set_ limit_body_kb=100
head -c 3000000 /dev/zero | tr '\0' ' ' >"$log.big"
check limit-body 413 "$(code /v1/embeddings -H 'Expect:' --data-binary "@$log.big")"
check limit-chunked 400 "$(code /v1/embeddings -H 'Expect:' -H 'Transfer-Encoding: chunked' --data-binary "@$log.big")"
set_ ""
python3 -c "print('{\"dimensions\":2,\"input\":[' + ','.join('\"text %d %s\"' % (i, 'y' * 900) for i in range(2000)) + ']}')" >"$log.json"
check big-expect 2000 "$(curl -s "$url/v1/embeddings" -H 'Expect: 100-continue' --data-binary "@$log.json" | json "len(d['data'])")"
check big-chunked 2000 "$(curl -s "$url/v1/embeddings" -H 'Transfer-Encoding: chunked' --data-binary "@$log.json" | json "len(d['data'])")"
set_ api_key=secret
check key-missing 401 "$(code /v1/embeddings -d '{"input":"a"}')"
check key-wrong 401 "$(code /v1/embeddings -H 'Authorization: Bearer secrex' -d '{"input":"a"}')"
check key-right 200 "$(code /v1/embeddings -H 'Authorization: Bearer secret' -d '{"input":"a"}')"
curl -s -X POST "$url/control?api_key=" >/dev/null
check control-bad 400 "$(code '/control?slots=-1')"
check control-unknown 400 "$(code '/control?nope=1')"

# --- load: pipelining, slots, queue, rejection, rate, schedule
set_ ""
check pipelining 3 "$(python3 - "${url##*:}" <<'PY'
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
b = b'{"input":"a","dimensions":2}'
s.sendall((b'POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n' % len(b) + b) * 2 +
          b'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n')
d = b''
while True:
    x = s.recv(65536)
    if not x: break
    d += x
print(d.count(b'HTTP/1.1 200'))
PY
)"
many() { # many N: N concurrent requests, their statuses counted
    for i in $(seq "$1"); do code /v1/embeddings -d "{\"input\":\"load $i\",\"dimensions\":2}" >"$log.$i" & p[i]=$!; done
    wait "${p[@]}"; for i in $(seq "$1"); do cat "$log.$i"; echo; done | sort | uniq -c | tr -s ' \n' ' '
}
set_ "base_ms=300&slots=2&queue=2"
check slots-queue " 4 200 2 429 " "$(many 6)"
check slots-in-flight 4 "$(stat max_in_flight)"
check slots-rejected 2 "$(stat rejected)"
set_ "hold=1&slots=3&queue=9"
many 5 >"$log.many" & pending=$!
until_ in_flight 5
check hold-keeps "2 0 0" "$(stat queued) $(stat items) $(stat ok)"
curl -s "$url/control?hold=2&slots=4" >/dev/null
until_ in_flight 3
check hold-others "2 200" "$(stat items) $(code /v1/embeddings -d '{"input":"between"}')"
curl -s "$url/control?hold=0" >/dev/null; wait $pending
check hold-ends " 5 200 0 6" "$(cat "$log.many")$(stat in_flight) $(stat items)"
held() { # held TEXT: a request with that input is held, then let go; what curl says of it
    status -w '%{http_code} ' "$url/v1/embeddings" -d "{\"input\":\"$1\"}" >"$log.held" & local pid=$!
    until_ in_flight 1
    curl -s "$url/control?defaults" >/dev/null; wait $pid; cat "$log.held"
}
set_ "hold=1&base_ms=10"
check hold-lost "000 52" "$(held '[[mock:lost]]')"
set_ "hold=1&base_ms=10"
check hold-503 "503 0" "$(held '[[mock:503]]')"
set_ "hold=1&base_ms=10"
leave in_flight 1
curl -s "$url/control?defaults" >/dev/null; until_ items 1
check hold-gone "0 1" "$(stat in_flight) $(stat abandoned)"
set_ hold=1
sse >"$log.held" & pending=$!
until_ in_flight 1
check hold-stream 0 "$(wc -c <"$log.held")"
curl -s "$url/control?hold=0" >/dev/null; wait $pending
check hold-streamed "$whole" "$(python3 -c "import json,sys; print($join)" <"$log.held")"
check retry-after "Retry-After: 7" "$(set_ 'rate=0.001&burst=1&retry_after=7'; embed '{"input":"a"}' >/dev/null; curl -si "$url/v1/embeddings" -d '{"input":"a"}' | grep -i retry | tr -d '\r')"
set_ "slots=8"; curl -s "$url/control?after_items=3&slots=1&base_ms=5" >/dev/null
embed '{"input":["a","b"],"dimensions":2}' >/dev/null
check schedule-not-yet 8.0 "$(curl -s "$url/control" | json "float(d['slots'])")"
embed '{"input":["c","d"],"dimensions":2}' >/dev/null
check schedule-due "[1, 5]" "$(curl -s "$url/control" | json "[d['slots'],d['base_ms']]")"
set_ "jitter=0.5&base_ms=100&seed=3"
check jitter-reset 0 "$(stat requests)"
jittered() { curl -s -X POST "$url/reset" >/dev/null; for _ in 1 2 3; do curl -s -o /dev/null -w '%{time_total} ' "$url/v1/embeddings" -d '{"input":"j1"}'; done; }
for _ in 1 2 3 4 5; do # a busy machine has its own jitter
    repeats=$(python3 -c "
a, b = '$(jittered)'.split(), '$(jittered)'.split()
print(all(abs(float(x) - float(y)) < 0.03 for x, y in zip(a, b)) and len(set(round(float(x), 2) for x in a)) > 1)")
    [ "$repeats" = False ] || break
done
check jitter-repeats True "$repeats"

# --- faults: by setting, and by a marker in the text
set_ fault_reset=100
check fault-reset 56 "$(status "$url/v1/embeddings" -d '{"input":"a"}')"
check fault-reset-executed 1 "$(stat items)"
set_ fault_partial=100
check fault-partial 18 "$(status "$url/v1/embeddings" -d '{"input":"a"}')"
check fault-partial-stream 18 "$(status "$url/v1/chat/completions" -d "${chat/\"model\"/\"stream\":true,\"model\"}")"
set_ fault_hang=100
check fault-hang 28 "$(status -m 1 "$url/v1/embeddings" -d '{"input":"a"}')"
set_ fault_json=100
check fault-json "invalid JSON" "$(embed '{"input":"a"}' | json d)"
set_ fault_count=100
check fault-count 1 "$(embed '{"input":["a","b"]}' | json "len(d['data'])")"
set_ fault_order=100
check fault-order "[1, 0]" "$(embed '{"input":["a","b"]}' | json "[e['index'] for e in d['data']]")"
set_ fault_dim=100
check fault-dim "[4, 3]" "$(embed '{"input":["a","b"],"dimensions":4}' | json "[len(e['embedding']) for e in d['data']]")"
indexes() { embed '{"input":["a","b","c","d","e"],"dimensions":2}' | json "[e.get('index') for e in d['data']]"; }
for x in "dupindex:[0, 1, 2, 3, 0]" "badindex:[0, 1, 2, 3, 5]" "negindex:[0, 1, 2, 3, -1]" "missing3:[0, 1, 2, 4]" \
    "noindex:[None, None, None, None, None]" "someindex:[0, None, 2, None, 4]" "noindexshort:[None, None, None, None]"; do
    set_ "fault_${x%%:*}=100"
    check "fault-${x%%:*}" "${x#*:}" "$(indexes)"
done
set_ fault_nul=100
check fault-nul True "$(curl -s "$url/v1/chat/completions" -d "$chat" | json "chr(0) in d['choices'][0]['message']['content']")"
set_ fault_latin1=100
check fault-latin1 1 "$(curl -s "$url/v1/chat/completions" -d "$chat" | LC_ALL=C grep -c $'caf\xe9 ')"
set_ fault_binary=100
check fault-binary 512 "$(embed '{"input":"a"}' | wc -c)"
set_ "fault_redirect=100&redirect_to=http://127.0.0.1:1/x"
check fault-redirect "302 http://127.0.0.1:1/x" "$(curl -s -o /dev/null -w '%{http_code} %{redirect_url}' "$url/v1/embeddings" -d '{"input":"a"}')"
check fault-redirect-executed 0 "$(stat items)"
set_ "fault_big=100&big_kb=3000"
check fault-big 1 "$(embed '{"input":"a","dimensions":2}' | json "len(d['data'])")"
check fault-big-size True "$(python3 -c "print($(embed '{"input":"a","dimensions":2}' | wc -c) > 3072000)")"
check fault-big-left 63 "$(status --max-filesize 100000 "$url/v1/embeddings" -d '{"input":"a"}')"
set_ fault_halfhang=100
check fault-halfhang 28 "$(status -m 0.5 "$url/v1/embeddings" -d '{"input":"a"}')"
set_ fault_halfhang=100
leave items 1
until_ abandoned 1
set_ fault_stall=100
check fault-stall 28 "$(status -m 0.5 "$url/v1/embeddings" -d '{"input":"a"}')"
set_ fault_stall=100
leave stalled_connections 1
until_ abandoned 1
check fault-stall-unread 0 "$(stat requests)"
check fault-stall-tls 28 "$(status -m 0.5 "https${url#http}/v1/embeddings" -d '{"input":"a"}')"
set_ fault_die=100
check fault-die "200 0" "$(python3 - "${url##*:}" <<'PY'
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
b = b'{"input":"%d","dimensions":2}'
head = b'POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n'
s.sendall(head + b % 1)
first = s.recv(65536).split()[1].decode()
s.sendall(head + b % 2)
print(first, len(s.recv(65536)))
PY
)"
check fault-die-executed 2 "$(stat items)"
set_ fault_lost=100
check fault-lost "52 1" "$(status "$url/v1/embeddings" -d '{"input":"a"}') $(stat items)"
set_ fault_drop=100
check fault-drop "56 0" "$(status "$url/v1/embeddings" -d '{"input":"a"}') $(stat items)"
set_ "fault_late=100&late_ms=300"
check fault-late True "$(python3 -c "print($(curl -s -o /dev/null -w '%{time_total}' "$url/v1/embeddings" -d '{"input":"a"}')>0.25)")"
set_ "fault_late=100&late_ms=1&hold=1"
leave in_flight 1
check fault-late-left 0 "$(stat items)"
curl -s "$url/control?hold=0" >/dev/null; until_ items 1
check fault-late-executed 1 "$(stat abandoned)"
set_ fault_garbage=100
check fault-garbage "1 1" "$(status "$url/v1/embeddings" -d '{"input":"a"}') $(stat items)"
set_ fault_empty=100
check fault-empty "0 0 1" "$(status "$url/v1/embeddings" -d '{"input":"a"}') $(embed '{"input":"b"}' | wc -c) $(($(stat items) - 1))"
set_ fault_cutchunk=100
check fault-cutchunk "18 1" "$(status "$url/v1/embeddings" -d '{"input":"a"}') $(stat items)"
set_ fault_cutclose=100
check fault-cutclose "0 invalid JSON" "$(status "$url/v1/embeddings" -d '{"input":"a"}') $(embed '{"input":"a"}' | json d)"
set_ "fault_status=100&refusals=418,451"
check fault-status "True 0" "$(for i in $(seq 20); do code /v1/embeddings -d "{\"input\":\"$i\"}"; echo; done | python3 -c "import sys; print({l.strip() for l in sys.stdin}=={'418','451'})") $(stat items)"
set_ "fault_donestatus=100&failures=504"
check fault-donestatus "504 1" "$(code /v1/embeddings -d '{"input":"a"}') $(stat items)"
set_ ""
check marker-status "422 503 1" "$(code /v1/embeddings -d '{"input":"a [[mock:status 422]]"}') $(code /v1/embeddings -d '{"input":"a [[mock:donestatus 503]]"}') $(stat items)"
check faults-told "1 1" "$(curl -s "$url/stats/faults" | json "d['status'], d['donestatus']" | tr -d '(),')"
set_ ""
curl -s "$url/v1/embeddings" -d '{"input":"a"}' -o /dev/null --next -s -o /dev/null "$url/v1/embeddings" -d '{"input":"b"}'
check connections "2 1" "$(curl -s "$url/stats/connections" | json "d[0]['requests']") $(stat requests_on_reused_connections)"
plain=$(embed '{"input":["a","b"]}')
set_ "chunked=1&gzip=1"
check chunked True "$([ "$(embed '{"input":["a","b"]}')" = "$plain" ] && echo True)"
check gzip True "$([ "$(curl -s --compressed "$url/v1/embeddings" -d '{"input":["a","b"]}')" = "$plain" ] && echo True)"
set_ embed=ngram
check ngram True "$(embed '{"input":["PostgreSQL database server","a database server","tropical fish"],"dimensions":256}' |
    json "(lambda v, dot: dot(v[0],v[1]) > 0.4 and dot(v[0],v[2]) < 0.3 and abs(dot(v[0],v[0])-1) < 1e-6)([e['embedding'] for e in d['data']], lambda a, b: sum(x*y for x, y in zip(a, b)))")"
check ngram-short 1.0 "$(embed '{"input":"","dimensions":8}' | json "sum(x*x for x in d['data'][0]['embedding'])")"
set_ ""
for s in 400 401 403 404 413 429 500 503; do set_ fault_$s=100; check "fault-$s" $s "$(code /v1/embeddings -d '{"input":"a"}')"; done
check fault-503-executed 0 "$(stat items)"
set_ fault_close=100
check fault-close 2 "$(curl -s "$url/v1/embeddings" -d '{"input":"a"}' -o /dev/null --next -s -w '%{num_connects}' -o /dev/null "$url/v1/embeddings" -d '{"input":"b"}' >/dev/null; stat connections | python3 -c "print(int(input())-1)")"
set_ "fault_slow=100&slow_bytes=100&slow_ms=50"
check fault-slow True "$(python3 -c "print($(curl -s -o /dev/null -w '%{time_total}' "$url/v1/embeddings" -d '{"input":"a","dimensions":30}')>0.2)")"
check fault-slow-body 30 "$(embed '{"input":"a","dimensions":30}' | json "len(d['data'][0]['embedding'])")"
set_ ""
check marker 500 "$(code /v1/embeddings -d '{"input":["fine","poison [[mock:500]] row"]}')"
curl -s "$url/control?fault_attempts=2" >/dev/null
check fault-attempts "503 503 200" "$(for i in 1 2 3; do code /v1/embeddings -d '{"input":"first two [[mock:503]]"}'; echo; done | xargs)"
set_ ""
check marker-fine 200 "$(code /v1/embeddings -d '{"input":["fine","poison [[mock:nope]] row"]}')"
set_ "fault_500=30&seed=9"
run() { for i in $(seq 30); do code /v1/embeddings -d "{\"input\":\"f $i\",\"dimensions\":2}"; echo; done | sort | uniq -c | tr -s ' \n' ' '; }
first=$(run); curl -s -X POST "$url/reset" >/dev/null
check faults-repeat "$first" "$(run)"

# --- counters
set_ ""
for i in 1 2; do embed '{"input":["same","other '$i'"],"dimensions":2}' >/dev/null; done
check duplicates 1 "$(stat duplicate_items)"
check distinct 3 "$(stat distinct_items)"
check items-list same "$(curl -s "$url/stats/items?min=2" | json "d[0]['text']")"
check ledger "2 2 True" "$(curl -s "$url/stats/ledger" | python3 -c "
import json, sys
rows = {json.loads(f[6]): f for f in (l.rstrip('\\n').split('\\t') for l in sys.stdin)}
f = rows['same']
print(f[0], f[1], sorted(f[2:6], key=float) == [f[i] for i in (2, 4, 3, 5)] and rows['other 1'][:2] == ['1', '1'])")"
for i in 1 2 3; do curl -s -H 'X-Request-Id: abc' "$url/v1/embeddings" -d '{"input":"r"}' >/dev/null; done
check request-ids 2 "$(stat duplicate_request_ids)"
set_ "hold=1&slots=1"
leave in_flight 1
curl -s "$url/control?hold=0" >/dev/null; until_ items 1
check abandoned 1 "$(stat abandoned)"

# --- HTTP/2
if curl -s --http2-prior-knowledge "$url/health" >/dev/null; then
    h2="--http2-prior-knowledge"
    set_ ""
    check h2-embed 2000 "$(curl -s $h2 "$url/v1/embeddings" --data-binary "@$log.json" | json "len(d['data'])")"
    check h2-stream "$whole" "$(sse $h2 | python3 -c "import json,sys; print($join)")"
    set_ token_ms=5
    check h2-stream-paced "$whole" "$(sse $h2 | python3 -c "import json,sys; print($join)")"
    set_ fault_reset=100
    check h2-reset 92 "$(status $h2 "$url/v1/embeddings" -d '{"input":"a"}')"
    set_ "hold=1&slots=1"
    leave in_flight 1 $h2
    curl -s "$url/control?hold=0" >/dev/null; until_ items 1
    check h2-abandoned 1 "$(stat abandoned)"
    set_ fault_hang=100
    check h2-hang 28 "$(status $h2 -m 1 "$url/v1/embeddings" -d '{"input":"a"}')"
    check h2-413 413 "$(set_ limit_body_kb=100; code /v1/embeddings $h2 --data-binary "@$log.big")"
fi

set_ base_ms=100000
for n in 1 2 3 4; do leave in_flight $n; done # in service at the end
curl -s "$url/control?base_ms=0&hold=1" >/dev/null; leave in_flight 5 # and one that is held
kill $pid; wait $pid
check clean-exit 0 $?
check sanitizers "" "$(grep -v listening "$log")"
trap - EXIT; rm -f "$log" "$log".*
echo "$passed passed, $failed failed"
[ $failed = 0 ]
