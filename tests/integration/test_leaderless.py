"""A process whose first thread has ended while others run: all that works on others works on it."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.host.target import find_target
from kernel_delay.monitors.upcalls.events import RecvUpcall
from kernel_delay.monitors.upcalls.probe import UpcallPlan, UpcallProbes
from kernel_delay.openvswitch.installed import network_inode
from kernel_delay.symbols import ProcessImage
from tests import commands
from tests.integration.triggers.sessions import HANGS_NS, Command, session, trigger
from tests.integration.triggers.targets import Target
from tests.needs import in_kernels_types
from tests.workload import compile_workload, wait_until

ROUNDS = 20


@pytest.fixture
def leaderless(uprobes: None) -> Iterator[Target]:
    workload = Target([compile_workload("leaderless")])
    yield workload
    workload.kill()


def test_its_program_and_namespaces_are_found(leaderless: Target) -> None:
    exe = find_target(leaderless.pid).exe
    assert exe is not None
    assert exe.endswith("/leaderless")
    assert network_inode(leaderless.pid) == os.stat("/proc/self/ns/net").st_ino
    with ProcessImage(leaderless.pid) as image:
        assert {found.code.path for found in image.objects} >= {exe}


def test_check_finds_its_binary(leaderless: Target) -> None:
    done = commands.run("check", "--pid", leaderless.pid)
    assert done.returncode == os.EX_OK
    for line in ("binary +yes", "symbols +yes", "USDT probes +yes"):
        assert re.search(f"^  {line}", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize(
    ("start", "stop"),
    [("up:round_work", "ur:round_work"), ("u:main:run_start", "u:main:poll_block")],
)
def test_its_code_can_be_triggers(leaderless: Target, start: str, stop: str) -> None:
    plan = WindowPlan(
        sample_time_ns=1,
        count=ROUNDS,
        start=trigger(start, leaderless.pid),
        stop=trigger(stop, leaderless.pid),
        timeout_ns=HANGS_NS,
    )
    with session(leaderless.pid, plan) as running:
        leaderless.go(ROUNDS)
        samples = list(running.samples())
    assert [sample.window.ended_by for sample in samples] == ["trigger"] * ROUNDS
    # It sleeps for 1 ms in each.
    assert all(sample.window.duration_ns >= 1_000_000 for sample in samples)


def test_its_main_loop_is_followed(leaderless: Target, closing: ExitStack, tmp_path: Path) -> None:
    command = Command(tmp_path, "bridge-loop", "--pid", leaderless.pid, "--count", ROUNDS)
    closing.callback(command.kill)
    command.wait_until_waiting()
    leaderless.go(ROUNDS)
    assert command.end() == os.EX_OK, command.stderr
    assert f"{ROUNDS} passes in " in command.stdout


@pytest.fixture
def cookies() -> None:
    """Skips where USDT probes of a position-independent program take the PID of a thread."""
    if not in_kernels_types("BPF_FUNC_get_attach_cookie"):
        pytest.skip("this kernel has no bpf_get_attach_cookie() (Linux 5.15)")


@pytest.mark.usefixtures("cookies")
def test_its_upcalls_are_received(leaderless: Target) -> None:
    plan = UpcallPlan(packet_bytes=64, key_bytes=64, whole_trip=False)
    upcalls: list[RecvUpcall] = []

    def have_come() -> bool:
        upcalls.extend(event for event in events.take() if isinstance(event, RecvUpcall))
        return len(upcalls) >= ROUNDS

    with UpcallProbes(leaderless.pid, plan) as events:
        leaderless.go(ROUNDS)
        wait_until(have_come)
    assert {upcall.packet for upcall in upcalls} == {b"a packet\0"}
    assert len(upcalls) == ROUNDS
