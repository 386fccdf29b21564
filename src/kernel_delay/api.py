"""What `import kernel_delay` offers, apart from its documentation: that is there."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from kernel_delay.errors import NoInputError, compiled_parts
from kernel_delay.model import RecordingHeader, RecordingTrailer, Sample
from kernel_delay.recording.reader import open_recording
from kernel_delay.recording.records import Events
from kernel_delay.recording.tables import TABLES, Table, to_arrow, to_pandas
from kernel_delay.units import LONGEST_S, NS_PER_S

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from kernel_delay.capture.plan import WindowPlan
    from kernel_delay.host.target import ProcessTarget


class Options(Struct, frozen=True, kw_only=True):
    """What capture() and record() measure, and how. Raises ValueError for what is out of range.

    The package's docstrings say what each is.
    """

    seconds: float = 0.5
    accounting: bool = True
    syscall_events: bool = False
    shortest_ns: int = 0
    stacks: Literal["dwarf", "fp", "none"] = "dwarf"
    timeline: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for what is out of its range, or excludes something else."""
        if not 0 < self.seconds <= LONGEST_S:
            raise ValueError(
                f"seconds must be more than 0 and at most {LONGEST_S}, not {self.seconds}"
            )
        if self.shortest_ns < 0:
            raise ValueError(f"shortest_ns must be at least 0, not {self.shortest_ns}")
        if self.stacks not in ("dwarf", "fp", "none"):
            raise ValueError(f"stacks must be 'dwarf', 'fp' or 'none', not {self.stacks!r}")
        if self.timeline and not self.accounting:
            raise ValueError("a timeline takes accounting")


_INTERRUPTED = "no window was measured: a signal ended it before it was open"


@compiled_parts()
def capture(
    pid: int | None, options: Options, on_open: Callable[[int], None] = lambda epoch: None
) -> Sample:
    """Measure one window; `on_open` is called when it is open. Raises KernelDelayError."""
    taken: list[Sample] = []
    _measure(_target(pid), _windows(options, 1, 0.0), options, taken.append, on_open)
    if not taken:
        raise NoInputError(_INTERRUPTED)
    return taken[-1]


@compiled_parts()
def record(
    path: str | os.PathLike[str], pid: int | None, options: Options, samples: int, interval: float
) -> "Recording":
    """Measure, and write each Sample as it is taken. Raises KernelDelayError."""
    # First what takes compiled parts: where there are none, that is what the error says.
    windows = _windows(options, samples, interval)
    from kernel_delay.recording.header import new_header
    from kernel_delay.recording.writer import RecordingWriter

    target = _target(pid)
    with RecordingWriter(Path(path), new_header("capture", (), target)) as writer:
        interrupted = _measure(target, windows, options, writer.sample)
        if not writer.finish_samples(interrupted=interrupted):
            raise NoInputError(f"{_INTERRUPTED}; {os.fspath(path)!r} is left as it was")
    return Recording(path)


class Recording:
    """A recording: what it says of itself, and the Samples in it, read anew each time.

    `header` is what it says of itself: where, when, of what and how it was made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open `path` and read its header. Raises KernelDelayError."""
        self.path = os.fspath(path)
        with open_recording(self.path) as recording:
            self.header: RecordingHeader = recording.header

    def __enter__(self) -> "Recording":
        """Return itself: the file is open only while it is read."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def __iter__(self) -> Iterator[Sample]:
        """Yield its Samples in the order they were taken; none but one is in memory at a time.

        Raises KernelDelayError behind the last that is whole, where the recording was cut or is
        damaged.
        """
        with open_recording(self.path) as recording:
            for record in recording.read():
                if isinstance(record, Sample):
                    yield record

    def events(self) -> Iterator[Struct]:
        """Yield the events of a monitor, as of Open vSwitch, in a recording of its command.

        They are described in docs/reference/recording.schema.json. Raises as iterating does.
        """
        with open_recording(self.path) as recording:
            for record in recording.read():
                if isinstance(record, Events):
                    yield from record.measured()

    @property
    def trailer(self) -> RecordingTrailer:
        """How it ended and what was lost; read at each call, to the end.

        Raises KernelDelayError where it was cut or is damaged.
        """
        with open_recording(self.path) as recording:
            for _ in recording.read():
                pass
            assert recording.trailer is not None
            return recording.trailer

    @property
    def threads(self) -> Mapping[int, str]:
        """The names of all its threads by their ids, as they were last; read at each call.

        Threads that ended in such numbers that they were summed up have no id. Raises as
        iterating does.
        """
        return {
            thread.tid: thread.name for sample in self for thread in sample.threads if thread.tid
        }

    def to_arrow(self, table: Table = "threads") -> "pyarrow.Table":
        """Return a table of it; `pip install kernel-delay[arrow]`.

        `table` is "threads": a row for each thread of each sample; "syscalls": for each system
        call of each of these; "syscall_events": for each single one; or "timeline": for each slice
        of it. The columns are the
        fields that have one value, with `sample`, its number from 0 on, before them.

        Raises ValueError for another table, and KernelDelayError as iterating does or where
        pyarrow is not installed.
        """
        return to_arrow(self, self._known(table))

    def to_pandas(self, table: Table = "threads") -> "pandas.DataFrame":
        """Return the same as a DataFrame; `pip install kernel-delay[pandas]`."""
        return to_pandas(self, self._known(table))

    def _known(self, table: Table) -> Table:
        if table not in TABLES:
            raise ValueError(f"table must be one of {', '.join(TABLES)}, not {table!r}")
        return table

    def __repr__(self) -> str:
        """Say what it is of."""
        target = self.header.target
        return f"<Recording {self.path!r} of {target.comm} ({target.pid}) on {self.header.host}>"


def _target(pid: int | None) -> "ProcessTarget":
    """The process, on a machine that lets it be measured. Raises KernelDelayError."""
    from kernel_delay.host import preflight
    from kernel_delay.host.target import find_target
    from kernel_delay.loader.base import start_log

    target = find_target(pid)
    preflight.check()
    start_log(-1)
    return target


def _windows(options: Options, samples: int, interval: float) -> "WindowPlan":
    """Plan the windows. Raises ValueError for a number that is out of its range."""
    from kernel_delay.capture.plan import WindowPlan

    if not 0 <= interval <= LONGEST_S:
        raise ValueError(f"interval must be from 0 to {LONGEST_S} seconds, not {interval}")
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    return WindowPlan(
        sample_time_ns=max(1, round(options.seconds * NS_PER_S)),
        count=samples,
        interval_ns=round(interval * NS_PER_S),
    )


def _measure(
    target: "ProcessTarget",
    windows: "WindowPlan",
    options: Options,
    take: Callable[[Sample], None],
    on_open: Callable[[int], None] = lambda epoch: None,
) -> bool:
    """Measure the windows; return whether a signal ended that."""
    from kernel_delay.analysis.verdict import judge
    from kernel_delay.capture.plan import MOST_SLICES, EventPlan
    from kernel_delay.capture.session import Session, SessionOptions
    from kernel_delay.host.signals import noted

    events = EventPlan(shortest_ns=options.shortest_ns, stack_mode=options.stacks)
    session_options = SessionOptions(
        events=events if options.syscall_events else None,
        packet_losses=True,
        accounting=options.accounting,
        timeline=MOST_SLICES if options.timeline else None,
        on_open=on_open,
    )
    with Session(target, windows, session_options) as session:
        for sample in map(judge, session.samples()):
            take(sample)
        return noted()
