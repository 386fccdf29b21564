"""Who has the file lock that a process waits for."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel_delay.host import file_locks
from kernel_delay.host.file_locks import lock_owner, lock_owners
from kernel_delay.host.open_files import links
from kernel_delay.host.polled_locks import polled_lock
from kernel_delay.host.target import read_stat
from tests.workload import sleeping, wait_until

TIME_FOR_ALL_S = 600.0


@pytest.fixture(autouse=True)
def time_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs of the machine may have thousands of processes."""
    monkeypatch.setattr(file_locks, "MOST_CPU_S", TIME_FOR_ALL_S)


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


@contextmanager
def opened(path: Path, does: str = "") -> Iterator[int]:
    """A process that has a file open, and has done this with it; its PID."""
    script = f"{OPENS} {does} print(flush=True); time.sleep(600)"
    words = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty file."""
    path = tmp_path / "file"
    path.touch()
    return path


# struct flock of fcntl(2).
OFD = "fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0));"


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
def test_lock_of_another_process_on_an_open_file(lock: str, is_known: bool, path: Path) -> None:
    with opened(path, lock) as holder, opened(path) as process:
        found = polled_lock(process, KINDS)
        own = polled_lock(holder, KINDS)
    owner = (str(path), holder, False)
    assert (found and (found.path, found.owner.pid, found.owner.shared)) == (
        owner if is_known else None
    )
    assert own is None


def test_lock_of_a_parent_on_an_inherited_file_is_not_polled(tmp_path: Path) -> None:
    with (tmp_path / "pid").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with sleeping(pass_fds=(file.fileno(),)) as daemon:
            found = polled_lock(daemon.pid, KINDS)
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
    other: str, kinds: tuple[str, ...], path: Path
) -> None:
    with (
        opened(path, "fcntl.flock(file, fcntl.LOCK_EX);"),
        opened(path, other),
        opened(path) as process,
    ):
        assert polled_lock(process, kinds) is None


def test_open_file_that_several_have_is_nobodys(path: Path) -> None:
    """Any of them may have locked it; the other has it from its parent."""
    with opened(path, f"{OFD} os.fork();"), opened(path) as process:
        assert polled_lock(process, KINDS) is None


@pytest.mark.parametrize("limit", ["MOST_CPU_S", "MOST_LIST_BYTES"])
def test_more_locks_than_there_is_time_for_have_no_owner(
    limit: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with path.open("w") as file, opened(path) as process:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(file_locks, limit, 0)
        assert polled_lock(process, KINDS) is None


def test_owner_with_more_files_than_there_is_time_for_is_not_known(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are open have their locks one by one; time is up at those of the owner."""
    thread_time, is_late = time.thread_time, False

    def links_of(pid: int) -> Iterator[tuple[str, str]]:
        nonlocal is_late
        is_late = is_late or pid == holder
        return links(pid)

    monkeypatch.setattr(file_locks, "links", links_of)
    late_s = 2 * TIME_FOR_ALL_S
    monkeypatch.setattr(time, "thread_time", lambda: thread_time() + is_late * late_s)
    with opened(path, OFD) as holder, opened(path) as process:
        assert polled_lock(process, KINDS) is None


@contextmanager
def inherited(path: Path, *, related: bool) -> Iterator[list[int]]:
    """Two processes that have a locked file of one that has ended; their PIDs.

    If they are related, one is the other's child.
    """
    holders: list[int] = []
    # Not waited for: init, or whoever stands for it, is to be their parent.
    forks = "if not os.fork(): os.fork();" if related else "if not os.fork() or not os.fork():"
    script = f"{forks} os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
    words = [sys.executable, "-c", f"{OPENS} fcntl.flock(file, 2)\n{script}", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            holders += (int(process.stdout.readline()) for _ in range(2))
            process.wait()
            yield holders
        finally:
            for pid in holders:
                os.kill(pid, signal.SIGKILL)


WAITS = "print(flush=True); fcntl.flock(file, fcntl.LOCK_EX);"


POSIX_WAITS = "print(flush=True); fcntl.lockf(file, fcntl.LOCK_EX);"
OFD_WAITS = f"print(flush=True); {OFD.replace('37', '38')}"


def ofd(first: int, length: int, command: int = 37) -> str:
    """Lock so many bytes from one on."""
    lock = f"struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, {first}, {length}, 0)"
    return f"fcntl.fcntl(file, {command}, {lock});"


@pytest.mark.parametrize("waits", [OFD_WAITS, POSIX_WAITS])
def test_lock_of_an_open_file_that_one_waits_for_has_its_owner(
    waits: str, path: Path, tmp_path: Path
) -> None:
    """Neither has a PID in /proc/locks; who waits by fcntl(2) has."""
    other = tmp_path / "other"
    other.touch()
    with opened(path, OFD) as owner, opened(path, waits) as waiter, opened(other, OFD):
        wait_until(lambda: bool(lock_owners(waiter)))
        found, first, free = lock_owners(waiter), lock_owner(waiter), lock_owners(owner)
        without_file = lock_owners(waiter, 999)
    assert [pid for _, pid in found] == [owner]
    assert without_file == found
    assert first is not None
    assert (first.pid, first.shared) == (owner, False)
    assert free == []


def test_all_who_have_parts_of_what_is_awaited_own_it(path: Path) -> None:
    with (
        opened(path, ofd(0, 10)) as one,
        opened(path, ofd(20, 10)) as another,
        opened(path, ofd(50, 10)),
        opened(path, f"print(flush=True); {ofd(0, 40, 38)}") as waiter,
    ):
        wait_until(lambda: bool(lock_owners(waiter)))
        found = {pid for _, pid in lock_owners(waiter)}
    assert found == {one, another}


OPENS_ANOTHER = "other = open(sys.argv[1] + 2 * 'x', 'r+');"


@pytest.mark.parametrize("own", [OFD_WAITS, POSIX_WAITS])
def test_waits_of_others_on_its_other_files_are_not_its_own(own: str, path: Path) -> None:
    """By the descriptor of its call it is known which it waits for, and else it is not."""
    other = path.with_name(path.name + "xx")
    other.touch()
    with (
        opened(path, OFD) as owner,
        opened(other, OFD),
        opened(other, OFD_WAITS) as bystander,
        opened(path, OPENS_ANOTHER + own) as waiter,
    ):
        wait_until(lambda: bool(lock_owners(bystander)))
        wait_until(lambda: bool(lock_owners(waiter, 3)))
        found, first, unsure = lock_owners(waiter, 3), lock_owner(waiter), lock_owners(waiter)
    assert [pid for _, pid in found] == [owner]
    assert first is None
    assert unsure == []


def test_inherited_lock_is_that_of_all_who_have_the_file(path: Path) -> None:
    with inherited(path, related=False) as holders, opened(path, WAITS) as waiter:
        wait_until(lambda: bool(lock_owners(waiter)))
        found, first = lock_owners(waiter), lock_owner(waiter)
    assert sorted(pid for _, pid in found) == sorted(holders)
    assert first is not None
    assert (first.comm, first.pid, first.shared) == (*found[0], True)


def test_inherited_lock_is_the_parents_if_that_has_it_too(path: Path) -> None:
    """As of a shell whose `flock 9` took the lock, and that waits for another child."""
    with inherited(path, related=True) as holders, opened(path, WAITS) as waiter:
        wait_until(lambda: bool(lock_owners(waiter)))
        found, first = lock_owners(waiter), lock_owner(waiter)
        (child,) = (pid for pid in holders if read_stat(pid).parent in holders)
    assert sorted(pid for _, pid in found) == sorted(holders)
    assert first is not None
    assert first.pid != child
    assert not first.shared


def test_who_took_a_lock_and_has_it_is_its_owner(path: Path) -> None:
    """A child that has the file too need not know of it."""
    with opened(path, "fcntl.flock(file, 2); os.fork();") as holder, opened(path, WAITS) as waiter:
        wait_until(lambda: len(lock_owners(waiter)) == 2)
        found, first = lock_owners(waiter), lock_owner(waiter)
    assert found[0][1] == holder
    assert first is not None
    assert (first.pid, first.shared) == (holder, False)


def test_reader_keeps_a_writer_from_its_file(path: Path) -> None:
    with (
        opened(path, "fcntl.lockf(file, fcntl.LOCK_SH, 10, 0);") as reader,
        opened(path, "fcntl.lockf(file, fcntl.LOCK_EX, 1, 20);") as writer,
    ):
        found = polled_lock(writer, KINDS)
    assert found is not None
    assert found.owner.pid == reader
