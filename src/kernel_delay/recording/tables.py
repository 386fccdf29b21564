"""Samples as tables: a row for each thread, system call or event, for pyarrow and pandas."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct

from kernel_delay.errors import UnavailableError
from kernel_delay.model import Intervals, Sample, Thread, ThreadTime

if TYPE_CHECKING:
    import pandas
    import pyarrow

Table = Literal["threads", "syscalls", "syscall_events", "timeline"]
TABLES: tuple[Table, ...] = get_args(Table)

Kind = Literal["int", "str", "bool", "time"]
Row = dict[str, Any]

ROWS_AT_ONCE = 10_000

_INTERVALS = ("run", "ready", "stopped", "long_poll")

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
    **{
        f"{name}_{field}": "int"
        for name in _INTERVALS
        for field in ("count", "total_ns", "min_ns", "max_ns")
    },
}

COLUMNS: Mapping[Table, Mapping[str, Kind]] = MappingProxyType(
    {
        "threads": _OF_THREADS,
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
        raise _not_installed("to_arrow()", "pyarrow", "arrow") from None
    types: dict[Kind, pyarrow.DataType] = {
        "int": pyarrow.int64(),
        "str": pyarrow.string(),
        "bool": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS[table].items()])
    batches = [
        pyarrow.RecordBatch.from_pylist(batch, schema=schema) for batch in _batches(samples, table)
    ]
    return pyarrow.Table.from_batches(batches, schema=schema)


def to_pandas(samples: Iterable[Sample], table: Table) -> "pandas.DataFrame":
    """The table for pandas. Raises UnavailableError where that is not installed."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise _not_installed("to_pandas()", "pandas", "pandas") from None
    # Int64, with a capital, has missing values.
    types = {"int": "Int64", "str": "string", "bool": "boolean", "time": "datetime64[us, UTC]"}
    kinds = COLUMNS[table]
    frames = [
        pandas.DataFrame(batch, columns=list(kinds)).astype(
            {name: types[kind] for name, kind in kinds.items()}
        )
        for batch in _batches(samples, table)
    ]
    empty = {name: pandas.Series([], dtype=types[kind]) for name, kind in kinds.items()}
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(empty)


def rows(samples: Iterable[Sample], table: Table) -> Iterator[Row]:
    """The rows, each with all columns."""
    for number, sample in enumerate(samples):
        match table:
            case "threads":
                yield from (_thread(number, sample, thread) for thread in sample.threads)
            case "syscalls":
                yield from _syscalls(number, sample)
            case "syscall_events":
                for event in sample.syscall_events or ():
                    yield {"sample": number, **_fields(event, table)}
            case "timeline":
                for each in sample.timeline or ():
                    yield {"sample": number, **_fields(each, table)}


def _batches(samples: Iterable[Sample], table: Table) -> Iterator[list[Row]]:
    remaining = rows(samples, table)
    while batch := list(islice(remaining, ROWS_AT_ONCE)):
        yield batch


def _thread(number: int, sample: Sample, thread: Thread) -> Row:
    window = sample.window
    row = {
        **dict.fromkeys(COLUMNS["threads"]),
        **_fields(thread, "threads"),
        **(_fields(thread.time, "threads") if thread.time else {}),
        "sample": number,
        "start_time": window.start_time,
        "start_ns": window.start_ns,
        "duration_ns": window.duration_ns,
        "steal_ns": thread.task_times.steal_ns if thread.task_times else None,
    }
    for name in _INTERVALS:
        intervals: Intervals | None = getattr(thread, name)
        if intervals is not None:
            row[f"{name}_count"] = intervals.count
            row[f"{name}_total_ns"] = intervals.total_ns
            row[f"{name}_min_ns"] = intervals.min_ns
            row[f"{name}_max_ns"] = intervals.max_ns
    return row


def _syscalls(number: int, sample: Sample) -> Iterator[Row]:
    for thread in sample.threads:
        for call in thread.syscalls:
            yield {
                "sample": number,
                "tid": thread.tid,
                "thread": thread.name,
                **_fields(call, "syscalls"),
            }


def _fields(struct: Struct, table: Table) -> Row:
    """The fields of a struct that are columns of the table."""
    kind: type[Struct] = type(struct)
    names, values_of = _columns_of(kind, table)
    return dict(zip(names, values_of(struct), strict=True))


KINDS_REMEMBERED = 16
"""Kinds of structs that have columns of a table, and more."""


@lru_cache(KINDS_REMEMBERED)
def _columns_of(
    kind: type[Struct], table: Table
) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Which of a struct's fields are columns of the table, and what gets all of them."""
    names = tuple(name for name in kind.__struct_fields__ if name in COLUMNS[table])
    return names, attrgetter(*names)


def _not_installed(what: str, package: str, extra: str) -> UnavailableError:
    return UnavailableError(
        f"{what} needs {package}, which is not installed: pip install kernel-delay[{extra}]"
    )
