"""`kernel-delay where` of threads that wait for Python's interpreter lock."""

import re
import subprocess
from pathlib import Path

import pytest

from kernel_delay.host.target import examine
from kernel_delay.where import Holder, ThreadPosition
from kernel_delay.where.look import MOVED, look
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
from tests.needs import need_other_debians, need_registers
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

# ctypes.PyDLL calls without giving up the lock. Who waits sleeps for long: a thread that wants the
# lock asks for it after an interval. The first thread wants it again when the holder is ready.
PATIENT = """
import ctypes, sys, threading
sys.setswitchinterval(600)
holding = ctypes.PyDLL(None)
ready = threading.Event()

def hold():
    ready.set()
    line = b"%d\\n" % threading.get_native_id()
    holding.write(1, line, len(line))
"""

HOLDS_IN_C = f"""{PATIENT}
def hold_the_lock():
    hold()
    holding.sleep(600)

threading.Thread(target=hold_the_lock).start()
ready.wait()
"""

HOLDS_IN_PYTHON = f"""{PATIENT}
def spin():
    hold()
    while True:
        pass

threading.Thread(target=spin).start()
ready.wait()
"""

# The first thread may get the lock before the holder is in C. It must not end then: it would wait
# for that thread.
WAITS_OFTEN = f"""{HOLDS_IN_C.replace("sys.setswitchinterval(600)", "")}
while True:
    pass
"""

WAITS_FOR_ANOTHER_LOCK = f"""{PATIENT}
def hold_the_lock():
    hold()
    holding.sleep(600)

lock = threading.Lock()
lock.acquire()
waiter = threading.Thread(target=lock.acquire)
waiter.start()
print(waiter.native_id, flush=True)
threading.Thread(target=hold_the_lock).start()
ready.wait()
"""

# The thread has a mutex of C and wants the lock; the holder of the lock wants that mutex.
DEADLOCK = f"""{PATIENT}
mutex = ctypes.create_string_buffer(64)
lock_in_c = ctypes.CDLL(None).pthread_mutex_lock

def want_the_mutex():
    hold()
    holding.pthread_mutex_lock(mutex)

lock_in_c(mutex)
threading.Thread(target=want_the_mutex).start()
ready.wait()
"""

CONTEND = """
import threading

def spin():
    while True:
        pass

for _ in range(3):
    threading.Thread(target=spin).start()
print("on", flush=True)
spin()
"""

OWN_LOCK = """
import sys, threading
if sys.version_info < (3, 13):
    from _xxsubinterpreters import create, run_string as run
    other = create(isolated=True)
else:
    from _interpreters import create, exec as run
    other = create("isolated")
threading.Thread(target=run, args=(other, '''
import sys, threading
sys.setswitchinterval(600)
print(threading.get_native_id(), flush=True)
ready = threading.Event()
def spin():
    print(threading.get_native_id(), flush=True)
    ready.set()
    while True:
        pass
threading.Thread(target=spin).start()
ready.wait()
''')).start()
"""

INTERPRETERS_WITH_OWN_LOCKS = [each for each in INTERPRETERS if VERSIONS[each] >= "030c0000"]


def line_of(source: str, text: str) -> int:
    return next(at for at, line in enumerate(source.splitlines(), 1) if text in line)


def when_held(process: "subprocess.Popen[str]") -> int:
    """The holder; by then the first thread waits."""
    holder = int(first_line(process))
    wait_until(lambda: is_asleep(process.pid))
    return holder


def cpu_ticks(tid: int) -> int:
    return int(Path(f"/proc/{tid}/stat").read_text().rpartition(")")[2].split()[11])


def held_by(holder: ThreadPosition, function: str, file: str, line: int) -> str:
    return (
        f"Python's interpreter lock (GIL), held by {holder.name} ({holder.tid})"
        f" in {function} ({file}:{line})"
    )


def owners(thread: ThreadPosition) -> list[int]:
    return [each.tid for each in thread.holders if each.relation == "owner"]


@of_each_interpreter
def test_gil_waiter_names_the_holder_in_c(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "holds.py", HOLDS_IN_C) as process:
        holder = when_held(process)
        threads = where(process.pid)
    line = line_of(HOLDS_IN_C, "holding.sleep")
    waiter = threads[process.pid]
    assert waiter.waits_for == held_by(threads[holder], "hold_the_lock", "holds.py", line)
    assert waiter.holders == (Holder("owner", holder, threads[holder].name),)


@of_each_interpreter
def test_gil_waiter_names_the_running_holder(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "spins.py", HOLDS_IN_PYTHON) as process:
        holder = when_held(process)
        threads = where(process.pid)
    line = line_of(HOLDS_IN_PYTHON, "    while True:")
    allowed = [held_by(threads[holder], "spin", "spins.py", at) for at in (line, line + 1)]
    assert threads[process.pid].waits_for in allowed


@of_each_interpreter
def test_gil_waiter_that_wakes_up_often_is_known(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "holds.py", WAITS_OFTEN) as process:
        holder = when_held(process)
        threads = where(process.pid)
    waiter = threads[process.pid]
    line = line_of(WAITS_OFTEN, "holding.sleep")
    wanted = held_by(threads[holder], "hold_the_lock", "holds.py", line)
    if waiter.state == "sleeping" and waiter.remark != MOVED:
        assert waiter.waits_for == wanted
    else:
        # It woke up while it was looked at.
        assert waiter.waits_for in (wanted, None)


@of_each_interpreter
def test_waiter_for_another_lock_waits_for_a_futex(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "waits.py", WAITS_FOR_ANOTHER_LOCK) as process:
        waiter = int(first_line(process))
        when_held(process)
        threads = where(process.pid)
    assert re.fullmatch("the futex at 0x[0-9a-f]+", threads[waiter].waits_for or "")
    assert owners(threads[waiter]) == []


@of_each_interpreter
def test_gil_and_mutex_are_a_deadlock(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "dead.py", DEADLOCK) as process:
        holder = when_held(process)
        wait_until(lambda: is_asleep(holder))
        done = commands.run("where", "-p", process.pid)
        threads = where(process.pid)
    assert owners(threads[process.pid]) == [holder]
    assert owners(threads[holder]) == [process.pid]
    assert "# DEADLOCK: " in done.stdout
    assert "waits for: Python's interpreter lock (GIL), held by" in done.stdout


@pytest.mark.long
@of_each_interpreter
def test_gil_that_changes_hands_is_no_deadlock(interpreter: str, tmp_path: Path) -> None:
    """Each of the threads waits for the lock while another has it, at one time or another."""
    with script([interpreter], tmp_path / "contend.py", CONTEND) as process:
        first_line(process)
        target = examine(process.pid)
        # No command, as these threads have a CPU while one starts.
        for _ in range(5):
            assert look([target]).deadlocks == ()


@pytest.mark.parametrize("interpreter", INTERPRETERS_WITH_OWN_LOCKS)
def test_interpreter_with_its_own_gil_has_its_holder(interpreter: str, tmp_path: Path) -> None:
    with script([interpreter], tmp_path / "own.py", OWN_LOCK) as process:
        waiter, holder = int(first_line(process)), int(first_line(process))
        wait_until(lambda: cpu_ticks(holder) >= 10)
        wait_until(lambda: is_asleep(waiter))
        threads = where(process.pid)
    assert owners(threads[waiter]) == [holder]
    assert f"held by {threads[holder].name} ({holder}) in spin" in (threads[waiter].waits_for or "")


@pytest.mark.parametrize("suite", ["bullseye", "trixie", "unstable"])
def test_other_debians_name_the_gil_holder(suite: str) -> None:
    need_other_debians()
    root = bare_root(suite, "python3-venv")
    enter = ["chroot", str(root), "python3", "-c", HOLDS_IN_C]
    with subprocess.Popen(enter, stdout=subprocess.PIPE, text=True) as process:
        try:
            holder = when_held(process)
            threads = where(process.pid)
        finally:
            process.kill()
    line = line_of(HOLDS_IN_C, "holding.sleep")
    wanted = held_by(threads[holder], "hold_the_lock", "<string>", line)
    assert threads[process.pid].waits_for == wanted


def test_text_has_the_holder_once(tmp_path: Path) -> None:
    need_registers()
    with script([INTERPRETERS[0]], tmp_path / "holds.py", HOLDS_IN_C) as process:
        holder = when_held(process)
        done = commands.run("where", "-p", process.pid)
    lines = [line.strip() for line in done.stdout.splitlines()]
    (waits,) = [line for line in lines if line.startswith("waits for: Python's interpreter lock")]
    assert f"({holder}) in hold_the_lock (holds.py:" in waits
    assert not [line for line in lines if line.startswith("owner:")]
