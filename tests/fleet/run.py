"""python -m tests.fleet.run: fleets of 50, 500 and 5,000 nodes, of a real recording.

A private Open vSwitch is measured and exported; from that a day of each node is simulated, on
one of which some threads wait for CPUs from 14:00 on. `fleet` shall name that one first, and
Spark return the same rows as DuckDB of all queries. The cost is printed as docs/how-to/fleet.md has
it. Exits with 1 unless all of that is so, and bytes and rows grow with the nodes.
"""

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from kernel_delay.analysis.verdict import judge
from kernel_delay.fleet.database import QUERIES, query, tables_of
from kernel_delay.fleet.export import ParquetFiles
from kernel_delay.fleet.parquet_files import find
from kernel_delay.model import Round
from kernel_delay.reporters.fleet import Document
from lab.binaries import Binaries
from lab.instance import Instance
from lab.traffic import Traffic
from tests import commands
from tests.fleet.simulation import Planted, name_of, simulate
from tests.recordings import HEADER
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

NODES = (50, 500, 5000)
COMPARED = 500
"""Of how many nodes Spark is asked too, at most."""

WINDOWS = 96
"""A day has one each quarter of an hour."""

PLANTED = Planted(name_of(17), "urcu*", "ready_ns", 0.3, 14)

SAMPLES = ("--sample-count", "12", "--sample-time", "0.5")


class Outcome(Struct):
    """What a fleet of so many nodes took, and whether the planted one was first in it."""

    nodes: int
    rows: int
    size: int
    query_s: float
    found: bool


def measure(ovs: Path, folder: Path) -> Path:
    """Export a recording of a real Open vSwitch under load."""
    recording = folder / "ovs.kdr"
    with Instance(Binaries.under(ovs)) as instance, Traffic(instance, rate=500, seconds=60.0):
        _run("--pid", instance.pid, *SAMPLES, "-o", recording, "--summary")
    base = folder / "base"
    _run("export", "--parquet", base, recording)
    return base


def simulated(base: Path, folder: Path, nodes: int) -> Outcome:
    """Write so many nodes, and ask for what they lose."""
    rows = simulate(base, folder, nodes, WINDOWS, [PLANTED])
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    started = time.monotonic()
    text = _run("fleet", folder, "--json")
    took = time.monotonic() - started
    survey = msgspec.json.decode(text, type=Document).survey
    worst = [(each.node, each.thread_class, each.cause, each.since_ns) for each in survey.outliers]
    planted = (PLANTED.node, PLANTED.thread_class, "ready", PLANTED.since_ns)
    return Outcome(nodes, rows, size, took, worst[:1] == [planted])


def add_odd(folder: Path) -> None:
    """Add nodes of which the verdict finds something, in windows and in a long round."""
    for number in range(6):
        thread = timed_thread(7, "worker7", ready=200 if number == 3 else 0, user=50)
        sample = judge(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))
        round_ = structs.replace(sample, round=Round(7, "worker7", 9, suppressed=number))
        for pid, (command, measured) in enumerate((("capture", sample), ("watch", round_))):
            # Another process: else the one recording would be taken for the other.
            target = structs.replace(HEADER.target, pid=pid + 1)
            of_node = structs.replace(HEADER, command=command, host=f"odd{number}", target=target)
            with ParquetFiles(folder, of_node) as files:
                files.add(measured)
                files.finish()


def differing(folder: Path, scratch: Path) -> list[str]:
    """The queries of which Spark returns other rows than DuckDB, or in another order."""
    from tests.fleet import spark as on_spark

    found = []
    add_odd(folder)
    with on_spark.session(scratch) as spark, tables_of(find([folder])) as connection:
        on_spark.make_views(spark, folder)
        for name in QUERIES:
            connection.execute(f"CREATE TEMP TABLE {name} AS {query(name)}")
            table = connection.execute(f"SELECT * FROM {name}")
            names = [column[0] for column in table.description or ()]
            ours = [dict(zip(names, row, strict=True)) for row in table.fetchall()]
            started = time.monotonic()
            theirs = on_spark.rows(spark, name)
            print(f"{name}: {len(ours):,} rows; Spark's in {time.monotonic() - started:.1f} s")
            ordered = "\nORDER BY" in query(name)
            if not ours or not same(ours, theirs, ordered=ordered):
                found.append(name)
    return found


def same(one: list[dict[str, Any]], other: list[dict[str, Any]], *, ordered: bool) -> bool:
    """Whether the rows are, but for the last digits of what is no whole number."""
    if not ordered:
        one, other = sorted(one, key=_place), sorted(other, key=_place)
    return len(one) == len(other) and all(map(_same_row, one, other))


def main() -> int:
    """Run, print, and say whether it is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ovs", type=Path, required=True, help="where Open vSwitch is")
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=NODES, help="of how many (default: all three)"
    )
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernel-delay-fleet-") as name:
        folder = Path(name)
        base = measure(args.ovs, folder)
        print("| nodes | rows | MB | `fleet` takes |\n|---:|---:|---:|---:|")
        outcomes = []
        for nodes in args.nodes:
            each = simulated(base, folder / str(nodes), nodes)
            outcomes.append(each)
            print(f"| {nodes:,} | {each.rows:,} | {each.size / 1e6:,.1f} | {each.query_s:.1f} s |")
        compared = max((nodes for nodes in args.nodes if nodes <= COMPARED), default=0)
        wrong = []
        if compared and not args.no_spark:
            print(f"{compared:,} nodes, by DuckDB and by Spark:")
            wrong = differing(folder / str(compared), folder)
    failures = [f"of {each.nodes} nodes another was first" for each in outcomes if not each.found]
    failures += [f"Spark's rows differ: {name}" for name in wrong]
    failures += [text for text in map(_growth, outcomes[:-1], outcomes[1:]) if text]
    print("\n".join(failures) or "all is well", file=sys.stderr)
    return 1 if failures else 0


def _growth(less: Outcome, more: Outcome) -> str:
    """What did not grow as the nodes did."""
    nodes = more.nodes / less.nodes
    grown = {"rows": more.rows / less.rows, "bytes": more.size / less.size}
    return ", ".join(
        f"{what} grew {times:.2f} times with {nodes:.0f} times the nodes"
        for what, times in grown.items()
        if not math.isclose(times, nodes, rel_tol=0.05)
    )


def _place(row: dict[str, Any]) -> str:
    return repr([value for value in row.values() if not isinstance(value, float)])


def _same_row(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return list(one) == list(other) and all(map(_same_value, one.values(), other.values()))


def _same_value(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return isinstance(other, float) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)


def _run(*arguments: object) -> str:
    done = commands.run(*arguments)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return str(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
