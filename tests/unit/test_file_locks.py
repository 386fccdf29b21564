"""Who has the file lock that a process waits for."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.host import file_locks
from kernel_delay.host.file_locks import lock_owner
from tests.workload import wait_until

LOCKS = """\
1: POSIX  ADVISORY  WRITE 70 fe:00:7 0 EOF
1: -> POSIX  ADVISORY  WRITE 71 fe:00:7 0 EOF
2: FLOCK  ADVISORY  WRITE 80 fe:00:7 0 EOF
2: -> FLOCK  ADVISORY  WRITE 81 fe:00:7 0 EOF
2:  -> FLOCK  ADVISORY  WRITE 82 fe:00:7 0 EOF
3: OFDLCK ADVISORY  WRITE -1 fe:00:14 0 EOF
3: -> OFDLCK ADVISORY  WRITE -1 fe:00:14 0 EOF
3: -> POSIX ADVISORY  WRITE 91 fe:00:14 0 EOF
4: FLOCK  ADVISORY  WRITE 70 fe:00:1 0 EOF
4: -> FLOCK  ADVISORY  WRITE 92 fe:00:1 0 EOF
5: POSIX  ADVISORY  READ 100 fe:00:9 0 9
5: -> POSIX  ADVISORY  WRITE 93 fe:00:9 0 4
6: POSIX  ADVISORY  READ 101 fe:00:9 3 9
7: POSIX  ADVISORY  READ 102 fe:00:9 20 29
7: -> POSIX  ADVISORY  WRITE 94 fe:00:9 21 EOF
"""


@pytest.mark.parametrize(
    ("waiter", "owner"),
    [
        (71, 70),
        (81, 80),
        (82, 80),
        (70, None),
        (91, None),
        (92, None),
        (93, 100),
        (94, 102),
        (5, None),
    ],
)
def test_lines_of_proc(
    waiter: int, owner: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locks").write_text(LOCKS)
    # Task 70 has the file of the last lock open too, but no lock on it any more.
    for pid, kind, inode in (
        (70, "POSIX", 7),
        (80, "FLOCK", 7),
        (100, "POSIX", 9),
        (102, "POSIX", 9),
    ):
        (tmp_path / str(pid) / "fdinfo").mkdir(parents=True)
        (tmp_path / str(pid) / "fdinfo" / "3").write_text(
            f"pos:\t0\nino:\t{inode}\nlock:\t1: {kind}  ADVISORY  WRITE {pid} fe:00:{inode} 0 EOF\n"
        )
        (tmp_path / str(pid) / "fdinfo" / "4").write_text("pos:\t0\nino:\t1\n")
        (tmp_path / str(pid) / "comm").write_text(f"task{pid}\n")
    monkeypatch.setattr(file_locks, "PROC", tmp_path)
    shared = owner == 100
    assert lock_owner(waiter) == (None if owner is None else (f"task{owner}", owner, shared))


def test_this_kernels(tmp_path: Path) -> None:
    wants = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
    with (tmp_path / "file").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", wants, file.name]) as waiter:
            wait_until(lambda: lock_owner(waiter.pid) is not None)
            found = lock_owner(waiter.pid)
            fcntl.flock(file, fcntl.LOCK_UN)
    assert found is not None
    assert found[1] == os.getpid()
