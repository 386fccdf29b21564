"""A run of the test command is a line: when, beside what, how long, and what failed."""

import subprocess
import sys
from pathlib import Path

from tests.repeat import failures

OUTPUT = """\
FAILED tests/unit/test_a.py::test_b[c d - e] - AssertionError: no
ERROR tests/integration/test_f.py::test_g
test: FAILED test-unit, 3 s
Debian 12 (6.1.0-50-amd64): FAILED: see the table, 40 s, build/kernels/6.1.0-50-amd64
Linux 5.14 (5.14.2): FAILED: not up after 300 s, see console.log, 300 s, build/kernels/5.14.2
FAILED Linux 5.14: not up after 300 s, see console.log
FAILED Debian 12: tests/integration/test_h.py::test_i[signal - 9]: assert 1 == 2
FAILED Debian 12: tests/integration/test_j.py: ModuleNotFoundError
FAILED tests/unit/test_a.py::test_b[c d - e] - AssertionError: no
"""


def repeat(project: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.repeat", *map(str, arguments)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


def test_what_failed_has_its_name() -> None:
    assert failures(OUTPUT) == [
        "tests/unit/test_a.py::test_b[c d - e]",
        "tests/integration/test_f.py::test_g",
        "Linux 5.14",
        "Debian 12: tests/integration/test_h.py::test_i[signal - 9]",
        "Debian 12: tests/integration/test_j.py",
    ]


def test_every_second_run_is_beside_the_load(project: Path, tmp_path: Path) -> None:
    options = ("--runs", 3, "--load", "sleep 60", "--results", tmp_path)
    done = repeat(project, *options, "--", "sh", "-c", "echo all is well")
    *runs, said = done.stdout.splitlines()
    beside = [line.split(" | ")[4] for line in runs]
    assert beside == ["alone", "beside sleep 60", "alone"]
    assert (done.returncode, said) == (0, "3 of 3 runs passed")
    assert (tmp_path / "runs.txt").read_text().splitlines() == runs
    assert (tmp_path / "run-2.log").read_text() == "all is well\n"


def test_runs_are_resumed_behind_those_before(project: Path, tmp_path: Path) -> None:
    options = ("--load", "sleep 60", "--results", tmp_path)
    repeat(project, *options, "--runs", 1, "--", "false")
    done = repeat(project, *options, "--resume", "--runs", 3, "--", "true")
    runs = (tmp_path / "runs.txt").read_text().splitlines()
    assert [line.split(" | ")[0] for line in runs] == ["run 1", "run 2", "run 3"]
    assert runs[1].split(" | ")[4] == "beside sleep 60"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "2 of 3 runs passed")


def test_a_run_that_fails_is_reported_with_its_tests(project: Path, tmp_path: Path) -> None:
    fails = "echo FAILED tests/unit/test_a.py::test_b - no; exit 2"
    options = ("--runs", 1, "--results", tmp_path)
    done = repeat(project, *options, "--", "sh", "-c", fails)
    assert done.returncode == 1
    assert "| FAILED (2): tests/unit/test_a.py::test_b\n" in done.stdout


def test_a_load_that_ends_is_an_error(project: Path, tmp_path: Path) -> None:
    # The load says who it is, and the run beside it goes on until that has ended.
    load = tmp_path / "load"
    load.write_text('#!/bin/sh\necho $$ >"$0.pid"\nexec false\n')
    load.chmod(0o755)
    ended = 'grep -q ") Z" "/proc/$(cat "$0.pid")/stat"'
    wait = f'[ -e "$0.first" ] || {{ touch "$0.first"; exit; }}; until {ended}; do sleep 0.01; done'
    options = ("--runs", 2, "--load", load, "--results", tmp_path)
    done = repeat(project, *options, "--", "sh", "-c", wait, load)
    assert done.returncode == 1
    assert done.stderr == f"repeat: {load} ended meanwhile, with 1\n"
