"""What was logged while a round lasted: which lines are worth showing with it, and why."""

import re
from typing import Literal

from msgspec import Struct

from kernel_delay.commands.log.lines import Line
from kernel_delay.model import WallClock
from kernel_delay.openvswitch.log_lines import DUMP_MESSAGE, QUIESCE_MESSAGE

_QUIESCE = re.compile(QUIESCE_MESSAGE)
_DUMP = re.compile(DUMP_MESSAGE)

# ovn-controller's and ovn-northd's engine, an ovsdb-server's compaction, and the like.
_TOOK = re.compile(r"\b(?:took|for) (\d{1,10}) ?ms\b")

LoggedKind = Literal["quiesce", "dump", "took", "thread", "cpu", "warning"]
"""Why a line is shown with a round: others waited for its thread to quiesce; it dumped flows; it
says how long a part took; the thread itself wrote it; it has the CPU usage; it is a warning."""

ORDER: tuple[LoggedKind, ...] = ("quiesce", "took", "dump", "warning", "thread", "cpu")
"""The most telling first."""


class Logged(Struct, frozen=True):
    """A line that was logged while a round lasted."""

    kind: LoggedKind
    time: WallClock
    thread: str
    module: str
    level: str
    message: str


class Noted(Struct):
    """A line that a round may have; `kind` is why, "thread" if only one of that thread may.

    `waits_for`: the thread that is to quiesce; `waited_ms`: for how long by then.
    """

    line: Line
    kind: LoggedKind
    waits_for: str = ""
    waited_ms: int = 0


def noted_of(line: Line) -> Noted:
    """Return the line, and why a round may have it."""
    message = line.message
    if line.module == "ovs_rcu" and (match := _QUIESCE.match(message)):
        return Noted(line, "quiesce", match[2], int(match[1]))
    if line.level in ("WARN", "ERR", "EMER"):
        return Noted(line, "dump" if _DUMP.match(message) else "warning")
    if message.endswith("% CPU usage)"):
        return Noted(line, "cpu")
    is_timed = "ms" in message and _TOOK.search(message) is not None
    return Noted(line, "took" if is_timed else "thread")


def is_shown(noted: Noted, round_line: Line) -> bool:
    """Return whether a round has a line that was logged while it lasted."""
    if noted.kind == "quiesce":
        return noted.waits_for == rcu_name(round_line.thread)
    return noted.kind in ("warning", "dump", "cpu") or noted.line.thread == round_line.thread


def rcu_name(thread: str | None) -> str:
    """Return what lib/ovs-rcu.c calls a thread: at most 15 bytes, and the main one "main"."""
    return (thread or "main")[:15]
