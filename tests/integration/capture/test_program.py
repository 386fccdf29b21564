"""Programs that are run to be measured: from their first instruction on, to their end."""

import os
import select
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from kernel_delay.model import Sample
from kernel_delay.recording.reader import open_recording
from tests import commands
from tests.integration.capture.captures import calls
from tests.integration.capture.workload import known_syscall
from tests.workload import HANGS_S, wait_until

pytestmark = pytest.mark.usefixtures("measurable")

GETPPID, BRK = known_syscall("getppid"), known_syscall("brk")

CALLS = "import os; [os.getppid() for _ in range(1000)]; print('said'); os._exit(3)"


def samples_in(file: Path) -> list[Sample]:
    """What was written as JSON."""
    return [msgspec.json.decode(line, type=Sample) for line in file.read_bytes().splitlines()]


def test_program_is_measured_from_its_start_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "json"
    done = commands.run("--json", file, "--", sys.executable, "-S", "-u", "-c", CALLS)

    assert (done.returncode, done.stdout) == (3, "said\n"), done.stderr
    (sample,) = samples_in(file)
    assert len(sample.threads) == 1, sample.threads
    (thread,) = sample.threads
    assert sample.window.ended_by == "exit"
    assert (sample.target.pid, sample.target.exe) == (thread.tid, os.path.realpath(sys.executable))
    assert calls(thread)[GETPPID] == 1000
    # The dynamic linker's first, and nothing of what executed it.
    assert calls(thread)[BRK] >= 1
    assert f"# Process {thread.tid} (" in done.stderr


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
    ],
)
def test_its_exit_status_is_the_programs(program: tuple[str, ...], status: int) -> None:
    assert commands.run("--no-accounting", "--", *program).returncode == status


def test_what_can_not_be_run_is_one_line(tmp_path: Path) -> None:
    text, broken = tmp_path / "text", tmp_path / "broken"
    text.write_text("no program")
    broken.write_bytes(b"\x7fELF and no more")
    broken.chmod(0o755)
    for program, status in (("kd-not-there", 127), (text, 126), (broken, 126)):
        done = commands.run("--", program)
        assert (done.returncode, done.stdout) == (status, "")
        assert f"kernel-delay: can't run {program}: " in done.stderr.splitlines()[-1]


def test_it_runs_as_the_user_that_is_asked_for() -> None:
    done = commands.run("--no-accounting", "--user", "nobody", "--", "id", "-un")
    assert (done.returncode, done.stdout) == (0, "nobody\n"), done.stderr


@pytest.mark.parametrize(("options", "session"), [((), "shared"), (("--user", "nobody"), "own")])
def test_another_user_has_no_session_of_the_terminal(
    options: tuple[str, ...], session: str
) -> None:
    """Who has root's terminal as the session's can type there: TIOCSTI of ioctl_tty(2)."""
    script = 'test "$(cut -d" " -f6 /proc/$$/stat)" = $$ && echo own || echo shared'
    done = commands.run("--no-accounting", *options, "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, f"{session}\n"), done.stderr


def test_it_goes_on_when_the_window_is_over() -> None:
    program = ("sh", "-c", "sleep 0.5; echo over")
    done = commands.run("--sample-time", "0.05", "--no-accounting", "--", *program)
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


def test_what_it_forks_is_measured_with_children(tmp_path: Path) -> None:
    file = tmp_path / "json"
    done = commands.run("--json", file, "--children", "--", "sh", "-c", "sleep 0; sleep 0; :")
    assert done.returncode == 0, done.stderr
    assert sorted(sample.target.comm for sample in samples_in(file)) == ["sh", "sleep", "sleep"]


def test_a_signal_ends_the_window_and_is_passed_on() -> None:
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        arguments = ("--no-accounting", "--", "sh", "-c", "echo here; exec sleep 600")
        process = commands.start(*arguments, stdout=stdout.fileno(), stderr=stderr.fileno())
        try:
            wait_until(lambda: os.fstat(stdout.fileno()).st_size > 0, "the program to run")
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(HANGS_S) == 128 + signal.SIGTERM
        finally:
            process.kill()
        stderr.seek(0)
        assert b"# Interrupted: the window ended after " in stderr.read()


def test_lost_terminal_ends_the_window_and_the_program(tmp_path: Path) -> None:
    file = tmp_path / "a.kdr"
    terminal, side = os.openpty()
    with tempfile.TemporaryFile() as stdout:
        script = "trap '' HUP; echo $$; exec sleep 600"
        arguments = ("--no-accounting", "-o", file, "--", "sh", "-c", script)
        process = commands.start(*arguments, stdout=stdout.fileno(), stderr=side)
        try:
            wait_until(lambda: os.fstat(stdout.fileno()).st_size > 0, "the program to run")
            stdout.seek(0)
            program = os.pidfd_open(int(stdout.read()))
            os.close(side)
            os.close(terminal)
            os.kill(process.pid, signal.SIGHUP)
            assert process.wait(HANGS_S) == os.EX_IOERR
        finally:
            process.kill()
    assert select.select([program], [], [], HANGS_S)[0]
    os.close(program)
    with open_recording(file) as recording:
        samples = [record for record in recording.read() if isinstance(record, Sample)]
        assert [sample.window.ended_by for sample in samples] == ["interrupt"]
        assert recording.trailer is not None


@pytest.mark.parametrize(
    "options",
    [
        ("--pid", "1", "--", "true"),
        ("--sample-count", "2", "--", "true"),
        ("--start-trigger", "t:sched:sched_switch", "--", "true"),
        ("-s", "--", "true"),
        ("--user", "kd-nobody", "--", "true"),
        ("--user", "nobody"),
        ("--",),
    ],
)
def test_what_makes_no_sense_is_one_line(options: tuple[str, ...]) -> None:
    done = commands.run(*options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (os.EX_USAGE, "", 1)
