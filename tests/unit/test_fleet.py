"""A fleet: who is found to lose more than the others, and where nobody is."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import RULES, judge
from kernel_delay.cli import main
from kernel_delay.fleet import FleetSurvey, database
from kernel_delay.fleet.database import QUERIES, survey, text_of
from kernel_delay.fleet.export import HIVE_NULL, ParquetFiles
from kernel_delay.fleet.parquet_files import find
from kernel_delay.fleet.tables import COLUMNS, EPOCH, FLEET_TABLES, PARTITIONS, SCHEMA_KEY
from kernel_delay.model import CpuTaker, MeasuringCommand, Round, Sample, Sleep
from kernel_delay.reporters import fleet as reporter
from kernel_delay.reporters.fleet import MOST_ROWS
from kernel_delay.reporters.layout import IN_A_PIPE, Layout
from tests.fleet.simulation import DAY, Planted, name_of, simulate
from tests.recordings import POD, header
from tests.unit.page_samples import HOSTILE
from tests.unit.samples import START_TIME, TIMED_WINDOW_NS, bare_sample, timed_thread, window

NODES = 12
WINDOWS = 24
SLOW = Planted(name_of(5), "handler*", "ready_ns", 0.3, 14)


def half_a_second(**times: int) -> Sample:
    """A judged sample of one handler, whose time went there, and of one that slept throughout."""
    handler = timed_thread(7, "handler7", user=50, kernel=10, **times)
    return judge(
        bare_sample(
            handler,
            timed_thread(8, "urcu2"),
            window=window(duration_ns=TIMED_WINDOW_NS),
        )
    )


def write(
    folder: Path,
    node: str,
    *samples: Sample,
    command: MeasuringCommand = "capture",
    **changes: object,
) -> None:
    """Export what was measured on a node."""
    with ParquetFiles(folder, header(command, host=node, **changes)) as files:
        for sample in samples:
            files.add(sample)
        files.finish()


def ask(*folders: Path) -> FleetSurvey:
    """What there is to say of the folders."""
    return survey(find(folders), MOST_ROWS)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a recording of three windows exports."""
    folder = tmp_path_factory.mktemp("base")
    write(folder, "base", half_a_second(ready=2), half_a_second(ready=1), half_a_second(ready=4))
    return folder


@pytest.fixture(scope="module")
def quiet(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet of which nobody loses much."""
    folder = tmp_path_factory.mktemp("quiet")
    simulate(base, folder, NODES, WINDOWS, ())
    return folder


@pytest.fixture(scope="module")
def troubled(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet in which one node's handlers wait for CPUs in the afternoon."""
    folder = tmp_path_factory.mktemp("troubled")
    simulate(base, folder, NODES, WINDOWS, (SLOW,))
    return folder


def test_in_a_quiet_fleet_nobody_differs(quiet: Path) -> None:
    found = ask(quiet)
    assert found.extent.nodes == NODES
    assert found.extent.windows == NODES * WINDOWS
    assert found.outliers == ()
    assert found.all_outliers == 0


def test_who_was_planted_is_first(troubled: Path) -> None:
    found = ask(troubled)
    assert found.all_outliers == 1
    (worst,) = found.outliers
    assert (worst.node, worst.thread_class, worst.cause) == (SLOW.node, "handler*", "ready")
    assert worst.peers == NODES
    assert worst.since_ns == SLOW.since_ns
    assert (worst.hours, worst.over_hours) == (24, 24 - SLOW.from_hour)
    # Of ten hours of 24, 30 % of what it slept: 0.87 of its time, about.
    expected = 0.3 * 0.87 * 10 / 24
    assert worst.share - worst.median_share == pytest.approx(expected, rel=0.1)


def test_the_shares_are_those_of_the_samples(tmp_path: Path) -> None:
    """By hand: medians, spread, score; a finding's cause is of the windows."""
    ready = [5, 10, 10, 15, 20, 200]
    for number, ms in enumerate(ready):
        write(tmp_path, f"n{number}", half_a_second(ready=ms), half_a_second(ready=ms))
    found = ask(tmp_path)
    (worst,) = found.outliers
    # In parts of half a second: the median is 12.5 ms, which the others are 5 ms from, as a median.
    median, spread = 12.5 / 500, max(0.01, 1.4826 * 5 / 500)
    assert worst.node == "n5"
    assert worst.share == pytest.approx(0.4)
    assert worst.median_share == pytest.approx(median)
    assert worst.score == pytest.approx((0.4 - median) / spread)
    assert worst.evidence is not None
    assert worst.sample == 0
    assert worst.evidence == half_a_second(ready=200).verdict[0].text
    handlers = [p for p in found.peers if (p.thread_class, p.cause) == ("handler*", "ready")]
    assert [(p.peers, p.most_node) for p in handlers] == [(6, "n5")]


def test_a_wait_that_the_verdict_names_is_a_cause(tmp_path: Path) -> None:
    def sample(disk_ms: int) -> Sample:
        ns = disk_ms * 1_000_000
        sleep = Sleep("disk", "fsync", ("io_schedule",), True, 9, ns, ns)
        thread = replace(timed_thread(7, "w7", user=10), sleeps=(sleep,))
        return judge(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))

    for number in range(9):
        write(tmp_path, f"n{number}", sample(300 if number == 3 else 0), sample(0))
    (worst,) = ask(tmp_path).outliers
    assert (worst.node, worst.cause) == ("n3", "wait_disk")
    assert worst.share == pytest.approx(0.3)
    assert worst.median_share == 0


def test_what_all_have_for_hours_is_no_beginning(base: Path, tmp_path: Path) -> None:
    """All wait for CPUs until the morning, and one node from noon on."""
    all_day = [Planted(name_of(node), "handler*", "ready_ns", 0.4, 0) for node in range(NODES)]
    less = [Planted(name_of(node), "handler*", "ready_ns", -0.6, 6) for node in range(NODES)]
    slow = Planted(name_of(5), "handler*", "ready_ns", 0.3, 12)
    simulate(base, tmp_path, NODES, WINDOWS, [*all_day, *less, slow])
    (worst,) = ask(tmp_path).outliers
    assert (worst.node, worst.since_ns) == (slow.node, slow.since_ns)
    assert (worst.hours, worst.over_hours) == (24, 12)


def at(days: int, sample: Sample) -> Sample:
    """A sample of so many days later, by its node's clock."""
    start_time = sample.window.start_time + timedelta(days=days)
    return replace(sample, window=replace(sample.window, start_time=start_time))


def test_a_clock_that_is_wrong_hides_nobody(tmp_path: Path) -> None:
    """Nobody else has the hours of such a node: these are held against those of all."""
    for number in range(9):
        write(tmp_path, f"n{number}", half_a_second(ready=5))
    write(tmp_path, "late", at(4000, half_a_second(ready=200)), at(4000, half_a_second(ready=300)))
    write(tmp_path, "early", at(-4000, half_a_second(ready=5)))
    (worst,) = ask(tmp_path).outliers
    began = START_TIME + timedelta(days=4000)
    assert (worst.node, worst.hours, worst.over_hours) == ("late", 1, 1)
    assert worst.since_ns == (began - EPOCH) // timedelta(microseconds=1) * 1000


def test_small_differences_among_equal_nodes_are_no_outliers(tmp_path: Path) -> None:
    """Each node of one window, and the median of the distances is 0."""
    for number in range(9):
        write(tmp_path, f"n{number}", half_a_second(ready=50))
    assert ask(tmp_path).outliers == ()
    write(tmp_path, "bit", half_a_second(ready=67))
    assert ask(tmp_path).outliers == ()
    write(tmp_path, "more", half_a_second(ready=68))
    (worst,) = ask(tmp_path).outliers
    assert worst.node == "more"
    assert worst.score == pytest.approx(3.6)


def test_where_no_window_was_measured_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "n1", half_a_second())
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    assert main(["fleet", str(tmp_path)]) == os.EX_DATAERR
    reported = capsys.readouterr()
    assert reported.out.startswith("# No windows were measured.\n")
    assert "was cut, or is no Parquet file: it is left out" in reported.err


def test_of_few_nothing_is_claimed(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, f"n{number}", half_a_second(ready=400 if number == 0 else 0))
    found = ask(tmp_path)
    assert found.outliers == ()
    assert found.peers[0].most_share > 0


def test_long_rounds_are_counted_by_themselves(tmp_path: Path) -> None:
    """And not held against windows that were not chosen for being long."""
    slow = replace(half_a_second(throttled=400), round=Round(7, "handler7", 3, suppressed=2))
    slow = replace(slow, threads=slow.threads[:1])
    write(tmp_path, "n0", slow, slow, command="watch")
    for number in range(1, 7):
        write(tmp_path, f"n{number}", half_a_second())
    found = ask(tmp_path)
    assert found.outliers == ()
    (rounds,) = found.long_rounds
    assert (rounds.node, rounds.cause, rounds.rounds, rounds.suppressed) == (
        "n0",
        "throttled",
        2,
        4,
    )
    assert rounds.total_ns == 2 * TIMED_WINDOW_NS
    assert found.extent.rounds == 2


@pytest.mark.parametrize("boot_id", [None, "_b"])
def test_a_node_may_have_any_name(boot_id: str | None, tmp_path: Path) -> None:
    names = ["_a", ".b", "_", ".", "..", "", "%5Fa", "%255Fa", "a/b", "a=b", "it's", "a\nb", "NULL"]
    names += [HIVE_NULL, "é" * 32, "a", "A"]
    for name in names:
        write(tmp_path, name, half_a_second(ready=5), boot_id=boot_id)
    assert ask(tmp_path).extent.nodes == len(names)
    assert pq.read_table(tmp_path / "samples").num_rows == len(names)


def test_nodes_of_long_names_are_distinguished(tmp_path: Path) -> None:
    for end in ("1", "2"):
        write(tmp_path, "é" * 300 + end, half_a_second(ready=5), boot_id=None)
    assert ask(tmp_path).extent.nodes == 2


def test_what_earlier_versions_called_otherwise_counts_once(tmp_path: Path) -> None:
    """Their files could begin with an underscore, and were left out without a word."""
    write(tmp_path, "_a", half_a_second(ready=5), boot_id=None)
    for path in tmp_path.rglob("*.parquet"):
        shutil.copy(path, path.with_name(path.name.replace("%5F", "_")))
    assert ask(tmp_path).extent.windows == 1
    for path in tmp_path.rglob("%5F*.parquet"):
        path.unlink()
    assert ask(tmp_path).extent.windows == 1


def test_what_is_in_two_folders_counts_once(quiet: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(quiet, copy)
    assert ask(quiet, copy) == ask(quiet)


@pytest.mark.parametrize("first", ["cut", "whole"])
def test_of_two_copies_in_two_folders_the_longer_counts(first: str, tmp_path: Path) -> None:
    measured = [half_a_second(ready=ms) for ms in range(20)]
    write(tmp_path / "whole", "n1", *measured)
    write(tmp_path / "cut", "n1", *measured[:15])
    second = {"cut": "whole", "whole": "cut"}[first]
    assert ask(tmp_path / first, tmp_path / second) == ask(tmp_path / "whole")


def test_a_file_of_an_older_schema_still_reads(tmp_path: Path) -> None:
    """One that lacks columns that came later: what these would say is not known."""
    kept = {
        "samples": ["recording", "sample", "unix_ns", "duration_ns", "command", "pid", "comm"],
        "threads": [
            *("recording", "sample", "unix_ns", "duration_ns", "command", "pid", "comm"),
            *("thread_class", "tid", "name", "user_ns", "kernel_ns", "hard_irq_ns", "soft_irq_ns"),
            *("ready_ns", "blocked_ns", "stopped_ns", "throttled_ns", "frozen_ns", "guest_ns"),
            *("unaccounted_ns", "lock_ns"),
        ],
    }
    for number in range(6):
        write(tmp_path, f"n{number}", half_a_second(ready=300 if number == 2 else 0))
    for table, columns in kept.items():
        for path in (tmp_path / table).rglob("node=n[0-3]/*.parquet"):
            old = pq.ParquetFile(path).read().select(columns)
            pq.write_table(old, path)
    shutil.rmtree(tmp_path / "findings")
    for path in (tmp_path / "syscalls").rglob("*.parquet"):
        path.unlink()
    found = ask(tmp_path)
    assert [(o.node, o.cause, o.evidence) for o in found.outliers] == [("n2", "ready", None)]
    for number in (4, 5):
        for path in tmp_path.rglob(f"node=n{number}/*.parquet"):
            path.unlink()
    assert ask(tmp_path).extent.nodes == 4


def test_a_file_of_a_newer_schema_still_reads(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path, f"n{number}", half_a_second(ready=300 if number == 2 else 0))
    for path in (tmp_path / "threads").rglob("node=n2/*.parquet"):
        table = pq.ParquetFile(path).read()
        pq.write_table(table.append_column("color", pa.array(["red"] * len(table))), path)
    assert [o.node for o in ask(tmp_path).outliers] == ["n2"]


def test_another_schema_is_not_read(
    quiet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "x"
    shutil.copytree(quiet, folder)
    path = next((folder / "threads").rglob("*.parquet"))
    table = pq.ParquetFile(path).read()
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: "kernel-delay-parquet/9"}), path)
    assert main(["fleet", str(folder)]) == os.EX_DATAERR
    assert f"{os.fspath(path)!r} is not a file of kernel-delay-parquet/2" in capsys.readouterr().err


@pytest.mark.parametrize("cut", [slice(-9), slice(4)])
def test_cut_parquet_file_is_left_out_and_reported(
    quiet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: slice
) -> None:
    folder = tmp_path / "x"
    shutil.copytree(quiet, folder)
    path = next((folder / "samples").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[cut])
    assert main(["fleet", str(folder)]) == os.EX_DATAERR
    reported = capsys.readouterr()
    assert "was cut, or is no Parquet file: it is left out" in reported.err
    assert f"{NODES - 1} nodes" in reported.out


def test_a_folder_that_cannot_be_read_is_reported(
    quiet: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of another user, for one: root can read all."""
    folder = tmp_path / "x"
    shutil.copytree(quiet, folder)
    closed = next((folder / "samples").glob("*/*"))
    scandir = os.scandir

    def refuse(path: str | int) -> object:
        if path == os.fspath(closed):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert main(["fleet", str(folder)]) == os.EX_DATAERR
    reported = capsys.readouterr()
    assert f"can't read {os.fspath(closed)!r}: Permission denied: it is left out" in reported.err
    assert f"{NODES - 1} nodes" in reported.out


def test_a_file_elsewhere_is_left_out_and_reported(
    quiet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "x"
    shutil.copytree(quiet, folder)
    path = next((folder / "samples").rglob("*.parquet"))
    elsewhere = path.rename(folder / "samples" / path.name)
    assert main(["fleet", str(folder)]) == os.EX_DATAERR
    reported = capsys.readouterr()
    assert f"{os.fspath(elsewhere)!r} is in no folder day=DAY/node=NAME" in reported.err
    assert f"{NODES - 1} nodes" in reported.out


@pytest.mark.parametrize("above", ["recording=all", "region=eu/node=x", "comm=it's [a] *"])
def test_names_of_folders_above_are_no_columns(base: Path, tmp_path: Path, above: str) -> None:
    """Not even beside others that have no such folder above them."""
    folder = tmp_path / above
    write(folder, "x y+z", half_a_second(ready=1))
    write(folder, "50%/ab=", half_a_second(ready=2))
    assert ask(folder).extent.nodes == 2
    both = ask(folder, base)
    assert (both.extent.nodes, both.extent.windows, both.extent.recordings) == (3, 5, 1)
    assert {place.comm for place in both.peers} == {"ovs-vswitchd"}
    assert ask(folder).peers[0].most_node == "50%/ab="


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: None])
def test_nothing_there_is_one_line(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "x")
    assert main(["fleet", str(tmp_path / "x")]) == os.EX_NOINPUT
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_duckdb_a_line_says_so(
    quiet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(["fleet", str(quiet)]) == os.EX_UNAVAILABLE
    line = "kernel-delay: fleet needs Python's package duckdb, which is not installed"
    assert capsys.readouterr().err == f"{line}: {sys.executable} -m pip install duckdb\n"


def test_a_duckdb_that_cannot_be_loaded_is_installed(
    quiet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "duckdb.py").write_text("raise ImportError('failed to map segment')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "duckdb", raising=False)
    assert main(["fleet", str(quiet)]) == os.EX_UNAVAILABLE
    error = capsys.readouterr().err
    assert "failed to map segment" in error
    assert "not installed" not in error


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Cannot open file: Too many open files", "too few file descriptors"),
        ("Cannot allocate memory", "too little memory"),
        ("no such setting", "DuckDB fails: IO Error: no such setting"),
    ],
)
def test_duckdb_that_does_not_start_is_one_line(
    troubled: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    said: str,
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise duckdb.IOException(f"IO Error: {reason}")

    monkeypatch.setattr(duckdb, "connect", fail)
    assert main(["fleet", str(troubled)]) == os.EX_UNAVAILABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kernel-delay: {said}")


def test_the_text(troubled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", str(troubled)]) == 0
    lines = capsys.readouterr().out.splitlines()
    since = f"{DAY:%m-%d} {SLOW.from_hour}:00"
    assert lines[0].startswith(f"# {NODES} nodes, 1 pod: {NODES * WINDOWS} windows of")
    assert "1 place loses much more than the fleet's median, on 1 node" in lines[1]
    cells = re.split("  +", lines[4])
    assert cells[:4] == [SLOW.node, POD[:8], "ovs-vswitchd/handler*", "no CPU"]
    assert all(re.fullmatch(r"\d+\.\d", cell) for cell in cells[4:7])
    assert cells[7:] == [since]
    assert f"in {24 - SLOW.from_hour} of 24 hours" in lines[5]


def test_the_text_fits_a_terminal(troubled: Path) -> None:
    lines = "".join(reporter.lines(ask(troubled), Layout(width=80))).splitlines()
    assert max(map(len, lines)) <= 80
    wide = "".join(reporter.lines(ask(troubled), IN_A_PIPE)).splitlines()
    assert max(map(len, wide)) > 80


def test_the_rows_that_are_left_out_are_counted(
    troubled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", str(troubled), "--top", "1"]) == 0
    out = capsys.readouterr().out
    everything = ask(troubled).all_peers
    assert f"{everything - 1} more rows: --top shows them." in out


def test_the_json(troubled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", str(troubled), "--json"]) == 0
    document = msgspec.json.decode(capsys.readouterr().out, type=reporter.Document)
    assert document.schema == "kernel-delay-fleet/1"
    assert document.survey == ask(troubled)


def test_names_of_any_kind_harm_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name in HOSTILE if "\ud800" not in name]
    takers = CpuTaker(9, "\x1b[31m", 1, 200_000_000)
    for number in range(8):
        for name in names:
            lost = 200 if number == 3 else 0
            thread = replace(timed_thread(7, name, ready=lost), cpu_taken_by=(takers,))
            node = f"n{number}{names[0]}"
            sample = judge(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))
            with ParquetFiles(tmp_path / "o", header("capture", host=node, boot_id=name)) as files:
                files.add(sample)
                files.finish()
    page = tmp_path / "page.html"
    assert main(["fleet", str(tmp_path / "o"), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    text = page.read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    shown: dict[str, Any] = json.loads(data[1])
    assert len(shown["outliers"]) == len(names)
    assert shown["outliers"][0]["node"].startswith("n3")


def test_the_page_is_for_its_owner(
    troubled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["fleet", str(troubled), "--json", "--html", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "kernel-delay-fleet/1"
    assert page.stat().st_mode & 0o777 == 0o600
    assert "default-src 'none'" in page.read_text()


def test_page_of_the_queries_has_each_whole(project: Path) -> None:
    page = (project / "docs" / "reference" / "fleet-queries.md").read_text()
    blocks = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert [text for text in map(text_of, QUERIES) if text not in blocks] == []


def test_page_of_the_tables_has_all_columns(project: Path) -> None:
    page = (project / "docs" / "reference" / "fleet-tables.md").read_text()
    head, _, _ = page.partition("\n## ")
    assert re.findall(r"^\| `(\w+)`", head, re.MULTILINE) == _keys()
    for table in FLEET_TABLES:
        section = page.partition(f"\n## {table}\n")[2].partition("\n#")[0]
        named = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
        own = [name for name in COLUMNS[table] if name not in _keys()]
        assert (table, named) == (table, own)
    assert all(f"`{name}`" in page for name in PARTITIONS)


def _keys() -> list[str]:
    """The columns that all tables begin with."""
    names = list(COLUMNS["samples"])
    return names[: names.index("container") + 1]


def test_when_it_was_is_reported_in_utc() -> None:
    assert reporter.minute_text(int(START_TIME.timestamp()) * 10**9) == "06-08 10:17"


def test_causes_of_findings_are_those_of_losses() -> None:
    """A rule that explains a part of the accounts is the evidence for that part."""
    causes = set(re.findall(r"\('(\w+)'\)", text_of("losses")))
    states = {rule.state for rule in RULES if rule.state is not None}
    named = {rule.name for rule in RULES if rule.state is None} & causes
    assert states | named == causes
    assert not states & named
    assert "{" not in text_of("evidence")


def test_rows_that_are_never_written_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = replace(half_a_second(ready=300), round=Round(7, "handler7", 1))
    write(tmp_path, "n1", slow, command="watch")
    path = next((tmp_path / "rounds").rglob("*.parquet"))
    table = pq.ParquetFile(path).read()
    nothing = pa.array([None], table.schema.field("comm").type)
    pq.write_table(table.set_column(table.schema.get_field_index("comm"), "comm", nothing), path)
    assert main(["fleet", str(tmp_path)]) == os.EX_DATAERR
    (line,) = capsys.readouterr().err.splitlines()
    assert "the Parquet files have rows that export never writes" in line


@pytest.mark.long
def test_a_small_file_does_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(database, "MOST_MEMORY_MIB", 64)
    monkeypatch.setattr(database, "MOST_DISK_MIB", 1)
    write(tmp_path, "n1", half_a_second(ready=300))
    rows = 50_000
    for table in ("samples", "threads", "findings"):
        path = next((tmp_path / table).rglob("*.parquet"))
        small = pq.ParquetFile(path).read().slice(0, 1)
        large = pa.concat_tables([small] * rows).combine_chunks()
        for name in {"recording", "comm", "name"} & set(large.column_names):
            texts = pa.array([f"{'x' * 3000}{number}" for number in range(rows)])
            large = large.set_column(large.schema.get_field_index(name), name, texts)
        pq.write_table(large, path, compression="zstd")
        assert path.stat().st_size < 4 << 20
    assert main(["fleet", str(tmp_path)]) == os.EX_UNAVAILABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert "these files need more than 64 MiB of memory and 1 MiB of disk: name a" in line


def test_a_fifo_is_left_out_and_reported(
    quiet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "x"
    shutil.copytree(quiet, folder)
    path = next((folder / "samples").rglob("*.parquet"))
    os.mkfifo(path.with_name("fifo.parquet"))
    assert main(["fleet", str(folder)]) == os.EX_DATAERR
    reported = capsys.readouterr()
    assert "is no file: it is left out" in reported.err
    assert f"{NODES} nodes" in reported.out
