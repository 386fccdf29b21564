"""What test-faults complains about, and which lines are on error paths."""

import os
from pathlib import Path

import pytest

from tests.commands import Done
from tests.faults.error_paths import error_paths
from tests.faults.failing import Ended, Fault
from tests.faults.judged import complaint
from tests.faults.tried import Command, has_any

COMMAND = Command("capture", ("--pid", "1"), has_any, written=("*.kdr",))
READ = Fault("read", "read", "EIO", "read", 7)
MEMORY = Fault("mmap", "mmap", "ENOMEM", "mmap", 7)
USUAL = Ended(Done(0, "a report", "kernel-delay: measuring 1\n"), True, False, ())


@pytest.mark.parametrize(
    ("fault", "status", "stderr", "wrong"),
    [
        (READ, os.EX_IOERR, "kernel-delay: /proc/1/stat: Input/output error\n", None),
        (READ, os.EX_IOERR, "kernel-delay: measuring 2\nkernel-delay: a: error\n", None),
        (READ, os.EX_IOERR, "kernel-delay: a: error\nkernel-delay: b: error\n", "2 lines"),
        (READ, os.EX_IOERR, "", "no line that says what is wrong"),
        (READ, os.EX_IOERR, "kernel-delay: input or output: error\n", "does not name what failed"),
        (READ, os.EX_UNAVAILABLE, "kernel-delay: use another kernel\n", "blames the kernel"),
        (READ, 1, "kernel-delay: a: error\n", "exit status 1"),
        (READ, os.EX_SOFTWARE, "kernel-delay: error\n", "exit status 70"),
        (READ, os.EX_IOERR, "Traceback\n", "a traceback, or an internal error"),
        (MEMORY, os.EX_UNAVAILABLE, "kernel-delay: too little memory: free some\n", None),
        (MEMORY, os.EX_IOERR, "kernel-delay: a: error\n", "not reported as memory, with 69"),
    ],
)
def test_error_must_be_one_line_with_its_code(
    fault: Fault, status: int, stderr: str, wrong: str | None
) -> None:
    ended = Ended(Done(status, "", stderr), True, True, ())
    assert complaint(COMMAND, fault, ended, USUAL) == wrong


def test_success_must_have_the_output_and_leave_nothing() -> None:
    whole, empty, leaves = (
        Ended(Done(0, stdout, ""), True, True, left)
        for stdout, left in (("a report", ("a.kdr",)), ("", ()), ("a report", ("a.kdr.part",)))
    )
    assert complaint(COMMAND, READ, whole, USUAL) is None
    assert complaint(COMMAND, READ, empty, USUAL) == "the output is another"
    assert complaint(COMMAND, READ, leaves, USUAL) == "left behind: a.kdr.part"


def test_terminal_must_be_given_back() -> None:
    kept = Ended(Done(os.EX_IOERR, "\x1b[?1049hTHREAD", "kernel-delay: a: b\n"), True, True, ())
    assert complaint(COMMAND, READ, kept, USUAL) == "the terminal is not given back"


def test_error_paths_are_raises_and_what_excepts_do(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text(
        "try:\n    a = 1\nexcept OSError:\n    if a:\n        b = (\n            2\n        )\n"
        "def f():\n    raise ValueError\n"
    )
    assert error_paths(source).statements == [(4, 4), (5, 7), (9, 9)]
    assert error_paths(source).not_run({4, 6}) == [9]
