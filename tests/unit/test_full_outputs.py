"""A standard output that takes nothing: one line, and the exit code for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.model import MeasuringCommand
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import header
from tests.unit.event_recordings import EVENT_COMMANDS, LOST

FULL = f"kernel-delay: standard output: {os.strerror(28)}\n"
CLOSED = "kernel-delay: standard output is closed: nothing could be reported\n"


@pytest.fixture
def recordings(tmp_path: Path) -> dict[MeasuringCommand, Path]:
    found = {}
    for command, write in EVENT_COMMANDS.items():
        path = tmp_path / f"{command}.kdr"
        with RecordingWriter(path, header(command)) as writer:
            write(writer)
            # More than a buffer of the text takes: it is printed before the end is there.
            for _ in range(100):
                write(writer)
            writer.finish("interrupt", LOST)
        found[command] = path
    return found


def run(*arguments: str, redirection: str) -> tuple[int, str]:
    line = f'exec "$@" {redirection}'
    program = (sys.executable, "-m", "kernel_delay", *arguments)
    done = subprocess.run(
        ["sh", "-c", line, "sh", *program], stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("command", EVENT_COMMANDS)
def test_a_full_or_closed_stdout_is_one_line(
    recordings: dict[MeasuringCommand, Path], command: MeasuringCommand, options: tuple[str, ...]
) -> None:
    report = ("report", str(recordings[command]), *options)
    assert run(*report, redirection=">/dev/full") == (os.EX_IOERR, FULL)
    assert run(*report, redirection=">&-") == (os.EX_CANTCREAT, CLOSED)


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_so_it_is_where_a_file_of_events_is_read(
    recordings: dict[MeasuringCommand, Path], redirection: str
) -> None:
    path = str(recordings["upcall-cost"])
    told = {">/dev/full": (os.EX_IOERR, FULL), ">&-": (os.EX_CANTCREAT, CLOSED)}
    assert run("upcall-cost", "-r", path, redirection=redirection) == told[redirection]


@pytest.mark.parametrize("arguments", [("check",), ("probes", "-p", str(os.getpid()))])
def test_so_it_is_of_what_measures_nothing(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, redirection=">&-") == (os.EX_CANTCREAT, CLOSED)


REMARK = "from kernel_delay.reporters.messages import tell; tell('a remark'); print('the report')"


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_a_remark_that_stderr_does_not_take_ends_nothing(redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", REMARK],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (os.EX_OK, "the report\n")
