"""`import kernel_delay`: recordings read from Python, and nothing else public."""

import datetime
import html
import stat
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import kernel_delay
from kernel_delay.analysis.verdict import judge
from kernel_delay.api import apart
from kernel_delay.api._block import lib
from kernel_delay.model import RecordingTrailer, Sample, TaskTimes
from kernel_delay.monitors.bridge_loop.events import LoopEvent, LoopEvents, LoopHit
from kernel_delay.recording.tables import COLUMNS, TABLES, columns
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import HEADER, header, record_samples
from tests.unit.event_samples import EVENTS, WITH_EVENTS
from tests.unit.samples import (
    EVERYTHING,
    START_TIME,
    TIMED_WINDOW_NS,
    bare_sample,
    timed_thread,
    window,
)
from tests.unit.timeline_samples import WITH_TIMELINE

ACCOUNTED = bare_sample(
    timed_thread(1, "handler1", user=250, ready=100), window=window(duration_ns=TIMED_WINDOW_NS)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record_samples(tmp_path / "a.kdr", EVERYTHING, ACCOUNTED, WITH_EVENTS)


def test_recording_can_be_read_repeatedly(path: Path) -> None:
    recording = kernel_delay.open_recording(path)
    assert recording.path == str(path)
    assert recording.header == HEADER
    for _ in range(2):
        found = list(recording)
        assert found[:2] == [EVERYTHING, ACCOUNTED]
        assert list(found[2].syscall_events or ()) == list(EVENTS)
    assert isinstance(found[0], kernel_delay.Sample)
    assert recording.trailer == RecordingTrailer("done", samples=3)
    assert recording.threads[31741] == "revalidator122"
    assert recording.threads[1] == "handler1"
    assert "ovs-vswitchd (27090) on compute-1" in repr(recording)


def test_recording_is_a_context_manager(path: Path) -> None:
    with kernel_delay.open_recording(path) as recording:
        assert len(list(recording)) == len(list(kernel_delay.open_recording(path))) > 0


def test_version_is_that_of_the_command() -> None:
    done = subprocess.check_output([sys.executable, "-m", "kernel_delay", "--version"], text=True)
    assert done == f"kernel-delay {kernel_delay.__version__}\n"


def test_a_cut_recording_yields_what_is_whole_and_raises(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    found: list[Sample] = []
    with pytest.raises(kernel_delay.KernelDelayError, match="was cut") as error:
        found.extend(kernel_delay.open_recording(path))
    assert len(found) == 3
    assert error.value.exit_code == 65


def test_what_is_no_recording_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(kernel_delay.KernelDelayError, match="No such file"):
        kernel_delay.open_recording(tmp_path / "none")
    (tmp_path / "other").write_text("hello")
    with pytest.raises(kernel_delay.KernelDelayError, match="is not a recording"):
        kernel_delay.open_recording(tmp_path / "other")


def test_events_of_open_vswitch_are_yielded(tmp_path: Path) -> None:
    hits = [LoopHit(LoopEvent("run_start", at, 7, "ovs-vswitchd")) for at in range(3)]
    with RecordingWriter(tmp_path / "loop.kdr", header("bridge-loop")) as writer:
        writer.events(LoopEvents(tuple(hits)))
        writer.finish("exit")
    recording = kernel_delay.open_recording(tmp_path / "loop.kdr")
    assert list(recording.events()) == [hit.event for hit in hits]
    assert list(recording) == []


def of_arrow(recording: kernel_delay.Recording, table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recording.to_arrow(table).to_pylist()
    return found


def of_pandas(recording: kernel_delay.Recording, table: Any) -> list[dict[str, Any]]:
    import pandas

    frame = recording.to_pandas(table)
    return [
        {str(name): None if pandas.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


@pytest.mark.parametrize("read", [of_arrow, of_pandas])
def test_tables_have_the_figures_of_the_samples(path: Path, read: Any) -> None:
    recording = kernel_delay.open_recording(path)
    threads = read(recording, "threads")
    assert [row["sample"] for row in threads] == [0] * 6 + [1] + [2] * 2
    (accounted,) = (row for row in threads if row["sample"] == 1)
    assert (accounted["tid"], accounted["name"], accounted["exited"]) == (1, "handler1", False)
    assert accounted["start_time"] == START_TIME
    assert isinstance(accounted["start_time"], datetime.datetime)
    assert (accounted["user_ns"], accounted["ready_ns"]) == (250_000_000, 100_000_000)
    assert accounted["run_count"] is None
    (revalidator,) = (row for row in threads if row["name"] == "revalidator122")
    assert (revalidator["run_count"], revalidator["ready_max_ns"]) == (6, 6_636)
    assert revalidator["user_ns"] is None

    calls = read(recording, "syscalls")
    (futex,) = (row for row in calls if row["name"] == "futex")
    assert (futex["thread"], futex["count"], futex["total_ns"]) == ("revalidator122", 8, 18_768_758)
    assert any(row["name"] is None and row["number"] == 9999 for row in calls)

    events = read(recording, "syscall_events")
    assert [(row["entry_ns"], row["ret"]) for row in events] == [
        (event.entry_ns, event.ret) for event in EVENTS
    ]
    for table, found in (("threads", threads), ("syscalls", calls), ("syscall_events", events)):
        assert list(found[0]) == list(COLUMNS[table])  # type: ignore[index]


def test_complete_sample_fills_each_column_of_threads() -> None:
    everything = structs.replace(
        ACCOUNTED.threads[0],
        run=EVERYTHING.threads[0].run,
        ready=EVERYTHING.threads[0].ready,
        stopped=EVERYTHING.threads[0].stopped,
        long_poll=EVERYTHING.threads[0].long_poll,
        preempted_ns=5,
        signals=1,
        migrations=2,
        task_times=TaskTimes(1, 2, 3, 4, steal_ns=5),
    )
    sample = structs.replace(ACCOUNTED, threads=(everything,))
    (found,) = columns(0, sample, "threads")
    assert [column for column, (value,) in found.items() if value is None] == []
    assert found.keys() == COLUMNS["threads"].keys()
    assert [*found["steal_ns"]] == [5]


def test_pandas_has_large_numbers_beside_missing_ones(tmp_path: Path) -> None:
    """As integers: the nearest float of this one is another."""
    large = 2**60 + 1
    (first,) = ACCOUNTED.threads
    second = structs.replace(first, tid=first.tid + 1, signals=large)
    threads = (structs.replace(first, signals=None), second)
    path = record_samples(tmp_path / "a.kdr", structs.replace(ACCOUNTED, threads=threads))
    found = kernel_delay.open_recording(path).to_pandas("threads")["signals"]
    assert [found.isna()[0], int(found[1])] == [True, large]


def test_a_timeline_is_a_table(tmp_path: Path) -> None:
    path = record_samples(tmp_path / "timeline.kdr", EVERYTHING, WITH_TIMELINE)
    frame = kernel_delay.open_recording(path).to_pandas("timeline")
    assert list(frame.columns) == list(COLUMNS["timeline"])
    assert WITH_TIMELINE.timeline is not None
    assert len(frame) == len(WITH_TIMELINE.timeline)
    blocked = frame[frame.kind == "blocked"]
    assert list(blocked.name) == ["futex"]
    assert int((blocked.stop_ns - blocked.start_ns).sum()) == 500_000
    assert set(frame["sample"]) == {1}


def test_findings_are_a_table(tmp_path: Path) -> None:
    judged = judge(ACCOUNTED)
    assert judged.verdict
    recording = kernel_delay.open_recording(record_samples(tmp_path / "a.kdr", EVERYTHING, judged))
    rows = of_arrow(recording, "verdict")
    assert [row["text"] for row in rows if row["sample"] == 1] == [
        finding.text for finding in judged.verdict
    ]
    (first, *_) = (row for row in rows if row["sample"] == 1)
    assert (first["pid"], first["process"]) == (judged.target.pid, judged.target.comm)
    assert first["share"] == judged.verdict[0].share
    assert list(recording.to_pandas("verdict").columns) == list(COLUMNS["verdict"])


def test_polars_has_the_same_rows(path: Path) -> None:
    recording = kernel_delay.open_recording(path)
    for table in TABLES:
        assert recording.to_polars(table).to_dicts() == of_arrow(recording, table)


def test_reprs_are_one_short_line(path: Path) -> None:
    recording = kernel_delay.open_recording(path)
    for each in (recording, *recording):
        assert len(repr(each)) < len(recording.path) + 120
        assert "\n" not in repr(each)
    assert repr(ACCOUNTED) == (
        f"<Sample of {ACCOUNTED.target.comm} ({ACCOUNTED.target.pid}):"
        f" {TIMED_WINDOW_NS / 1e6:g} ms, 1 thread, 0 findings, 0 remarks>"
    )


def shown_in_a_notebook(thing: Any) -> str:
    found: str = thing._repr_html_()
    return found


def test_a_notebook_shows_the_verdict_and_safe_text(path: Path) -> None:
    (thread,) = ACCOUNTED.threads
    hostile = structs.replace(thread, name="<script>")
    judged = judge(structs.replace(ACCOUNTED, threads=(hostile,)))
    shown = shown_in_a_notebook(judged)
    assert html.escape(judged.verdict[0].text) in shown
    assert "<td>50.0</td>" in shown
    assert "<script>" not in shown
    recording = shown_in_a_notebook(kernel_delay.open_recording(path))
    assert recording.count("<tr>") == 1 + 3


def test_names_of_others_drive_no_terminal_and_no_notebook(tmp_path: Path) -> None:
    name = "\x1b[2J\n# VERDICT: innocent\u202e"
    hostile = structs.replace(
        ACCOUNTED,
        target=structs.replace(ACCOUNTED.target, comm=name),
        threads=(structs.replace(ACCOUNTED.threads[0], name=name),),
    )
    header = structs.replace(HEADER, host=name, target=structs.replace(HEADER.target, comm=name))
    with RecordingWriter(tmp_path / "a.kdr", header) as writer:
        writer.sample(judge(hostile))
        writer.finish("done")
    recording = kernel_delay.open_recording(tmp_path / "a.kdr")
    (sample,) = recording
    shown = [repr(sample), repr(recording), *map(shown_in_a_notebook, (sample, recording))]
    assert all(text.isprintable() for text in shown)
    assert all("\\x1b[2J\\x0a# VERDICT" in text for text in shown)


def test_threads_that_a_notebook_has_no_room_for_are_counted() -> None:
    threads = tuple(timed_thread(tid, f"t{tid}", user=100) for tid in range(1, 41))
    sample = bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))
    shown = shown_in_a_notebook(sample)
    assert "10 more threads are not shown" in shown
    assert shown.count("<tr>") == 1 + 30


def test_the_report_is_that_of_the_command(path: Path) -> None:
    recording = kernel_delay.open_recording(path)
    for options, summary in (([], False), (["--summary"], True)):
        command = [sys.executable, "-m", "kernel_delay", "report", *options, str(path)]
        printed = subprocess.check_output(command, text=True)
        assert kernel_delay.report(recording, summary=summary) == printed
    assert kernel_delay.report(ACCOUNTED) in kernel_delay.report([EVERYTHING, ACCOUNTED])


def test_the_page_is_that_of_the_command(path: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.html", tmp_path / "theirs.html"
    kernel_delay.html(kernel_delay.open_recording(path), ours)
    command = [sys.executable, "-m", "kernel_delay", "report", "--html", str(theirs), str(path)]
    subprocess.check_output(command)
    assert ours.read_text() == theirs.read_text()
    assert stat.S_IMODE(ours.stat().st_mode) == 0o600
    kernel_delay.html(ACCOUNTED, ours)
    assert "handler1" in ours.read_text()


def test_the_comparison_is_that_of_the_command(tmp_path: Path) -> None:
    slower = structs.replace(ACCOUNTED, threads=(timed_thread(1, "handler1", user=100, ready=350),))
    before = record_samples(tmp_path / "before.kdr", *[ACCOUNTED] * 5)
    after = record_samples(tmp_path / "after.kdr", *[slower] * 5)
    comparison = kernel_delay.compare(before, after)
    command = [sys.executable, "-m", "kernel_delay", "compare", str(before), str(after)]
    assert str(comparison) == subprocess.check_output(command, text=True)
    kinds = {change.name: change.kind for change in comparison.changes}
    assert kinds["ready"] == "more"
    shown = shown_in_a_notebook(comparison)
    assert "<td>ready</td>" in shown.replace(' style="text-align: left"', "")
    comparison.html(tmp_path / "page.html")
    assert '"handler' in (tmp_path / "page.html").read_text()
    part = kernel_delay.compare(f"{before}@1-2", f"{before}@3-5")
    assert not [change for change in part.changes if change.kind in ("more", "less")]


def test_a_damaged_side_is_an_error(tmp_path: Path) -> None:
    path = record_samples(tmp_path / "a.kdr", ACCOUNTED, ACCOUNTED)
    cut = tmp_path / "cut.kdr"
    cut.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(kernel_delay.KernelDelayError, match="was cut"):
        kernel_delay.compare(path, cut)


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    recording = kernel_delay.open_recording(record_samples(tmp_path / "none.kdr"))
    assert recording.to_arrow("syscalls").column_names == list(COLUMNS["syscalls"])
    assert list(recording.to_pandas("threads").columns) == list(COLUMNS["threads"])
    with pytest.raises(ValueError, match="table must be one of threads, verdict, syscalls"):
        recording.to_arrow("calls")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("package", "method"),
    [("pyarrow", "to_arrow"), ("pandas", "to_pandas"), ("polars", "to_polars")],
)
def test_without_the_extra_it_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch, package: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    remedy = f"{sys.executable} -m pip install {package}"
    with pytest.raises(kernel_delay.KernelDelayError, match=remedy):
        getattr(kernel_delay.open_recording(path), method)()


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeline": True, "accounting": False},
        {"chains": True, "accounting": False},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": "1ms"},
        {"seconds": 1e9},
        {"shortest_ns": -1},
        {"stacks": "lbr"},
    ],
)
def test_arguments_that_make_no_sense_are_value_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        kernel_delay.capture(1, **arguments)


@pytest.mark.parametrize("arguments", [{"samples": 0}, {"interval": -1}])
def test_so_are_those_of_a_recording(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        kernel_delay.record(tmp_path / "a.kdr", 1, **arguments)
    assert not (tmp_path / "a.kdr").exists()


@pytest.mark.parametrize("arguments", [{"threshold": 0}, {"seconds": float("inf")}])
def test_so_are_those_of_a_watch(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        kernel_delay.watch(1, **arguments)


def test_so_are_samples_of_no_window() -> None:
    with pytest.raises(ValueError, match="samples must be at least 1"):
        kernel_delay.samples(1, count=0)


def test_a_pid_and_a_name_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="leave comm out"):
        kernel_delay.capture(1, comm="redis-server")


@pytest.mark.parametrize("pid", ["1", 1.5])
def test_a_pid_is_a_whole_number(pid: Any) -> None:
    with pytest.raises(ValueError, match="pid must be a whole number"):
        kernel_delay.capture(pid)
    with pytest.raises(ValueError, match="pid must be a whole number"):
        kernel_delay.samples([pid])


def test_blocks_beyond_the_most_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lib.BLOCKS == apart.BLOCKS == len(apart.Measurement._free)
    monkeypatch.setattr(apart.Measurement, "_free", deque())
    with pytest.raises(kernel_delay.KernelDelayError, match="16 blocks are measured already"):
        kernel_delay.measure().__enter__()


def test_dir_has_the_public_names() -> None:
    assert set(dir(kernel_delay)) == {*kernel_delay.__all__, "__version__"}


def test_an_unknown_option_is_a_type_error() -> None:
    for call in (kernel_delay.capture, kernel_delay.samples, kernel_delay.measure):
        with pytest.raises(TypeError, match="second"):
            call(second=1)  # type: ignore[call-arg]


def test_the_public_names_are_those_of_the_page(project: Path) -> None:
    page = (project / "docs" / "reference" / "api.md").read_text()
    for name in kernel_delay.__all__:
        assert f"{name}(" in page or f"`{name}`" in page
        assert getattr(kernel_delay, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'trace'"):
        kernel_delay.trace  # noqa: B018
    recording = {name for name in vars(kernel_delay.Recording) if not name.startswith("_")}
    comparison = {name for name in vars(kernel_delay.Comparison) if not name.startswith("_")}
    assert all(f"`{name}" in page for name in (*recording, *comparison, "path", "changes"))


def test_importing_it_imports_no_other_package() -> None:
    script = (
        "import sys; before = set(sys.modules); import kernel_delay\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "import kernel_delay.capture.plan\n"
        "print(type(kernel_delay.capture).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "kernel_delay kernel_delay.capture\nfunction\n"
