# Reference without a database: a C program on libcurl multi that sends the same requests and parses the answers.
title="C driver, libcurl multi, no database"
reference=1
drive() { "$bin/driver" -P "${MOCK_URL##*:}" -d 1536 -c "$CONC" "$@"; }
job_J1() { drive -n $(((ROWS + BATCH - 1) / BATCH)) -b "$BATCH" -p hand -t 200; }
job_J1b() { drive -n $(((ROWS + BATCH - 1) / BATCH)) -b "$BATCH" -p b64 -t 200; }
job_J2() { drive -n "$ROWS" -e /v1/chat/completions -t 200; }
job_J2j() { job_J7; }
job_J6() { job_J2; }
cannot_J6L="see J6"
job_J4() { drive -n "$ROWS" -e /v1/chat/completions -t 20; }
job_J7() { drive -n "$ROWS" -e /v1/chat/completions -t 20; }
cannot_J3="no retries"
cannot_J5="no rows to filter"
