"""A fleet's day, from recordings of one node: each node's differs a little, and some much.

What the recordings exported is read back, and repeated: at other times, of other nodes, with other
shares of the time. Only the planted ones lose more than the recordings did, and a bit of chance.
"""

import datetime
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from kernel_delay.fleet.export import schema_of
from kernel_delay.fleet.tables import FLEET_TABLES, FleetTable

DAY = datetime.datetime(2026, 3, 14, tzinfo=datetime.UTC)
DAY_NS = 24 * 3600 * 10**9

# What a thread's other times are taken from; and how far they stray, in parts of all its time.
STRAYED = "blocked_ns"
CHANCE = 0.002


class Planted(Struct, frozen=True):
    """A node whose threads of a class lose a share of what they slept to a cause.

    From `from_hour` of the day on. `field` is the column of threads that the time goes to.
    """

    node: str
    thread_class: str
    field: str
    share: float
    from_hour: int

    @property
    def since_ns(self) -> int:
        """When it begins, of the Unix epoch."""
        return epoch_ns(DAY) + self.from_hour * 3600 * 10**9


class Day:
    """A day of one node's rows: the recording's windows, over and over, evenly spread."""

    def __init__(self, base: Path, windows: int) -> None:
        """Repeat what was exported to `base`, of one recording, until there are so many windows."""
        tables = {table: read(base, table) for table in FLEET_TABLES}
        in_base = int(column(tables["samples"], "sample").max()) + 1
        self.tables = {
            table: _spread(_repeated(rows, in_base, windows), windows)
            for table, rows in tables.items()
        }

    def of(self, node: str, table: FleetTable, planted: Sequence[Planted]) -> pa.Table:
        """The rows of one table, as this node has them."""
        rows = self.tables[table]
        name = rows.schema.get_field_index("recording")
        rows = rows.set_column(name, "recording", pa.array([f"{node}-0-1"] * len(rows)))
        return _strayed(rows, node, planted) if table == "threads" else rows


def simulate(base: Path, folder: Path, nodes: int, windows: int, planted: Sequence[Planted]) -> int:
    """Write a day of `nodes` to `folder`, from what was exported to `base`; return the rows."""
    day = Day(base, windows)
    rows = 0
    for node in map(name_of, range(nodes)):
        for table in FLEET_TABLES:
            part = day.of(node, table, planted)
            if not len(part):
                continue
            rows += len(part)
            place = folder / table / f"day={DAY:%Y-%m-%d}" / f"node={node}"
            place.mkdir(parents=True)
            pq.write_table(part, place / f"{node}-0-1.parquet", compression="zstd")
    return rows


def read(base: Path, table: FleetTable) -> pa.Table:
    """One table of one recording, as it was exported."""
    files = sorted((base / table).rglob("*.parquet"))
    assert len(files) <= 1, f"{base} has several recordings"
    return pq.ParquetFile(files[0]).read() if files else schema_of(table).empty_table()


def name_of(number: int) -> str:
    """What a node is called."""
    return f"node-{number:04}"


def epoch_ns(time: datetime.datetime) -> int:
    """A time, of the Unix epoch."""
    return int(time.timestamp()) * 10**9


def column(rows: pa.Table, name: str) -> np.ndarray:
    """A column of integers of which none is missing."""
    found: np.ndarray = rows[name].to_numpy()
    return found


def _repeated(rows: pa.Table, in_base: int, windows: int) -> pa.Table:
    samples = column(rows, "sample")
    at = rows.schema.get_field_index("sample")
    parts = []
    for first in range(0, windows, in_base):
        part = rows.set_column(at, "sample", pa.array(samples + first))
        parts.append(part.filter(pa.array(samples + first < windows)))
    return pa.concat_tables(parts).combine_chunks()


def _spread(rows: pa.Table, windows: int) -> pa.Table:
    """The rows at the times that their windows have in the day."""
    unix_ns = epoch_ns(DAY) + column(rows, "sample") * (DAY_NS // windows)
    times = pa.array(unix_ns // 1000).cast(pa.timestamp("us", tz="UTC"))
    for name, value in (("unix_ns", pa.array(unix_ns)), ("start_time", times)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, value)
    return rows


def _strayed(rows: pa.Table, node: str, planted: Sequence[Planted]) -> pa.Table:
    """The rows of threads, each of which waits for a CPU a bit longer or shorter on each node."""
    draw = np.random.default_rng(zlib.crc32(node.encode()))
    chance = np.abs(draw.standard_normal(len(rows))) * CHANCE
    waited = np.minimum(column(rows, STRAYED), column(rows, "duration_ns") * chance)
    rows = _given(rows, "ready_ns", waited)
    for each in planted:
        if each.node == node:
            threads = rows["thread_class"].to_numpy() == each.thread_class
            hit = threads & (column(rows, "unix_ns") >= each.since_ns)
            rows = _given(rows, each.field, hit * column(rows, STRAYED) * each.share)
    return rows


def _given(rows: pa.Table, name: str, ns: np.ndarray) -> pa.Table:
    """The rows with so much of what each thread slept spent on another thing: the sum stays."""
    whole = ns.astype(np.int64)
    for field, change in ((name, whole), (STRAYED, -whole)):
        at = rows.schema.get_field_index(field)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(column(rows, field) + change))
    return rows
