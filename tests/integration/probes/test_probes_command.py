"""`kernel-delay probes` on processes and files: what it lists can be pasted."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernel_delay.cli import main
from kernel_delay.probes import UserProbe
from kernel_delay.probes.kernel import KPROBE_PMU
from kernel_delay.probes.resolve import resolve
from kernel_delay.probes.triggers import parse_trigger
from tests.emulation import few
from tests.integration.probes.usdt_workload import Start, Workload
from tests.needs import needed

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="for root only")


class Run:
    """Runs the command; gives what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *arguments: object, status: int = os.EX_OK) -> str:
        assert main(["probes", *map(str, arguments)]) == status
        captured = self.capsys.readouterr()
        return captured.out if status == os.EX_OK else captured.err

    def json(self, *arguments: object) -> Any:
        return json.loads(self.text(*arguments, "--json"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def offset_of(trigger: str, pid: int) -> set[int]:
    points = resolve(parse_trigger(trigger), pid)
    return {point.file_offset for point in points if isinstance(point, UserProbe)}


@needs_root
def test_every_usdt_probe_of_a_process_can_be_pasted(
    run: Run, workload: Workload, start: Start
) -> None:
    pid = start(workload.executable)
    listed = run.json("--pid", pid)["usdt"]
    assert {probe["object"] for probe in listed} == set(map(str, workload))
    for probe in listed:
        assert probe["file_offset"] in offset_of(probe["trigger"], pid)
    text = run.text("--pid", pid)
    first_words = [line.split()[0] for line in text.splitlines()[1:]]
    assert first_words == [probe["trigger"] for probe in listed]


def test_a_file_lists_as_its_process_does(run: Run, workload: Workload, start: Start) -> None:
    of_files = [probe for file in workload for probe in run.json(file)["usdt"]]
    assert of_files == run.json("--pid", start(workload.executable))["usdt"]


def test_bpftrace_lists_the_same_probes_of_a_real_program(run: Run) -> None:
    # Debian builds it with probes.
    program = os.path.realpath("/usr/bin/python3")
    command = [needed("bpftrace", program), "-l", f"usdt:{program}:*"]
    theirs = subprocess.check_output(command, text=True).split()
    ours = {probe["trigger"] for probe in run.json(program)["usdt"]}
    assert ours
    assert ours == {re.sub(r"^usdt:[^:]+:", "u:", line) for line in theirs}


def test_arguments_are_reported_in_words_and_decoded(run: Run, workload: Workload) -> None:
    (probe,) = (p for p in run.json(workload.executable)["usdt"] if p["name"] == "shapes")
    constant = probe["arguments"][5]
    assert constant == {
        "words": "4 signed bytes @ -5",
        "decoded": {"size": 4, "sign": "signed", "operand": {"type": "constant", "value": -5}},
    }
    assert "4 signed bytes @ -5" in run.text(workload.executable)


def test_a_path_that_is_not_utf_8(run: Run, workload: Workload, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b"))
    shutil.copy(workload.library, odd)
    assert {probe["object"] for probe in run.json(odd)["usdt"]} == {f"{tmp_path}/\\xff\x1b"}
    assert f"{tmp_path}/\\xff\\x1b" in run.text(odd)


@needs_root
@pytest.mark.parametrize("pattern", ["usdt_*", "libusdt:usdt_*", "libc.so.6:mallo*"])
def test_every_function_can_be_pasted(
    run: Run, workload: Workload, start: Start, pattern: str
) -> None:
    pid = start(workload.executable)
    listed = run.json("--pid", pid, "--functions", pattern)["functions"]
    assert listed
    for function in listed:
        assert offset_of(function["trigger"], pid) == {function["file_offset"]}


def test_functions_of_a_file_are_those_nm_lists(run: Run, workload: Workload) -> None:
    symbols = subprocess.check_output(["nm", workload.library], text=True)
    theirs = {line.split()[2] for line in symbols.splitlines() if " t " in line.lower()}
    ours = {f["name"] for f in run.json(workload.library, "--functions", "*")["functions"]}
    assert {"usdt_library_work", "usdt_plain", "usdt_same_name"} <= ours <= theirs


def test_a_stripped_file_says_so(run: Run, stripped_workload: Workload) -> None:
    text = run.text(stripped_workload.executable, "--functions", "*")
    assert "usdt_target is stripped: install the package of /usr/lib/debug/.build-id/" in text


@needs_root
def test_tracepoints_by_event_and_by_system(run: Run) -> None:
    by_event = run.json("--tracepoints", "sched_switch")["tracepoints"]
    assert by_event == ["t:sched:sched_switch"]
    by_system = run.json("--tracepoints", "syscalls:sys_enter_open*")["tracepoints"]
    assert "t:syscalls:sys_enter_openat" in by_system
    for trigger in by_system:
        assert len(resolve(parse_trigger(trigger), os.getpid())) == 1


@needs_root
@pytest.mark.skipif(not KPROBE_PMU.exists(), reason="this kernel has no kprobes")
def test_kernel_functions_can_be_pasted(run: Run) -> None:
    listed = run.json("--kernel", "vfs_read*")["kernel"]
    assert "k:vfs_read" in listed
    for trigger in few(listed, len(listed)):
        assert len(resolve(parse_trigger(trigger), os.getpid())) == 1


@pytest.mark.skipif(KPROBE_PMU.exists(), reason="this kernel has kprobes")
def test_kernel_functions_of_a_kernel_without_kprobes(run: Run) -> None:
    assert "has no kprobes" in run.text("--kernel", "*", status=os.EX_UNAVAILABLE)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["/etc/passwd"], os.EX_DATAERR, "/etc/passwd is not an ELF file"),
        (["/nonexistent"], os.EX_NOINPUT, "there is no file /nonexistent"),
        (["1234"], os.EX_NOINPUT, "a process is --pid 1234"),
        (["/bin/sh", "--pid", "1"], os.EX_USAGE, "not both"),
        (["/bin/sh", "--functions", "libnone:x"], os.EX_NOINPUT, "no library 'libnone'"),
    ],
)
def test_bad_input(run: Run, arguments: list[str], status: int, message: str) -> None:
    error = run.text(*arguments, status=status)
    assert message in error
    assert error.count("\n") == 1
