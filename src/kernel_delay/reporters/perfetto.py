"""Single system calls, and timelines, as a Perfetto trace, to be looked at in ui.perfetto.dev.

A track for each thread, with a slice for each call; and for each process one of the samples, with
their verdicts. What a stack is stands once in a trace, before the calls that have it.
Each packet is written as it is made, and none waits in memory.
"""

from collections.abc import Hashable, Iterator
from operator import attrgetter

from kernel_delay.analysis.timeline import by_thread
from kernel_delay.formatting import printable
from kernel_delay.model import RecordingHeader, Sample, StackFrame, SyscallEvent
from kernel_delay.reporters.perfetto_timeline import ThreadTracks, runnable, thread_slices
from kernel_delay.reporters.syscall_events import frame_text
from kernel_delay.reporters.tables import call_name
from kernel_delay.reporters.trace_packets import (
    EVENTS_REMEMBERED,
    Annotations,
    Slices,
    TextKind,
    begin,
    clocks,
    counter_track,
    end,
    interned_frame,
    interned_mapping,
    interned_stack,
    interned_text,
    named_track,
    process_track,
    said_of_stacks,
    state_cleared,
    thread_track,
)

Frames = tuple[StackFrame, ...]

# What of a stack is to be read with each call: the innermost functions show it.
MOST_STACK_CHARACTERS = 1000


class TraceStacks:
    """Gives stacks, and what they are made of, numbers in a trace."""

    def __init__(self) -> None:
        """Have given none."""
        self._numbers: dict[Hashable, int] = {}
        self._new: list[bytes] = []

    def __len__(self) -> int:
        """Return how many numbers were given."""
        return len(self._numbers)

    def of_event(self, kernel: Frames | None, user: Frames | None) -> bytes:
        """Return what an event says of its stacks, once take_new() is in the trace."""
        if not kernel and not user:
            return b""
        texts = [
            (self._text("annotation", name), self._text("stack", _shown(frames)))
            for name, frames in (("kernel stack", kernel), ("user stack", user))
            if frames
        ]
        return said_of_stacks(self._stack((*(kernel or ()), *(user or ()))), texts)

    def take_new(self) -> list[bytes]:
        """Return the packets that say what the numbers stand for that were given since."""
        new, self._new = self._new, []
        return new

    def _stack(self, frames: Frames) -> int:
        """Number a stack. Perfetto has the outermost function first."""
        numbers = tuple(self._frame(frame) for frame in reversed(frames))
        number, is_new = self._number(numbers)
        if is_new:
            self._new.append(interned_stack(number, numbers))
        return number

    def _frame(self, frame: StackFrame) -> int:
        number, is_new = self._number((frame.address, frame.name, frame.object))
        if is_new:
            function = self._text("function", frame.name or f"{frame.address:#x}")
            mapping = self._mapping(frame.object or "unknown")
            self._new.append(interned_frame(number, function, mapping, frame.address))
        return number

    def _mapping(self, path: str) -> int:
        number, is_new = self._number(("mapping", path))
        if is_new:
            self._new.append(interned_mapping(number, self._text("path", path.lstrip("/"))))
        return number

    def _text(self, kind: TextKind, text: str) -> int:
        number, is_new = self._number((kind, text))
        if is_new:
            self._new.append(interned_text(number, kind, text))
        return number

    def _number(self, key: Hashable) -> tuple[int, bool]:
        """Return the number of what `key` stands for, and whether it was given now."""
        before = len(self._numbers)
        number = self._numbers.setdefault(key, before + 1)
        return number, len(self._numbers) > before


def _shown(frames: Frames) -> str:
    return "\n".join(map(frame_text, frames))[:MOST_STACK_CHARACTERS]


_FIRST_THREAD_TRACK = 16

# Behind the tracks of all threads there are those below them, and those of processes: the ids of
# both are below 2^22.
_EVENTS_TRACKS, _STATES_TRACKS, _INTERRUPTS_TRACKS = 1 << 32, 2 << 32, 3 << 32
_PROCESS_TRACKS, _SAMPLES_TRACKS, _RUNNABLE_TRACKS = 4 << 32, 5 << 32, 6 << 32

# Of a recording there may be any number of stacks: from so many parts on they begin anew.
_MOST_STACK_PARTS = 65536


class Trace:
    """Makes the packets of a recording, in the order of its samples."""

    def __init__(self, header: RecordingHeader) -> None:
        """Begin a trace."""
        self._header = header
        self._threads: dict[int, str] = {}
        self._made: set[int] = set()
        self._windows = 0
        self._newest_ns: int | None = None
        self._stacks = TraceStacks()

    def sample(self, sample: Sample) -> Iterator[bytes]:
        """A sample: its window, its threads, its calls and its timeline.

        Before the first one come the clocks. Of several processes those of one window have one
        number.
        """
        window = sample.window
        if not self._windows:
            clock = self._header.clock
            yield clocks(clock.monotonic_ns, clock.realtime_ns)
            yield state_cleared()
        if sample.processes == 1 or window.start_ns != self._newest_ns:
            self._windows += 1
            self._newest_ns = window.start_ns
        # Threads that may be of any process are with the first one's.
        pid = sample.target.pid or self._header.target.pid
        samples_track = _SAMPLES_TRACKS + sample.target.pid
        yield from self._process(pid, sample.target.comm)
        if samples_track not in self._made:
            self._made.add(samples_track)
            yield named_track(samples_track, _PROCESS_TRACKS + pid, self._samples_name(sample))
        findings: Annotations = {
            f"{place}: {finding.rule}": printable(finding.text)
            for place, finding in enumerate(sample.verdict, start=1)
        }
        yield begin(samples_track, window.start_ns, f"sample {self._windows}", findings)
        yield end(samples_track, window.stop_ns)
        for thread in sample.threads:
            if thread.tid and self._threads.get(thread.tid) != thread.name:
                yield self._thread(pid, thread.tid, thread.name)
        yield from self._timeline(pid, sample)
        yield from self._events(pid, sample)

    def _samples_name(self, sample: Sample) -> str:
        if not sample.target.pid:
            return "threads that ended, of all processes"
        return f"samples on {self._header.host}, Linux {self._header.kernel}"

    def _process(self, pid: int, comm: str) -> Iterator[bytes]:
        """A process's track, if there is none yet."""
        track = _PROCESS_TRACKS + pid
        if track in self._made:
            return
        self._made.add(track)
        asked = {each.pid: each for each in (self._header.target, *self._header.others)}
        if pid in asked:
            yield process_track(track, pid, asked[pid].comm, asked[pid].command_line)
        else:
            yield process_track(track, pid, comm, ())

    def _timeline(self, pid: int, sample: Sample) -> Iterator[bytes]:
        if not sample.timeline:
            return
        runnable_track = _RUNNABLE_TRACKS + pid
        if runnable_track not in self._made:
            yield counter_track(runnable_track, _PROCESS_TRACKS + pid, "runnable threads")
            self._made.add(runnable_track)
        for tid, slices in by_thread(sample.timeline):
            tracks = ThreadTracks(
                _thread_track(tid), _STATES_TRACKS + tid, _INTERRUPTS_TRACKS + tid
            )
            yield from self._below(tid, _STATES_TRACKS, "state")
            yield from self._below(tid, _INTERRUPTS_TRACKS, "interrupts")
            yield from thread_slices(slices, tracks)
        yield from runnable(sample.timeline, sample.window, runnable_track)

    def _events(self, pid: int, sample: Sample) -> Iterator[bytes]:
        """The single calls: in a track of their own where the timeline has the thread's."""
        if len(self._stacks) > _MOST_STACK_PARTS:
            self._stacks = TraceStacks()
            yield state_cleared()
        said: dict[tuple[int | None, int | None], bytes] = {}
        known: dict[object, Slices] = {}
        for event in sample.syscall_events or ():
            kind = _kind(event)
            alike = known.get(kind)
            if alike is None:
                if event.tid not in self._threads:
                    yield self._thread(pid, event.tid, f"thread {event.tid}")
                track = _thread_track(event.tid)
                if sample.timeline is not None:
                    yield from self._below(event.tid, _EVENTS_TRACKS, "calls with stacks")
                    track = _EVENTS_TRACKS + event.tid
                places = event.kernel_stack, event.user_stack
                if places not in said:
                    kernel, user = (None if at is None else sample.stacks[at] for at in places)
                    said[places] = self._stacks.of_event(kernel, user)
                    yield from self._stacks.take_new()
                alike = Slices(track, call_name(event), _annotations(event), said[places])
                if len(known) >= EVENTS_REMEMBERED:
                    known.clear()
                known[kind] = alike
            yield alike.packets(event.entry_ns, event.exit_ns)

    def _thread(self, pid: int, tid: int, name: str) -> bytes:
        self._threads[tid] = name
        return thread_track(_thread_track(tid), _PROCESS_TRACKS + pid, pid, tid, name)

    def _below(self, tid: int, tracks: int, name: str) -> Iterator[bytes]:
        """A track below the thread's, if there is none yet."""
        if tracks + tid not in self._made:
            self._made.add(tracks + tid)
            yield named_track(tracks + tid, _thread_track(tid), name)


def _thread_track(tid: int) -> int:
    return _FIRST_THREAD_TRACK + tid


# All that distinguishes the slices of two calls, but for their times.
_kind = attrgetter(
    "tid", "number", "name", "abi", "ret", "off_cpu_ns", "kernel_stack", "user_stack"
)


def _annotations(event: SyscallEvent) -> Annotations:
    if event.off_cpu_ns is None:
        return {"ret": event.ret}
    return {"ret": event.ret, "off_cpu_ns": event.off_cpu_ns}
