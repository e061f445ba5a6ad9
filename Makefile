# taskq: the extension by PGXS, and the project's own targets.
#
#   make, make install, make installcheck, make clean: as with any extension.
#   PG_CONFIG=... picks the server, DEBUG=1 makes the test build, WERROR= lets
#   warnings pass, "make -f .../Makefile" in another directory builds there.
#
#   make check, make check-regress, ..., make chaos, make lint, make format,
#   make demo, make demo-workflow, make demo-schedule, make monitoring-demo,
#   make bench, make compare: the project's own targets; doc/testing.md tells
#   about them.

# relative, as the compiler's dependencies then are: a build moves with its
# sources
TASKQ_SRC := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))

FAMILY_GOALS = check-regress check-unloaded check-isolation check-pgtap \
	check-hostile check-model check-tap check-lint check-mutants check-scale \
	check-versions check-static
VARIANT_GOALS = check-cassert check-caches check-pg17 check-pg18
PROJECT_GOALS = check $(FAMILY_GOALS) $(VARIANT_GOALS) chaos demo demo-workflow \
	demo-schedule monitoring-demo bench compare lint format
OTHER_GOALS = $(filter-out $(PROJECT_GOALS),$(MAKECMDGOALS))

# PGXS has a target "check" of its own: it and the project's targets are in
# different branches.  Goals of both kinds in one command: the others are
# made one by one, by another make.
ifneq (,$(filter $(PROJECT_GOALS),$(MAKECMDGOALS)))

PG_CONFIG ?= pg_config
# exec: a signal for make's child must reach the script
RUN = exec env PG_CONFIG='$(PG_CONFIG)' TESTS='$(TESTS)' SPECS='$(SPECS)' \
	FILES='$(FILES)' LONG='$(LONG)' CHAOS_SECONDS='$(SECONDS)' \
	CHAOS_SEED='$(SEED)' BASE='$(BASE)' NEW='$(NEW)' DIR='$(subst ','\'',$(DIR))' \
	bash '$(TASKQ_SRC)/test/run/check'

.PHONY: $(PROJECT_GOALS) $(OTHER_GOALS)

check:
	@$(RUN)

$(FAMILY_GOALS): check-%:
	@$(RUN) $*

$(VARIANT_GOALS): check-%:
	@$(RUN) $* $(FAMILY)

lint:
	@$(RUN) lint

chaos:
	@$(RUN) chaos

demo demo-workflow demo-schedule monitoring-demo:
	@$(RUN) $@

bench:
	@$(RUN) bench

compare:
	@$(RUN) compare

format:
	clang-format -i $(wildcard $(TASKQ_SRC)/src/*.[ch] \
		$(TASKQ_SRC)/src/*/*.[ch] $(TASKQ_SRC)/src/*/*/*.[ch])

ifneq (,$(OTHER_GOALS))
$(OTHER_GOALS):
	@$(MAKE) -f '$(firstword $(MAKEFILE_LIST))' $@
endif

else # not a goal of the project

EXTENSION = taskq
MODULE_big = taskq
PGFILEDESC = "taskq - a durable task queue"

C_FILES := $(sort $(wildcard $(TASKQ_SRC)/src/*.c $(TASKQ_SRC)/src/*/*.c $(TASKQ_SRC)/src/*/*/*.c))
OBJS = $(patsubst $(TASKQ_SRC)/%.c,%.o,$(C_FILES))
# written by the compiler, beside each object
DEPS = $(OBJS:.o=.d)
# the server's own would all lie in one directory
override autodepend = no

# The install script is these parts, in this order, with the numbers of
# src/base/code.h in place of the names: @STATE_DONE@.
SQL_CODES = $(TASKQ_SRC)/sql/codes.awk $(TASKQ_SRC)/src/base/code.h
SQL_PARTS = 00_head 10_schema 12_instance 14_queue 16_worker 18_task 19_key \
	20_archive 21_doc 22_history 23_workflow 24_function_right 25_schedule \
	26_types 27_change_log 28_operation 29_metric_minute \
	30_words 32_queue 34_submit 36_claim 37_wait 38_finish 39_bulk 40_worker \
	42_manage 43_await 44_look 45_ordered 46_duty 47_workflow \
	48_schedule 49_operation 50_views \
	51_check_lines 52_check_flow 53_check 54_explain 56_health 57_range \
	58_metrics 80_dump $(if $(TEST_BUILD),85_debug) 90_grants
SQL_FILES = $(SQL_PARTS:%=$(TASKQ_SRC)/sql/parts/%.sql)

TEST_BUILD = $(filter-out 0 no,$(DEBUG))
WERROR ?= -Werror

DATA = $(patsubst $(TASKQ_SRC)/%,%,$(wildcard $(TASKQ_SRC)/sql/taskq--*--*.sql))
DATA_built = sql/taskq--1.0.sql
EXTRA_CLEAN = $(DEPS) .build .build-kind results regression.diffs regression.out

# for "make installcheck", on a running server that preloads taskq
REGRESS = $(shell sed -n 's/^test: *//p' '$(TASKQ_SRC)/test/regress_schedule')
REGRESS_OPTS = --inputdir='$(TASKQ_SRC)/test' --max-concurrent-tests=1
# as in test/run/server.conf
installcheck: export PGOPTIONS = -c client_min_messages=warning
# pg_regress looks for expected/ where it is called
ifneq ($(CURDIR),$(abspath $(TASKQ_SRC)))
REGRESS_PREP = $(CURDIR)/expected
EXTRA_CLEAN += $(CURDIR)/expected
endif

PG_CPPFLAGS = -I$(TASKQ_SRC)/src $(if $(TEST_BUILD),-DTASKQ_DEBUG)
PG_CFLAGS = -MMD -MP -Wall -Wextra $(WERROR) -Wno-unused-parameter \
	-Wno-sign-compare -Wno-missing-field-initializers -Wno-declaration-after-statement

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# A build elsewhere would take the objects that lie in the source tree.
ifneq ($(CURDIR),$(abspath $(TASKQ_SRC)))
ifneq (,$(wildcard $(TASKQ_SRC)/.build-kind))
$(error $(TASKQ_SRC) itself has been built: run "make clean" there first)
endif
$(CURDIR)/expected:
	ln -s '$(abspath $(TASKQ_SRC)/expected)' $@
endif

# Builds never mix: what was made for the other kind, another version of the
# server or with other flags is made again.  A copy of the server has its
# headers elsewhere, and warnings change no object.
BUILD_KIND := $(if $(TEST_BUILD),test,release) $(VERSION) \
	$(filter-out -I% -Werror,$(CC) $(CPPFLAGS) $(CFLAGS))
ifneq ($(BUILD_KIND),$(shell cat .build-kind 2>/dev/null))
.PHONY: .build-kind
endif
.build-kind:
	@printf '%s\n' '$(subst ','\'',$(BUILD_KIND))' >$@

# with their whole names: VPATH would find the directories of the sources
BUILD_DIRS = $(patsubst %/,$(CURDIR)/%,$(sort $(dir $(OBJS)) sql/))
$(OBJS): $(TASKQ_SRC)/Makefile .build-kind | $(BUILD_DIRS)
$(OBJS:.o=.bc): %.bc: %.o
include $(wildcard $(DEPS))

$(BUILD_DIRS):
	@mkdir -p $@

sql/taskq--1.0.sql: $(SQL_FILES) $(SQL_CODES) $(TASKQ_SRC)/Makefile .build-kind | $(BUILD_DIRS)
	awk -f $(SQL_CODES) $(SQL_FILES) >$@.tmp && mv $@.tmp $@

endif
