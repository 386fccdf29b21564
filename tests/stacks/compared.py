"""What the stacks of the same events are, as the kernel walked them and as elfutils finds them."""

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kernel_delay.model import StackFrame
from tests.stacks.captured import Taken, TakenEvent, TakenStack

WALKED, COPIED = "auto", "dwarf"
"""The modes of the two captures: the tool's default, and the one that copies every stack."""


class Compared(msgspec.Struct):
    """Events of a kind of threads that both captures have, and what their stacks are.

    Attributes:
        events: How many there are.
        ways: By which way the stack was found.
        whole: How many of each way reach their outermost function.
        whole_by_elfutils: How many do by elfutils.
        same: How many have the frames that elfutils finds.
        same_as_copy: How many have the frames that our own unwinder finds in the copy.
        stacks: Distinct stacks, and whether they have the frames that elfutils finds.
        wrong: Events whose stack is whole by elfutils and has other frames.
        differences: What differs from elfutils, in how many events.
        ends: Where stacks end that are not whole by us, in how many events.
    """

    events: int = 0
    ways: Counter[str] = msgspec.field(default_factory=Counter)
    whole: Counter[str] = msgspec.field(default_factory=Counter)
    whole_by_elfutils: int = 0
    same: int = 0
    same_as_copy: int = 0
    stacks: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = msgspec.field(
        default_factory=dict
    )
    wrong: int = 0
    differences: Counter[str] = msgspec.field(default_factory=Counter)
    ends: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, walked: TakenStack, copied: TakenStack) -> None:
        """Count an event."""
        theirs = copied.elfutils
        assert theirs is not None
        ours = tuple(frame.address for frame in walked.frames)
        same = ours == theirs.addresses
        self.events += 1
        self.ways[walked.way] += 1
        self.whole[walked.way] += walked.end == "whole"
        self.whole_by_elfutils += theirs.whole
        self.same += same
        self.same_as_copy += walked.frames == copied.frames
        self.stacks[ours, theirs.addresses] = same
        self.wrong += theirs.whole and not same
        if walked.end != "whole":
            self.ends[f"{walked.end} at {_named(walked.frames[-1])} ({walked.way})"] += 1
        if not same:
            self.differences[difference(walked, theirs.addresses)] += 1


def difference(ours: TakenStack, theirs: tuple[int, ...]) -> str:
    """Say where two stacks that differ go apart."""
    frames = ours.frames
    both = list(zip(frames, theirs, strict=False))
    common = next((at for at, (one, other) in enumerate(both) if one.address != other), len(both))
    last = _named(frames[common - 1]) if common else "nothing"
    if common == len(theirs):
        return f"elfutils ends at {last}, ours ({ours.way}) is {ours.end}"
    if common == len(frames):
        return f"ours ({ours.way}) ends at {last}"
    return f"ours ({ours.way}) goes from {last} to {_named(frames[common])}, elfutils elsewhere"


def _named(frame: StackFrame) -> str:
    return frame.name or Path(frame.object or "nowhere").name


def pairs(walked: list[TakenEvent], copied: list[TakenEvent]) -> Iterator[tuple[int, int, int]]:
    """Yield the thread and the two stacks of each call that both captures have.

    A thread makes one call at a time: two events of it are of the same call if they overlap.
    """
    of_thread = defaultdict(list)
    for event in copied:
        of_thread[event.tid].append(event)
    at: Counter[int] = Counter()
    for event in walked:
        others = of_thread[event.tid]
        while at[event.tid] < len(others) and others[at[event.tid]].exit_ns < event.entry_ns:
            at[event.tid] += 1
        if at[event.tid] == len(others):
            continue
        other = others[at[event.tid]]
        if other.entry_ns <= event.exit_ns and other.number == event.number:
            yield event.tid, event.stack, other.stack


def compare(pid: int, seconds: float, folder: Path, kinds: dict[str, Compared]) -> int:
    """Capture the process in both modes at once, and add its events; return how many there are."""
    files = {mode: folder / mode for mode in (WALKED, COPIED)}
    captures = []
    for mode, file in files.items():
        command = [sys.executable, "-m", "tests.stacks.captured", pid, mode, seconds, file]
        captures.append(subprocess.Popen([*map(str, command)]))
    statuses = [capture.wait() for capture in captures]
    if any(statuses):
        raise ChildProcessError(f"a capture of process {pid} failed")
    decoder = msgspec.msgpack.Decoder(Taken)
    walked, copied = (decoder.decode(files[mode].read_bytes()) for mode in (WALKED, COPIED))
    count = 0
    for tid, ours, theirs in pairs(walked.events, copied.events):
        kind = walked.threads.get(tid, str(tid)).rstrip("0123456789-#")
        kinds.setdefault(kind, Compared()).add(walked.stacks[ours], copied.stacks[theirs])
        count += 1
    return count
