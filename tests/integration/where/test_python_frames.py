"""`kernel-delay where` of CPython: its frames are those that the program itself finds."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kernel_delay.where import ThreadPosition, UserFrame, Where
from kernel_delay.where.look import NO_REGISTERS
from tests import commands
from tests.debian import bare_root
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

NAMES = (sys.executable, "/usr/bin/python3.11", "python3.12", "python3.13", "python3.14")


def version_of(program: str) -> str:
    """Its hexadecimal version; "" of a name in the place of a version that is not in use."""
    command = [program, "-S", "-c", "import sys; print(f'{sys.hexversion:08x}')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# Those of the versions whose frames are known that are installed.
VERSIONS = {program: version_of(program) for program in filter(None, map(shutil.which, NAMES))}
INTERPRETERS = tuple(program for program, version in VERSIONS.items() if version)

# Each thread's frames: the qualified name, the file and the line, the innermost first.
OWN_FRAMES = """
import json, sys, threading, time

def own_frames(frame):
    while frame is not None:
        code = frame.f_code
        yield code.co_qualname, code.co_filename, frame.f_lineno
        frame = frame.f_back

def print_frames():
    while True:
        frames = sys._current_frames()
        found = {
            thread.native_id: list(own_frames(frames[thread.ident]))
            for thread in threading.enumerate()
            if thread is not threading.current_thread()
        }
        if all("asleep" in stack[0][0] for stack in found.values()):
            print(json.dumps(found), flush=True)
            return
        time.sleep(0.01)

def start_printing():
    threading.Thread(target=print_frames).start()
"""

# Calls in C between those of Python: sorted(), map() and a generator, and a class.
ASLEEP = f"""{OWN_FRAMES}
class Asleep:
    def __init__(self, number):
        # By then the interpreter has specialised the call.
        if number == 99:
            asleep_in_call(
                600)

def asleep_in_call(seconds):
    time.sleep(
        seconds)

def key(item):
    def inner():
        return [Asleep(number) for number in range(100)]
    return inner()

def generator():
    yield sorted([1], key=key)

def middle():
    return list(
        map(lambda one: next(one), [generator()]))

start_printing()
middle()
"""

THREADS = f"""{OWN_FRAMES}
def asleep_first():
    time.sleep(600)

def before_asleep():
    sorted([1], key=lambda _: before_asleep_again())

def before_asleep_again():
    asleep_first()

class Named(threading.Thread):
    def run(self):
        before_asleep()

Named().start()
threading.Thread(target=asleep_first).start()
threading.Thread(target=lambda: asleep_first()).start()
start_printing()
asleep_first()
"""

FILE_NAME = "skript_\N{LATIN SMALL LETTER E WITH ACUTE}_\N{GREEK SMALL LETTER LAMDA}.py"

BUSY = """
def step(number):
    return number + 1

def spin():
    number = 0
    while True:
        number = step(number)

print("on", flush=True)
spin()
"""


@contextmanager
def script(
    interpreter: Sequence[str], file: Path, source: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run a program of Python's; it is there when it has printed a line."""
    file.write_text(source)
    command = [*interpreter, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def where(pid: int) -> dict[int, ThreadPosition]:
    done = commands.run("where", "-p", pid, "--json")
    assert done.returncode == os.EX_OK, done.stderr
    (process,) = msgspec.json.decode(done.stdout, type=Where).processes
    if NO_REGISTERS in process.remarks:
        pytest.skip(NO_REGISTERS)
    assert process.remarks == ()
    return {thread.tid: thread for thread in process.threads}


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def own_frames(process: "subprocess.Popen[str]") -> dict[int, list[tuple[str, str, int]]]:
    """What the program printed, when all of these threads are asleep."""
    found = {
        int(tid): [(function, file, line) for function, file, line in frames]
        for tid, frames in json.loads(first_line(process)).items()
    }
    wait_until(lambda: all(is_asleep(tid) for tid in found))
    return found


def is_asleep(tid: int) -> bool:
    return Path(f"/proc/{tid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def python_frames(thread: ThreadPosition) -> list[UserFrame]:
    return [frame for frame in thread.user if frame.language == "python"]


def named(thread: ThreadPosition) -> list[tuple[str | None, str | None, int]]:
    """As own_frames() has them."""
    return [
        (frame.name, frame.object, int((frame.source or "").rpartition(":")[2]))
        for frame in python_frames(thread)
    ]


def assert_frames_are_its_own(process: "subprocess.Popen[str]") -> dict[int, ThreadPosition]:
    own = own_frames(process)
    threads = where(process.pid)
    assert {tid: named(threads[tid]) for tid in own} == own
    for tid in own:
        thread = threads[tid]
        assert (thread.user_end, thread.remark) == ("whole", None)
        assert not [frame for frame in thread.user if frame.name == "_PyEval_EvalFrameDefault"]
    return threads


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_sleeping_thread_has_its_own_frames(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / FILE_NAME, ASLEEP) as process:
        threads = assert_frames_are_its_own(process)
        user = threads[process.pid].user
    functions = [frame.name for frame in user]
    between = user[functions.index("key") + 1 : functions.index("generator")]
    # Those of sorted(), which is C.
    assert between
    assert {frame.language for frame in between} == {None}


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_each_thread_has_its_own_frames(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "threads.py", THREADS) as process:
        own = own_frames(process)
        threads = where(process.pid)
    assert len(own) == 4
    assert {tid: named(threads[tid]) for tid in own} == own


@pytest.mark.parametrize("suite", ["trixie", "unstable"])
def test_other_debians_have_their_own_frames(suite: str) -> None:
    root = bare_root(suite, "python3-venv")
    enter = ["chroot", str(root), "python3", "-c", ASLEEP]
    with subprocess.Popen(enter, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert_frames_are_its_own(process)
        finally:
            process.kill()


def test_stopped_process_has_its_own_frames(tmp_path: Path) -> None:
    with script([sys.executable], tmp_path / "stopped.py", THREADS) as process:
        own = own_frames(process)
        os.kill(process.pid, signal.SIGSTOP)
        threads = where(process.pid)
    assert {tid: named(threads[tid]) for tid in own} == own


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_busy_thread_has_frames_of_its_loop(interpreter: str, tmp_path: Path) -> None:
    file = tmp_path / "busy.py"
    lines = BUSY.splitlines()
    within = {
        "step": {lines.index("def step(number):") + at for at in (1, 2)},
        "spin": {lines.index("def spin():") + at for at in (1, 2, 3, 4)},
        "<module>": {lines.index("spin()") + 1},
    }
    with script([interpreter], file, BUSY) as process:
        first_line(process)
        wait_until(lambda: "spin" in str(where(process.pid)[process.pid].user))
        frames = named(where(process.pid)[process.pid])
    assert [name for name, _, _ in frames[-2:]] == ["spin", "<module>"]
    assert {file for _, file, _ in frames} == {str(file)}
    assert all(line in within[name or ""] for name, _, line in frames)


def test_text_has_function_file_and_line(tmp_path: Path) -> None:
    with script([sys.executable], tmp_path / "asleep.py", ASLEEP) as process:
        own = own_frames(process)[process.pid]
        done = commands.run("where", "-p", process.pid)
    lines = [line.strip() for line in done.stdout.splitlines()]
    wanted = [f"{function} ({Path(file).name}:{line})" for function, file, line in own]
    assert [line for line in lines if line in wanted] == wanted


def test_perf_trampolines_have_no_second_frames(tmp_path: Path) -> None:
    newer = [program for program in INTERPRETERS if VERSIONS[program] >= "030c0000"]
    if not newer:
        pytest.skip("no Python 3.12 or newer is installed: -X perf came with 3.12")
    with script([newer[0], "-X", "perf"], tmp_path / "asleep.py", ASLEEP) as process:
        own_frames(process)
        thread = where(process.pid)[process.pid]
    assert python_frames(thread) == []
    assert any((frame.name or "").startswith("py::key:") for frame in thread.user)
