# The tests in virtual machines; included by the project's Makefile.

.PHONY: test-kernels test-kernels-arm64 test-kernels-least test-kernels-brief test-verdicts-kernels \
	test-machine-changes test-flows compatibility packages-kernels

## test-kernels: the integration tests on real kernels; KERNELS_ARGS narrows it down
test-kernels: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.kernels.run $(KERNELS_ARGS)

## test-verdicts-kernels: is the verdict true on these kernels too? A choice of test-verdicts
test-verdicts-kernels: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.kernels.run $(KERNELS_ARGS) tests/verdicts/in_guests.py

## test-machine-changes: clocks that are set, CPUs that go and come, sleep, and 64 CPUs, in guests
test-machine-changes: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.kernels.run $(KERNELS_ARGS) \
		tests/integration/capture/machine_changes.py
	@exec $(BIN)/python -m tests.kernels.run --kernel "Debian 13" --cpus 64 --least

## test-flows: 10,000 flows of the kernel's datapath on these kernels; FLOWS_ARGS narrows it down
test-flows: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.flows.run $(FLOWS_ARGS)

## test-kernels-arm64: the integration tests on arm64 kernels, in emulated machines of that; KERNELS_ARGS
test-kernels-arm64: WHEEL_ARCHITECTURE := arm64
test-kernels-arm64: packages-test packages-wheel packages-kernels packages-arm64 wheel .venv/.extra-test .venv/.extra-kernels
	@KERNEL_DELAY_DIST=$(CURDIR)/$(DIST) exec $(BIN)/python -m tests.kernels.run \
		--kernel "Debian 12 arm64" --kernel "Debian 13 arm64" \
		--kernel "Linux 6.12 arm64 64K" $(KERNELS_ARGS)

## compatibility: test-kernels, and the results beside earlier ones in docs/reference/compatibility.md
compatibility: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.kernels.run --write-docs $(KERNELS_ARGS)

## test-kernels-brief: where guests are emulated, a choice of them
test-kernels-brief: KERNELS_ARGS := --brief
test-kernels-brief: test-kernels

## test-kernels-least: as part of test: where guests are emulated, whether all works there at all
test-kernels-least: KERNELS_ARGS := --least
test-kernels-least: test-kernels

packages-kernels:
	@setup/debian-packages.sh setup/packages-kernels.txt
