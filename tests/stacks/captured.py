"""python -m tests.stacks.captured PID MODE SECONDS FILE: a window's events and stacks, to a file.

In the mode "dwarf" elfutils unwinds each copy too.
"""

import sys
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import msgspec

from kernel_delay.capture.plan import EventPlan, StackMode, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.syscall_events import event_store
from kernel_delay.capture.syscall_events.stacks import StackNamer, UserStack
from kernel_delay.host.target import find_target
from kernel_delay.loader.base import start_log
from kernel_delay.model import Lost, Sample, StackFrame
from kernel_delay.symbols import StackEnd
from tests.stacks.elfutils import Elfutils, Found

# A window's stacks are not to be too many: what is left out is not compared.
MOST_STACKS = 1 << 16
BUFFER_PAGES = 1 << 15

TABLES, FRAME_POINTERS, COPY = "tables", "frame pointers", "copy"
"""By which way a stack was found."""


class TakenStack(msgspec.Struct, frozen=True):
    """A stack: its frames, how it was found, and what elfutils finds in the same copy."""

    frames: tuple[StackFrame, ...]
    way: str
    end: StackEnd
    elfutils: Found | None


class TakenEvent(msgspec.Struct, frozen=True):
    """A system call, and the place of its stack among the stacks."""

    tid: int
    number: int
    entry_ns: int
    exit_ns: int
    stack: int


class Taken(msgspec.Struct, frozen=True):
    """A window: its events that have stacks, sorted by their start, and the names of threads."""

    events: list[TakenEvent]
    stacks: list[TakenStack]
    threads: dict[int, str]
    lost: Lost
    without_stack: int


class NotingNamer(StackNamer):
    """Notes of each stack how it was found, and has it marked by a first frame of that number."""

    taken: list[TakenStack]

    def __init__(self, pid: int, plan: EventPlan) -> None:
        """See StackNamer; `taken` is the class's."""
        super().__init__(pid, plan)
        self._elfutils = Elfutils(pid) if plan.stack_mode == "dwarf" else None

    def close(self) -> None:
        """See StackNamer; elfutils ends, too."""
        super().close()
        if self._elfutils:
            self._elfutils.close()

    def user_frames(
        self, taken: Sequence[UserStack]
    ) -> list[tuple[tuple[StackFrame, ...], StackEnd]]:
        """See StackNamer; each stack begins with its mark."""
        ranges = self.unwind_ranges()[1]
        self._starts = [each.start for each in ranges]
        self._is_generated = [each.rows is None for each in ranges]
        marked = []
        for stack, (frames, end) in zip(taken, super().user_frames(taken), strict=True):
            mark = StackFrame(len(self.taken), None, 0, None)
            self.taken.append(TakenStack(frames, self._way(stack, frames), end, self._find(stack)))
            marked.append(((mark, *frames), end))
        return marked

    def _way(self, stack: UserStack, frames: tuple[StackFrame, ...]) -> str:
        if self._is_copy(stack):
            return COPY
        pointed = (self._has_no_rows(frame.address - bool(at)) for at, frame in enumerate(frames))
        return FRAME_POINTERS if any(pointed) else TABLES

    def _has_no_rows(self, address: int) -> bool:
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and self._is_generated[at]

    def _find(self, stack: UserStack) -> Found | None:
        if self._elfutils is None:
            return None
        return self._elfutils.find(*self._copy(stack))


def capture(pid: int, mode: StackMode, seconds: float) -> Taken:
    """Measure a window of the process."""
    plan = EventPlan(stack_mode=mode, max_stacks=MOST_STACKS, buffer_pages=BUFFER_PAGES)
    options = SessionOptions(events=plan, accounting=False)
    window = WindowPlan(sample_time_ns=int(seconds * 1e9))
    NotingNamer.taken = []
    with (
        patch.object(event_store, "StackNamer", NotingNamer),
        Session(find_target(pid), window, options, remark) as session,
    ):
        (sample,) = session.samples()
    return taken(sample, NotingNamer.taken)


def remark(text: str) -> None:
    """Print why stacks may not be walked, or functions have no names."""
    print(f"stacks: {text}", file=sys.stderr, flush=True)


def taken(sample: Sample, stacks: list[TakenStack]) -> Taken:
    """Put the sample's events beside the stacks that were noted."""
    events = [
        TakenEvent(
            event.tid,
            event.number,
            event.entry_ns,
            event.exit_ns,
            sample.stacks[event.user_stack][0].address,
        )
        for event in sample.syscall_events or ()
        if event.user_stack is not None
    ]
    threads = {thread.tid: thread.name for thread in sample.threads}
    without_stack = len(sample.syscall_events or ()) - len(events)
    return Taken(events, stacks, threads, sample.lost, without_stack)


def main(pid: str, mode: StackMode, seconds: str, file: str) -> None:
    """Measure, and write what was found."""
    start_log(0)
    Path(file).write_bytes(msgspec.msgpack.encode(capture(int(pid), mode, float(seconds))))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
