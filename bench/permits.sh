#!/bin/bash
# What a permit costs: uncontended, and with 64 backends on one admission key.
# permits.sh [-w WORK] [--pg-port N]: needs a cluster that run.sh --keep left running; PostgreSQL 15. Prints Markdown.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=/var/tmp/pg_inference-bench pg_port=5455 pg_config=${PG_CONFIG:-pg_config}
while [ $# -gt 0 ]; do
    case $1 in -w) work=$2; shift ;; --pg-port) pg_port=$2; shift ;; *) sed -n 2,3p "$0"; exit 2 ;; esac
    shift
done
export PGHOST=$work/sock PGPORT=$pg_port PGUSER=postgres PGDATABASE=bench
sql() { psql -X -q -At -v ON_ERROR_STOP=1 "$@"; }
PATH=$($pg_config --bindir):$PATH
library=$work/bin/permits-$$.so
${CC:-cc} -O2 -fPIC -shared -I"$($pg_config --includedir-server)" -I"$here/../src" -o "$library" "$here/tools/permits.c" || exit 1
trap 'rm -f "$library" "$work/permits.sql"' EXIT
sql -c "CREATE OR REPLACE FUNCTION permits(text, int, int, bool) RETURNS float8[] LANGUAGE c STRICT AS '$library'" \
    -c "SET client_min_messages = warning" -c "DROP TABLE IF EXISTS permit_costs" -c "CREATE TABLE permit_costs(backends int, ceiling int, c float8[])" || exit 1
measure() { # backends ceiling permits-each
    echo "INSERT INTO permit_costs SELECT $1, $2, permits('bench-permits-$1-$2', $2, $3, $1 > 1);" >"$work/permits.sql"
    pgbench -n -c "$1" -j "$1" -t 1 -f "$work/permits.sql" >/dev/null 2>"$work/permits.log" || { cat "$work/permits.log"; exit 1; }
}
measure 1 64 1000000
measure 64 64 2000
measure 64 8 2000
measure 64 1 500
echo "| backends on one key | its limit | CPU us a permit, mean over the backends | largest |"
echo "|---|---|---|---|"
sql -F ' | ' -c "SELECT '| ' || backends, ceiling, round(avg(c[2])::numeric, 2), round(max(c[2])::numeric, 2) || ' |' FROM permit_costs GROUP BY 1, 2, backends ORDER BY backends, ceiling DESC"
sql -c "DROP FUNCTION permits" -c "DROP TABLE permit_costs"
