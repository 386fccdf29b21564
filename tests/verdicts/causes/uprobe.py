"""bpftrace has a probe in its hottest function."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import installed
from tests.verdicts.staging import program, workload
from tests.verdicts.truth import Staged, cause

# bpftrace compiles, and attaches, by then.
ATTACHES_S = 3.0


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "function") as process:
        probe = f"uprobe:/proc/{process.pid}/exe:hot_function {{ @calls = count(); }}"
        with program(installed("bpftrace"), "-e", probe, tells=False):
            time.sleep(ATTACHES_S)
            yield Staged(process.pid, cause("doubtful_user", names=("uprobe",)))
