"""The queries, as DuckDB and Spark both understand them: docs/reference/fleet-queries.md.

Each reads the tables, and as tables of their own names the queries before it.
"""

from collections.abc import Iterator
from importlib.resources import files

from kernel_delay.recording.fleet_tables import FleetKind, FleetTable, columns

QUERIES = ("fleet", "losses", "shares", "peers", "outliers", "evidence", "long_rounds")
"""All of them, in the order in which they are to be run."""


def query(name: str) -> str:
    """The text of one of QUERIES, without the remark at its head."""
    lines = text_of(name).splitlines(keepends=True)
    while lines[0].startswith("--"):
        del lines[0]
    return "".join(lines)


def text_of(name: str) -> str:
    """The same, whole."""
    return (files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")


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
