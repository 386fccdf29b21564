"""A tool has a probe in a function that it seldom calls."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes.uprobe import ATTACHES_S
from tests.verdicts.programs import installed
from tests.verdicts.staging import hog, program, running
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog) as process:
        probe = f"uprobe:/proc/{process.pid}/exe:PyObject_Repr {{ @calls = count(); }}"
        with program(installed("bpftrace"), "-e", probe, tells=False):
            time.sleep(ATTACHES_S)
            yield Staged(process.pid, HEALTHY)
