"""Reads of an address space whose lock another process has."""

import _thread
import os
import subprocess
import sys

import pytest

from kernel_delay.host.address_space import read_in_time
from kernel_delay.host.target import command_line
from tests.fuse_mappings import locked

# All of its reads but the first are waited for shortly. Threads that still wait end with it.
READS = """
import sys
from pathlib import Path
from kernel_delay.host.address_space import MOST_WAITING
from kernel_delay.host.target import command_line
from kernel_delay.symbols import ProcessImage
pid = int(sys.argv[1])
print([command_line(pid, 256) for _ in range(MOST_WAITING + 2)] == [()] * (MOST_WAITING + 2))
image = ProcessImage(pid)
print(*image.bounds.take_remarks())
"""


def test_read_has_its_result_or_its_error() -> None:
    assert read_in_time(lambda: 3) == 3
    assert command_line(os.getpid(), 1 << 20) != ()
    with pytest.raises(FileNotFoundError):
        read_in_time(lambda: os.stat("/nowhere"))


def test_read_is_made_where_no_thread_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", none)
    assert read_in_time(lambda: 3) == 3


def test_lock_that_another_process_has_is_not_waited_for() -> None:
    with locked() as pid:
        command = [sys.executable, "-c", READS, str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    is_unknown, remark = done.stdout.splitlines()
    assert is_unknown == "True"
    assert remark.startswith("the process's mappings are not read")
