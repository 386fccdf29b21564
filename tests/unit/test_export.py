"""Recordings as Parquet files: what is in them, each once, whole or not at all."""

import datetime
import json
import os
import re
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.cli import main
from kernel_delay.fleet.export import ParquetFiles, schema_of
from kernel_delay.fleet.tables import COLUMNS, FLEET_TABLES, SCHEMA, SCHEMA_KEY, FleetTable
from kernel_delay.model import (
    Container,
    Lost,
    RecordedTarget,
    Round,
    Sample,
    SyscallStats,
    Target,
    Untraced,
)
from kernel_delay.recording.directory import RecordingDirectory
from kernel_delay.recording.tables import ROWS_AT_ONCE
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import HEADER, POD, header, record_samples
from tests.unit.page_samples import HOSTILE
from tests.unit.samples import (
    ACCOUNTED,
    START_TIME,
    TIMED_WINDOW_NS,
    bare_sample,
    timed_thread,
    window,
)

DAY = "day=2023-06-08"


@pytest.fixture(autouse=True)
def _own_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """What the command line may put a buffer behind."""


def files_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {os.fspath(path.relative_to(folder)): path.read_bytes() for path in paths}


def table(folder: Path, name: FleetTable) -> list[dict[str, object]]:
    """All rows of a table."""
    files = sorted((folder / name).rglob("*.parquet"))
    return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]


def at(time: datetime.datetime) -> Sample:
    """A sample whose window began then."""
    return replace(
        bare_sample(timed_thread(7, "handler7", ready=10)),
        window=replace(window(duration_ns=TIMED_WINDOW_NS), start_time=time),
    )


def test_each_table_has_what_was_measured(tmp_path: Path) -> None:
    recording = record_samples(tmp_path / "a.kdr", ACCOUNTED, judge(ACCOUNTED))
    assert main(["export", "--parquet", str(tmp_path / "out"), str(recording)]) == 0
    out = tmp_path / "out"
    names = {f"{t}/{DAY}/node=compute-1/" for t in ("samples", "threads", "syscalls", "findings")}
    assert {name.rpartition("/")[0] + "/" for name in files_of(out)} == names
    assert len(table(out, "samples")) == 2
    threads = table(out, "threads")
    assert [row["name"] for row in threads] == ["revalidator122", "ovs-vswitchd"] * 2
    first = threads[0]
    assert first["thread_class"] == "revalidator*"
    assert (first["ready_ns"], first["preempted_ns"]) == (87_000_000, 80_000_000)
    assert (first["cpu_taker"], first["cpu_taker_ns"]) == ("stress\x1b", 79_000_000)
    assert first["lock_ns"] == 17_700_000
    assert (first["pod"], first["comm"], first["pid"]) == (POD, "ovs-vswitchd", 27090)
    micros = (
        START_TIME - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    ) // datetime.timedelta(microseconds=1)
    assert first["unix_ns"] == micros * 1000
    assert first["start_time"] == START_TIME
    calls = table(out, "syscalls")
    assert [(row["name"], row["call"], row["count"]) for row in calls[:2]] == [
        ("revalidator122", "poll", 0),
        ("revalidator122", "recvmsg", 7),
    ]
    verdict = judge(ACCOUNTED).verdict
    found = table(out, "findings")
    assert [row["text"] for row in found] == [f.text for f in (*ACCOUNTED.verdict, *verdict)]
    assert dict(found[1]["evidence"]) == dict(verdict[0].evidence)  # type: ignore[call-overload]
    assert found[1]["lost_ns"] == verdict[0].evidence["lost_ns"]
    # What of a thread adds up to its window does so still.
    parts = [name for name in COLUMNS["rounds"] if name.endswith("_ns") and name in first]
    account = set(parts) - {"unix_ns", "duration_ns", "lost_ns"}
    assert sum(int(str(first[name])) for name in account) == TIMED_WINDOW_NS


def test_each_of_several_processes_has_its_own_rows(tmp_path: Path) -> None:
    """Those of the header, a child that it does not know, and the sum of what ended."""
    other = Container(None, "cd" * 32, "another pod")
    nginx = RecordedTarget(4790, "nginx", "/usr/sbin/nginx", cgroup="/nginx", container=other)
    targets = (
        Target(27090, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd"),
        Target(4790, "nginx", "/usr/sbin/nginx", other),
        Target(4791, "php", None, other),
        Target(0, "", None),
    )
    with ParquetFiles(tmp_path, header("capture", others=(nginx,))) as files:
        for target in targets:
            files.add(bare_sample(timed_thread(7, "x", ready=10), target=target, processes=4))
        # All others have exited since.
        files.add(bare_sample(timed_thread(7, "x", ready=10), target=targets[1]))
        files.finish()
    of_samples = table(tmp_path, "samples")
    assert [(row["pid"], row["comm"], row["pod"], row["cgroup"]) for row in of_samples] == [
        (27090, "ovs-vswitchd", POD, HEADER.target.cgroup),
        (4790, "nginx", "another pod", "/nginx"),
        (4791, "php", "another pod", None),
        (0, "", None, None),
        (4790, "nginx", "another pod", "/nginx"),
    ]
    of_threads = table(tmp_path, "threads")
    assert [row["comm"] for row in of_threads] == ["ovs-vswitchd", "nginx", "php", "", "nginx"]


def test_a_round_of_watch_has_its_cause(tmp_path: Path) -> None:
    half_a_second = window(duration_ns=TIMED_WINDOW_NS)
    throttled = judge(bare_sample(timed_thread(7, "pmd7", throttled=400), window=half_a_second))
    slow = replace(throttled, round=Round(7, "pmd7", 12, suppressed=3))
    busy = bare_sample(timed_thread(8, "main", user=300), window=half_a_second)
    calm = replace(busy, round=Round(8, "main", 1))
    path = tmp_path / "w.kdr"
    with RecordingWriter(path, header("watch")) as writer:
        writer.sample(slow)
        writer.sample(calm)
        writer.finish("done")
    assert main(["export", "--parquet", str(tmp_path), str(path)]) == 0
    rows = table(tmp_path, "rounds")
    assert [(r["name"], r["cause"], r["suppressed"], r["number"]) for r in rows] == [
        ("pmd7", "throttled", 3, 12),
        ("main", "user", 0, 1),
    ]
    assert str(rows[0]["why"]).startswith(slow.verdict[0].text.rstrip("."))
    assert rows[0]["throttled_ns"] == 400_000_000


def test_twice_is_once(tmp_path: Path) -> None:
    one = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    cut = tmp_path / "cut.kdr"
    cut.write_bytes(one.read_bytes())
    out = tmp_path / "out"
    for _ in range(2):
        assert main(["export", "--parquet", str(out), str(one), str(cut)]) == 0
    assert len(table(out, "samples")) == 1
    assert len(table(out, "threads")) == len(ACCOUNTED.threads)


def test_each_day_has_its_own_files(tmp_path: Path) -> None:
    """And if the clock is set back, nothing is written over."""
    eve, morning = START_TIME.replace(hour=23, minute=59), START_TIME + datetime.timedelta(days=1)
    recording = record_samples(tmp_path / "a.kdr", *map(at, (eve, morning, eve, morning, eve)))
    assert main(["export", "--parquet", str(tmp_path), str(recording)]) == 0
    days = sorted(path.parent.parent.name for path in (tmp_path / "samples").rglob("*.parquet"))
    assert days == ["day=2023-06-08"] * 3 + ["day=2023-06-09"] * 2
    assert sorted(int(str(row["sample"])) for row in table(tmp_path, "samples")) == [0, 1, 2, 3, 4]


def test_cut_recording_is_exported_up_to_the_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.jsonl"
    record_samples(path, ACCOUNTED, ACCOUNTED)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert main(["export", "--parquet", str(tmp_path), str(path)]) == os.EX_DATAERR
    assert "was cut" in capsys.readouterr().err
    assert len(table(tmp_path, "samples")) == 1


def cut_copy(recording: Path, samples: int) -> Path:
    """A copy with so many of the samples, each of which is a line."""
    copy = recording.with_name(f"cut-{samples}.jsonl")
    lines = recording.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[: 1 + samples]))
    return copy


@pytest.mark.parametrize("longest_is", ["first", "last", "between"])
def test_of_two_copies_the_longer_one_stays(
    longest_is: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each day; and so do its rows in other tables."""
    morning = START_TIME + datetime.timedelta(days=1)
    whole = record_samples(tmp_path / "a.jsonl", *map(at, (START_TIME, *[morning] * 3)))
    cut = cut_copy(whole, 2)
    orders = {"first": [whole, cut], "last": [cut, whole], "between": [cut, whole, cut]}
    out = tmp_path / "out"
    for copy in orders[longest_is]:
        main(["export", "--parquet", str(out), str(copy)])
    alone = tmp_path / "alone"
    main(["export", "--parquet", str(alone), str(whole)])
    assert files_of(out) == files_of(alone)
    said = f"{str(cut)!r} is shorter than the copy that was exported before: that stays"
    assert (said in capsys.readouterr().err) == (longest_is != "last")


def test_unreadable_files_of_an_export_are_written_again(tmp_path: Path) -> None:
    recording = record_samples(tmp_path / "a.kdr", ACCOUNTED, ACCOUNTED)
    out = tmp_path / "out"
    assert main(["export", "--parquet", str(out), str(recording)]) == 0
    whole = files_of(out)
    for path in out.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    assert main(["export", "--parquet", str(out), str(recording)]) == 0
    assert files_of(out) == whole


def test_a_recording_without_samples_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_samples(tmp_path / "a.kdr")
    assert main(["export", "--parquet", str(tmp_path / "out"), str(recording)]) == 0
    said = f"kernel-delay: {str(recording)!r} has no samples: there is nothing of it to export\n"
    assert capsys.readouterr().err == said
    assert not (tmp_path / "out").exists()


def test_what_is_no_recording_does_not_keep_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    bad = tmp_path / "b.kdr"
    bad.write_text("no")
    flows = tmp_path / "f.kdr"
    with RecordingWriter(flows, header("flows")) as writer:
        writer.finish("done")
    out = tmp_path / "out"
    names = [str(bad), str(flows), str(tmp_path / "none"), str(good)]
    assert main(["export", "--parquet", str(out), *names]) == os.EX_DATAERR
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "is a recording of flows: only those of capture and watch can be exported" in lines[1]
    assert len(table(out, "samples")) == 1


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        with ParquetFiles(folder, HEADER) as files:
            files.add(ACCOUNTED)
            assert len(files_of(folder)) > 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_seen_before_it_is_whole(tmp_path: Path) -> None:
    with ParquetFiles(tmp_path, HEADER) as files:
        files.add(ACCOUNTED)
        assert list(tmp_path.rglob("*.parquet")) == []
        assert all(Path(name).name.startswith(".") for name in files_of(tmp_path))
        assert files.finish() == 1
    assert len(list(tmp_path.rglob("*.parquet"))) == len(files_of(tmp_path)) == 4


def test_rows_in_memory_are_bounded_by_one_write(tmp_path: Path) -> None:
    many = bare_sample(*(timed_thread(tid, f"t{tid}") for tid in range(1, 1500)))
    with ParquetFiles(tmp_path, HEADER) as files:
        for _ in range(20):
            files.add(many)
        files.finish()
    (file,) = (tmp_path / "threads").rglob("*.parquet")
    metadata = pq.ParquetFile(file).metadata
    groups = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
    assert max(groups) == ROWS_AT_ONCE
    assert sum(groups) == 20 * 1499


def test_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    (tmp_path / "file").write_text("")
    status = main(["export", "--parquet", str(tmp_path / "file"), str(recording)])
    assert status == os.EX_CANTCREAT
    assert re.fullmatch(
        r"kernel-delay: can't write '.*': Not a directory\n", capsys.readouterr().err
    )


def test_names_of_any_kind_stand_as_they_are(tmp_path: Path) -> None:
    """As of nodes, which are folders, and of threads."""
    names = [name for name in HOSTILE if "\ud800" not in name]
    sample = bare_sample(*(timed_thread(9 + i, name) for i, name in enumerate(names)))
    node = "a/../b=%2F c"
    with ParquetFiles(tmp_path, header("capture", host=node)) as files:
        files.add(sample)
        files.finish()
    read = duckdb.execute(
        f"SELECT DISTINCT node, name FROM read_parquet('{tmp_path}/threads/*/*/*.parquet',"
        " hive_partitioning = true)"
    ).fetchall()
    assert set(read) == {(node, name) for name in names}


@pytest.mark.parametrize("name", FLEET_TABLES)
def test_the_files_say_which_schema_they_have(name: FleetTable) -> None:
    schema = schema_of(name)
    assert schema.metadata == {SCHEMA_KEY.encode(): SCHEMA.encode()}
    assert schema.names == list(COLUMNS[name])


def test_columns_come_and_none_goes(project: Path) -> None:
    """What once was there is there, and of the same kind: the file is added to, never changed."""
    first = json.loads((project / "tests" / "unit" / "golden" / "parquet_schema.json").read_text())
    for name in FLEET_TABLES:
        now = {field.name: str(field.type) for field in schema_of(name)}
        assert {column: now.get(column) for column in first[name]} == first[name]


def test_without_pyarrow_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", "--parquet", str(tmp_path / "o"), str(recording)]) == os.EX_UNAVAILABLE
    line = "kernel-delay: Parquet needs Python's package pyarrow, which is not installed"
    assert capsys.readouterr().err == f"{line}: {sys.executable} -m pip install pyarrow\n"
    assert not (tmp_path / "o").exists()


def test_numpy_starts_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its OpenBLAS ends the process by SIGINT where it can't."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    recording = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    assert main(["export", "--parquet", str(tmp_path / "node"), str(recording)]) == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


def test_calls_of_no_name_are_there(tmp_path: Path) -> None:
    thread = replace(timed_thread(7, "x"), syscalls=(SyscallStats(9999, None, 1, 5, 5),))
    with ParquetFiles(tmp_path, HEADER) as files:
        files.add(bare_sample(thread))
        files.finish()
    (row,) = table(tmp_path, "syscalls")
    assert (row["number"], row["call"], row["total_ns"]) == (9999, None, 5)


def test_pyarrow_reads_the_whole_folder(tmp_path: Path) -> None:
    recording = record_samples(tmp_path / "a.kdr", ACCOUNTED)
    assert main(["export", "--parquet", str(tmp_path / "out"), str(recording)]) == 0
    whole = pq.read_table(tmp_path / "out" / "threads")
    assert isinstance(whole, pa.Table)
    assert set(whole["node"].to_pylist()) == {"compute-1"}


@pytest.mark.parametrize("command", [("export", "a.kdr", "--parquet", ""), ("fleet", "")])
def test_no_folder_is_not_the_current_one(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command]) == os.EX_USAGE
    assert "must not be empty" in capsys.readouterr().err


def test_each_round_of_a_watch_is_exported(tmp_path: Path) -> None:
    """They have a recording each, of one process and one command."""
    rounds = RecordingDirectory(tmp_path / "rounds", header("watch"))
    measured = bare_sample(
        timed_thread(8, "main", user=300), window=window(duration_ns=TIMED_WINDOW_NS)
    )
    sample = replace(measured, round=Round(8, "main", 1))
    later = replace(sample.window, start_time=START_TIME + datetime.timedelta(seconds=1))
    paths = [rounds.add(sample), rounds.add(replace(sample, window=later))]
    for _ in range(2):
        assert main(["export", "--parquet", str(tmp_path / "out"), *map(str, paths)]) == 0
    assert len(table(tmp_path / "out", "rounds")) == 2


def test_all_that_was_lost_is_exported(tmp_path: Path) -> None:
    lost = Lost(missed_events=2, missed_switches=2, untraced=Untraced(7, "agent", 2))
    recording = record_samples(tmp_path / "a.kdr", replace(ACCOUNTED, lost=lost))
    assert main(["export", "--parquet", str(tmp_path), str(recording)]) == 0
    (row,) = table(tmp_path, "samples")
    assert row["lost"] == [("missed_events", 2), ("missed_switches", 2)]


def test_a_number_that_no_table_holds_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_samples(tmp_path / "a.kdr", replace(ACCOUNTED, lost=Lost(events=1 << 63)))
    out = tmp_path / "out"
    assert main(["export", "--parquet", str(out), str(recording)]) == os.EX_DATAERR
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("has a number that is too large for a table")
    assert not out.exists()
