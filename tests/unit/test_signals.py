"""What the first SIGINT, SIGTERM or SIGHUP does, and the second, while Python's can do nothing."""

import signal
import subprocess
import sys

import pytest

from tests.workload import HANGS_S

# One step of Python's, in which it runs no handler of its own, and that takes a day.
BUSY = "print('busy', flush=True); sum(range(1 << 50))"

PROGRAM = """
import os
from kernel_delay.host import signals
wakeup, signalled = os.pipe()
with signals.signals_end():
    {}
"""

EACH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


def start(body: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body)], stdout=pipe, stderr=pipe
    )
    assert process.stdout
    assert process.stdout.readline() == b"busy\n"
    return process


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    try:
        stdout, stderr = process.communicate(timeout=HANGS_S)
    finally:
        process.kill()
    return process.returncode, stdout, stderr


@EACH
def test_the_first_ends_the_tool(number: signal.Signals) -> None:
    process = start(BUSY)
    process.send_signal(number)
    assert outcome(process) == (128 + number, b"", b"")


@EACH
def test_the_first_leaves_little_time_to_a_report(number: signal.Signals) -> None:
    process = start(
        f"with signals.signals_end_waits(signalled), signals.signals_end_soon(): {BUSY}"
    )
    process.send_signal(number)
    assert outcome(process) == (128 + number, b"", b"")


def test_a_report_that_takes_less_is_whole() -> None:
    # That the alarm comes in time is shown above: here it may be late on a busy machine.
    process = start(
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
        "    with signals.signals_end_waits(signalled), signals.signals_end_soon():"
        " print('busy', flush=True); os.read(wakeup, 1); print('report', signals.noted())"
    )
    process.send_signal(signal.SIGINT)
    assert outcome(process) == (0, b"report True\n", b"")


@EACH
def test_in_a_window_the_second_ends_the_tool(number: signal.Signals) -> None:
    process = start(
        "with signals.signals_end_waits(signalled):"
        " print('busy', flush=True); os.read(wakeup, 1); print('noted', flush=True);"
        " sum(range(1 << 50))"
    )
    process.send_signal(number)
    assert process.stdout
    assert process.stdout.readline() == b"noted\n"
    process.send_signal(number)
    assert outcome(process) == (128 + number, b"", b"")


def test_the_terminal_is_left_as_it_was() -> None:
    process = start(f"with signals.shutdown_text(1, 'shown'): {BUSY}")
    process.send_signal(signal.SIGTERM)
    assert outcome(process) == (143, b"shown", b"")
    process = start(f"with signals.shutdown_text(1, 'shown'): pass\n    {BUSY}")
    process.send_signal(signal.SIGTERM)
    assert outcome(process) == (143, b"", b"")


def test_with_nohup_a_closed_terminal_ends_nothing() -> None:
    process = subprocess.Popen(
        ["nohup", sys.executable, "-c", PROGRAM.format("print('busy', flush=True); input()")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"busy\n"
    process.send_signal(signal.SIGHUP)
    stdout, stderr = process.communicate(b"\n", timeout=HANGS_S)
    assert (process.returncode, stdout, stderr) == (0, b"", b"")


def test_the_signals_are_given_back() -> None:
    program = "import time\n" + PROGRAM.format("pass")
    program += "try: print('busy', flush=True); time.sleep(600)\n"
    program += "except KeyboardInterrupt: print('as before')"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"busy\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=HANGS_S)[0] == b"as before\n"
