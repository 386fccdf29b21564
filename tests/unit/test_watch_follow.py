"""`kernel-delay watch`: its first line, and `--follow` where a process is gone before that."""

import argparse
import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay import cli
from kernel_delay.capture.rounds import watch as rounds
from kernel_delay.commands import watch
from kernel_delay.commands.watch_report import WatchReport
from kernel_delay.errors import NoInputError
from kernel_delay.host.selection import Selection
from kernel_delay.host.target import ProcessTarget, identity
from kernel_delay.loader.waiting import DumpRequests

Watched = Callable[..., int]


def exited() -> int:
    """Return the PID of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """What watches a process that can't be attached to, and finds no other after it."""

    def fail(target: ProcessTarget, *_: object, **__: object) -> None:
        raise NoInputError(f"process {target.pid} has exited: nothing to measure")

    def run(pid: int, *options: str) -> int:
        target = ProcessTarget(pid, "kd-gone", None)
        monkeypatch.setattr(watch, "_first_target", lambda args: target)
        monkeypatch.setattr(watch, "_next_target", lambda *_: None)
        parser = cli.parser_of("watch", watch)
        return watch.run(parser.parse_args(["--pid", str(pid), *options]))

    monkeypatch.setattr(rounds, "Watch", fail)
    return run


def test_one_that_is_gone_at_once_is_followed(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = exited()
    assert watched(pid, "--follow") == os.EX_OK
    assert f"process {pid} exited before it could be watched" in capsys.readouterr().err


@pytest.mark.parametrize(("is_there", "options"), [(False, ()), (True, ("--follow",))])
def test_any_other_failure_ends_it(
    watched: Watched, is_there: bool, options: tuple[str, ...]
) -> None:
    with pytest.raises(NoInputError, match="nothing to measure"):
        watched(os.getpid() if is_there else exited(), *options)


def test_the_first_line_has_the_limit_of_pmd_threads(capsys: pytest.CaptureFixture[str]) -> None:
    limits = {"threshold_ns": 10**9, "pmd_gap_ns": 10**6, "json_file": None}
    said = []
    for comm, start in (("ovs-vswitchd", None), ("ovs-vswitchd", "up:f"), ("redis-server", None)):
        args = argparse.Namespace(**limits, start_trigger=start)
        with ExitStack() as stack:
            report = WatchReport(args, stack, None)
            report.begin(ProcessTarget(7, comm, None), None, None, stack)
            report.attached()
        said.append(capsys.readouterr().err)
    assert "for rounds of 1,000.0 ms (PMD threads: off their CPU for 1.0 ms); Ctrl-C" in said[0]
    assert not any("PMD" in line for line in said[1:])


def test_successor_may_have_the_same_pid(tmp_path: Path) -> None:
    pid, started = identity(os.getpid())
    assert started is not None
    (tmp_path / "pid").write_text(f"{pid}\n")
    args = argparse.Namespace(pid_file=tmp_path / "pid")

    def next_after(before: tuple[int, int | None], time_ns: int) -> ProcessTarget | None:
        with DumpRequests() as requests:
            left = watch._Left(time_ns, None)
            return watch._next_target(args, before, Selection(), requests, left)

    found = next_after((pid, started - 1), 60 * 10**9)
    assert found is not None
    assert found.pid == pid
    assert next_after((pid, started), 10**7) is None


def test_identity_of_a_process_that_is_gone_has_no_start() -> None:
    pid = exited()
    assert identity(pid) == (pid, None)
