"""Who had the CPU, as the programs recorded it."""

import os
from pathlib import Path

from kernel_delay.capture.threads.causes import is_tool


def test_own_process_is_known_by_number_and_name() -> None:
    comm = Path("/proc/self/comm").read_text().strip()
    assert is_tool(os.getpid(), comm)
    # Of another PID namespace at the same depth.
    assert not is_tool(os.getpid(), "nginx")
    assert not is_tool(os.getpid() + 1, comm)
