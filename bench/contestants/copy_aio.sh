# Outside of the database: COPY out, a Python script with asyncio and aiohttp, COPY in.
title="COPY out, Python aiohttp script, COPY in"
script() { "$python" "$here/tools/copy_aio.py" "$1" "$MOCK_URL" "$BATCH" "$CONC" "$work/copy.in" "$work/copy.out" "${@:2}"; }
embed() {
    sql -c "\\copy (SELECT id, body FROM input ORDER BY id) TO '$work/copy.in'" && script embed "$@" &&
        sql -c "CREATE TABLE out(id int, v real[])" -c "\\copy out FROM '$work/copy.out'"
}
chat() { # condition
    sql -c "\\copy (SELECT id, body FROM input $1 ORDER BY id) TO '$work/copy.in'" && script chat &&
        sql -c "CREATE TABLE ${2:-out}(id int, answer text)" -c "\\copy ${2:-out} FROM '$work/copy.out'"
}
job_J1() { embed; }
job_J1b() { embed base64; }
job_J2() { chat; }
job_J3() { chat; }
job_J6() { chat; }
job_J4() { chat; }
job_J7() { chat; }
job_J5() { sql -c "DROP TABLE IF EXISTS copy_all" 2>/dev/null; chat "WHERE kind = 'target'" copy_all && sql -c "CREATE TABLE out AS SELECT id FROM copy_all WHERE answer = 'yes' LIMIT 10"; }
