"""Memory of other processes: read by a process that is abandoned if it does not answer."""

import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.host import abandonable
from kernel_delay.host.process_memory import READERS, MemoryFile, Patience
from kernel_delay.symbols.memory import PAGE_BYTES, Pages
from tests.fuse_mappings import mapped
from tests.workload import HANGS_S

# Its outputs are read to their end: the abandoned process must not have them.
READS = """
import os, sys
from pathlib import Path
from kernel_delay.host.process_memory import MemoryFile, Patience
pid, address = map(int, sys.argv[1:])
memory = MemoryFile(Path(f"/proc/{pid}"), Patience(print))
print(memory.read(address, 8))
print(memory.read(address, 8))
own = MemoryFile(Path("/proc/self"), Patience(print))
content = b"readable"
print(own.read(id(content) + sys.getsizeof(content) - 1 - len(content), len(content)))
"""

POLLED = """
import sys
from kernel_delay.host.open_files import watched_now
from kernel_delay.host.process_memory import Patience
pid = int(sys.argv[1])
print(watched_now(pid, pid, Patience(print)))
"""

LATE = "a read took longer than 2 s"


@pytest.fixture(autouse=True)
def no_reader() -> Iterator[None]:
    """Each test starts a process of its own, and ends it."""
    READERS.running.clear()
    yield
    for reader in READERS.running:
        reader.socket.close()
    READERS.running.clear()


def run(script: str, *arguments: object) -> list[str]:
    words = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(words, check=True, capture_output=True, timeout=HANGS_S)
    return done.stdout.decode().splitlines()


def test_memory_whose_server_does_not_answer_is_given_up() -> None:
    with mapped() as (pid, address):
        assert run(READS, pid, address) == [LATE, "b''", "b''", "b'readable'"]


def test_polled_array_whose_server_does_not_answer_is_not_known() -> None:
    with mapped(polls=True) as (pid, _):
        while Path(f"/proc/{pid}/syscall").read_text().split()[0] == "running":
            time.sleep(0.01)
        assert run(POLLED, pid) == [LATE, "[]"]


def test_reader_has_no_rights_and_no_outputs() -> None:
    memory = MemoryFile(Path("/proc/self"), Patience())
    assert READERS.running == []
    memory.read(4096, 1)
    (reader,) = READERS.running
    process = Path(f"/proc/{reader.pid}")
    files = {name: os.readlink(process / "fd" / name) for name in os.listdir(process / "fd")}
    assert files.pop("0").startswith("socket:")
    assert files == {"1": os.devnull, "2": os.devnull}
    status = dict(line.split(":\t") for line in (process / "status").read_text().splitlines())
    assert {status["CapEff"], status["CapPrm"]} == {"0" * 16}
    assert status["Seccomp"] == "2"
    assert os.getsid(reader.pid) == reader.pid
    memory.close()


def test_memory_is_read_where_it_is_mapped() -> None:
    lost: list[str] = []
    memory = MemoryFile(Path("/proc/self"), Patience(lost.append))
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as mapping:
        mapping.write(b"content")
        lines = Path("/proc/self/maps").read_text().splitlines()
        starts = [int(line.partition("-")[0], 16) for line in lines if "/dev/zero" in line]
        assert b"content" in [memory.read(start, 7) for start in starts]
    for address, size in ((0, 8), (-1, 8), (1 << 64, 8), ((1 << 63) - 1, 8), (4096, -1)):
        assert memory.read(address, size) == b""
    assert lost == []
    memory.close()


def test_reader_that_ended_costs_one_process_alone() -> None:
    lost: list[str] = []
    memory = MemoryFile(Path("/proc/self"), Patience(lost.append))
    memory.read(4096, 1)
    (reader,) = READERS.running
    os.kill(reader.pid, 9)
    os.waitid(os.P_PID, reader.pid, os.WEXITED | os.WNOWAIT)
    content = b"content"
    address = id(content) + sys.getsizeof(content) - 1 - len(content)
    assert memory.read(address, 7) == b""
    assert lost == ["what reads it has ended"]
    other = MemoryFile(Path("/proc/self"), Patience())
    assert other.read(address, 7) == content
    other.close()
    memory.close()


def test_so_many_readers_wait_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandonable, "MOST_ABANDONED", 0)
    lost: list[str] = []
    memory = MemoryFile(Path("/proc/self"), Patience(lost.append))
    assert memory.read(4096, 1) == b""
    assert lost == ["0 processes that read do not answer"]
    memory.close()


def test_page_is_read_once_until_it_is_forgotten() -> None:
    asked: list[tuple[int, int]] = []
    content = bytes(range(256)) * (3 * PAGE_BYTES // 256)

    def read(address: int, size: int) -> bytes:
        asked.append((address, size))
        return content[address : address + size]

    pages = Pages(read)
    for address, size in ((8, 8), (100, 200), (PAGE_BYTES - 4, 8), (PAGE_BYTES, 1)):
        assert pages.read(address, size) == content[address : address + size]
    assert asked == [(0, PAGE_BYTES), (PAGE_BYTES, PAGE_BYTES)]
    pages.forget()
    assert pages.read(8, 8) == content[8:16]
    assert len(asked) == 3
    # What has no whole page is read as it is asked for.
    assert pages.read(3 * PAGE_BYTES - 4, 8) == content[-4:]
    assert asked[-1] == (3 * PAGE_BYTES - 4, 8)


@pytest.mark.parametrize(
    ("does", "answers"),
    [("while time.process_time() < 0.5: pass", True), ("time.sleep(3600)", False)],
)
def test_who_has_no_cpu_is_waited_for_and_who_sleeps_is_not(does: str, answers: bool) -> None:
    ours, theirs = socket.socketpair()
    script = f"import os, time\nos.write(0, b'b')\n{does}\nos.write(0, b'x')\nwhile True: pass"
    words = [sys.executable, "-c", script]
    with ours, theirs, subprocess.Popen(words, stdin=theirs.fileno()) as process:
        reader = abandonable.Reader(process.pid, ours, os.getpid())
        assert ours.recv(1) == b"b"
        asked = abandonable.Asked(reader, time.monotonic() + HANGS_S, 0.01)
        if answers:
            assert asked.take(1) == b"x"
        else:
            with pytest.raises(TimeoutError):
                asked.take(1)
        process.kill()
