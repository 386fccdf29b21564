"""Recordings, read from Python."""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.model import RecordingHeader, RecordingTrailer, Sample
from kernel_delay.model.notebook import section, table
from kernel_delay.recording.reader import open_recording
from kernel_delay.recording.records import Events
from kernel_delay.recording.tables import TABLES, Table, to_arrow, to_pandas, to_polars

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

SHOWN = 20
"""Samples of a recording that a notebook shows."""


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

        `table` is "threads": a row for each thread of each sample; "verdict": for each finding and
        remark; "syscalls": for each system call of each thread; "syscall_events": for each single
        one; or "timeline": for each slice of it. The columns are the fields that have one value,
        with `sample`, its number from 0 on, before them.

        Raises ValueError for another table, and KernelDelayError as iterating does or where
        pyarrow is not installed.
        """
        return to_arrow(self, self._known(table))

    def to_pandas(self, table: Table = "threads") -> "pandas.DataFrame":
        """Return the same as a DataFrame; `pip install kernel-delay[pandas]`."""
        return to_pandas(self, self._known(table))

    def to_polars(self, table: Table = "threads") -> "polars.DataFrame":
        """Return the same as a DataFrame of polars; `pip install kernel-delay[polars]`."""
        return to_polars(self, self._known(table))

    def _known(self, table: Table) -> Table:
        if table not in TABLES:
            raise ValueError(f"table must be one of {', '.join(TABLES)}, not {table!r}")
        return table

    def __repr__(self) -> str:
        """Say what it is of."""
        target, host = self.header.target, printable(self.header.host)
        return f"<Recording {self.path!r} of {printable(target.comm)} ({target.pid}) on {host}>"

    def _repr_html_(self) -> str:
        """Show in a notebook what it is of, and the worst of each of its first Samples."""
        header = self.header
        rows = [
            (f"{sample.window.start_time:%H:%M:%S.%f}", str(sample.target.pid), _worst(sample))
            for sample in islice(self, SHOWN)
        ]
        title = f"{self.path}: {header.target.comm} ({header.target.pid}) on {header.host}"
        return section(title, table(("START", "PROCESS", "VERDICT"), rows))


def _worst(sample: Sample) -> str:
    return sample.verdict[0].text if sample.verdict else "nothing was found"
