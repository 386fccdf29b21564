"""Trigger mode as a user meets it: what is printed, what is told, and the exit code."""

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.triggers.sessions import StartCommand
from tests.integration.triggers.targets import StartTarget
from tests.workload import wait_until

EDGES = ("--start-trigger", "up:round_work", "--stop-trigger", "ur:round_work")
INTERVAL_NS = 20_000_000
SLEEP_NS = 20_000  # of rounds.c, in every fifth round
FOR_EVER = 1_000_000  # rounds, which end with the test


def numbers(pattern: str, text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(pattern, text)]


def test_the_text_names_the_edges(start_rounds: StartTarget, start_command: StartCommand) -> None:
    workload = start_rounds(0)
    command = start_command("-p", workload.pid, *EDGES)
    command.wait_until_waiting()
    workload.go()
    assert command.end() == os.EX_OK
    (start_ns,) = numbers(r"\n# Start sampling \(trigger@(\d+)\) @", command.stdout)
    (stop_ns,) = numbers(r"\n# Stop sampling \(trigger@(\d+)\) @", command.stdout)
    (delta_ns,) = numbers(
        r"\n# Triggered sample dump, stop-start delta ([\d,]+) ns @", command.stdout
    )
    assert delta_ns == stop_ns - start_ns


def test_an_interval_keeps_windows_apart(
    start_rounds: StartTarget, start_command: StartCommand
) -> None:
    workload = start_rounds(1_000_000)
    options = ("--sample-count", 4, "--sample-interval", INTERVAL_NS / 1e9, "--json")
    command = start_command("-p", workload.pid, *EDGES, *options)
    command.wait_until_waiting()
    workload.go(FOR_EVER)
    assert command.end() == os.EX_OK
    samples = command.json()
    assert len(samples) == 4
    for sample, following in pairwise(samples):
        pause_ns = following["window"]["start_ns"] - sample["window"]["stop_ns"]
        assert pause_ns >= INTERVAL_NS
        assert following["lost"]["missed_triggers"] == 0


def test_short_windows_are_reported_and_do_not_count(
    start_rounds: StartTarget, start_command: StartCommand, tmp_path: Path
) -> None:
    workload = start_rounds(0)
    file = tmp_path / "samples"
    options = ("--trigger-delta", SLEEP_NS, "--sample-count", 2, "--json", file)
    command = start_command("-p", workload.pid, *EDGES, *options)
    command.wait_until_waiting()
    workload.go(1_000)
    assert command.end() == os.EX_OK
    deltas = numbers(r"\n# Triggered sample dump, stop-start delta ([\d,]+) ns @", command.stdout)
    skipped = numbers(r"\n# Sample dump skipped, delta ([\d,]+) ns @", command.stdout)
    assert len(deltas) == 2
    assert min(deltas) >= SLEEP_NS > max(skipped, default=0)
    assert command.stdout.count("<RESOURCE SPECIFIC>") == 2
    assert file.read_text().count("\n") == 2


def test_ctrl_c_ends_the_reported_wait_for_a_start(
    start_rounds: StartTarget, start_command: StartCommand
) -> None:
    command = start_command("-p", start_rounds(0).pid, *EDGES)
    wait_until(lambda: "\n" in command.stderr)
    command.interrupt()
    assert command.end() == os.EX_OK
    assert command.stdout == ""
    assert command.stderr.splitlines() == [
        "kernel-delay: waiting for start trigger up:round_work (Ctrl-C ends)",
        "kernel-delay: interrupted while waiting for start trigger up:round_work",
    ]


def test_ctrl_c_before_a_sample_keeps_earlier_outputs(
    start_rounds: StartTarget, start_command: StartCommand, tmp_path: Path
) -> None:
    recording, page = tmp_path / "earlier.kdr", tmp_path / "earlier.html"
    for file in (recording, page):
        file.write_bytes(b"of an earlier run")
    outputs = ("-o", recording, "--html", page)
    command = start_command("-p", start_rounds(0).pid, *EDGES, *outputs)
    wait_until(lambda: "\n" in command.stderr)
    command.interrupt()
    assert command.end() == os.EX_OK
    assert command.stderr.splitlines()[2:] == [
        f"kernel-delay: '{file}' is left as it was: no sample was measured"
        for file in (recording, page)
    ]
    assert {recording.read_bytes(), page.read_bytes()} == {b"of an earlier run"}


def test_ctrl_c_while_waiting_for_stop_reports_the_window(
    start_rounds: StartTarget, start_command: StartCommand
) -> None:
    options = ("--stop-trigger", "ur:round_work", "--json")
    command = start_command("-p", start_rounds(0).pid, *options)
    wait_until(lambda: "\n" in command.stderr)
    assert "waiting for stop trigger ur:round_work (Ctrl-C ends)\n" in command.stderr
    command.interrupt()
    assert command.end() == os.EX_OK
    (sample,) = command.json()
    assert sample["window"]["ended_by"] == "interrupt"
    assert sample["window"]["stop_trigger"] is None


@pytest.mark.long
def test_ctrl_c_is_heard_though_windows_never_cease(
    start_rounds: StartTarget, start_command: StartCommand
) -> None:
    workload = start_rounds(0)
    command = start_command("-p", workload.pid, *EDGES, "--sample-count", 100 * FOR_EVER)
    command.wait_until_waiting()
    workload.go(FOR_EVER)
    wait_until(lambda: command.stdout.count("Start sampling") > 100)
    command.interrupt()
    assert command.end() == os.EX_OK
    starts = numbers(r"# Start sampling \(trigger@(\d+)\)", command.stdout)
    assert starts == sorted(starts)
    assert "interrupted" in command.stderr or "# Interrupted: " in command.stdout


@pytest.mark.parametrize("edge", ["start", "stop"])
def test_the_process_exits_while_waiting(
    start_rounds: StartTarget, start_command: StartCommand, edge: str
) -> None:
    workload = start_rounds(0)
    command = start_command("-p", workload.pid, f"--{edge}-trigger", "up:round_work", "--json")
    command.wait_until_waiting()
    workload.finish()
    assert command.end() == os.EX_OK
    ends = [sample["window"]["ended_by"] for sample in command.json()]
    assert ends == ([] if edge == "start" else ["exit"])
    reported = "kernel-delay: the process exited while waiting for start trigger up:round_work\n"
    assert (reported in command.stderr) == (edge == "start")


@pytest.mark.parametrize("edge", ["start", "stop"])
def test_no_hit_in_time_has_its_own_exit_code(
    start_rounds: StartTarget, start_command: StartCommand, edge: str
) -> None:
    options = (f"--{edge}-trigger", "up:round_work", "--timeout", "0.2", "--json")
    command = start_command("-p", start_rounds(0).pid, *options)
    assert command.end() == os.EX_TEMPFAIL
    assert command.stderr == (
        "kernel-delay: no hit of up:round_work within 0.2 s: check that its code runs,"
        " or give a longer --timeout\n"
    )
    ends = [sample["window"]["ended_by"] for sample in command.json()]
    assert ends == ([] if edge == "start" else ["timeout"])
