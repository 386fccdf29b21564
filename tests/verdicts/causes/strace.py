"""strace stops it at each of its system calls."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import program, wait_until_traced, workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "getppid") as victim:
        command = ("strace", "-q", "-o", "/dev/null", "-p", victim.pid)
        with program(*command, tells=False) as strace:
            wait_until_traced(victim.pid)
            yield Staged(
                victim.pid,
                cause(
                    "stopped",
                    names=(
                        "strace",
                        strace.pid,
                    ),  # What the kernel does to stop it is outside of its calls.
                    also=("kernel_work", "doubtful_user"),
                ),
            )
