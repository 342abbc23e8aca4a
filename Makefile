# pg_inference: `make` builds, `make install` installs, `make help` lists the rest.
# PG_CONFIG=/path/to/pg_config chooses the PostgreSQL; LLVM=yes adds bitcode for its JIT.

EXTENSION  = pg_inference
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" pg_inference.control)
MODULE_big = pg_inference
PGFILEDESC = "pg_inference - model inference as part of SQL"
SOURCES    = $(sort $(wildcard src/*/*.c src/module.c))
INCLUDED   = $(sort $(wildcard src/*/*.h))
OBJS       = $(SOURCES:.c=.o)
DATA       = $(sort $(wildcard sql/*.sql))

# PostgreSQL's look at warnings, plus ours; WERROR=1 makes them errors (make check does).
PG_CPPFLAGS = -Isrc -DINFER_VERSION='"$(EXTVERSION)"'
PG_CFLAGS   = -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
              -Wno-missing-field-initializers -Wno-declaration-after-statement -Wno-clobbered
SHLIB_LINK  = -lcurl -lm
ifneq ($(findstring clang,$(CC)),)
PG_CFLAGS  += -Wno-unknown-warning-option -Wno-ignored-optimization-argument
endif
ifeq ($(WERROR),1)
PG_CFLAGS  += -Werror
endif
ifneq ($(LLVM),yes)
override with_llvm := no
endif

# Tests: inputs below sql_tests, wanted outputs in expected/. Every test file gets a mock server of
# its own from the launcher; see sql_tests/README.md.
# pgvector.sql is for an installation that has pgvector; nearest.sql asks the same of contrib's cube.
REGRESS        = $(sort $(filter-out $(if $(wildcard $(datadir)/extension/vector.control),,pgvector), \
                 $(patsubst sql_tests/sql/%.sql,%,$(wildcard sql_tests/sql/*.sql))))
ISOLATION      = $(sort $(patsubst sql_tests/specs/%.spec,%,$(wildcard sql_tests/specs/*.spec)))
TEST_OPTS      = --inputdir=sql_tests --temp-config=sql_tests/conf/regress.conf \
                 --launcher=$(CURDIR)/sql_tests/lib/with-mock
REGRESS_OPTS   = $(TEST_OPTS) --temp-instance=./tmp_check
ISOLATION_OPTS = $(TEST_OPTS) --temp-instance=./tmp_check_iso --outputdir=.
REGRESS_PREP   = sql_tests/mockd/mockd
# the same results whatever the user's locale
ENCODING       = UTF8
NO_LOCALE      = 1
TAP_TESTS      = $(if $(wildcard sql_tests/t/*.pl),1)
PROVE_TESTS    = sql_tests/t/*.pl
EXTRA_CLEAN    = $(sort $(wildcard src/*/*.o src/*/*.bc)) sql_tests/mockd/mockd tmp_check tmp_check_iso build \
                 results regression.diffs regression.out log $(EXTENSION)-*.zip

# These need no PostgreSQL to begin with (their scripts install one), so PGXS stays out of them;
# it would also bring a `check` of its own. As root, installcheck has to become another user first.
STANDALONE = help check check-assert check-matrix demo bench sim fuzz fuzz-bytes lint format format-check dist
ifeq ($(shell id -u),0)
STANDALONE += installcheck
endif
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(STANDALONE) sql_tests/mockd/mockd,$(MAKECMDGOALS)),all),)
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS knows of no header dependencies: everything is built again when a header changes.
$(OBJS): $(INCLUDED) Makefile
PG_PROVE_FLAGS += -I sql_tests/lib
else ifneq ($(filter installcheck,$(STANDALONE)),)
installcheck:
	scripts/check regress isolation tap
endif

help:
	@echo 'make, make install         build and install (PG_CONFIG=... chooses the PostgreSQL)'
	@echo 'make demo                  everything from nothing in two minutes, with a mock server'
	@echo 'make demo URL=... MODEL=.. the same with a real OpenAI-compatible embedding server'
	@echo 'make check                 installs what is missing and runs all tests'
	@echo 'make check-assert          the tests on a PostgreSQL with assertions, which it builds'
	@echo 'make check-matrix          the tests on the other PostgreSQL versions (needs root)'
	@echo 'make installcheck          the tests that need a server, on the installed build'
	@echo 'make sim                   the tests that need no server'
	@echo 'make fuzz                  random queries on the installed build (FROM=1 COUNT=2000 JOBS=2)'
	@echo 'make fuzz-bytes            bred bytes into what reads and writes JSON (TARGET=json SECONDS=60 RUNS=)'
	@echo 'make lint, make format     static checks; clang-format over the sources'
	@echo 'make bench                 the benchmark (JOBS="J1 J2" REPS=3)'
	@echo 'make dist                  a release archive'

sql_tests/mockd/mockd: $(wildcard sql_tests/mockd/*.[ch])
	$(MAKE) -s -C sql_tests/mockd

ifneq ($(filter check,$(MAKECMDGOALS)),)
check:
	scripts/check
endif

check-assert:
	scripts/check-assert

check-matrix:
	scripts/check-matrix

demo:
	@scripts/demo "$(URL)" "$(MODEL)"

bench:
	scripts/deps build bench
	scripts/install /var/tmp/pg_inference-bench/build
	bench/run.sh $(if $(JOBS),-j "$(JOBS)") $(if $(REPS),-r $(REPS)) $(BENCH_OPTS)

sim:
	sim/run.sh

fuzz: sql_tests/mockd/mockd
	sql_tests/fuzz/fuzz $(if $(FROM),--from $(FROM)) $(if $(COUNT),--count $(COUNT)) $(if $(JOBS),--jobs $(JOBS))

fuzz-bytes:
	scripts/deps fuzz
	sim/fuzz/run.sh $(if $(SECONDS),-s $(SECONDS)) $(if $(RUNS),-r $(RUNS)) $(TARGET)

lint:
	@for check in scripts/checks/*; do $$check || [ $$? = 77 ] || exit 1; done

format:
	clang-format -i $(SOURCES) $(INCLUDED) $(wildcard sim/*.[ch] sim/fuzz/*.[ch] sim/fuzz/shim/*.[ch])

format-check:
	scripts/checks/format

dist:
	git archive --format=zip --prefix=$(EXTENSION)-$(EXTVERSION)/ -o $(EXTENSION)-$(EXTVERSION).zip HEAD

.PHONY: $(STANDALONE)
