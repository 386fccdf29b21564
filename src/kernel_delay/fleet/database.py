"""DuckDB on the files of `export`: within this process, in memory, and off the net."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kernel_delay.errors import (
    InputError,
    UnavailableError,
    is_memory_limited,
    not_installed,
    require_address_space,
    shortage_named,
)
from kernel_delay.fleet import Extent, FleetSurvey, LongRounds, Outlier, Peers
from kernel_delay.fleet.parquet_files import Found
from kernel_delay.fleet.tables import (
    FLEET_TABLES,
    PARTITIONS,
    SCHEMA,
    SCHEMA_KEY,
    FleetKind,
    FleetTable,
    columns,
)
from kernel_delay.host.safe_folders import locked

if TYPE_CHECKING:
    import duckdb


QUERIES = ("fleet", "losses", "shares", "peers", "outliers", "evidence", "long_rounds")
"""All of them, in the order in which they are to be run."""


def query(name: str) -> str:
    """The text of one of QUERIES, without the remark at its head."""
    lines = text_of(name).splitlines(keepends=True)
    while lines[0].startswith("--"):
        del lines[0]
    return "".join(lines)


def text_of(name: str) -> str:
    """The same, whole; with the causes that the rules of the verdict have in these tables."""
    text = (files(__package__) / f"{name}.sql").read_text(encoding="utf-8")
    return text.replace("{cause}", _cause()) if "{cause}" in text else text


def _cause() -> str:
    from kernel_delay.analysis.verdict import RULES

    known = sorted((rule.state, rule.name) for rule in RULES if rule.state is not None)
    cases = "".join(f"      WHEN '{name}' THEN '{state}'\n" for state, name in known)
    return f"CASE rule\n{cases}      ELSE rule\n    END"


_SPARK_TYPES: dict[FleetKind, str] = {
    "int": "BIGINT",
    "str": "STRING",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",
    "share": "DOUBLE",
    "counts": "MAP<STRING, BIGINT>",
}


def spark_schema(table: FleetTable) -> str:
    """A table's columns for Spark's reader: those that no file has are NULL then."""
    return ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in columns(table).items())


def views() -> Iterator[str]:
    """Statements that make a temporary view of each, for what is not DuckDB."""
    for name in QUERIES:
        yield f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{query(name)}"


_TYPES: dict[FleetKind, str] = {
    "int": "BIGINT",
    "str": "VARCHAR",
    "bool": "BOOLEAN",
    "time": "TIMESTAMPTZ",
    "share": "DOUBLE",
    "counts": "MAP(VARCHAR, BIGINT)",
}

# What nobody loses anything to is not worth a row.
_LOST = "(SELECT * FROM peers WHERE most_share > 0)"

_PARTITIONED = re.compile("".join(f"/{name}=([^/]*)" for name in PARTITIONS) + "/[^/]*$")

# A small file can have rows that fill any memory.
MOST_MEMORY_MIB = 2048
MOST_DISK_MIB = 8192

_FOLDER = "kernel-delay-fleet-"

_Row = TypeVar("_Row", bound=msgspec.Struct)


def survey(found: Found, most: int) -> FleetSurvey:
    """Run the queries, and return at most `most` of each kind.

    Raises UnavailableError where DuckDB is not installed, and InputError for files that are not
    of `export`, or of a version whose tables this one does not know.
    """
    with tables_of(found) as connection:
        for name in ("losses", "shares", "peers", "outliers", "evidence"):
            connection.execute(f"CREATE TEMP TABLE {name} AS {query(name)}")
        (extent,) = _rows(connection, query("fleet"), Extent)
        return FleetSurvey(
            extent=extent,
            outliers=_outliers(connection, most),
            all_outliers=_count(connection, "outliers"),
            peers=_peers(connection, most),
            all_peers=_count(connection, _LOST),
            long_rounds=_long_rounds(connection, most),
            all_long_rounds=_count(connection, f"({query('long_rounds')})"),
        )


@contextmanager
def tables_of(found: Found) -> "Iterator[duckdb.DuckDBPyConnection]":
    """A database with the tables of the files; raises what survey() does."""
    with _connected() as connection, _naming_damage():
        for table in FLEET_TABLES:
            _check_schema(connection, found.files[table])
            _make_view(connection, table, found.files[table])
        yield connection


@contextmanager
def _connected() -> "Iterator[duckdb.DuckDBPyConnection]":
    require_address_space("duckdb")
    try:
        import duckdb
    except ModuleNotFoundError:
        raise not_installed("fleet", "duckdb") from None
    _remove_stale_folders()
    with (
        _naming_shortage(),
        tempfile.TemporaryDirectory(prefix=_FOLDER) as folder,
        locked(Path(folder)),
        duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{MOST_MEMORY_MIB}MiB",
                "temp_directory": folder,
                "max_temp_directory_size": f"{MOST_DISK_MIB}MiB",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        ) as connection,
    ):
        yield connection


def _remove_stale_folders() -> None:
    """Remove what DuckDB put aside in runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError), locked(folder):
            shutil.rmtree(folder)


@contextmanager
def _naming_shortage() -> Iterator[None]:
    """Raise UnavailableError where DuckDB does not start, or lacks something."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        said = shortage_named(str(error)) or f"DuckDB fails: {_first_line(error)}"
        raise UnavailableError(said) from error


@contextmanager
def _naming_damage() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        if is_memory_limited():
            raise MemoryError from error
        raise UnavailableError(
            f"these files need more than {MOST_MEMORY_MIB:,} MiB of memory and"
            f" {MOST_DISK_MIB:,} MiB of disk: name a folder with those of fewer days or nodes"
        ) from None
    except msgspec.ValidationError as error:
        raise InputError(f"the Parquet files have rows that export never writes: {error}") from None
    except duckdb.Error as error:
        if shortage_named(str(error)):
            raise
        raise InputError(f"the Parquet files can't be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _check_schema(connection: "duckdb.DuckDBPyConnection", files: Sequence[str]) -> None:
    """Raise InputError for files that are something else by what they say of themselves."""
    if not files:
        return
    known = (
        f"SELECT file_name FROM parquet_kv_metadata({_list(files)})"
        f" WHERE key = {_text(SCHEMA_KEY)} AND value = {_text(SCHEMA)}"
    )
    ours = {name for (name,) in connection.execute(known).fetchall()}
    foreign = [name for name in files if name not in ours]
    if foreign:
        raise InputError(
            f"{foreign[0]!r} is not a file of {SCHEMA}, as kernel-delay export writes"
            f"{f', and neither are {len(foreign) - 1} others' if foreign[1:] else ''}"
        )


def _make_view(
    connection: "duckdb.DuckDBPyConnection", table: FleetTable, files: Sequence[str]
) -> None:
    """Have a table be there with all columns: those that older files lack are NULL.

    PARTITIONS are those of the last folders alone: DuckDB's own hive_partitioning takes any
    NAME=VALUE above them for a column too, and for one of the file's own if it has that name.
    Where there is none it is as good, and costs nothing for each row.
    """
    nothing = (f"CAST(NULL AS {_TYPES[kind]}) AS {name}" for name, kind in columns(table).items())
    select = f"SELECT {', '.join(nothing)} WHERE false"
    if files:
        by_path = any("=" in _PARTITIONED.sub("", name) for name in files)
        select += (
            f" UNION ALL BY NAME SELECT * {_by_path() if by_path else ''}"
            f" FROM read_parquet({_list(files)}, union_by_name = true, filename = {by_path},"
            f" hive_partitioning = {not by_path}, hive_types_autocast = false)"
        )
    connection.execute(f"CREATE TEMP VIEW {table} AS {select}")


def _by_path() -> str:
    values = (
        f"url_decode(regexp_extract(filename, {_text(_PARTITIONED.pattern)}, {group})) AS {name}"
        for group, name in enumerate(PARTITIONS, 1)
    )
    return f"EXCLUDE (filename), {', '.join(values)}"


def _outliers(connection: "duckdb.DuckDBPyConnection", most: int) -> tuple[Outlier, ...]:
    places = "node, pod, comm, thread_class, cause"
    found = (
        "SELECT outliers.*, evidence.text AS evidence, evidence.recording, evidence.sample"
        f" FROM outliers LEFT JOIN evidence USING ({places})"
        f" ORDER BY share - median_share DESC, {places} LIMIT {most}"
    )
    return _rows(connection, found, Outlier)


def _peers(connection: "duckdb.DuckDBPyConnection", most: int) -> tuple[Peers, ...]:
    order = "ORDER BY median_share DESC, most_share DESC, comm, thread_class, cause"
    return _rows(connection, f"SELECT * FROM {_LOST} {order} LIMIT {most}", Peers)


def _long_rounds(connection: "duckdb.DuckDBPyConnection", most: int) -> tuple[LongRounds, ...]:
    return _rows(connection, f"{query('long_rounds')} LIMIT {most}", LongRounds)


def _count(connection: "duckdb.DuckDBPyConnection", table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def _rows(connection: "duckdb.DuckDBPyConnection", text: str, kind: type[_Row]) -> tuple[_Row, ...]:
    """What a query returns, each row as a `kind`: its fields are the query's columns by name."""
    found = connection.execute(text)
    names = [column[0] for column in found.description or ()]
    rows: list[tuple[Any, ...]] = found.fetchall()
    return tuple(msgspec.convert(dict(zip(names, row, strict=True)), kind) for row in rows)


def _list(files: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, files))}]"


def _text(text: str) -> str:
    """Text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
