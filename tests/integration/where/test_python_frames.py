"""`kernel-delay where` of CPython: its frames are those that the program itself finds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.symbols.python.line_table import line_at
from kernel_delay.where import ThreadPosition, UserFrame
from tests import commands
from tests.debian import bare_root
from tests.integration.where.interpreters import (
    INTERPRETERS,
    VERSIONS,
    first_line,
    is_asleep,
    of_each_interpreter,
    script,
    where,
)
from tests.needs import need_other_debians
from tests.workload import stop, wait_until

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

# The line tables of 3.11 and newer are compared in the unit tests.
OLD_INTERPRETERS = tuple(each for each in INTERPRETERS if VERSIONS[each] < "030b0000")

# Each thread's frames: the name, the file and the line, the innermost first. The name is the
# qualified one from 3.11 on: before, the code has the other alone.
# No thread gives the GIL up but to sleep.
OWN_FRAMES = """
import json, sys, threading, time
sys.setswitchinterval(600)

def own_frames(frame):
    while frame is not None:
        code = frame.f_code
        yield getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno
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

# A lock, a recursion, generators and coroutines, and an extension in C that calls back.
WAITS = f"""{OWN_FRAMES}
import asyncio, ctypes

def asleep_in_lock():
    lock = threading.Lock()
    with lock:
        lock.acquire()

def asleep_in_recursion(depth):
    if depth:
        return asleep_in_recursion(
            depth - 1)
    time.sleep(600)

def outer_generator():
    yield from inner_generator()

def inner_generator():
    yield 1
    asleep_in_generator()

def asleep_in_generator():
    time.sleep(600)

async def numbers():
    yield 1

async def asleep_in_coroutine():
    time.sleep(600)

async def awaiting():
    async for _ in numbers():
        await asleep_in_coroutine()

def asleep_in_callback(*_):
    try:
        raise ValueError
    except ValueError:
        time.sleep(600)
    return 0

def sort_in_c():
    number = ctypes.c_int
    callback = ctypes.CFUNCTYPE(number, ctypes.c_void_p, ctypes.c_void_p)(asleep_in_callback)
    ctypes.CDLL(None).qsort((number * 2)(), 2, ctypes.sizeof(number), callback)

for function in (
    asleep_in_lock,
    lambda: list(outer_generator()),
    lambda: asyncio.run(awaiting()),
    sort_in_c,
):
    threading.Thread(target=function).start()
start_printing()
asleep_in_recursion(100)
"""

# The line tables of a module, and the line of each instruction by the interpreter itself.
LINES = """
import argparse, ctypes, json, sys, types

line_of = ctypes.pythonapi.PyCode_Addr2Line
line_of.argtypes = ctypes.py_object, ctypes.c_int

def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)

with open(argparse.__file__) as file:
    module = compile(file.read(), "argparse", "exec")
for code in codes_of(module):
    table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
    offsets = range(0, len(code.co_code), 2)
    print(json.dumps((table.hex(), code.co_firstlineno, [line_of(code, at) for at in offsets])))
"""

FILE_NAME = "skript_\N{LATIN SMALL LETTER E WITH ACUTE}_\N{GREEK SMALL LETTER LAMDA}.py"

BUSY = """
def step(number):
    return number + 1

def spin():
    number = 0
    print("on", flush=True)
    while True:
        number = step(number)

spin()
"""


def own_frames(process: "subprocess.Popen[str]") -> dict[int, list[tuple[str, str, int]]]:
    """What the program printed, when all of these threads are asleep."""
    found = {
        int(tid): [(function, file, line) for function, file, line in frames]
        for tid, frames in json.loads(first_line(process)).items()
    }
    wait_until(lambda: all(is_asleep(tid) for tid in found))
    return found


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


@of_each_interpreter
def test_sleeping_thread_has_its_own_frames(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / FILE_NAME, ASLEEP) as process:
        threads = assert_frames_are_its_own(process)
        user = threads[process.pid].user
    functions = [frame.name for frame in user]
    between = user[functions.index("key") + 1 : functions.index("generator")]
    # Those of sorted(), which is C.
    assert between
    assert {frame.language for frame in between} == {None}


@of_each_interpreter
def test_each_thread_has_its_own_frames(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "threads.py", THREADS) as process:
        own = own_frames(process)
        threads = where(process.pid)
    assert len(own) == 4
    assert {tid: named(threads[tid]) for tid in own} == own


@of_each_interpreter
def test_each_kind_of_frame_is_the_programs_own(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "waits.py", WAITS) as process:
        own = own_frames(process)
        threads = where(process.pid)
    assert len(own) == 5
    assert {tid: named(threads[tid]) for tid in own} == own
    assert {threads[tid].remark for tid in own} == {None}


@pytest.mark.parametrize("interpreter", OLD_INTERPRETERS)
def test_old_line_tables_have_the_interpreters_lines(interpreter: str) -> None:
    is_lnotab = VERSIONS[interpreter] < "030a0000"
    done = subprocess.run([interpreter, "-c", LINES], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        table, first_line, theirs = json.loads(line)
        ours = [
            line_at(
                bytes.fromhex(table), first_line, 2 * at, "lnotab" if is_lnotab else "line_deltas"
            )
            for at in range(len(theirs))
        ]
        assert ours == [None if line == -1 else line for line in theirs]


@pytest.mark.parametrize("suite", ["bullseye", "trixie", "unstable"])
def test_other_debians_have_their_own_frames(suite: str) -> None:
    need_other_debians()
    root = bare_root(suite, "python3-venv")
    enter = ["chroot", str(root), "python3", "-c", ASLEEP]
    with subprocess.Popen(enter, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert_frames_are_its_own(process)
        finally:
            process.kill()


def test_debug_build_has_one_remark() -> None:
    need_other_debians()
    root = bare_root("bullseye", "python3-dbg")
    enter = ["chroot", str(root), "python3-dbg", "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(
        enter, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            first_line(process)
            done = commands.run("where", "-p", process.pid)
        finally:
            process.kill()
    assert "# Python 3.9: its frames are not known\n" in done.stdout
    assert done.stdout.count("its frames") == 1


def test_stopped_process_has_its_own_frames(tmp_path: Path) -> None:
    with script([sys.executable], tmp_path / "stopped.py", THREADS) as process:
        own = own_frames(process)
        stop(process.pid)
        threads = where(process.pid)
    assert {tid: named(threads[tid]) for tid in own} == own


@of_each_interpreter
def test_busy_thread_has_frames_of_its_loop(interpreter: str, tmp_path: Path) -> None:
    file = tmp_path / "busy.py"
    lines = BUSY.splitlines()
    within = {
        "step": {lines.index("def step(number):") + at for at in (1, 2)},
        "spin": {lines.index("def spin():") + at for at in (1, 2, 3, 4, 5)},
        "<module>": {lines.index("spin()") + 1},
    }
    with script([interpreter], file, BUSY) as process:
        first_line(process)
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
