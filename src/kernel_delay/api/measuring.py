"""Samples measured from Python: windows of processes, and long rounds of one."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from kernel_delay.capture import LONGEST_S
from kernel_delay.errors import NoInputError, compiled_parts
from kernel_delay.formatting import NS_PER_S
from kernel_delay.model import Sample

if TYPE_CHECKING:
    from kernel_delay.capture.plan import WindowPlan
    from kernel_delay.capture.rounds.watch import Watch
    from kernel_delay.capture.session import Session
    from kernel_delay.host.selection import Selection
    from kernel_delay.host.target import Targets


def _check_seconds(name: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 < value <= LONGEST_S:
        raise ValueError(f"{name} must be more than 0 and at most {LONGEST_S}, not {value!r}")


class Options(Struct, frozen=True, kw_only=True):
    """What is measured, and how. Raises ValueError for what is out of range.

    The package's docstrings say what each is.
    """

    seconds: float = 0.5
    accounting: bool = True
    syscall_events: bool = False
    shortest_ns: int = 0
    stacks: Literal["dwarf", "fp", "none"] = "dwarf"
    timeline: bool = False
    chains: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for what is out of its range, or excludes something else."""
        _check_seconds("seconds", self.seconds)
        if self.shortest_ns < 0:
            raise ValueError(f"shortest_ns must be at least 0, not {self.shortest_ns}")
        if self.stacks not in ("dwarf", "fp", "none"):
            raise ValueError(f"stacks must be 'dwarf', 'fp' or 'none', not {self.stacks!r}")
        for name in ("timeline", "chains"):
            if getattr(self, name) and not self.accounting:
                raise ValueError(f"{name} takes accounting")


class Names(Struct, frozen=True, kw_only=True):
    """What selects processes beside their PIDs; all that is given must match."""

    comm: str | None = None
    cgroup: str | None = None
    unit: str | None = None
    pod: str | None = None
    container: str | None = None

    def selection(self, pids: tuple[int, ...]) -> "Selection":
        """Return all that is asked for. Raises ValueError for a PID together with names."""
        from kernel_delay.host.selection import Selection

        names = {name: getattr(self, name) for name in self.__struct_fields__}
        given = [name for name, value in names.items() if value is not None]
        if pids and given:
            raise ValueError(f"pid says which process it is: leave {given[0]} out")
        return Selection(pids, **names)


def requested(options: Mapping[str, Any]) -> tuple[Names, Options]:
    """Return which processes keywords name, and what is to be measured of them.

    Raises ValueError as Options do, and TypeError for a keyword that there is not.
    """
    names = {name: options[name] for name in Names.__struct_fields__ if name in options}
    others = {name: value for name, value in options.items() if name not in names}
    return Names(**names), Options(**others)


def pids_of(pid: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the PIDs that are given: none, one, or several. Raises ValueError for others."""
    pids = () if pid is None else (pid,) if isinstance(pid, int | str | float) else tuple(pid)
    for each in pids:
        if not isinstance(each, int):
            raise ValueError(f"pid must be a whole number, not {each!r}")
    return pids


class WatchOptions(Struct, frozen=True, kw_only=True):
    """Which rounds are long, and for how long they are waited for."""

    threshold: float = 1.0
    seconds: float | None = None
    chains: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for what is out of its range."""
        for name in ("threshold", "seconds"):
            if (value := getattr(self, name)) is not None:
                _check_seconds(name, value)


OnOpen = Callable[[int], None]
"""Called when a window is open, with its number."""

_ROOM = 512 << 20
"""Memory for a watch, in bytes: the default of the command's --memory-limit."""

_INTERRUPTED = "no window was measured: a signal ended it before it was open"


@compiled_parts()
def capture(pid: int | None, names: Names, options: Options) -> Sample:
    """Measure one window of one process. Raises KernelDelayError."""
    return _only(_judged(_session(_one(pid, names), _windows(options, 1, 0.0), options)))


@compiled_parts()
def capture_between(
    pid: int, triggers: tuple[str, str], options: Options, on_ready: Callable[[], None]
) -> Sample:
    """Measure between two triggers that one thread hits. Raises KernelDelayError.

    Args:
        pid: The process.
        triggers: As --start-trigger and --stop-trigger have them.
        options: What is measured.
        on_ready: Called when the triggers are attached.
    """
    targets = _one(pid, Names())
    from kernel_delay.capture.plan import WindowPlan
    from kernel_delay.commands.options.windows import trigger_points

    start, stop = (trigger_points(text, pid) for text in triggers)
    windows = WindowPlan(_ns(options.seconds), start=start, stop=stop, same_thread=True)
    return _only(_judged(_session(targets, windows, options), on_ready))


@compiled_parts()
def run(command: Sequence[str], user: str | None, options: Options) -> tuple[Sample, int]:
    """Measure a program from its first instruction on, to its end or for `seconds`.

    Returns its exit status too, 128 + N for an end by signal N. To be called before any thread is
    started: it forks. Raises KernelDelayError.
    """
    from kernel_delay.capture.plan import EXEC, WindowPlan
    from kernel_delay.host.program import StartedProgram
    from kernel_delay.host.target import Targets

    _preparation()()
    windows = WindowPlan(sample_time_ns=_ns(options.seconds), start=EXEC)
    with StartedProgram(command, user) as program:
        session = _session(Targets((program.target,)), windows, options, lambda epoch: program.go())
        sample = _only(_judged(session))
        return sample, program.wait()


@compiled_parts()
def samples(
    pids: tuple[int, ...],
    names: Names,
    options: Options,
    *,
    children: bool,
    count: int | None,
    interval: float,
) -> Iterator[Sample]:
    """Find the processes, and return what measures window after window. Raises KernelDelayError."""
    windows = _windows(options, sys.maxsize if count is None else count, interval)
    return _judged(_session(_several(pids, names, children=children), windows, options))


@compiled_parts()
def record(
    path: str | os.PathLike[str],
    targets: tuple[tuple[int, ...], Names],
    options: Options,
    *,
    children: bool,
    count: int,
    interval: float,
) -> None:
    """Measure, and write each Sample as it is taken. Raises KernelDelayError."""
    # First what takes compiled parts: where there are none, that is what the error says.
    windows = _windows(options, count, interval)
    from kernel_delay.analysis.verdict import judge
    from kernel_delay.host.signals import noted
    from kernel_delay.recording.header import new_header
    from kernel_delay.recording.writer import RecordingWriter

    found = _several(*targets, children=children)
    with RecordingWriter(Path(path), new_header("capture", (), *found.processes)) as writer:
        with _session(found, windows, options) as session:
            for sample in session.samples():
                writer.sample(judge(sample))
            interrupted = noted()
        if not writer.finish_samples(interrupted=interrupted):
            raise NoInputError(f"{_INTERRUPTED}; {os.fspath(path)!r} is left as it was")


@compiled_parts()
def watch(pid: int | None, names: Names, options: WatchOptions) -> Iterator[Sample]:
    """Find the process, and return what waits for its long rounds. Raises KernelDelayError."""
    from kernel_delay.capture.rounds.watch import Watch
    from kernel_delay.commands.options.rounds import RoundRequest, events, plan

    (target,) = _one(pid, names).processes
    request = RoundRequest(threshold_ns=_ns(options.threshold), chains=options.chains)
    watching = Watch(target, plan(request, target, _ROOM), events(request, _ROOM))
    return _rounds_of(watching, None if options.seconds is None else _ns(options.seconds))


def _one(pid: int | None, names: Names) -> "Targets":
    """The only process, on a machine that lets it be measured. Raises KernelDelayError."""
    prepare = _preparation()
    from kernel_delay.host.selection import find_one
    from kernel_delay.host.target import Targets

    target = find_one(names.selection(pids_of(pid)))
    prepare()
    return Targets((target,))


def _several(pids: tuple[int, ...], names: Names, *, children: bool) -> "Targets":
    """The processes, on a machine that lets them be measured. Raises KernelDelayError."""
    prepare = _preparation()
    from kernel_delay.host.selection import find_all
    from kernel_delay.host.target import Targets

    found = find_all(names.selection(pids))
    prepare()
    return Targets(found, children)


def _preparation() -> Callable[[], None]:
    """Return what looks at the machine; where nothing was compiled that is an error at once."""
    from kernel_delay.host import preflight
    from kernel_delay.loader.base import start_log

    def prepare() -> None:
        preflight.check()
        start_log(-1)

    return prepare


def _windows(options: Options, count: int, interval: float) -> "WindowPlan":
    """Plan the windows. Raises ValueError for a number that is out of its range."""
    from kernel_delay.capture.plan import WindowPlan

    if not 0 <= interval <= LONGEST_S:
        raise ValueError(f"interval must be from 0 to {LONGEST_S} seconds, not {interval}")
    if count < 1:
        raise ValueError(f"samples must be at least 1, not {count}")
    return WindowPlan(
        sample_time_ns=_ns(options.seconds), count=count, interval_ns=round(interval * NS_PER_S)
    )


def _ns(seconds: float) -> int:
    return max(1, round(seconds * NS_PER_S))


def _session(
    targets: "Targets",
    windows: "WindowPlan",
    options: Options,
    on_open: OnOpen = lambda epoch: None,
) -> "Session":
    from kernel_delay.capture.plan import MOST_SLICES, EventPlan
    from kernel_delay.capture.session import Session, SessionOptions

    events = EventPlan(shortest_ns=options.shortest_ns, stack_mode=options.stacks)
    if options.syscall_events and targets.are_several:
        raise ValueError("syscall_events are of one process: name one, without children")
    session_options = SessionOptions(
        events=events if options.syscall_events else None,
        packet_losses=True,
        accounting=options.accounting,
        timeline=MOST_SLICES if options.timeline else None,
        chains=options.chains,
        on_open=on_open,
    )
    return Session(targets, windows, session_options)


def _judged(session: "Session", on_ready: Callable[[], None] = lambda: None) -> Iterator[Sample]:
    """Yield its Samples; they are measured for as long as somebody takes them."""
    from kernel_delay.analysis.verdict import judge

    with session:
        on_ready()
        yield from map(judge, session.samples())


def _only(taken: Iterable[Sample]) -> Sample:
    found = list(taken)
    if not found:
        raise NoInputError(_INTERRUPTED)
    return found[-1]


def _rounds_of(watching: "Watch", time_ns: int | None) -> Iterator[Sample]:
    from kernel_delay.analysis.verdict import judge

    with watching:
        yield from map(judge, watching.rounds(time_ns=time_ns))
