"""Processes of the same program as another one that are stopped or frozen: /proc only."""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec import Struct

from kernel_delay.formatting import title_in
from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import processes
from kernel_delay.host.proc_text import lines_of, read_lines, read_text
from kernel_delay.host.target import PROC, command_line, read_stat

# Some 2,000 processes.
MOST_CPU_S = 0.05

# Of a command line: two that differ behind that are taken for the same.
_COMPARED_BYTES = 4096

# Where a frozen thread sleeps: kernel/signal.c:do_freezer_trap() of cgroup v2 and
# kernel/freezer.c:__refrigerator() of v1, 5.14 to 6.18.
_FREEZERS = ("do_freezer_trap", "__refrigerator")

_STOPPED = ("T", "t")

HeldState = Literal["stopped", "frozen"]


class Held(Struct, frozen=True):
    """A process that does nothing.

    Attributes:
        state: What holds it.
        switches: How often its threads had left a CPU. Whoever is held has not run since, while
            that is the same.
    """

    state: HeldState
    switches: int


class _Program(NamedTuple):
    """What two processes of the same program have in common."""

    parent: int
    cgroups: str
    file: tuple[int, int]
    arguments: tuple[str, ...]


def held(pid: int) -> Held | None:
    """Return what holds all threads of a process now; None if they are not all held, or gone."""
    states: set[HeldState] = set()
    switches = 0
    try:
        for tid in os.listdir(PROC / str(pid) / "task"):
            thread = PROC / str(pid) / "task" / tid
            # proc_pid_status(5)
            lines = read_lines(thread / "status")
            status = dict(line.split(":", 1) for line in lines if ":" in line)
            if status["State"].split()[0] in _STOPPED:
                states.add("stopped")
            elif (thread / "wchan").read_text() in _FREEZERS:
                states.add("frozen")
            else:
                return None
            switches += int(status["voluntary_ctxt_switches"])
            switches += int(status["nonvoluntary_ctxt_switches"])
    except (OSError, KeyError, ValueError, IndexError):
        return None
    return Held(states.pop(), switches) if len(states) == 1 else None


def held_like(pids: Collection[int]) -> Iterator[tuple[int, int, Held]]:
    """Yield other processes of the programs of `pids` that are held: of which, and which.

    They have the same executable, and the same parent or cgroup. Scripts of one interpreter differ
    by their arguments.
    """
    own = {pid: program for pid in pids if (program := _program(pid)) is not None}
    parents = {program.parent for program in own.values()}
    end_s = time.thread_time() + MOST_CPU_S
    for other in processes() if own else ():
        if time.thread_time() > end_s:
            return
        if not _may_be_held(other, parents):
            continue
        program, found = _program(other), held(other)
        if program is None or found is None:
            continue
        for pid, each in own.items():
            if pid != other and _is_same(each, program):
                yield pid, other, found


def _may_be_held(pid: int, parents: Collection[int]) -> bool:
    """Whether a first look, which is to cost little, says so."""
    with suppress(OSError, ValueError, IndexError):
        stat = read_stat(pid)
        if stat.state in _STOPPED:
            return True
        return stat.parent in parents and (PROC / str(pid) / "wchan").read_text() in _FREEZERS
    return False


def _program(pid: int) -> _Program | None:
    try:
        parent = read_stat(pid).parent
        file = file_status(f"{PROC}/{pid}/exe")
        cgroups = read_text(PROC / str(pid) / "cgroup")
    except (OSError, ValueError, IndexError):
        return None
    arguments = command_line(pid, _COMPARED_BYTES)
    return _Program(parent, cgroups, (file.device, file.inode), arguments)


def _is_same(own: _Program, other: _Program) -> bool:
    if own.file != other.file:
        return False
    # All daemons have the first process as their parent, and without cgroups all have the root.
    has_parent = own.parent == other.parent and own.parent > 1
    has_cgroup = own.cgroups == other.cgroups and not _is_root(own.cgroups)
    if not (has_parent or has_cgroup):
        return False
    titles = title_in(own.arguments), title_in(other.arguments)
    if titles[0] is not None and titles[1] is not None:
        return titles[0].split()[0] == titles[1].split()[0]
    return own.arguments == other.arguments


def _is_root(cgroups: str) -> bool:
    return all(line.endswith(":/") for line in lines_of(cgroups))
