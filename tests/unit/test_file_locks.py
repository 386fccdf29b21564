"""Who has the file lock that a process waits for."""

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.host import file_locks
from kernel_delay.host.file_locks import lock_owner
from kernel_delay.host.polled_locks import polled_lock
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


KINDS = ("POSIX", "OFDLCK", "FLOCK")
OPENS = "import fcntl, os, struct, sys, time; file = open(sys.argv[1], 'r+');"
# struct flock of fcntl(2).
OFD = " fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0));"


@pytest.mark.parametrize(
    ("lock", "is_known"),
    [
        ("fcntl.lockf(file, fcntl.LOCK_EX);", True),
        ("fcntl.flock(file, fcntl.LOCK_EX);", True),
        (OFD, True),
        ("fcntl.flock(file, fcntl.LOCK_SH);", False),
        ("", False),
    ],
)
def test_lock_of_another_process_on_an_open_file(lock: str, is_known: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    holds = [sys.executable, "-c", f"{OPENS}{lock} print(flush=True); time.sleep(600)", str(path)]
    opens = [sys.executable, "-c", f"{OPENS} print(flush=True); time.sleep(600)", str(path)]
    with (
        subprocess.Popen(holds, stdout=subprocess.PIPE) as holder,
        subprocess.Popen(opens, stdout=subprocess.PIPE) as process,
    ):
        for each in (holder, process):
            assert each.stdout is not None
            each.stdout.readline()
        found = polled_lock(process.pid, KINDS)
        own = polled_lock(holder.pid, KINDS)
        holder.kill()
        process.kill()
    owner = (str(path), holder.pid, False)
    assert (found and (found.path, found.owner.pid, found.owner.shared)) == (
        owner if is_known else None
    )
    assert own is None


def test_lock_of_a_parent_on_an_inherited_file_is_not_polled(tmp_path: Path) -> None:
    with (tmp_path / "pid").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with subprocess.Popen(["sleep", "600"], pass_fds=(file.fileno(),)) as daemon:
            found = polled_lock(daemon.pid, KINDS)
            daemon.kill()
    assert found is None


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        # Which of the two keeps it from the byte that it wants is not known.
        ("fcntl.lockf(file, fcntl.LOCK_EX, 1, 1000);", KINDS),
        # A lock of flock(2) keeps nobody from one of fcntl(2).
        ("", ("POSIX", "OFDLCK")),
    ],
)
def test_locks_of_several_or_of_another_kind_are_nobodys(
    other: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.touch()
    locks = ("fcntl.flock(file, fcntl.LOCK_EX);", other, "")
    script = "{0}{1} print(flush=True); time.sleep(600)"
    commands = [[sys.executable, "-c", script.format(OPENS, lock), str(path)] for lock in locks]
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            for words in commands
        ]
        for each in started:
            stack.callback(each.kill)
            assert each.stdout is not None
            each.stdout.readline()
        assert polled_lock(started[-1].pid, kinds) is None


@pytest.mark.parametrize("limit", ["OWN_LOCKS_CPU_S", "MOST_LIST_BYTES"])
def test_more_locks_than_there_is_time_for_have_no_owner(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.touch()
    script = f"{OPENS} print(flush=True); time.sleep(600)"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        command = [sys.executable, "-c", script, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            monkeypatch.setattr(file_locks, limit, 0)
            found = polled_lock(process.pid, KINDS)
            process.kill()
    assert found is None


def test_reader_keeps_a_writer_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    reads = f"{OPENS} fcntl.lockf(file, fcntl.LOCK_SH, 10, 0);"
    writes = f"{OPENS} fcntl.lockf(file, fcntl.LOCK_EX, 1, 20);"
    waits = " print(flush=True); time.sleep(600)"
    reader_command = [sys.executable, "-c", reads + waits, str(path)]
    writer_command = [sys.executable, "-c", writes + waits, str(path)]
    with (
        subprocess.Popen(reader_command, stdout=subprocess.PIPE) as reader,
        subprocess.Popen(writer_command, stdout=subprocess.PIPE) as writer,
    ):
        for each in (reader, writer):
            assert each.stdout is not None
            each.stdout.readline()
        found = polled_lock(writer.pid, KINDS)
        for each in (reader, writer):
            each.kill()
    assert found is not None
    assert found.owner.pid == reader.pid
