"""On macOS, where nothing was compiled: recordings are read alone, and as anywhere."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import kernel_delay
from kernel_delay.commands.log.causes import Usage
from kernel_delay.model import MeasuringCommand
from tests.recordings import record_samples
from tests.unit import macos
from tests.unit.event_recordings import EVENT_COMMANDS, record_events
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.page_samples import series_of
from tests.unit.test_logs import of_usage, write
from tests.unit.timeline_samples import WITH_TIMELINE

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as far as it is Python, for a Python as on macOS."""
    folder = tmp_path_factory.mktemp("pure")
    installed = Path(kernel_delay.__file__).parent
    compiled = shutil.ignore_patterns("*.so", "*.o", "__pycache__")
    shutil.copytree(installed, folder / "kernel_delay", ignore=compiled)
    (folder / "sitecustomize.py").write_text(macos.sitecustomize())
    return folder


@pytest.fixture
def python(pure: Path, tmp_path: Path) -> Run:
    """Runs Python: as on macOS, if the package is to be `pure`."""

    def python(*arguments: object, of: Path | None = pure) -> "subprocess.CompletedProcess[bytes]":
        path = {"PYTHONPATH": str(of)} if of else {}
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **path}, capture_output=True
        )

    return python


@pytest.fixture
def run(python: Run) -> Run:
    """Runs the command in the same way."""
    return partial(python, "-m", "kernel_delay")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record_samples(tmp_path / "a.kdr", WITH_EVENTS, WITH_TIMELINE, *series_of(3))


def test_what_linux_alone_has_is_not_there(python: Run) -> None:
    script = (
        "import os, signal, socket, fcntl, resource, select, sys\n"
        "print(sys.platform)\n"
        "names = ('pidfd_open', 'sched_getaffinity', 'memfd_create', 'O_PATH', 'O_TMPFILE')\n"
        "print([name for name in names if hasattr(os, name)])\n"
        "print([hasattr(*each) for each in ((signal, 'pidfd_send_signal'), (select, 'epoll'),"
        " (socket, 'AF_NETLINK'), (fcntl, 'F_SETPIPE_SZ'), (resource, 'prlimit'))])\n"
        "print(hasattr(os, 'O_NOFOLLOW'))\n"
        "try: open('/proc/self/status')\n"
        "except FileNotFoundError: print('no /proc')\n"
        "try: import cffi\n"
        "except ModuleNotFoundError: print('no cffi')\n"
    )
    done = python("-c", script)
    said = done.stdout.decode().splitlines()
    assert said == ["darwin", "[]", str([False] * 5), "True", "no /proc", "no cffi"], done.stderr


@pytest.mark.parametrize(
    "form", [(), ("--summary",), ("--json",), ("--folded", "-"), ("--percentiles",), ("--header",)]
)
def test_a_report_is_the_same(run: Run, recording: Path, form: tuple[str, ...]) -> None:
    done, expected = run("report", recording, *form), run("report", recording, *form, of=None)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == expected.stdout


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--html", "a.html"),
        ("--flamegraph", "a.svg"),
        ("--flamegraph", "b.html"),
        ("--perfetto", "a.pftrace"),
    ],
)
def test_a_page_is_the_same(
    run: Run, recording: Path, tmp_path: Path, option: str, name: str
) -> None:
    file = tmp_path / name
    assert run("report", recording, option, file).returncode == 0
    written = file.read_bytes()
    assert run("report", recording, option, file, of=None).returncode == 0
    assert written == file.read_bytes()


def test_recordings_are_compared(run: Run, recording: Path) -> None:
    done = run("compare", f"{recording}@2-3", f"{recording}@3-4")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"0 of " in done.stdout


@pytest.mark.parametrize("command", EVENT_COMMANDS)
def test_a_report_of_events_is_the_same(
    run: Run, tmp_path: Path, command: MeasuringCommand
) -> None:
    """Names of errors too, which have other numbers there."""
    path = record_events(tmp_path / "a.kdr", command)
    done, expected = run("report", path), run("report", path, of=None)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == expected.stdout != b""


def test_it_is_read_from_python(python: Run, recording: Path) -> None:
    script = (
        "import kernel_delay\n"
        f"recording = kernel_delay.open_recording({str(recording)!r})\n"
        "print(recording.header, recording.threads, recording.trailer)\n"
        "for sample in recording:\n"
        "    print(sample.threads, *(sample.syscall_events or ()), *(sample.timeline or ()))\n"
    )
    done, expected = python("-c", script), python("-c", script, of=None)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == expected.stdout


@pytest.mark.parametrize(
    "call", ["capture(1)", "record('a.kdr', 1)", "samples(1)", "watch(1)", "measure()"]
)
def test_measuring_without_extensions_is_an_error_of_ours(python: Run, call: str) -> None:
    script = (
        "import kernel_delay\n"
        f"try: kernel_delay.{call}\n"
        "except kernel_delay.KernelDelayError as error: print(error.exit_code, error)\n"
    )
    done = python("-c", script)
    assert done.stdout.startswith(b"69 nothing of kernel-delay was compiled here"), done.stderr


@pytest.mark.parametrize("command", [(), ("check",), ("probes", "--pid", "1"), ("upcall-monitor",)])
def test_what_would_measure_is_one_line(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command)
    assert (done.returncode, done.stdout) == (os.EX_UNAVAILABLE, b"")
    assert done.stderr.startswith(b"kernel-delay: nothing of kernel-delay was compiled here")
    assert done.stderr.count(b"\n") == 1


def test_one_part_that_is_missing_is_named(tmp_path: Path) -> None:
    installed = Path(kernel_delay.__file__).parent
    left_out = shutil.ignore_patterns("_records*.so")
    shutil.copytree(installed, tmp_path / "kernel_delay", ignore=left_out)
    done = subprocess.run(
        [sys.executable, "-m", "kernel_delay", "check"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (os.EX_UNAVAILABLE, b"")
    assert done.stderr == (
        b"kernel-delay: a part is missing (kernel_delay.loader._records): install kernel-delay"
        b" again\n"
    )


def test_log_is_read_without_extensions(run: Run, tmp_path: Path) -> None:
    log = write(tmp_path / "ovs-vswitchd.log", of_usage(Usage(2000, 100, 50, 3, 0, 0, 8, 5, 1)))
    done, expected = run("log", log), run("log", log, of=None)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"was blocked in its one long round" in done.stdout
    assert done.stdout == expected.stdout
