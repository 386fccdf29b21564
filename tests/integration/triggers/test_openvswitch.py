"""Triggers in a real Open vSwitch that was built with USDT probes."""

import json
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from kernel_delay.probes.kernel import KPROBE_PMU
from kernel_delay.probes.resolve import resolve
from kernel_delay.probes.triggers import parse_trigger
from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from lab.traffic import Traffic
from tests.emulation import few, is_emulated, scaled
from tests.integration import kernel_datapath
from tests.integration.probes.hit_counter import counted, hits
from tests.integration.triggers.sessions import Command, StartCommand
from tests.workload import HANGS_S, LASTS_S, stop, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "triggers.md"
ROUNDS = scaled(1_000)
PERIOD_S = 0.001
BRIDGE_RUN = ("--start-trigger", "up:bridge_run", "--stop-trigger", "ur:bridge_run")

needs_module = pytest.mark.skipif(
    not kernel_datapath.is_there(), reason="the kernel module openvswitch is not loaded"
)
needs_kprobes = pytest.mark.skipif(not KPROBE_PMU.exists(), reason="this kernel has no kprobes")


@pytest.fixture(scope="module")
def switch(root_user: None, uprobes: None, usdt_binaries: Binaries) -> Iterator[Instance]:
    """An Open vSwitch with probes under traffic."""
    datapath: Datapath = "system" if kernel_datapath.is_there() else "netdev"
    with (
        Instance(usdt_binaries, datapath=datapath) as instance,
        Traffic(instance, rate=100, seconds=LASTS_S),
    ):
        yield instance


class MainLoop:
    """Has the main loop go round: it answers one request each time (lib/unixctl.c)."""

    def __init__(self, instance: Instance) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(HANGS_S)
        self._socket.connect(str(instance.folder / f"ovs-vswitchd.{instance.pid}.ctl"))

    def go_round(self) -> None:
        """One request, and its answer (JSON-RPC 1.0)."""
        request = {"id": 0, "method": "version", "params": []}
        self._socket.sendall(json.dumps(request).encode())
        assert json.loads(self._socket.recv(65536))["error"] is None

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def main_loop(switch: Instance, closing: ExitStack) -> MainLoop:
    loop = MainLoop(switch)
    closing.callback(loop.close)
    return loop


@pytest.mark.long
def test_no_bridge_run_is_missed(
    switch: Instance, main_loop: MainLoop, start_command: StartCommand, closing: ExitStack
) -> None:
    """A thousand a second: as many windows as the kernel itself counts calls."""
    (point,) = resolve(parse_trigger("up:bridge_run"), switch.pid)
    stop(switch.pid)
    closing.callback(os.kill, switch.pid, signal.SIGCONT)
    command = start_command("-p", switch.pid, *BRIDGE_RUN, "--sample-count", 1_000_000, "--json")
    command.wait_until_waiting()
    with counted(point, switch.pid) as counter:
        os.kill(switch.pid, signal.SIGCONT)
        due = time.monotonic()
        # One pass may answer several requests (lib/unixctl.c:run_connection()).
        while hits(counter) < ROUNDS:
            main_loop.go_round()
            due += PERIOD_S
            time.sleep(max(0.0, due - time.monotonic()))
        stop(switch.pid)
        calls = hits(counter)
    wait_until(lambda: command.stdout.count("\n") >= calls - 1)
    command.interrupt()
    assert command.end() == os.EX_OK
    samples = command.json()
    assert len(samples) == calls >= ROUNDS
    assert sum(sample["lost"]["missed_triggers"] for sample in samples) == 0
    assert {sample["window"]["start_trigger"]["tid"] for sample in samples} == {switch.pid}


KINDS = [
    "u:main:run_start",
    "up:bridge_run",
    "upr:bridge_run",
    "t:syscalls:sys_enter_recvmsg",
    "t:openvswitch:ovs_dp_upcall",
    "k:ovs_dp_process_packet",
    "kr:ovs_dp_process_packet",
]
EDGES = [("start",), ("stop",), ("start", "stop")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("trigger", "edges"),
    # Where it takes long each kind once, and all edges.
    [
        pytest.param(
            trigger,
            edges,
            id=f"{trigger}-{'-'.join(edges)}",
            marks=[
                *([needs_module] if "ovs_dp" in trigger else []),
                *([needs_kprobes] if trigger.startswith("k") else []),
            ],
        )
        for trigger, edges in few(list(product(KINDS, EDGES)), 4)
    ],
)
def test_every_kind_at_every_edge(
    switch: Instance, start_command: StartCommand, trigger: str, edges: tuple[str, ...]
) -> None:
    triggers = [word for edge in edges for word in (f"--{edge}-trigger", trigger)]
    options = ("--sample-time", "0.01", "--sample-count", 2, "--timeout", HANGS_S, "--json")
    command = start_command("-p", switch.pid, *triggers, *options)
    assert command.end() == os.EX_OK, command.stderr
    samples = command.json()
    assert len(samples) == 2
    for window in (sample["window"] for sample in samples):
        for edge in ("start", "stop"):
            hit = window[f"{edge}_trigger"]
            assert (hit and hit["trigger"]) == (trigger if edge in edges else None)
        assert window["ended_by"] == ("trigger" if "stop" in edges else "time")


def command_lines_of_the_page() -> list[str]:
    """Those of the page on triggers that have one."""
    text = PAGE.read_text().replace("\\\n", " ")
    lines = re.findall(r"^    sudo kernel-delay( .*-trigger .*)$", text, flags=re.MULTILINE)
    return [" ".join(line.split()) for line in lines]


def needs(line: str) -> str | None:
    """Why it can't be run here, if so."""
    if "ovs_dp_" in line and not kernel_datapath.is_there():
        return "the kernel module openvswitch is not loaded"
    if re.search(r" kr?:", line) and not KPROBE_PMU.exists():
        return "this kernel has no kprobes"
    return None


def test_page_has_command_lines_of_all_kinds() -> None:
    words = " ".join(command_lines_of_the_page())
    for kind in ("u:", "t:", "k:", "kr:", "up:", "ur:"):
        assert f"-trigger {kind}" in words


@pytest.fixture
def churn(switch: Instance) -> Iterator[Instance]:
    """An Open vSwitch whose bridge_run() takes long: a bridge comes and goes."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                switch.add_bridge("brchurn")
                switch.vsctl("del-br", "brchurn")
        finally:
            os._exit(1)
    yield switch
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    switch.vsctl("--if-exists", "del-br", "brchurn")


@pytest.mark.long
def test_command_lines_of_the_page_run_as_written(
    churn: Instance, tmp_path: Path, closing: ExitStack
) -> None:
    """All at once, but for the process: other tests may have an ovs-vswitchd of their own."""
    running: list[tuple[str, Command]] = []
    for number, line in enumerate(command_lines_of_the_page()):
        if is_emulated() and not re.search(r" kr?:|ovs_dp_", line):
            continue  # every host can run it, and does so at less cost
        if needs(line) is None:
            directory = tmp_path / str(number)
            directory.mkdir()
            command = Command(directory, *shlex.split(line), "--pid", churn.pid)
            closing.callback(command.kill)
            running.append((line, command))
    assert running
    for line, command in running:
        assert command.end() == os.EX_OK, f"{line}: {command.stderr}"
        count = re.search(r"--sample-count (\d+)", line)
        heading = '{"schema"' if "--json" in line else "<RESOURCE SPECIFIC>"
        reports = command.stdout.count(heading)
        assert reports == (int(count[1]) if count else 1), line
