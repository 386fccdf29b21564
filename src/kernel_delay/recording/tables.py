"""Samples as tables: a row for each thread, finding, call or event, for pyarrow and the like.

They are made column by column: row by row takes five times as long.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from msgspec import Struct

from kernel_delay.errors import not_installed
from kernel_delay.model import Finding, Sample, SyscallStats, Thread, ThreadTime

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Table = Literal["threads", "verdict", "syscalls", "syscall_events", "timeline"]
TABLES: tuple[Table, ...] = get_args(Table)

Kind = Literal["int", "float", "str", "bool", "time"]
Row = dict[str, Any]
Columns = Mapping[str, Sequence[Any]]
"""The values of each column, by its name: those of a row are at the same place in all."""

Lists = dict[str, list[Any]]
"""The same, as pyarrow takes them."""

Call = tuple[Thread, SyscallStats]

_Item = TypeVar("_Item")

ROWS_AT_ONCE = 10_000

_INTERVALS = ("run", "ready", "stopped", "long_poll")
_INTERVAL_FIELDS = ("count", "total_ns", "min_ns", "max_ns")

_OF_THREADS: dict[str, Kind] = {
    "sample": "int",
    "start_time": "time",
    "start_ns": "int",
    "duration_ns": "int",
    "tid": "int",
    "name": "str",
    "threads": "int",
    "exited": "bool",
    **dict.fromkeys(ThreadTime.__struct_fields__, "int"),
    "preempted_ns": "int",
    "steal_ns": "int",
    "signals": "int",
    "migrations": "int",
    **{f"{name}_{field}": "int" for name in _INTERVALS for field in _INTERVAL_FIELDS},
}

COLUMNS: Mapping[Table, Mapping[str, Kind]] = MappingProxyType(
    {
        "threads": _OF_THREADS,
        "verdict": {
            "sample": "int",
            "start_time": "time",
            "pid": "int",
            "process": "str",
            "rule": "str",
            "who": "str",
            "share": "float",
            "tid": "int",
            "remark": "bool",
            "text": "str",
            "sentence": "str",
            "advice": "str",
            "without_least_ns": "int",
            "without_most_ns": "int",
        },
        "syscalls": {
            "sample": "int",
            "tid": "int",
            "thread": "str",
            "number": "int",
            "name": "str",
            "abi": "str",
            "count": "int",
            "total_ns": "int",
            "max_ns": "int",
            "on_cpu_ns": "int",
            "ready_ns": "int",
            "blocked_ns": "int",
            "stopped_ns": "int",
            "guest_ns": "int",
            "unaccounted_ns": "int",
            "without_entry": "int",
            "across": "int",
            "timed_out": "int",
        },
        "syscall_events": {
            "sample": "int",
            "tid": "int",
            "number": "int",
            "name": "str",
            "abi": "str",
            "entry_ns": "int",
            "exit_ns": "int",
            "ret": "int",
            "off_cpu_ns": "int",
        },
        "timeline": {
            "sample": "int",
            "tid": "int",
            "kind": "str",
            "start_ns": "int",
            "stop_ns": "int",
            "mode": "str",
            "name": "str",
            "cpu": "int",
        },
    }
)
"""The columns of each table, and what is in them."""


def to_arrow(samples: Iterable[Sample], table: Table) -> "pyarrow.Table":
    """The table for pyarrow. Raises UnavailableError where that is not installed."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise not_installed("to_arrow()", "pyarrow") from None
    types: dict[Kind, pyarrow.DataType] = {
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "str": pyarrow.string(),
        "bool": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS[table].items()])
    batches = [
        pyarrow.RecordBatch.from_pydict(found, schema=schema) for found in _columns(samples, table)
    ]
    return pyarrow.Table.from_batches(batches, schema=schema)


def to_pandas(samples: Iterable[Sample], table: Table) -> "pandas.DataFrame":
    """The table for pandas. Raises UnavailableError where that is not installed."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise not_installed("to_pandas()", "pandas") from None
    # Int64, with a capital, has missing values.
    types = {
        "int": "Int64",
        "float": "Float64",
        "str": "string",
        "bool": "boolean",
        "time": "datetime64[us, UTC]",
    }
    kinds = COLUMNS[table]
    frames = [
        pandas.DataFrame(
            {name: pandas.Series(found[name], dtype=types[kind]) for name, kind in kinds.items()}
        )
        for found in _columns(samples, table)
    ]
    empty = {name: pandas.Series([], dtype=types[kind]) for name, kind in kinds.items()}
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(empty)


def to_polars(samples: Iterable[Sample], table: Table) -> "polars.DataFrame":
    """The table for polars. Raises UnavailableError where that is not installed."""
    try:
        import polars
    except ModuleNotFoundError:
        raise not_installed("to_polars()", "polars") from None
    frame = polars.from_arrow(to_arrow(samples, table))
    assert isinstance(frame, polars.DataFrame)
    return frame


def columns(number: int, sample: Sample, table: Table) -> Iterator[Columns]:
    """Yield all columns of a Sample's rows, of ROWS_AT_ONCE at a time; none of no row.

    Args:
        number: The Sample's, from 0 on.
        sample: The Sample.
        table: Which.
    """
    match table:
        case "threads":
            for threads in in_parts(sample.threads):
                yield thread_columns(number, sample, threads)
        case "verdict":
            for findings in in_parts(sample.verdict):
                yield finding_columns(number, sample, findings)
        case "syscalls":
            for calls in in_parts(calls_of(sample)):
                yield call_columns(number, calls)
        case "syscall_events":
            for events in in_parts(sample.syscall_events or ()):
                yield _numbered(number, events, table)
        case "timeline":
            for slices in in_parts(sample.timeline or ()):
                yield _numbered(number, slices, table)


def in_parts(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield ROWS_AT_ONCE at a time."""
    remaining = iter(items)
    while part := list(islice(remaining, ROWS_AT_ONCE)):
        yield part


def thread_columns(number: int, sample: Sample, threads: Sequence[Thread]) -> Columns:
    """Return the columns of some threads of a Sample. Arguments as of columns()."""
    window = sample.window
    intervals = {
        f"{name}_{column}": values
        for name in _INTERVALS
        for column, values in _fields_of(
            [getattr(thread, name) for thread in threads], _INTERVAL_FIELDS
        ).items()
    }
    return {
        **_fields_of(threads, _own_columns(Thread, "threads")),
        **_fields_of([thread.time for thread in threads], ThreadTime.__struct_fields__),
        **same(
            {
                "sample": number,
                "start_time": window.start_time,
                "start_ns": window.start_ns,
                "duration_ns": window.duration_ns,
            },
            len(threads),
        ),
        "steal_ns": [
            thread.task_times.steal_ns if thread.task_times else None for thread in threads
        ],
        **intervals,
    }


def finding_columns(number: int, sample: Sample, findings: Sequence[Finding]) -> Columns:
    """Return the columns of some findings of a Sample. Arguments as of columns()."""
    of_sample = {
        "start_time": sample.window.start_time,
        "pid": sample.target.pid,
        "process": sample.target.comm,
    }
    return {**_numbered(number, findings, "verdict"), **same(of_sample, len(findings))}


def calls_of(sample: Sample) -> Iterator[Call]:
    """Yield the system calls of a Sample's threads, each with its thread."""
    for thread in sample.threads:
        for call in thread.syscalls:
            yield thread, call


def call_columns(number: int, calls: Sequence[Call]) -> Columns:
    """Return the columns of some system calls. Arguments as of columns()."""
    return {
        **_numbered(number, [call for _, call in calls], "syscalls"),
        "tid": [thread.tid for thread, _ in calls],
        "thread": [thread.name for thread, _ in calls],
    }


def same(row: Row, count: int) -> Columns:
    """Return the columns of rows that are all the same."""
    return {name: [value] * count for name, value in row.items()}


def _columns(samples: Iterable[Sample], table: Table) -> Iterator[Lists]:
    """The columns of all rows, of ROWS_AT_ONCE at least but the last."""
    collected = CollectedColumns(COLUMNS[table])
    for number, sample in enumerate(samples):
        for found in columns(number, sample, table):
            collected.add(found)
            yield from collected.full()
    if collected.rows:
        yield collected.rest()


class CollectedColumns:
    """Columns of rows that come in parts. `rows`: how many there are."""

    def __init__(self, names: Iterable[str]) -> None:
        """Have these columns, without a row."""
        self.rows = 0
        self._columns: Lists = {name: [] for name in names}

    def add(self, part: Columns) -> None:
        """Append rows; what else they have is left out."""
        for name, values in self._columns.items():
            values.extend(part[name])
        self.rows = len(values)

    def full(self) -> Iterator[Lists]:
        """Yield the first ROWS_AT_ONCE as long as there are so many, and have the others."""
        while self.rows >= ROWS_AT_ONCE:
            yield {name: values[:ROWS_AT_ONCE] for name, values in self._columns.items()}
            for values in self._columns.values():
                del values[:ROWS_AT_ONCE]
            self.rows -= ROWS_AT_ONCE

    def rest(self) -> Lists:
        """Return those that there are, and have none."""
        found = {name: values[:] for name, values in self._columns.items()}
        for values in self._columns.values():
            values.clear()
        self.rows = 0
        return found


def _numbered(number: int, structs: Sequence[Struct], table: Table) -> Columns:
    """The fields of structs of one kind that are columns of the table, and the Sample's number."""
    names = _own_columns(type(structs[0]), table)
    return {**_fields_of(structs, names), **same({"sample": number}, len(structs))}


def _fields_of(structs: Sequence[Struct | None], names: tuple[str, ...]) -> Columns:
    """Fields as columns: None where there is no struct."""
    values_of, none = _getter(names), (None,) * len(names)
    rows = [none if each is None else values_of(each) for each in structs]
    return dict(zip(names, zip(*rows, strict=True), strict=True))


KINDS_REMEMBERED = 16
"""Kinds of structs that have columns of a table, and more."""


@lru_cache(KINDS_REMEMBERED)
def _own_columns(kind: type[Struct], table: Table) -> tuple[str, ...]:
    """Which of a struct's fields are columns of the table."""
    return tuple(name for name in kind.__struct_fields__ if name in COLUMNS[table])


@lru_cache(KINDS_REMEMBERED)
def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What gets these fields of a struct."""
    return attrgetter(*names)
