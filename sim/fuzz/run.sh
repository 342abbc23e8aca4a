#!/bin/bash
# Coverage-guided fuzzing with libFuzzer, under the address and undefined-behaviour sanitizers: the
# readers of what a server may answer, and the writers of what we send.
#   sim/fuzz/run.sh [-s SECONDS | -r RUNS] [TARGET...]     60 seconds for each target, two at a time
#   sim/fuzz/run.sh -i FILE TARGET                         one input again
#   sim/fuzz/run.sh -c [-s SECONDS | -r RUNS] [TARGET...]  then the lines of src/ that were not reached
# One TAP line for each target, then "fuzz: N passed, N failed". What was bred stays in
# build/fuzz/TARGET and is where the next run begins. A finding prints its input and how to repeat it.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 2
all="json values embed answer stream request"
out=${OUT:-build/fuzz}
seconds=60 runs=-1 input= coverage=
while getopts s:r:i:c option; do
    case $option in
    s) seconds=$OPTARG ;;
    r) runs=$OPTARG seconds=0 ;;
    i) input=$OPTARG ;;
    c) coverage=1 ;;
    *) sed -n '2,9s/^# \?//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
targets=${*:-$all}
for target in $targets; do
    [[ " $all " == *" $target "* ]] || { echo "no such target: $target (there are: $all)" >&2; exit 2; }
done
clang=$(compgen -c clang | grep -xE 'clang(-[0-9]+)?' | sort -V | head -1)
[ -n "$clang" ] || { echo "clang is not installed" >&2; exit 77; }
export ASAN_OPTIONS=quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1

flags="-std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -O2 -g -fno-omit-frame-pointer -Isrc -Isim/fuzz"
# values.c also reads urls, whose parser speaks PostgreSQL, and headers
extras="sim/fuzz/fields.c sim/fuzz/shim/memory.c src/registry/url.c src/http/headers.c"
extra() { [ "$1" != values ] || echo "-Isim/fuzz/shim $extras -lcurl"; }
checks="address,undefined,float-cast-overflow"
mkdir -p "$out"

# What all targets share is compiled once.
build() {
    local source
    rm -f "$out"/*.o
    for source in src/core/*.c src/provider/*.c sim/fuzz/{fuzz,model,reply}.c; do
        $clang $flags -fsanitize=fuzzer-no-link,$checks -fno-sanitize-recover=all \
            -c -o "$out/${source//\//_}.o" "$source" || return 1
    done
    for target in $targets; do
        $clang $flags -fsanitize=fuzzer,$checks -fno-sanitize-recover=all \
            -o "$out/$target.bin" "sim/fuzz/$target.c" "$out"/*.o $(extra "$target") -lm || return 1
    done
}
build || { echo "not ok - the targets do not compile"; echo "fuzz: 0 passed, 1 failed"; exit 1; }

limits="-timeout=10 -rss_limit_mb=768 -malloc_limit_mb=128"
if [ -n "$input" ]; then
    exec "$out/${targets%% *}.bin" $limits "$input"
fi

# One target: breed, then read each of what is left with a part of it repeated up to 128 kB.
fuzz() {
    local target=$1 folder=$out/$1
    mkdir -p "$folder"
    rm -f "$out/$target".finding-*
    "$out/$target.bin" $limits -artifact_prefix="$out/$target.finding-" -dict=sim/fuzz/json.dict \
        -max_total_time="$seconds" -runs="$runs" -print_final_stats=1 "$folder" "sim/fuzz/corpus/$target" >"$out/$target.log" 2>&1 &&
        FUZZ_REPEAT=${FUZZ_REPEAT:-1} "$out/$target.bin" $limits -artifact_prefix="$out/$target.finding-" \
            -runs=0 "$folder" "sim/fuzz/corpus/$target" >"$out/$target.repeat.log" 2>&1
    echo $? >"$out/$target.status"
}
rm -f "$out"/*.status "$out"/*.log
for target in $targets; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    fuzz "$target" &
done
wait

passed=0 failed=0
for target in $targets; do
    log=$out/$target.log
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    if [ "$(cat "$out/$target.status")" = 0 ] && [ "${executions:-0}" -gt 0 ]; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - fault_F72_fuzz_$target # $executions executions, $edges edges"
        continue
    fi
    failed=$((failed + 1))
    echo "not ok $((passed + failed)) - fault_F72_fuzz_$target"
    { cat "$log"; [ ! -e "$out/$target.repeat.log" ] || cat "$out/$target.repeat.log"; } |
        grep -vE '^#[0-9]+.*(NEW|REDUCE|RELOAD|pulse)|^INFO:|# Uses:' | head -60 | sed 's/^/# /'
    repeated=
    [ ! -e "$out/$target.repeat.log" ] || repeated="FUZZ_REPEAT=${FUZZ_REPEAT:-1} "
    for finding in "$out/$target".finding-*; do
        [ -e "$finding" ] || continue
        echo "# again: base64 -d >/tmp/input <<<'$(base64 -w0 "$finding")'; ${repeated}sim/fuzz/run.sh -i /tmp/input $target"
    done
done

if [ -n "$coverage" ]; then
    for target in $targets; do
        $clang $flags -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping -o "$out/$target.cov" \
            "sim/fuzz/$target.c" sim/fuzz/{fuzz,model,reply}.c src/core/*.c src/provider/*.c $(extra "$target") -lm
        LLVM_PROFILE_FILE=$out/$target.profraw "$out/$target.cov" -runs=0 "$out/$target" "sim/fuzz/corpus/$target" >/dev/null 2>&1
    done
    llvm-profdata merge -o "$out/all.profdata" $(printf "$out/%s.profraw " $targets)
    objects=$(printf -- "-object $out/%s.cov " $targets)
    objects=${objects#-object }
    reached="src/provider/*.c src/core/buf.c src/http/headers.c src/registry/url.c"
    llvm-cov report $objects -instr-profile="$out/all.profdata" $reached
    llvm-cov show $objects -instr-profile="$out/all.profdata" $reached >"$out/coverage.txt"
    echo "line by line: $out/coverage.txt"
fi
echo "1..$((passed + failed))"
echo "fuzz: $passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
