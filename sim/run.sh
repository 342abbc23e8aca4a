#!/bin/sh
# Builds and runs the tests that need no server, with the address and undefined-behaviour sanitizers.
#   sim/run.sh          all tests; one TAP line each, then "sim: N passed, N failed"
#   sim/run.sh bench [floats|route]  what it costs to read an embedding, and to decide where a request goes (optimised)
#   sim/run.sh simulate ARGUMENTS   the simulator by hand (optimised): see sim/simulate.c
#   sim/run.sh fleet N [FROM]       N random fleets, each twice (optimised): see sim/test_fleet.c
# CC chooses the compiler; OUT the folder for the programs (build/sim).
set -eu
cd "$(dirname "$0")/.."
CC=${CC:-cc}
OUT=${OUT:-build/sim}
mkdir -p "$OUT"
pure="src/core/*.c src/provider/*.c"

if [ "${1:-}" = bench ]; then
    for bench in ${2:-floats route}; do
        # shellcheck disable=SC2086
        $CC -std=c11 -O2 -Isrc -Isim -o "$OUT/bench_$bench" "sim/bench_$bench.c" $pure -lm
        "$OUT/bench_$bench"
    done
    exit
fi

if [ "${1:-}" = simulate ]; then
    shift
    # shellcheck disable=SC2086
    $CC -std=c11 -O2 -Isrc -Isim -o "$OUT/simulate" sim/simulate.c sim/clock.c sim/world.c sim/session.c \
        sim/check.c sim/scenarios.c src/core/*.c -lm
    exec "$OUT/simulate" "$@"
fi

if [ "${1:-}" = fleet ]; then
    shift
    # shellcheck disable=SC2086
    $CC -std=c11 -O2 -Isrc -Isim -o "$OUT/fleet" sim/test_fleet.c sim/clock.c sim/fleet*.c src/core/*.c -lm
    exec "$OUT/fleet" "$@"
fi

flags="-std=c11 -Wall -Wextra -Werror -O1 -g -fno-omit-frame-pointer \
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -Isrc -Isim"
log="$OUT/sim.log"
: >"$log"

# the layers under test, once for all programs, by exactly what a bare compiler knows
rm -f "$OUT"/*.o
for source in $pure; do
    # shellcheck disable=SC2086
    $CC $flags -c -o "$OUT/$(echo "$source" | tr / _).o" "$source"
done

# the simulated worlds
for source in sim/clock.c sim/world.c sim/session.c sim/check.c sim/scenarios.c sim/fleet*.c; do
    # shellcheck disable=SC2086
    $CC $flags -c -o "$OUT/$(echo "$source" | tr / _).o" "$source"
done

for source in sim/test_*.c; do
    program=$(basename "$source" .c)
    [ "$program" != test_http ] || continue # needs curl: make check runs it
    # shellcheck disable=SC2086
    if ! $CC $flags -o "$OUT/$program" "$source" "$OUT"/*.o -lm; then
        echo "not ok - $program: does not compile" >>"$log"
        continue
    fi
    status=0
    "$OUT/$program" >"$OUT/$program.out" 2>&1 || status=$?
    cat "$OUT/$program.out" >>"$log"
    # a program that stopped half-way has printed no plan, or fails without a failed test
    if ! grep -q '^1\.\.' "$OUT/$program.out" ||
        { [ "$status" -ne 0 ] && ! grep -q '^not ok' "$OUT/$program.out"; }; then
        echo "not ok - $program: ended with status $status" >>"$log"
    fi
done

# one numbering over all programs
awk '/^1\.\./ { next }
     /^(not )?ok( [0-9]+)? - / { n++; sub(/ok( [0-9]+)? - /, "ok " n " - ") }
     { print }
     END { print "1.." n }' "$log"
passed=$(grep -c '^ok ' "$log" || true)
failed=$(grep -c '^not ok' "$log" || true)
echo "sim: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
