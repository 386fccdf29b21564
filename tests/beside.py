"""Which tests run beside each other, where pytest has several processes (pytest-xdist)."""

from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

# How tests come by a CPU of their choice, of which a real-time workload leaves nothing to that of
# another test: by name, or in the stages of verdicts and in the demo.
NAMES_A_CPU = (
    "os.sched_getaffinity(",
    "os.sched_setscheduler(",
    '"taskset"',
    "undisturbed(",
    "run_case(",
    "in_process import",
    '"lab.demo"',
)


class OneForEachCpu(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests one after the other, and so those of all files that name a CPU."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        """Schedule those of `config`; pytest-xdist says to `log` what it does."""
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        """Return what the test is not to run beside others of."""
        file, _, _ = nodeid.partition("::")
        return "those that name a CPU" if names_a_cpu(self._root / file) else file


def names_a_cpu(file: Path) -> bool:
    """Whether tests of the file have workloads on a CPU of their choice."""
    text = file.read_text()
    return any(word in text for word in NAMES_A_CPU)
