"""Files that are made to crash or hang what parses them, or to fill its memory: names are lost."""

import errno
import mmap
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import pytest

from kernel_delay.model import Sample
from kernel_delay.symbols import apart
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.frames import Stack
from kernel_delay.symbols.messages import HEADER, Named, Ranges, Rows, take_request
from tests.commands import run
from tests.event_captures import capture, event_plan, events_of, user_stack
from tests.integration.symbols import mapped
from tests.integration.symbols.call_chains import running
from tests.needs import needed
from tests.workload import Workload, wait_until

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the functions are assembled for x86-64"
)

BIAS = 0x7F00_0000_0000
SP = 0x7FFD_0000_0000
RIP, RSP = 16, 7
NOBODY = 65534

# A function that has nothing on the stack but where it returns to.
SOURCE = """
.cfi_sections {section}
.globl function
function:
.cfi_startproc
{cfi}
nop
nop
.cfi_endproc
"""

# Where libdw finds the information: by a table, by going through it, in the debug information.
PLACES = {
    "table": (".eh_frame", "-Wl,--eh-frame-hdr"),
    "no table": (".eh_frame", "-Wl,--no-eh-frame-hdr"),
    "debug": (".debug_frame", "-Wl,--no-eh-frame-hdr"),
}

# A rule for register 1,000,000: DWARF 5, 7.24. libdw has room for all registers below it then.
LARGE_STATE = ".cfi_escape 0x05, 0xc0, 0x84, 0x3d, 1"
MEMORY = f"{LARGE_STATE}\n.rept 1000\n.cfi_remember_state\n.endr"
TIME = f"{LARGE_STATE}\n.rept 60000\n.cfi_remember_state\n.cfi_restore_state\n.endr"

# DWARF 5, 7.7.1 and 7.24. Register 3, rbx, is of no use to find the caller.
HOSTILE = {
    "register": LARGE_STATE,
    "memory": MEMORY,
    "long": ".rept 40000\n.cfi_escape 0x0e, 8\n.endr",
    "long expression": ".cfi_escape 0x16, 3, 0x80, 0x04\n.rept 512\n.cfi_escape 0x30\n.endr",
    "loop": ".cfi_escape 0x16, 3, 3, 0x2f, 0xfd, 0xff",
    "cfa of the cfa": ".cfi_escape 0x16, 3, 1, 0x9c",
    # Where libdwfl 0.188 crashes: DW_OP_breg7 8, DW_OP_lit0, DW_OP_deref_size 8, …
    "deref_size": ".cfi_escape 0x0f, 7, 0x77, 8, 0x77, 0, 0x94, 8, 0x13",
}

# It makes so many calls in a function that has the same: once, or again and again.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__asm__(".text\\n.globl hostile\\nhostile:\\n.cfi_startproc\\n{cfi}\\nmov $110, %eax\\n"
	"syscall\\nret\\n.cfi_endproc\\n");
void hostile(void);
int main(int argc, char **argv)
{
	char line[8];
	puts("ready");
	fflush(stdout);
	do {
		if (argc == 2 && !fgets(line, sizeof(line), stdin))
			return 0;
		for (int left = atoi(argv[1]); left; left--)
			hostile();
	} while (argc > 2 && !usleep(1000));
	return 0;
}
"""
CALLS = 100


def assembled(folder: Path, cfi: str, place: str) -> Path:
    section, option = PLACES[place]
    source, file = folder / "function.s", folder / "function.so"
    source.write_text(SOURCE.format(section=section, cfi=cfi))
    flags = ("-nostdlib", "-shared", "-Wl,--build-id", option)
    subprocess.run([needed("gcc"), *flags, str(source), "-o", str(file)], check=True)
    return file


@contextmanager
def apart_with(file: Path, bounds: Bounds) -> Iterator[tuple[apart.AddressSpaceApart, int]]:
    """What a process has that has the file mapped; and an address in its function."""
    out = subprocess.run(["nm", file], check=True, capture_output=True, text=True).stdout
    start = next(int(line.split()[0], 16) for line in out.splitlines() if "function" in line)
    found = mapped.object_of(file, BIAS, "/function.so")
    space = apart.AddressSpaceApart(mapped.image_of(found, bounds=bounds))
    try:
        yield space, BIAS + start + 1
    finally:
        space.close()
        os.close(found.fd)


def unwound(file: Path, calls: int) -> tuple[int, str, tuple[str, ...]]:
    """How many frames there are of so many calls, why the stack ends, and what is remarked."""
    bounds = Bounds()
    with apart_with(file, bounds) as (space, inside):
        registers = [0] * 17
        registers[RSP], registers[RIP] = SP, inside
        stack = struct.pack(f"<{calls}Q", *[inside] * (calls - 1), 0)
        (got,) = space.unwind([(tuple(registers), stack, SP, 0)])
        assert set(got.pcs) == {inside}
        (frames,) = space.frames([got])
        assert {frame.object for frame in frames} == {"/function.so"}
    return len(got.pcs), got.end, bounds.take_remarks()


def parsers() -> int:
    """The process that forks for each address space."""
    apart.start_parsers()
    found: list[int] = []

    def look() -> bool:
        # It has no arguments yet for a moment after posix_spawn(3).
        found[:] = (
            pid
            for pid in children(os.getpid())
            if b"kernel_delay.symbols.parser" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        return bool(found)

    wait_until(look, "the process that forks for each address space")
    return found[0]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("place", PLACES)
def test_what_compilers_write_is_followed(place: str, tmp_path: Path) -> None:
    cfi = ".cfi_remember_state\n.cfi_restore_state\n.cfi_escape 0x16, 3, 2, 0x77, 0"
    assert unwound(assembled(tmp_path, cfi, place), 900) == (900, "whole", ())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_cost_names_alone(name: str, place: str, tmp_path: Path) -> None:
    frames, end, remarks = unwound(assembled(tmp_path, HOSTILE[name], place), 3)
    if remarks:
        assert (frames, end) == (1, "lost")
        assert remarks == (
            "functions of process 1 have no names, and stacks may end early:"
            " what finds them has crashed, or was out of memory",
        )
    else:
        assert (frames, end) in ((3, "whole"), (1, "lost"))


def test_a_file_that_takes_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "ANSWERS_S", 0.5)
    frames, end, remarks = unwound(assembled(tmp_path, TIME, "table"), 3)
    assert (frames, end) == (1, "lost")
    assert remarks[0].endswith("finding them took too long")


def test_the_parser_has_no_rights(tmp_path: Path, root_user: None) -> None:
    file = assembled(tmp_path, "", "table")
    first = parsers()
    before = set(children(first))
    with apart_with(file, Bounds()) as (space, inside):
        assert space.frames([Stack((inside,), (True,), "whole")])[0][0].name == "function"
        (pid,) = set(children(first)) - before
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert status["Uid"].split() == [str(NOBODY)] * 4
        assert status["Gid"].split() == [str(NOBODY)] * 4
        assert status["Groups"].strip() == ""
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        soft = {line[:26].strip(): line[26:47].strip() for line in limits}
        assert int(soft["Max address space"]) < 2 << 30
        assert soft["Max cpu time"] == "3600"
        opened = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
        opened -= {"/dev/null", str(file), "/memfd:stacks (deleted)"}
        assert {name.partition(":")[0] for name in opened} == {"socket"}, opened
    wait_until(lambda: pid not in children(first), "the end of the parser")


REFUSED = """
import os, socket
from kernel_delay.host import privileges
from kernel_delay.symbols import parser
ours, theirs = socket.socketpair()
if not os.fork():
    parser._drop_rights(theirs)
    privileges.keep_nothing(parser.CALLS)
    for act in (
        lambda: open("/etc/passwd"), lambda: open("/tmp/made", "w"), lambda: socket.socket(),
        lambda: os.fork(), lambda: os.execv("/bin/true", ["true"]), lambda: os.kill(1, 0),
        lambda: os.setresuid(0, 0, 0), lambda: os.memfd_create("memory"),
    ):
        try:
            act()
        except OSError as error:
            theirs.send(b"%d " % error.errno)
        else:
            theirs.send(b"done ")
    os._exit(0)
theirs.close()
print(ours.makefile().read())
"""


def test_the_parser_can_open_and_start_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, check=True)
    assert done.stdout.split() == [b"1"] * 8


def refused() -> AbstractContextManager[object]:
    errors = (errno.EBADF, errno.EACCES, errno.EPERM, errno.EINVAL)
    return pytest.raises(OSError, match=rf"^\[Errno ({'|'.join(map(str, errors))})\]")


def test_the_parser_can_only_read_copies() -> None:
    copies, memory = apart._shared_memory()
    memory[:5] = b"stack"
    assert os.pread(copies, 5, 0) == b"stack"
    again = os.open(f"/proc/self/fd/{copies}", os.O_RDWR)
    for descriptor in (copies, again):
        with refused():
            os.write(descriptor, b"other")
        with refused():
            os.ftruncate(descriptor, 0)
        with refused():
            mmap.mmap(descriptor, mmap.PAGESIZE)
        os.close(descriptor)


LIES: list[tuple[object, ...]] = [
    ("unwind", (Stack((1, 2), (True,), "whole"), [])),
    ("unwind", (["whole"], [])),
    ("unwind", (Stack((1,), (True,), "whole"), [b"bytes"])),
    ("frames", (Named([7], []), [])),
    ("large_frames", ([(-1, 2, 3, 4)], [])),
    ("large_frames", ([(1, 2, 1 << 40, 4)], [])),
    ("unwind_ranges", (Ranges([(-1, 2, None)], []), [])),
    ("unwind_ranges", (Ranges([(1, 2, 1)], [Rows(1, 0, b"short", b"")]), [])),
]


@pytest.mark.parametrize(("what", "lie"), LIES)
def test_nonsense_is_not_believed(
    what: str, lie: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of code that has got hold of the other process."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(apart, "start_parsers", lambda: None)
    monkeypatch.setattr(apart, "_parsers", [ours])

    def answer() -> None:
        with socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0]) as asked:
            for content in ((None, []), lie):
                _, files = take_request(asked)
                for file in files:
                    os.close(file)
                encoded = msgspec.msgpack.encode(content)
                asked.sendall(HEADER.pack(len(encoded), 0) + encoded)

    thread = threading.Thread(target=answer)
    thread.start()
    bounds = Bounds()
    with apart_with(assembled(tmp_path, "", "table"), bounds) as (space, inside):
        stack = Stack((inside,), (True,), "whole")
        if what == "unwind":
            registers = (*[0] * 16, inside)
            assert space.unwind([(registers, b"", SP, 0)]) == [Stack((inside,), (True,), "lost")]
        elif what == "frames":
            assert space.frames([stack])[0][0].name is None
        else:
            assert not getattr(space, what)(*(4096, 8)[what == "unwind_ranges" :])
    thread.join()
    assert bounds.take_remarks()[0].endswith("what finds them has answered nonsense")
    for end in (ours, theirs):
        end.close()


def calls_of(sample: Sample, name: str) -> int:
    calls = (call for thread in sample.threads for call in thread.syscalls)
    return sum(call.count for call in calls if call.name == name)


def test_a_crash_while_measuring_costs_no_figure(call_chain: Path) -> None:
    found = []
    for crashes in (False, True):
        with running([call_chain, "recursion"]) as chain:
            chain.wait_for_read()
            known = set(children(parsers()))

            def act(crashes: bool = crashes, known: set[int] = known) -> None:
                for pid in set(children(parsers())) - known if crashes else ():
                    os.kill(pid, signal.SIGSEGV)
                chain.go_on()

            sample = capture(chain.process.pid, event_plan("getppid"), act)
            (event,) = (event for event in events_of(sample) if event.tid == chain.tid)
            found.append((calls_of(sample, "getppid"), user_stack(sample, event)))
    (whole, named), (crashed, nameless) = found
    assert whole == crashed
    assert named[0].name is not None
    assert {frame.name for frame in nameless} == {None}
    assert nameless[0].object == named[0].object


def hostile_program(folder: Path, cfi: str) -> Path:
    source, program = folder / "program.c", folder / "program"
    source.write_text(PROGRAM.replace("{cfi}", cfi.replace("\n", "\\n")))
    subprocess.run([needed("gcc"), source, "-o", program], check=True)
    return program


@pytest.mark.parametrize("name", ["deref_size", "time"])
def test_calls_of_a_hostile_program_are_exact(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "ANSWERS_S", 2)
    # The kernel doesn't know the rule for the CFA, so that the stack is copied.
    cfi = HOSTILE.get(name, f".cfi_escape 0x0f, 2, 0x77, 8\n{TIME}")
    workload = Workload([hostile_program(tmp_path, cfi), CALLS])
    try:
        sample = capture(workload.pid, event_plan("getppid"), workload.send)
    finally:
        workload.kill()
    events = events_of(sample)
    assert len(events) == calls_of(sample, "getppid") == CALLS
    assert {len(user_stack(sample, event)) for event in events} == {1}


def test_a_crash_is_one_line_and_no_error(tmp_path: Path) -> None:
    workload = Workload([hostile_program(tmp_path, HOSTILE["deref_size"]), CALLS, "again"])
    try:
        done = run("--pid", workload.pid, "-s", "--sample-time", "1")
    finally:
        workload.kill()
    assert done.returncode == 0
    assert "getppid" in done.stdout
    lines = [line for line in done.stderr.splitlines() if "no names" in line]
    # Where libdw has that defect.
    assert [line.partition("early: ")[2] for line in lines] in (
        [],
        ["what finds them has crashed, or was out of memory"],
    )


def test_what_parses_says_nothing_on_stderr(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho 'ImportError: no memory' >&2\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(apart, "_parsers", [])
    apart.start_parsers()
    wait_until(lambda: apart._is_closed(apart._parsers[0]), "the end of the parser")
    assert capfd.readouterr().err == ""
