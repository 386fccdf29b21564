"""What can't be a trigger here: one line that says what to do, and an exit code."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.probes.kernel import KPROBE_PMU
from tests.integration.triggers.targets import StartTarget, Target
from tests.needs import needed

ONE_EDGE = "needs --start-trigger and --stop-trigger"


def refusal(capsys: pytest.CaptureFixture[str], status: int, *arguments: object) -> str:
    """What the command tells where it refuses: one line, and nothing on stdout."""
    assert main(list(map(str, arguments))) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("kernel-delay: ")
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize("edge", ["start", "stop"])
@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("round_work", os.EX_USAGE, "has no type"),
        ("x:round_work", os.EX_USAGE, "unknown type 'x'"),
        ("u:round_work", os.EX_USAGE, "a USDT probe is u:PROVIDER:PROBE"),
        ("u:a:b:c", os.EX_USAGE, "a USDT probe is u:PROVIDER:PROBE"),
        ("t:sched", os.EX_USAGE, "a tracepoint is t:SYSTEM:EVENT"),
        ("t:sched:a:b", os.EX_USAGE, "a tracepoint is t:SYSTEM:EVENT"),
        ("k:", os.EX_USAGE, "a kprobe is k:FUNCTION"),
        ("kr:a+0x1", os.EX_USAGE, "a kretprobe is kr:FUNCTION"),
        ("up:", os.EX_USAGE, "a uprobe is up:[LIBRARY:]FUNCTION"),
        ("ur:f+0x1", os.EX_USAGE, "a uretprobe is ur:[LIBRARY:]FUNCTION"),
        ("u:kd_rounds:strat", os.EX_NOINPUT, "closest: u:kd_rounds:start"),
        ("up:round_wrok", os.EX_NOINPUT, "closest: round_work"),
        ("up:libnone:f", os.EX_NOINPUT, "no library 'libnone'"),
        ("t:syscalls:sys_enter_getpidd", os.EX_NOINPUT, "t:syscalls:sys_enter_getpid"),
        ("t:nosuch:event", os.EX_NOINPUT, "nosuch"),
        pytest.param(
            "k:getppid",
            os.EX_UNAVAILABLE,
            "has no kprobes",
            marks=pytest.mark.skipif(KPROBE_PMU.exists(), reason="this kernel has kprobes"),
        ),
        pytest.param(
            "k:no_such_function",
            os.EX_NOINPUT,
            "no kernel function no_such_function",
            marks=pytest.mark.skipif(not KPROBE_PMU.exists(), reason="this kernel has no kprobes"),
        ),
    ],
)
def test_it_is_refused(
    capsys: pytest.CaptureFixture[str],
    start_rounds: StartTarget,
    edge: str,
    text: str,
    status: int,
    message: str,
) -> None:
    pid = start_rounds(0).pid
    assert message in refusal(capsys, status, "-p", pid, f"--{edge}-trigger", text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trigger-delta", "1"], f"--trigger-delta {ONE_EDGE}"),
        (["--start-trigger", "up:round_work", "--trigger-delta", "1"], ONE_EDGE),
        (["--stop-trigger", "up:round_work", "--trigger-thread", "same"], ONE_EDGE),
        (["--timeout", "1"], "--timeout needs --start-trigger or --stop-trigger"),
        (["--start-trigger", "up:round_work", "--timeout", "0"], "more than 0 and at most"),
        (["--trigger-delta", "-1"], "at least 0"),
        (["--trigger-thread", "other"], "invalid choice"),
    ],
)
def test_options_that_make_no_sense(
    capsys: pytest.CaptureFixture[str],
    start_rounds: StartTarget,
    options: list[str],
    message: str,
) -> None:
    assert message in refusal(capsys, os.EX_USAGE, "-p", start_rounds(0).pid, *options)


def test_a_stripped_program(
    capsys: pytest.CaptureFixture[str], start_rounds: StartTarget, tmp_path: Path
) -> None:
    program = Path(os.readlink(f"/proc/{start_rounds(0).pid}/exe"))
    subprocess.run([needed("strip"), "-o", tmp_path / "stripped", program], check=True)
    workload = Target([tmp_path / "stripped"])
    try:
        options = ("-p", workload.pid, "--start-trigger", "up:round_work")
        line = refusal(capsys, os.EX_NOINPUT, *options)
    finally:
        workload.kill()
    assert "is stripped" in line
    assert "/usr/lib/debug/.build-id/" in line
    assert "up:0xADDRESS" in line


def test_an_ovs_without_usdt_probes(
    capsys: pytest.CaptureFixture[str], measurable: None, tmp_path: Path
) -> None:
    shutil.copy("/bin/sleep", tmp_path / "ovs-vswitchd")
    with subprocess.Popen([tmp_path / "ovs-vswitchd", "600"]) as process:
        try:
            trigger = "u:udpif_revalidator:start_dump"
            options = ("-p", process.pid, "--start-trigger", trigger)
            line = refusal(capsys, os.EX_NOINPUT, *options)
        finally:
            process.kill()
    assert "--enable-usdt-probes" in line
