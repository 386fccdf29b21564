"""The command line as users meet it: run as a process, judged by output and exit code."""

import argparse
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay import cli
from kernel_delay.commands import capture
from kernel_delay.commands.options import outputs
from kernel_delay.errors import OutputError, TimeoutExpiredError
from kernel_delay.model import Sample, SkippedWindow
from kernel_delay.recording.reader import IntactRecords, open_recording
from kernel_delay.recording.writer import RecordingWriter
from kernel_delay.register import COMMANDS, OVERVIEW
from kernel_delay.reporters import json, text
from kernel_delay.reporters.layout import IN_A_PIPE
from tests.needs import needed
from tests.recordings import HEADER
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.samples import EVERYTHING, REVALIDATOR, bare_sample
from tests.workload import HANGS_S

COMMAND = [sys.executable, "-m", "kernel_delay"]


def kernel_delay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=HANGS_S)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_overview_takes_no_parser(option: str) -> None:
    command = [sys.executable, "-X", "importtime", "-P", "-m", "kernel_delay", option]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS_S)
    assert result.stdout == OVERVIEW
    assert "kernel_delay.register" in result.stderr
    assert "argparse" not in result.stderr


def assert_one_line(stderr: str, *parts: str) -> None:
    assert stderr.startswith("kernel-delay: ")
    assert stderr.endswith("\n")
    assert stderr[:-1].isprintable()
    for part in parts:
        assert part in stderr


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--pid", "vswitchd"], ["--pid", "'vswitchd'"]),
        (["-p", "0"], ["--pid", "at least 1"]),
        (["-p", "-5"], ["--pid", "at least 1"]),
        (["-p", "4194304"], ["--pid", "at most"]),
        (["--pid"], ["--pid", "argument"]),
        (["--sample-time", "0"], ["--sample-time", "more than 0"]),
        (["--sample-time", "-1"], ["--sample-time", "more than 0 and at most 604,800", "'-1'"]),
        (["--sample-time", "nan"], ["--sample-time", "'nan'"]),
        (["--sample-time", "1e12"], ["--sample-time", "604,800"]),
        (["--sample-time", "half"], ["--sample-time", "number of seconds"]),
        (["--sample-interval", "-0.1"], ["--sample-interval"]),
        (["--sample-count", "9" * 23], ["--sample-count", "at most 1,000,000,000"]),
        (["--sample-count", "0"], ["--sample-count", "at least 1"]),
        (["--sample-count", "1.5"], ["--sample-count", "whole number"]),
        (["--buffer-page-count", "0"], ["--buffer-page-count", "at least 1"]),
        (["--buffer-page-count", "99999999"], ["--buffer-page-count", "at most"]),
        (["--max-slices", "5"], ["--max-slices limits a timeline: add --timeline"]),
        (["watch", "--max-files", "5"], ["--max-files limit recordings: add -o DIR"]),
        (["watch", "--max-age", "5"], ["--max-age and --max-files limit recordings"]),
        (["--debug", "much"], ["--debug", "whole number"]),
        (["--pids", "1"], ["--pids", "(did you mean --pid?)"]),
        (["--sample-cou=1"], ["--sample-cou=1", "(did you mean --sample-count?)"]),
        (["probes", "--tracepoint", "*"], ["(did you mean --tracepoints?)", "probes --help"]),
        (["capture", "extra"], ["extra", "kernel-delay capture --help"]),
        (["catpure"], ["'catpure' (did you mean capture?)"]),
        (["upcall-mon"], ["'upcall-mon' (did you mean upcall-monitor?)"]),
        (["no-such-thing"], ["no command 'no-such-thing';"]),
        (["6424"], ["no command '6424' (did you mean -p 6424?)"]),
        (["watch", "6424"], ["unrecognized arguments: 6424 (did you mean -p 6424?)"]),
        (["upcall-monitor", "6424"], ["unrecognized arguments: 6424 (did you mean -p 6424?)"]),
        (
            ["report", "a.kdr", "--cloor"],
            ["unrecognized arguments: --cloor (did you mean --color?)"],
        ),
        (["report", "a.kdr", "--json", "-"], ["arguments: - (--json takes no value)"]),
        (["--color=always", "where", "-p", "1"], ["before its options: kernel-delay where"]),
        # Bytes that are not UTF-8.
        (["\udcff"], ["no command '\\udcff'"]),
        (["watch", "a\udcff"], ["unrecognized arguments: a\\udcff"]),
        (["-p", "1", "-s", "--syscall-filter", "read,\udcff"], ["no system call '\\udcff'"]),
        (["-p", "1", "-s", "--skip-syscalls", "\udcff"], ["no system call '\\udcff'"]),
        (["--pid", "a\nb\x1b[31m"], ["\\n", "\\x1b"]),
    ],
)
def test_usage_error_is_one_line_and_ex_usage(arguments: list[str], parts: list[str]) -> None:
    result = kernel_delay(*arguments)
    assert result.returncode == os.EX_USAGE
    assert result.stdout == ""
    assert_one_line(result.stderr, *parts)


@pytest.mark.parametrize("command", [[], ["capture"], ["watch"]])
def test_a_process_without_its_option_is_one_line(tmp_path: Path, command: list[str]) -> None:
    program = tmp_path / "redis server"
    program.symlink_to(shutil.which("sleep") or "")
    with subprocess.Popen([program, "600"]) as process:
        try:
            result = kernel_delay(*command, "redis server")
        finally:
            process.kill()
    assert result.returncode == os.EX_USAGE
    assert_one_line(result.stderr, "(did you mean --comm 'redis server'?)")


def test_pid_without_process() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    result = kernel_delay("--pid", str(process.pid))
    assert result.returncode == os.EX_NOINPUT
    assert_one_line(result.stderr, f"no process {process.pid}")


def test_kernel_thread() -> None:
    kthreadd = Path("/proc/2/comm")
    if not kthreadd.exists() or kthreadd.read_text() != "kthreadd\n":
        pytest.skip("kthreadd can't be seen from this PID namespace")
    result = kernel_delay("--pid", "2")
    assert result.returncode == os.EX_UNAVAILABLE
    assert_one_line(result.stderr, "kernel thread kthreadd")


AmongProcesses = Callable[..., subprocess.CompletedProcess[str]]


def test_no_vswitchd(among_processes: AmongProcesses) -> None:
    result = among_processes(["sleep"], "-m", "kernel_delay")
    assert result.returncode == os.EX_NOINPUT
    assert_one_line(result.stderr, "no process is named ovs-vswitchd", "--pid", "--pid=host")


def test_several_vswitchds_are_listed(among_processes: AmongProcesses) -> None:
    result = among_processes(["ovs-vswitchd", "ovs-vswitchd", "sleep"], "-m", "kernel_delay")
    assert result.returncode == os.EX_USAGE
    # The namespace's first process is 1; its children have the PIDs after it.
    assert_one_line(result.stderr, "2 processes are named ovs-vswitchd, PIDs 2, 3;", "--pid")


def test_thread_is_said_to_be_taken_as_its_process() -> None:
    needed("setpriv")
    if os.geteuid() != 0:
        pytest.skip("only root can give capabilities up that end the capture")
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    drop = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all"]
    command = [*drop, *COMMAND, "-p", str(thread.native_id)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S)
    finally:
        done.set()
        thread.join()
    assert result.returncode == os.EX_NOPERM
    note, error = result.stderr.splitlines(keepends=True)
    assert_one_line(note, f"{thread.native_id} is a thread of process {os.getpid()}")
    assert_one_line(error, "CAP_BPF")


def test_help_is_one_screen_with_every_command() -> None:
    result = kernel_delay("--help")
    assert (result.returncode, result.stderr) == (os.EX_OK, "")
    lines = result.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(("  sudo kernel-delay", "  kernel-delay")) for line in lines) == 5
    for word in ("--help", "--version", *COMMANDS):
        assert word in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_help(name: str) -> None:
    result = kernel_delay(name, "--help")
    assert result.returncode == os.EX_OK
    assert result.stdout.startswith(f"usage: kernel-delay {name} ")


@pytest.mark.parametrize("arguments", [["--help"], ["capture", "--help"], ["--sample-time", "0"]])
def test_what_measures_nothing_imports_no_library(arguments: list[str]) -> None:
    script = (
        "import sys; from kernel_delay.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('msgspec', 'rich', 'cffi', 'importlib.metadata') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True
    )
    assert result.stdout.splitlines()[-1] == "[]", result.stderr


def test_plain_text_does_not_import_rich() -> None:
    script = (
        "import contextlib, sys; from kernel_delay.commands.options import outputs\n"
        "from kernel_delay.reporters.layout import IN_A_PIPE\n"
        "with contextlib.ExitStack() as stack: outputs.open_reports(None, None, stack, IN_A_PIPE)\n"
        "print('rich' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


def test_a_capture_without_events_does_not_import_symbols() -> None:
    script = (
        "import sys, kernel_delay.capture.sampling, kernel_delay.reporters.text\n"
        "print('kernel_delay.symbols' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


def help_to(stdout: int, unbuffered: str) -> subprocess.CompletedProcess[str]:
    """Print the help; buffered, it meets a write error only when it is flushed."""
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = [*COMMAND, "--help"]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=HANGS_S, env=env
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_reader_that_has_gone_ends_it_quietly(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = help_to(writing, unbuffered)
    os.close(writing)
    assert result.returncode == 128 + signal.SIGPIPE
    assert result.stderr == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_is_one_line(unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        result = help_to(full.fileno(), unbuffered)
    assert result.returncode == os.EX_IOERR
    assert_one_line(result.stderr, "standard output: No space left on device")


def raise_from_command(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have the capture command fail with `error`."""

    def run(_: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(capture, "run", run)


@pytest.fixture
def own_stdout() -> Iterator[None]:
    """Gives pytest its stdout back, which a command that fails sends nowhere."""
    stdout = os.dup(1)
    yield
    os.dup2(stdout, 1)
    os.close(stdout)


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (TimeoutExpiredError("no trigger\ncame"), os.EX_TEMPFAIL, "no trigger\\x0acame"),
        (OSError(5, "Input/output error", "x\x1b"), os.EX_IOERR, "x\\x1b: Input/output error"),
        (ValueError("odd"), os.EX_SOFTWARE, "internal error: ValueError: odd; --debug shows where"),
    ],
)
def test_errors_are_one_line_and_debug_adds_a_traceback(
    own_stdout: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    status: int,
    line: str,
) -> None:
    raise_from_command(monkeypatch, error)
    assert cli.main([]) == status
    assert capsys.readouterr() == ("", f"kernel-delay: {line}\n")

    assert cli.main(["--debug"]) == status
    stderr = capsys.readouterr().err
    assert stderr.startswith("Traceback")
    assert stderr.endswith(f"kernel-delay: {line}\n")


def test_interrupt_outside_a_window_sets_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raise_from_command(monkeypatch, KeyboardInterrupt())
    assert cli.main([]) == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "")


def report_all(json_file: str | None) -> None:
    with ExitStack() as stack:
        reports = outputs.open_reports(json_file, None, stack, IN_A_PIPE)
        for sample in (EVERYTHING, bare_sample(REVALIDATOR)):
            for report in reports:
                report(sample)


def test_text_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    report_all(None)
    expected = text.render(EVERYTHING) + text.render(bare_sample(REVALIDATOR))
    assert capsys.readouterr().out == expected


def test_json_on_stdout_takes_the_place_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    report_all("-")
    expected = json.render(EVERYTHING) + json.render(bare_sample(REVALIDATOR))
    assert capsys.readouterr().out == expected


def test_json_in_a_file_goes_with_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samples.jsonl"
    report_all(str(file))
    assert file.read_text() == json.render(EVERYTHING) + json.render(bare_sample(REVALIDATOR))
    expected = text.render(EVERYTHING) + text.render(bare_sample(REVALIDATOR))
    assert capsys.readouterr().out == expected


def test_a_skipped_window_is_reported_to_a_reader_alone(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = SkippedWindow(EVERYTHING.window)
    outputs.report_skipped(skipped, "-", None)
    assert capsys.readouterr().out == ""
    outputs.report_skipped(skipped, None, None)
    assert capsys.readouterr().out == text.render_skipped(skipped)


def test_each_sample_is_written_when_it_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    with ExitStack() as stack:
        for report in outputs.open_reports(str(file), None, stack, IN_A_PIPE):
            report(EVERYTHING)
        assert file.read_text() == json.render(EVERYTHING)


@pytest.mark.parametrize("is_folded", [False, True])
def test_full_disk_error_names_the_output_file(is_folded: bool) -> None:
    json_file, folded_file = (None, "/dev/full") if is_folded else ("/dev/full", None)

    def report_to_it() -> None:
        with ExitStack() as stack:
            for report in outputs.open_reports(json_file, folded_file, stack, IN_A_PIPE):
                report(WITH_EVENTS)

    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        report_to_it()


def test_full_output_keeps_no_other_output_from_the_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.kdr"

    def report_to_them() -> None:
        with RecordingWriter(path, HEADER) as recording, ExitStack() as stack:
            reports = [*outputs.open_reports("/dev/full", None, stack, IN_A_PIPE), recording.sample]
            outputs.report_to_all(reports, WITH_EVENTS)

    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        report_to_them()
    assert capsys.readouterr().out == text.render(WITH_EVENTS)
    with open_recording(path) as written:
        assert len(list(IntactRecords(written))) == 1


def test_full_output_of_several_reports_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def full(path: str) -> outputs.Report:
        def report(sample: Sample) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

        return report

    with pytest.raises(OSError, match="standard output"):
        outputs.report_to_all(
            [full("standard output"), full("a.json"), full("standard output")], WITH_EVENTS
        )
    assert capsys.readouterr().err == "kernel-delay: a.json: No space left on device\n"


def test_json_file_that_cannot_be_made(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(OutputError, match="No such file or directory"):
        outputs.open_reports(str(tmp_path / "none" / "samples.jsonl"), None, stack, IN_A_PIPE)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["--json"], "-"),
        (["--json", "-"], "-"),
        (["--json", "out.jsonl"], "out.jsonl"),
        (["--json", "--sample-count", "2"], "-"),
    ],
)
def test_json_option(arguments: list[str], expected: str | None) -> None:
    parser = argparse.ArgumentParser()
    capture.add_arguments(parser)
    args = parser.parse_args(arguments)
    assert args.json_file == expected
    assert (args.sample_time_ns, args.sample_interval_ns) == (None, 0)
