"""Recordings of real captures: what is reported from one is what was reported live."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kernel_delay.model import RecordingHeader, Sample
from kernel_delay.recording.reader import IntactRecords, open_recording
from tests import commands
from tests.workload import HANGS_S, wait_until

# Two threads that make calls, one that sleeps.
TARGET = """
import os, threading, time
def work():
    while True:
        os.getppid()
        time.sleep(0.001)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
print(flush=True)
time.sleep(600)
"""

FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "text": ((), ()),
    "events": (("-s", "0"), ("--text",)),
    "summary": (("--summary",), ("--summary",)),
    "percentiles": (("--percentiles",), ("--percentiles",)),
    "json": (("--json", "-s", "100000"), ("--json",)),
    "folded": (("--folded", "-", "-s", "0"), ("--folded", "-")),
    "plain": (("--no-accounting",), ()),
    "timeline": (("--json", "--timeline"), ("--json",)),
}


@pytest.fixture
def target(measurable: None) -> Iterator[int]:
    command = [sys.executable, "-c", TARGET]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.kdr", pytest.param("a.jsonl", marks=pytest.mark.long)])
def test_each_report_is_the_same_from_a_file(
    target: int, tmp_path: Path, form: str, name: str
) -> None:
    live_options, options = FORMS[form]
    path = tmp_path / name
    windows = ("--sample-time", "0.1", "--sample-count", "2")
    live = commands.run("capture", "-p", target, *windows, *live_options, "-o", path)
    assert live.returncode == 0, live.stderr
    assert live.stdout
    reported = commands.run("report", *options, path)
    assert reported.returncode == 0, reported.stderr
    assert reported.stdout == live.stdout


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--html", "a.html"),
        pytest.param("--flamegraph", "a.svg", marks=pytest.mark.long),
        ("--flamegraph", "b.html"),
    ],
)
def test_each_page_is_the_same_from_a_file(
    target: int, tmp_path: Path, option: str, name: str
) -> None:
    live, reported, path = tmp_path / name, tmp_path / f"again-{name}", tmp_path / "a.kdr"
    windows = ("--sample-time", "0.5", "--sample-count", "2", "-s", "0", "--timeline")
    done = commands.run("capture", "-p", target, *windows, option, live, "-o", path)
    assert done.returncode == 0, done.stderr
    again = commands.run("report", option, reported, path)
    assert again.returncode == 0, again.stderr
    assert "nanosleep" in live.read_text()
    assert reported.read_text() == live.read_text()
    assert live.stat().st_mode & 0o777 == reported.stat().st_mode & 0o777 == 0o600


def test_pages_are_written_though_nobody_reads_the_report(target: int, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    reading, writing = os.pipe()
    os.close(reading)
    options = ("--sample-time", "1", "--sample-count", "100", "-s", "0")
    pages = ("--html", page, "--flamegraph", picture)
    process = commands.start("capture", "-p", target, *options, *pages, stdout=writing, stderr=None)
    os.close(writing)
    assert process.wait(HANGS_S) == 128 + signal.SIGPIPE
    assert "nanosleep" in page.read_text()
    assert "nanosleep" in picture.read_text()


def test_the_page_of_a_cut_recording_says_so(target: int, tmp_path: Path) -> None:
    page, path = tmp_path / "a.html", tmp_path / "a.jsonl"
    done = commands.run("capture", "-p", target, "--sample-time", "0.1", "-o", path)
    assert done.returncode == 0, done.stderr
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    cut = commands.run("report", "--html", page, path)
    assert cut.returncode == 65, cut.stderr  # EX_DATAERR
    said = cut.stderr.strip().removeprefix("kernel-delay: ")
    assert msgspec.json.encode(said).decode().replace("<", "\\u003c") in page.read_text()


def header_and_samples(path: Path) -> tuple[RecordingHeader, list[Sample], str | None]:
    with open_recording(path) as recording:
        samples = [record for record in recording.read() if isinstance(record, Sample)]
        return recording.header, samples, recording.trailer.ended if recording.trailer else None


def test_the_header_says_what_was_measured(target: int, tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    before_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    done = commands.run("capture", "-p", target, "--sample-time", "0.1", "-o", path)
    assert done.returncode == 0, done.stderr
    header, (sample,), ended = header_and_samples(path)
    assert ended == "done"
    assert header.command == "capture"
    assert header.arguments[-2:] == ("-o", str(path))
    assert header.target.pid == target
    assert header.target.command_line[1:] == ("-c", TARGET)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (header.host, header.kernel, header.boot_id) == (sample.host, sample.kernel, boot)
    # The window lies on both clocks where the header's relation has it.
    since_epoch_ns = header.clock.realtime_ns - header.clock.monotonic_ns
    start_ns = sample.window.start_ns + since_epoch_ns
    assert before_ns <= start_ns <= time.clock_gettime_ns(time.CLOCK_REALTIME)
    shown = commands.run("report", "--header", path).stdout
    assert f"({target})" in shown
    assert "1 sample\n" in shown


def test_ctrl_c_and_the_process_end_are_reported(target: int, tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    endless = ("--sample-time", "0.1", "--sample-count", "100000")
    for number, end in ((signal.SIGINT, "interrupt"), (signal.SIGKILL, None)):
        process = commands.start(
            "capture", "-p", target, *endless, "-o", path, stdout=subprocess.DEVNULL, stderr=None
        )
        wait_until(lambda: path.exists() and path.stat().st_size >= 2000, "some samples")
        process.send_signal(number)
        if process.wait(HANGS_S) == 128 + number:
            # A signal leaves less than a second to what is written then: a busy machine had no CPU.
            end = None
        with open_recording(path) as recording:
            reading = IntactRecords(recording)
            assert list(reading)
            assert (recording.trailer.ended if recording.trailer else None) == end
            assert (reading.damage is None) == (end is not None)
        path.unlink()


def test_a_report_needs_no_privilege_and_no_libbpf(target: int, tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    live = commands.run("capture", "-p", target, "--sample-time", "0.1", "-o", path)
    assert live.returncode == 0, live.stderr
    script = (
        "import sys; from kernel_delay.cli import main\n"
        f"assert main(['report', {str(path)!r}]) == 0\n"
        "measuring = ('kernel_delay.loader', 'kernel_delay.capture.')\n"
        "sys.exit(any(name.startswith(measuring) for name in sys.modules)"
        " or 'libbpf' in open('/proc/self/maps').read())"
    )
    none = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    done = subprocess.run([*none, sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == live.stdout


def test_full_disk_is_one_line_before_any_measurement(target: int) -> None:
    done = commands.run("capture", "-p", target, "--sample-time", "0.1", "-o", "/dev/full")
    assert done.returncode == 74  # EX_IOERR
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
    done = commands.run("capture", "-p", target, "-o", "-")
    assert done.returncode == 64  # EX_USAGE
    assert "must be a file: stdout has the report" in done.stderr
