"""Files of a process that are on a FUSE file system whose server answers, or does not any more."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fuse_files import serve
from tests.fuse_processes import output_of, served
from tests.workload import wait_until

# A function that no symbol table for others has: only the file names it.
SOURCE = """
#include <unistd.h>
__attribute__((noinline)) static int waits_for_ever(void)
{
    int result;
    for (;;) { result = usleep(20000); __asm__ volatile("" ::: "memory"); }
    return result + 1;
}
int main(void) { return waits_for_ever(); }
"""

REMARK = "files of the process that are on a FUSE file system are not read"

COMMANDS = [
    ("where",),
    ("capture", "--sample-time", "0.2", "-s"),
]


class Running(NamedTuple):
    """A process whose program is on a FUSE file system, and the server of that."""

    pid: int
    server: int


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(SOURCE)
    compiler = shutil.which("gcc")
    assert compiler, "gcc is not installed: setup/packages-build.txt has it"
    words = [compiler, "-O1", "-g", "-fno-omit-frame-pointer", "program.c", "-o", "program"]
    subprocess.run(words, check=True, cwd=folder)
    return (folder / "program").read_bytes()


@pytest.fixture
def running(program: bytes, tmp_path: Path) -> Iterator[Running]:
    folder = tmp_path / "served"
    folder.mkdir()

    def use(_: int) -> None:
        os.execv(folder / "program", ["program"])

    with served(folder, lambda fd: serve(fd, {"program": program}), use) as found:
        comm = Path(f"/proc/{found.client}/comm")
        wait_until(lambda: comm.read_text() == "program\n", "that it runs")
        yield Running(found.client, found.server)


def run(*words: object, codes: Collection[int] = (os.EX_OK,)) -> str:
    said = output_of(sys.executable, "-m", "kernel_delay", *words, codes=codes)
    return said.replace("\n# ", " ").replace("\n", " ")


@pytest.mark.parametrize("options", COMMANDS)
def test_program_whose_server_answers_keeps_its_names(
    running: Running, options: Sequence[str]
) -> None:
    said = run(*options, "-p", running.pid)
    assert "waits_for_ever" in said
    assert REMARK not in said


@pytest.mark.parametrize("options", COMMANDS)
def test_program_whose_server_is_stopped_costs_names_alone(
    running: Running, options: Sequence[str]
) -> None:
    os.kill(running.server, signal.SIGSTOP)
    said = run(*options, "-p", running.pid)
    assert f"{REMARK}, and names may be missing: a read took longer than 2 s" in said
    assert "waits_for_ever" not in said


TRIGGER = ("capture", "--sample-time", "0.2", "--start-trigger", "up:waits_for_ever")


def test_probes_of_a_program_whose_server_answers_are_listed(running: Running) -> None:
    assert "waits_for_ever" in run("probes", "-p", running.pid, "--functions", "waits*")


def test_probe_is_not_put_into_a_program_of_a_server(running: Running) -> None:
    """The kernel would read the program, and wait."""
    said = run(*TRIGGER, "-p", running.pid, codes=(os.EX_UNAVAILABLE,))
    assert "it is on a FUSE file system, whose server may not answer" in said


@pytest.mark.parametrize("options", [TRIGGER, ("probes",)])
def test_probes_of_a_program_whose_server_is_stopped_are_not_known(
    running: Running, options: Sequence[str]
) -> None:
    os.kill(running.server, signal.SIGSTOP)
    said = run(*options, "-p", running.pid, codes=(os.EX_NOINPUT,))
    assert "it is on a FUSE file system, and a read took longer than 2 s" in said


CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18


def bind_at_tmp(folder: Path) -> None:
    """Have the files in /tmp, where a perf map is looked for."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
    assert libc.mount(os.fsencode(folder), b"/tmp", None, MS_BIND, None) == 0


@pytest.mark.parametrize("options", COMMANDS)
@pytest.mark.parametrize("become", [bind_at_tmp, os.chroot], ids=["perf map", "root"])
def test_folder_whose_server_is_stopped_keeps_nobody(
    become: Callable[[Path], None], options: Sequence[str], tmp_path: Path
) -> None:
    def use(ready: int) -> None:
        become(tmp_path)
        os.write(ready, b"\0")
        while True:
            signal.pause()

    with served(tmp_path, lambda fd: serve(fd, {}), use) as found:
        assert os.read(found.written, 1) == b"\0"
        os.kill(found.server, signal.SIGSTOP)
        assert REMARK in run(*options, "-p", found.client)
