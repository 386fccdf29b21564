# The tests in virtual machines; included by the project's Makefile.

.PHONY: test-kernels test-kernels-brief compatibility packages-kernels

## test-kernels: the integration tests on real kernels; KERNELS_ARGS narrows it down
test-kernels: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.kernels.run $(KERNELS_ARGS)

## compatibility: the same, and docs/compatibility.md written from the results
compatibility: build packages-test packages-kernels .venv/.extra-test .venv/.extra-kernels
	@exec $(BIN)/python -m tests.kernels.run --write-docs

## test-kernels-brief: a choice of them by what depends on the kernel, as part of test
test-kernels-brief: KERNELS_ARGS := --brief
test-kernels-brief: test-kernels

test: test-kernels-brief

packages-kernels:
	@setup/debian-packages.sh setup/packages-kernels.txt
