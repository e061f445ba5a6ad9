# taskq: PGXS makefile, and the project's own targets.
#
#   make, make install, make installcheck, make clean: as with any extension;
#       PG_CONFIG=... picks the server, DEBUG=1 makes the test build,
#       make -f .../Makefile in another directory builds there.
#   make check, make check-regress ..., make demo, make lint, make format:
#       the project's own, see doc/testing.md.

TASKQ_SRC := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))

PROJECT_GOALS := check check-regress check-isolation check-pgtap check-tap \
	check-lint check-mutants demo lint format bench

ifneq ($(filter $(PROJECT_GOALS),$(MAKECMDGOALS)),)

.PHONY: $(PROJECT_GOALS)

check:
	@bash $(TASKQ_SRC)/test/run/check

# make check-regress TESTS="submit claim"
check-regress check-isolation check-pgtap check-tap check-lint check-mutants: check-%:
	@bash $(TASKQ_SRC)/test/run/check $*

lint: check-lint

# make demo DIR=/some/folder
demo:
	@bash $(TASKQ_SRC)/test/run/demo

bench:
	@bash $(TASKQ_SRC)/test/run/bench

format:
	cd $(TASKQ_SRC) && clang-format -i $$(git ls-files '*.c' '*.h')

else

EXTENSION = taskq
MODULE_big = taskq

# Sources by layer; every object depends on every header.
TASKQ_FILES := $(sort $(wildcard $(TASKQ_SRC)/src/*.c $(TASKQ_SRC)/src/*/*.c))
TASKQ_HEADERS := $(wildcard $(TASKQ_SRC)/src/*.h $(TASKQ_SRC)/src/*/*.h)
OBJS = $(patsubst $(TASKQ_SRC)/%.c,%.o,$(TASKQ_FILES))

# The install script is made of parts, in this order.
SQL_PARTS = 00_head 10_schema 12_instance 14_queue 16_worker 18_task \
	20_archive 24_function_right 26_types 30_words 32_queue 34_submit \
	36_claim 38_finish 40_worker 42_manage 44_look 46_duty 50_views 52_check \
	80_dump $(if $(DEBUG),85_debug) 90_grants
SQL_FILES = $(patsubst %,$(TASKQ_SRC)/sql/parts/%.sql,$(SQL_PARTS))

DATA_built = sql/taskq--1.0.sql
EXTRA_CLEAN = sql/taskq--1.0.sql results regression.diffs regression.out

REGRESS = $(shell sed -n 's/^test: *//p' $(TASKQ_SRC)/test/regress_schedule)
REGRESS_OPTS = --inputdir=$(TASKQ_SRC)/test --outputdir=$(TASKQ_SRC)

PG_CPPFLAGS = -I$(TASKQ_SRC)/src $(if $(DEBUG),-DTASKQ_DEBUG)
PG_CFLAGS = -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-declaration-after-statement

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(TASKQ_HEADERS) $(TASKQ_SRC)/Makefile | objdirs
$(OBJS:.o=.bc): | objdirs

.PHONY: objdirs
objdirs:
	@mkdir -p $(sort $(dir $(OBJS))) sql

sql/taskq--1.0.sql: $(SQL_FILES) $(TASKQ_SRC)/Makefile | objdirs
	cat $(SQL_FILES) > $@.tmp && mv $@.tmp $@

endif
