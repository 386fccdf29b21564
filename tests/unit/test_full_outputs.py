"""Outputs that take nothing, as on a full disk: one line, and the exit code for it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.commands.options.pages import Page, save
from kernel_delay.errors import OutputError, WriteFailedError, cannot_write
from kernel_delay.host.private_file import WholeFile
from kernel_delay.model import MeasuringCommand
from kernel_delay.recording.writer import RecordingWriter
from kernel_delay.reporters.page import Contents
from tests.recordings import header, record_samples
from tests.unit.event_recordings import EVENT_COMMANDS, LOST
from tests.unit.event_samples import WITH_EVENTS

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
def test_unwritable_stdout_is_one_line_from_an_event_recording(
    recordings: dict[MeasuringCommand, Path], redirection: str
) -> None:
    path = str(recordings["upcall-cost"])
    reported = {">/dev/full": (os.EX_IOERR, FULL), ">&-": (os.EX_CANTCREAT, CLOSED)}
    assert run("upcall-cost", "-r", path, redirection=redirection) == reported[redirection]


@pytest.mark.parametrize("arguments", [("check",), ("probes", "-p", str(os.getpid()))])
def test_so_it_is_of_what_measures_nothing(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, redirection=">&-") == (os.EX_CANTCREAT, CLOSED)


@pytest.mark.parametrize("option", ["--html", "--folded"])
def test_full_disk_is_a_write_error_for_each_output(tmp_path: Path, option: str) -> None:
    path = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    found = run("report", str(path), option, "/dev/full", redirection=">/dev/null")
    assert found[0] == os.EX_IOERR
    assert os.strerror(errno.ENOSPC) in found[1]


def test_full_disk_and_uncreatable_file_have_different_exit_codes(tmp_path: Path) -> None:
    with RecordingWriter(Path("/dev/null"), header("capture")) as writer:
        writer.finish("done")
    with (
        pytest.raises(OutputError) as caught,
        RecordingWriter(Path("/dev/full"), header("capture")),
    ):
        pass
    assert caught.value.exit_code == os.EX_IOERR
    for number, code in ((errno.ENOSPC, os.EX_IOERR), (errno.EDQUOT, os.EX_IOERR)):
        assert cannot_write("a", OSError(number, os.strerror(number))).exit_code == code
    with pytest.raises(OutputError) as caught:
        RecordingWriter(tmp_path / "none" / "a.kdr", header("capture"))
    assert caught.value.exit_code == os.EX_CANTCREAT


def test_full_disk_error_names_the_requested_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    page = WholeFile(tmp_path / "a.html")
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(WriteFailedError) as caught, page.writing() as file:
        file.write(b"all of it")
    assert str(caught.value).startswith(f"can't write {str(tmp_path / 'a.html')!r}: ")
    assert not list(tmp_path.iterdir())


def test_each_other_page_is_written_if_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = Contents(header("capture"))
    paths = [tmp_path / name for name in ("gone/a.html", "b.html", "c.html")]
    paths[0].parent.mkdir()
    lost, ended, left = (Page(path, contents, lambda: ["the page"]) for path in paths)
    ended.finish()
    paths[0].parent.rmdir()
    paths[1].unlink()
    save([lost, ended, left])
    assert [path.exists() for path in paths] == [False, False, True]
    assert capsys.readouterr().err.startswith(f"kernel-delay: can't write '{paths[0]}': ")


BOTH = """
import sys
from types import SimpleNamespace
from kernel_delay import cli, commands
from kernel_delay.errors import {error}

def run(args):
    print("the report")
    raise {error}({arguments})

commands.load = lambda name: SimpleNamespace(run=run, add_arguments=lambda parser: None)
sys.exit(cli.main(["report"]))
"""


@pytest.mark.parametrize(
    ("error", "arguments", "code"),
    [("WriteFailedError", "'a: no room'", os.EX_IOERR), ("NoInputError", "'no'", os.EX_NOINPUT)],
)
def test_error_beside_a_full_stdout_has_its_own_code(error: str, arguments: str, code: int) -> None:
    program = BOTH.format(error=error, arguments=arguments)
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >/dev/full', "sh", sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr


REMARK = (
    "from kernel_delay.reporters import print_message;"
    " print_message('a remark'); print('the report')"
)


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_a_remark_that_stderr_does_not_take_ends_nothing(redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", REMARK],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (os.EX_OK, "the report\n")
