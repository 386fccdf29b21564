"""Recordings as Parquet files, for what reads those of many nodes: docs/how-to/fleet.md.

    FOLDER/TABLE/day=2026-11-21/node=NAME/RECORDING.parquet

A recording's files are called the same whenever it is exported, so that doing so twice
changes nothing. Each appears whole or not at all. Of two copies of a recording the longer one
stays, whichever is exported last: one that was cut has the other's beginning.
"""

import os
from collections import Counter
from contextlib import suppress
from datetime import UTC
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from kernel_delay.errors import OutputError, not_installed, require_address_space
from kernel_delay.fleet.tables import (
    COLUMNS,
    FLEET_TABLES,
    SCHEMA,
    SCHEMA_KEY,
    FleetKind,
    FleetTable,
    columns_of,
    recording_id,
)
from kernel_delay.host.private_file import PartFile, remove_stale_parts, writing
from kernel_delay.host.safe_folders import make_folder
from kernel_delay.model import RecordingHeader, Sample
from kernel_delay.recording.tables import CollectedColumns, Columns, Lists

if TYPE_CHECKING:
    import pyarrow

MOST_ENCODED = 200
"""Of a file's name, which may have 255 bytes: before and behind it there is more."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""A folder's value where there is none (hive.exec.default.partition.name); a node may have it."""

DIGEST_DIGITS = 16


class ParquetFiles:
    """One recording's files, in all tables and of all days; they appear at finish()."""

    def __init__(self, folder: Path, header: RecordingHeader) -> None:
        """Write nothing yet. Raises UnavailableError where pyarrow is not installed."""
        _check_installed()
        self._folder = folder
        self._header = header
        self._samples = 0
        self._day: str | None = None
        self._days: Counter[str] = Counter()
        self._open: dict[FleetTable, _PartFile] = {}
        self._written: list[_PartFile] = []
        self.kept_longer = False
        self._was_there = folder.exists()
        self._remove_stale()

    def __enter__(self) -> Self:
        """The files themselves."""
        return self

    def __exit__(self, kind: object, exc: BaseException | None, traceback: object) -> None:
        """Remove what did not come to finish(), and with an error the folders that are empty."""
        for file in (*self._written, *self._open.values()):
            file.discard()
        if exc is not None:
            self._remove_empty()

    def _remove_empty(self) -> None:
        for table in FLEET_TABLES:
            for folder in self._folder.glob(f"{table}/day=*/{self._node}"):
                _remove_folders(folder, folder.parent, folder.parent.parent)
        if not self._was_there:
            _remove_folders(self._folder)

    def add(self, sample: Sample) -> None:
        """Write a Sample's rows. Raises OutputError."""
        for table, columns in columns_of(self._header, self._samples, sample):
            if table == "samples":
                self._enter_day(f"{sample.window.start_time.astimezone(UTC):%Y-%m-%d}")
            file = self._open.get(table)
            if file is None:
                file = self._open[table] = _PartFile(table, self._path(table))
            file.add(columns)
        self._samples += 1

    def finish(self) -> int:
        """Have all files appear; return how many Samples were added. Raises OutputError.

        Those of a day don't of which more Samples are there: `kept_longer` says if that was so.
        """
        self._close()
        # A day's samples were begun first and appear last: where they are, all are.
        for samples in [file for file in self._written if file.table == "samples"]:
            if samples.rows_there() > samples.rows:
                self.kept_longer = True
                self._discard_beside(samples)
        while self._written:
            self._written.pop().appear()
        return self._samples

    def _discard_beside(self, samples: "_PartFile") -> None:
        for file in [file for file in self._written if file.stands_beside(samples)]:
            self._written.remove(file)
            file.discard()

    def _enter_day(self, day: str) -> None:
        """Have what comes next go to this day's files: those of one day alone are open."""
        if day != self._day:
            self._close()
            self._days[day] += 1
            self._day = day

    def _remove_stale(self) -> None:
        """Remove what exports of this node that were killed left behind."""
        for table in FLEET_TABLES:
            for day in self._folder.glob(f"{table}/day=*"):
                with suppress(OSError):
                    remove_stale_parts(day / self._node)

    @property
    def _node(self) -> str:
        return f"node={encoded(self._header.host)}"

    def _path(self, table: FleetTable) -> Path:
        # The clock may have been set back to a day whose files are closed.
        turn = self._days[self._day or ""]
        name = file_name(recording_id(self._header)) + (f".{turn}" if turn > 1 else "")
        return self._folder / table / f"day={self._day}" / self._node / f"{name}.parquet"

    def _close(self) -> None:
        for table in tuple(self._open):
            file = self._open[table]
            file.close()
            self._written.append(file)
            del self._open[table]


class _PartFile:
    """A file that is not to be seen until it is whole."""

    def __init__(self, table: FleetTable, path: Path) -> None:
        from pyarrow.parquet import ParquetWriter

        self.table = table
        self.rows = 0
        self._path = path
        self._schema = schema_of(table)
        self._columns = CollectedColumns(self._schema.names)
        with writing(path):
            make_folder(path.parent)
        # It begins with a dot: neither DuckDB nor Spark reads it.
        self._part = PartFile(path)
        self._file = os.fdopen(os.dup(self._part.fd), "wb")
        try:
            with writing(path):
                self._writer = ParquetWriter(self._file, self._schema, compression="zstd")
        except OutputError:
            self._part.discard()
            raise

    def rows_there(self) -> int:
        """How many rows there are where this one is to appear; none in what can't be read."""
        from pyarrow import ArrowException
        from pyarrow.parquet import read_metadata

        try:
            return int(read_metadata(self._path).num_rows)
        except (OSError, ArrowException):
            return 0

    def stands_beside(self, other: "_PartFile") -> bool:
        """Whether both are of the same Samples: those of one day, in different tables."""
        return self._path.parts[-3:] == other._path.parts[-3:]

    def add(self, columns: Columns) -> None:
        before = self._columns.rows
        self._columns.add(columns)
        self.rows += self._columns.rows - before
        for full in self._columns.full():
            self._write(full)

    def close(self) -> None:
        if self._columns.rows:
            self._write(self._columns.rest())
        with writing(self._path):
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def appear(self) -> None:
        self._part.appear()

    def discard(self) -> None:
        # What the writer still holds goes nowhere.
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        self._part.discard()

    def _write(self, columns: Lists) -> None:
        import pyarrow

        batch = pyarrow.RecordBatch.from_pydict(columns, schema=self._schema)
        with writing(self._path):
            self._writer.write_batch(batch)


def _remove_folders(*folders: Path) -> None:
    """Remove these, each if it is empty."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def encoded(text: str) -> str:
    """Return text as part of a path: URL-encoded, as Hive, Spark and DuckDB decode it.

    What is longer than a file's name can be is cut, and ends in a digest of all of it.
    """
    whole = "%5F" + text[1:] if text == HIVE_NULL else quote(text, safe="")
    if len(whole) <= MOST_ENCODED:
        return whole
    parts = [quote(character, safe="") for character in text]
    while sum(map(len, parts)) > MOST_ENCODED - DIGEST_DIGITS - 1:
        del parts[-1]
    digest = sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
    return f"{''.join(parts)}~{digest}"


def file_name(text: str) -> str:
    """Return text as the beginning of a file's name.

    Spark and pyarrow skip files whose names begin with an underscore or a dot.
    """
    found = encoded(text)
    return f"%{ord(found[0]):02X}{found[1:]}" if found.startswith(("_", ".")) else found


def schema_of(table: FleetTable) -> "pyarrow.Schema":
    """The schema of a table's files, for pyarrow."""
    import pyarrow

    types: dict[FleetKind, pyarrow.DataType] = {
        "int": pyarrow.int64(),
        "str": pyarrow.string(),
        "bool": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "share": pyarrow.float64(),
        "counts": pyarrow.map_(pyarrow.string(), pyarrow.int64()),
    }
    fields = [(name, types[kind]) for name, kind in COLUMNS[table].items()]
    return pyarrow.schema(fields, metadata={SCHEMA_KEY: SCHEMA})


def _check_installed() -> None:
    require_address_space("pyarrow")
    # numpy's OpenBLAS starts a thread for each CPU, and ends the process by SIGINT where it can't.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise not_installed("Parquet", "pyarrow") from None
