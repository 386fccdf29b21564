"""What is said where another tool has a USDT probe with another semaphore, as BCC's have."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy2, copytree

import pytest
from msgspec.structs import replace

from kernel_delay.loader.base import start_log
from kernel_delay.loader.objects import open_object
from kernel_delay.probes.objects import process_objects
from kernel_delay.probes.triggers import UsdtTrigger
from kernel_delay.probes.user import resolve_usdt
from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.integration.probes.hit_counter import counted
from tests.integration.probes.usdt_workload import Start, Workload

pytestmark = pytest.mark.usefixtures("uprobes")

COMMANDS = (
    pytest.param("main", "run_start", ("bridge-loop", "--time", "1"), id="uprobe"),
    pytest.param(
        "main", "run_start", ("--timeout", "1", "--start-trigger", "u:main:run_start"), id="trigger"
    ),
    pytest.param("udpif_revalidator", "start_dump", ("revalidator", "--time", "1"), id="usdt"),
)


@contextmanager
def held(pid: int, provider: str, probe: str) -> Iterator[None]:
    """Within the `with` this process has a program at the probe, as a BCC script would.

    BCC's Python gives what lies on its stack for the semaphore's offset.
    """
    start_log(-1)
    (place, *_) = resolve_usdt(UsdtTrigger(provider, probe), process_objects(pid))
    with open_object("bridge_loop") as bpf_object:
        bpf_object.load()
        link = bpf_object.program("on_run_start").attach_uprobe(
            pid,
            place.path,
            place.file_offset,
            is_return=False,
            semaphore_offset=place.semaphore_offset + 2,
        )
        try:
            yield
        finally:
            link.close()


@pytest.fixture(scope="module")
def ovs(
    root_user: None, usdt_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instance]:
    """One with a file of its own: the kernel has one semaphore for a place in a file."""
    program = tmp_path_factory.mktemp("ovs") / "ovs-vswitchd"
    copy2(usdt_binaries.ovs_vswitchd, program)
    with Instance(replace(usdt_binaries, ovs_vswitchd=program)) as instance:
        yield instance


@pytest.mark.parametrize(("provider", "probe", "command"), COMMANDS)
def test_error_names_who_has_attached_to_the_probe(
    ovs: Instance, provider: str, probe: str, command: tuple[str, ...]
) -> None:
    with held(ovs.pid, provider, probe):
        done = commands.run(*command, "--pid", ovs.pid)
    assert done.returncode == os.EX_UNAVAILABLE
    (line,) = done.stderr.splitlines()
    assert f" ({os.getpid()}) has attached to " in line
    assert f"{provider}:{probe} with another semaphore, as BCC's" in line
    assert line.endswith("takes one only: end that program first")


def test_holder_without_a_bpf_program_is_another_program(
    start: Start, workload: Workload, tmp_path: Path
) -> None:
    # As above, with its library.
    copy = copytree(workload.executable.parent, tmp_path / "usdt")
    pid = start(copy / workload.executable.name)
    (place, *_) = resolve_usdt(UsdtTrigger("kd_main", "round_start"), process_objects(pid))
    assert place.semaphore_offset
    with counted(replace(place, semaphore_offset=0), pid):
        done = commands.run("-p", pid, "--start-trigger", "u:kd_main:round_start", "--timeout", 1)
    assert done.returncode == os.EX_UNAVAILABLE
    assert "another program has attached to u:kd_main:round_start" in done.stderr
