"""A timer sends it signals all the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "signals") as process:
        yield Staged(
            process.pid,
            cause(
                "doubtful_user",
                # In step with the kernel's ticks, which then find it in its own code alone.
                "user_work",
                # The timer itself interrupts it.
                "interrupt_load",
                names=("signals a second", "SIGUSR1, sent by a timer"),
                also=("kernel_work",),
            ),
        )
