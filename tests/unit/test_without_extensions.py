"""Where nothing was compiled, as on macOS: recordings are read alone, and as anywhere."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kernel_delay
from tests.recordings import record_samples
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.page_samples import series_of

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as far as it is Python."""
    folder = tmp_path_factory.mktemp("pure")
    installed = Path(kernel_delay.__file__).parent
    compiled = shutil.ignore_patterns("*.so", "*.o", "__pycache__")
    shutil.copytree(installed, folder / "kernel_delay", ignore=compiled)
    return folder


@pytest.fixture
def run(pure: Path, tmp_path: Path) -> Run:
    """Runs the command, of Python alone if it is to be `pure`."""

    def run(*arguments: object, of: Path | None = pure) -> "subprocess.CompletedProcess[bytes]":
        path = {"PYTHONPATH": str(of)} if of else {}
        command = [sys.executable, "-m", "kernel_delay", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **path}, capture_output=True
        )

    return run


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record_samples(tmp_path / "a.kdr", WITH_EVENTS, *series_of(3))


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


@pytest.mark.parametrize("command", [(), ("check",), ("probes", "--pid", "1"), ("upcall-monitor",)])
def test_what_would_measure_is_one_line(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command)
    assert (done.returncode, done.stdout) == (os.EX_UNAVAILABLE, b"")
    assert done.stderr.startswith(b"kernel-delay: nothing of kernel-delay was compiled here")
    assert done.stderr.count(b"\n") == 1
