# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
#
# What people type; meson does the work. `make help` lists it.

BUILD ?= build
prefix_given := $(filter command% environment%,$(origin PREFIX))
PREFIX ?= /usr/local
DESTDIR ?=
# The system's: Debian's pytest belongs to it.
PYTHON ?= /usr/bin/python3
# Handed to meson setup, for example SETUP_ARGS=-Dmachine=native
SETUP_ARGS ?=
# make bench CASE="name name", or beginnings of names, BENCH=name, PAIRS=n: empty: the usual cases of
# all, 10; DPDK=dir: as peers/build-dpdk made it; DOC=1: tables of doc/performance.md; ARGS: others
CASE ?=
BENCH ?=
PAIRS ?=
DPDK ?=
DOC ?=
ARGS ?=
# make bench-refill LONG=1: the long forms too; DOC=1: write doc/findings.md; ROUNDS=n; PART="name.."
LONG ?=
ROUNDS ?=
PART ?=
FINDINGS = bench-refill bench-mrg bench-wakeups bench-coalesce bench-latency bench-findings
# make fuzz DURATION=seconds for each target, TARGET="name name": only these; empty: all
DURATION ?= 60
TARGET ?=

export PYTHONDONTWRITEBYTECODE = 1

.PHONY: all build deps demo test test-guest check model-check coverage bench bench-words \
	bench-list $(FINDINGS) fuzz lint format docs install uninstall clean bench-instr help
.DEFAULT_GOAL := all

all: build

help:
	@echo 'make            build the driver, the switch and the unit tests in $$BUILD ($(BUILD))'
	@echo 'make deps       install the Debian packages that are missing, unpack the driver headers'
	@echo 'make demo       30 seconds: testpmd - driver - switch - driver - testpmd, and the ledger'
	@echo 'make test       all tests: lint, unit, fuzzing, proofs, end to end'
	@echo 'make check      the short part of all tests, three minutes'
	@echo 'make test-guest only the tests with virtual machines'
	@echo 'make model-check prove what can be proved of the ring and its barriers'
	@echo 'make coverage   what the unit tests of the two libraries execute, at least 95 %'
	@echo 'make bench      measure all; CASE="name.." DPDK=dir PAIRS=n DOC=1; make bench-list'
	@echo 'make bench-refill, bench-mrg, bench-wakeups, bench-coalesce, bench-latency  repeat a finding'
	@echo 'make bench-findings  all five, 40 minutes; LONG=1: the long forms; DOC=1: doc/findings.md'
	@echo 'make fuzz       hostile peers made up by libFuzzer; DURATION=seconds each, TARGET="name.."'
	@echo 'make bench-instr  instructions a packet, against the table in the tree'
	@echo 'make lint       check format, spelling, licence tags and the like'
	@echo 'make format     format the C sources'
	@echo 'make docs       manual pages as HTML, in $$BUILD/doc'
	@echo 'make install    into $$DESTDIR$$PREFIX ($(DESTDIR)$(PREFIX))'
	@echo 'make uninstall  remove what make install put there'
	@echo 'make clean      remove $$BUILD'

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@command -v meson >/dev/null && command -v ninja >/dev/null || \
		{ echo 'meson or ninja is missing: run make deps' >&2; exit 1; }
	meson setup --prefix=$(PREFIX) $(SETUP_ARGS) $(BUILD)

deps:
	@devtools/deps

demo: deps
	@$(MAKE) --no-print-directory build
	@$(PYTHON) test/demo/demo.py --build $(BUILD)

test: deps
	@$(PYTHON) devtools/run-tests --build $(BUILD) lint unit runner fuzz model e2e guest

test-guest: deps
	@$(PYTHON) devtools/run-tests --build $(BUILD) guest

check: deps
	@$(PYTHON) devtools/run-tests --build $(BUILD) unit check

model-check: deps
	@$(PYTHON) devtools/run-tests model
	@$(PYTHON) test/model_check/prove.py --all

coverage: deps
	@$(PYTHON) devtools/coverage

BENCH_WORDS = --build $(BUILD) $(BENCH) $(CASE:%=--case %) $(PAIRS:%=--pairs %) \
	$(DPDK:%=--dpdk %) $(if $(DOC),--doc) $(ARGS)

# A word that is wrong is found before the packages and the build.
bench-words:
	@! command -v $(PYTHON) >/dev/null || $(PYTHON) test/bench/bench.py --check $(BENCH_WORDS)

bench: bench-words deps
	@$(MAKE) --no-print-directory build
	@$(PYTHON) test/bench/bench.py $(BENCH_WORDS)

$(FINDINGS): deps
	@$(MAKE) --no-print-directory build
	@$(PYTHON) test/bench/findings.py --build $(BUILD) $(patsubst findings,all,$(@:bench-%=%)) \
		$(if $(LONG),--long) $(if $(DOC),--doc) $(ROUNDS:%=--rounds %) $(PART:%=--part %)

bench-list:
	@$(PYTHON) test/bench/bench.py --list
	@$(PYTHON) test/bench/findings.py --list

fuzz: deps
	@$(PYTHON) test/fuzz/fuzz.py --build $(BUILD) --duration $(DURATION) $(TARGET:%=--target %)

bench-instr:
	@$(PYTHON) test/bench/instr.py

lint:
	@command -v $(PYTHON) >/dev/null || { echo '$(PYTHON) is missing: run make deps' >&2; exit 1; }
	@$(PYTHON) devtools/lint

format:
	@git ls-files -z '*.c' '*.h' | xargs -0 -r clang-format -i

docs: $(BUILD)/build.ninja
	@ninja -C $(BUILD) docs

# PREFIX given here overrules that of the build directory; nothing is compiled again.
install: build
	@$(if $(prefix_given),meson configure $(BUILD) --prefix=$(PREFIX))
	@DESTDIR='$(DESTDIR)' meson install -C $(BUILD)

uninstall:
	@test -f $(BUILD)/build.ninja || \
		{ echo 'uninstall: no $(BUILD), which knew what is installed: make install first' >&2; \
		  exit 1; }
	@ninja -C $(BUILD) uninstall

# Only ever a build directory, whatever BUILD says.
clean:
	@test ! -e $(BUILD) || test -f $(BUILD)/build.ninja -o -d $(BUILD)/meson-private || \
		{ echo 'clean: $(BUILD) is no build directory' >&2; exit 1; }
	rm -rf $(BUILD)
