"""What is wrong with how a command ended when something failed."""

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch

from tests.commands import Done
from tests.faults.failing import Ended, Fault
from tests.faults.tried import Command

INTERNAL = (os.EX_SOFTWARE,)
CODES = range(os.EX_USAGE, os.EX_CONFIG + 1)
PIPE, INTERRUPTED = 141, 130

# xterm's private mode of the other screen.
TAKES_TERMINAL, GIVES_TERMINAL = "\x1b[?1049h", "\x1b[?1049l"

PREFIX = "kernel-delay: "

NOT_WRITTEN = "could not be written"

VAGUE = f"{PREFIX}input or output: "

# These say nothing about the kernel's programs.
DETACHED = ("openat", "read", "mmap", "write", "poll", "fork")
KERNEL_BLAMED = "use another kernel"

# What an error of such a call is about, whatever the call was for: what the line must have in it,
# and the exit code.
SHORTAGES = {
    "EMFILE": ("too few file descriptors", os.EX_UNAVAILABLE),
    "ENFILE": ("too few file descriptors", os.EX_UNAVAILABLE),
    "ENOMEM": ("memory", os.EX_UNAVAILABLE),
}


def complaint(command: Command, fault: Fault, ended: Ended, usual: Ended) -> str | None:
    """What is wrong with it; None if nothing is. `usual` is a run in which nothing failed."""
    done = ended.done
    if "Traceback" in done.stderr or "internal error" in done.stderr:
        return "a traceback, or an internal error"
    # A write that fails may be the one that gives it back.
    is_kept = TAKES_TERMINAL in done.stdout and not done.stdout.endswith(GIVES_TERMINAL)
    if is_kept and fault.kind != "write":
        return "the terminal is not given back"
    if stray := [name for name in ended.left if not _is_expected(command, name)]:
        return f"left behind: {', '.join(stray)}"
    if done.returncode == 0:
        return None if _is_right(command, done.stdout) else "the output is another"
    allowed = (*CODES, PIPE, INTERRUPTED) if command.is_endless else (*CODES, PIPE)
    if done.returncode in INTERNAL or done.returncode not in allowed:
        return f"exit status {done.returncode}"
    if done.returncode in (PIPE, INTERRUPTED):
        return None
    return _complaint_of_line(command, fault, done, usual.done)


def _complaint_of_line(command: Command, fault: Fault, done: Done, usual: Done) -> str | None:
    lines = done.stderr.strip().splitlines()
    # What was to be reported may be what could not be written.
    if not lines and fault.kind == "write":
        return None
    # Its table has what is missing.
    if command.name == "check" and done.stdout.strip():
        return None
    if not lines or not lines[-1].startswith(PREFIX):
        return "no line that says what is wrong"
    # It went on to its end, and says what is missing among what it says there.
    if any(NOT_WRITTEN in line for line in lines) and _is_right(command, done.stdout):
        return None
    reported = {_unnumbered(line) for line in usual.stderr.splitlines()}
    others = [line for line in lines[:-1] if _unnumbered(line) not in reported]
    if others:
        return f"{len(others) + 1} lines"
    if VAGUE in lines[-1]:
        return "does not name what failed"
    # Types are written into a file of memory, which has no EPIPE.
    if fault.kind in DETACHED and fault.error != "EPIPE" and KERNEL_BLAMED in lines[-1]:
        return "blames the kernel"
    if fault.error in SHORTAGES and fault.kind != "bpf":
        words, code = SHORTAGES[fault.error]
        if words not in lines[-1] or done.returncode != code:
            return f"not reported as {words}, with {code}"
    return None


def _is_expected(command: Command, name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in command.written)


def _is_right(command: Command, stdout: str) -> bool:
    try:
        return command.check(stdout)
    except (ValueError, KeyError):
        return False


def _unnumbered(line: str) -> str:
    return re.sub(r"[0-9]+", "N", line)


def last_lines(done: Done, count: int = 3) -> str:
    """Return the end of what it reported, in a line."""
    lines: Sequence[str] = done.stderr.strip().splitlines()[-count:]
    return " | ".join(lines)
