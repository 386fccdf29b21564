"""Processes that are made to mislead, to hold up or to fill whoever looks at them."""

import mmap
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel_delay.host.stored_files import Root, open_stored
from kernel_delay.probes.objects import process_objects
from kernel_delay.symbols import AddressSpace, ProcessImage, address_space
from kernel_delay.symbols.bounds import HELD_BYTES, MAX_OBJECTS, Bounds
from kernel_delay.symbols.debug_files import find_debug_files
from kernel_delay.symbols.elf import FILE_BYTES, Elf, read_elf
from kernel_delay.symbols.mappings import read_mappings
from kernel_delay.symbols.memory import ProcessMemory
from tests.integration.symbols import call_chains

# What shared memory without a file is called in maps.
ZERO = "/dev/zero"


# What takes longer is not linear: it takes less than a second.
LIMIT_S = 100.0

# Of code in the first page, which is mapped here.
FLAGS = ("-g", "-Wl,--build-id=none", "-Wl,-z,noseparate-code")

# Maps a file's code as often as told, next to each other or with gaps; mmap(2), mprotect(2).
MAPPER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
path, count, how = os.fsencode(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
page, file = os.sysconf("SC_PAGESIZE"), os.open(path, os.O_RDONLY)
if how == "overwritten":
    start = libc.mmap(None, page, 7, 2, file, 0)
    build_id = ctypes.string_at(start, page).index(b"GNU\\0", 4) + 4
    ctypes.memset(start + build_id, 0x41, 20)
    assert libc.mprotect(start, page, 5) == 0
elif how == "again":
    for _ in range(count):
        assert libc.mmap(None, page, 5, 2, file, 0) != 2**64 - 1, os.strerror(ctypes.get_errno())
        assert libc.mmap(None, page, 0, 0x22, -1, 0) != 2**64 - 1
else:
    start = libc.mmap(None, 2 * count * page, 5, 2, file, 0)
    for at in range(count):
        assert libc.mprotect(start + 2 * at * page, page, 1) == 0
print("mapped", flush=True)
time.sleep(600)
"""


@contextmanager
def running(*arguments: object) -> Iterator[int]:
    words = [str(argument) for argument in arguments]
    with subprocess.Popen([sys.executable, "-c", *words], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"mapped\n"
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """An ELF file without a build-id, whose debug file is found by its link."""
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }\n")
    file = tmp_path / "program"
    link = tmp_path / "program.debug"
    compiler = shutil.which("gcc")
    assert compiler, "gcc is not installed: setup/packages-build.txt has it"
    subprocess.run([compiler, *FLAGS, source, "-o", file], check=True)
    shutil.copy(file, link)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={link}", file], check=True)
    return file


def test_a_path_that_would_end_a_line(tmp_path: Path, program: Path) -> None:
    """Python's text files end lines at a carriage return, too."""
    name = "a\r7f0000000000-7f0000001000 r-xp 00000000 fe:00 7 \x1b[2Jb\udcff"
    path = program.rename(tmp_path / name)
    with running(MAPPER, path, 1, "again") as pid:
        with ProcessImage(pid) as image:
            assert str(path) in {found.code.path for found in image.objects}
            assert len(image.latest) == len(read_mappings(Path(f"/proc/{pid}")))
        printed = os.fsencode(path).decode(errors="backslashreplace")
        assert printed in {found.name for found in process_objects(pid)}
        command = [sys.executable, "-m", "kernel_delay", "probes", "-p", str(pid)]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S)
        assert done.returncode == 0
        assert b"\r" not in done.stdout
        assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("how", [pytest.param("again", marks=pytest.mark.long), "in pieces"])
def test_many_mappings_of_code(program: Path, how: str) -> None:
    """Bounded, and in time that grows as their number."""
    count = 30_000 if how == "in pieces" else 15_000
    with running(MAPPER, program, count, how) as pid:
        script = (
            "import sys; from kernel_delay.symbols import AddressSpace, ProcessImage\n"
            "image = ProcessImage(int(sys.argv[1])); space = AddressSpace(image)\n"
            "for mapping in image.mappings[:2000]: space.symbolise(mapping.start)\n"
            "print(len(image.mappings), len(image.objects), *image.bounds.take_remarks())"
        )
        command = ["prlimit", "--nofile=20000", sys.executable, "-c", script, str(pid)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S)
    mappings, objects, *remarks = done.stdout.decode().split(maxsplit=2)
    assert int(mappings) >= count
    if how == "again":
        assert int(objects) == MAX_OBJECTS
        assert remarks[0].startswith(f"more than {MAX_OBJECTS} files are mapped as code")
    else:
        assert int(objects) < 100
        assert remarks == []


def find(program: Path, bounds: Bounds) -> Sequence[object]:
    with program.open("rb") as file:
        elf = read_elf(file.fileno())
    assert isinstance(elf, Elf)
    assert elf.debug_link
    root = Root(Path("/"))
    try:
        found = find_debug_files(elf, str(program), [root], bounds)
    finally:
        root.close()
    if found:
        found.close()
    return (found and found.path, *bounds.take_remarks())


@pytest.mark.parametrize("size", [1 << 41, FILE_BYTES // 2])
def test_a_debug_file_without_end(program: Path, size: int) -> None:
    """It is not read for its checksum, however little of it there is on the disk."""
    debug = program.with_suffix(".debug")
    assert find(program, Bounds()) == (str(debug),)
    try:
        os.truncate(debug, size)
    except OSError as error:
        pytest.skip(f"the file system has no files of this size: {error.strerror}")
    path, remark = find(program, Bounds())
    assert path is None
    assert str(remark).startswith(f"{debug} is not used: it ")


def test_a_checksum_that_takes_too_long(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_delay.symbols.bounds.CHECKED_NS", 0)
    path, remark = find(program, Bounds())
    assert path is None
    assert "not used" in str(remark)


def test_a_debug_file_that_is_none(program: Path) -> None:
    """What opens a FIFO for reading lets go who would write to it."""
    fifo = program.with_suffix(".debug")
    fifo.unlink()
    os.mkfifo(fifo)
    opened = threading.Event()

    def write() -> None:
        os.close(os.open(fifo, os.O_WRONLY))
        opened.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    state = Path(f"/proc/self/task/{writer.native_id}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.001)
    try:
        assert find(program, Bounds()) == (None,)
        with pytest.raises(OSError, match="not a file with content"):
            open_stored(fifo)
        assert not opened.wait(0.2)
    finally:
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        writer.join()


@pytest.mark.parametrize("path", ["/dev/null", "/proc/kmsg", "/sys/kernel/uevent_seqnum", "/tmp"])
def test_what_acts_when_it_is_read_is_not_opened(path: str) -> None:
    if not os.path.exists(path):
        pytest.skip(f"there is no {path} here")
    with pytest.raises(OSError, match="not a file with content"):
        open_stored(path)
    root = Root(Path("/"))
    try:
        assert root.open(path) is None
    finally:
        root.close()


def test_copies_of_code_are_bounded_in_all() -> None:
    """5 files of 400 MiB made 2 GB of copies."""
    part = HELD_BYTES // 2 + mmap.PAGESIZE
    with mmap.mmap(-1, part) as memory:
        memory.write(b"\x7fELF")
        of_self = read_mappings(Path("/proc/self"))
        mapped = [one for one in of_self if (one.end - one.start, one.path) == (part, ZERO)]
        assert len(mapped) == 1
        bounds = Bounds()
        own = ProcessMemory(Path("/proc/self"), bounds)
        try:
            copy = own.copy_object(mapped)
            assert copy is not None
            status = os.fstat(copy)
            assert stat.S_ISREG(status.st_mode)
            # Of what is zero there is nothing.
            assert status.st_blocks * 512 <= 2 << 20
            os.close(copy)
            bounds.held_bytes += part
            assert own.copy_object(mapped) is None
            assert "too large to be copied" in bounds.take_remarks()[0]
        finally:
            own.close()


TRUNCATED = """
import os, signal, sys
from kernel_delay.symbols._libdw import ffi, lib
dwfl = lib.modules_begin()
if sys.argv[2] == "unprotected":
    signal.signal(signal.SIGBUS, signal.SIG_DFL)
file = os.open(sys.argv[1], os.O_RDWR)
module = lib.modules_add(dwfl, b"file", os.dup(file), 0)
lib.modules_reported(dwfl)
os.ftruncate(file, 1)
lib.dwfl_module_getsymtab(module)
name = lib.dwfl_module_addrinfo(
    module, 0x1234, ffi.new("GElf_Off *"), ffi.new("GElf_Sym *"), *[ffi.NULL] * 3
)
print("outlived")
"""


@pytest.mark.parametrize("how", ["unprotected", "protected"])
def test_a_file_that_is_truncated_while_it_is_read(program: Path, how: str) -> None:
    command = [sys.executable, "-c", TRUNCATED, str(program), how]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT_S)
    if how == "unprotected":
        assert done.returncode == -signal.SIGBUS
    else:
        assert (done.returncode, done.stdout) == (0, b"outlived\n")


def test_a_process_whose_headers_in_memory_are_overwritten(program: Path) -> None:
    """Its file says what it is, if that can be reached."""
    flags = ("-Wl,--build-id", "-Wl,-z,noseparate-code")
    source = program.with_suffix(".c")
    subprocess.run(["gcc", *flags, source, "-o", program], check=True)
    with running(MAPPER, program, 1, "overwritten") as pid, ProcessImage(pid) as image:
        found = next(found for found in image.objects if found.code.path == str(program))
        assert (found.state, found.copied) == ("", 0)
        assert found.build_id
        assert found.build_id != b"A" * 20


def test_the_search_for_large_frames_ends(
    call_chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with call_chains.running([call_chain, "recursion"]) as run:
        run.wait_for_read()
        image = ProcessImage(run.process.pid)
        space = AddressSpace(image)
        assert space.large_frames(16, 8)
        assert image.bounds.take_remarks() == ()
        monkeypatch.setattr(address_space, "FRAMES_NS", 0)
        assert space.large_frames(16, 8) == []
        assert image.bounds.take_remarks() == (
            "the frames of some functions are copied whole: telling the large ones takes too long",
        )
        space.close()
        image.close()
