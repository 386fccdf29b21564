"""What a session's tests share: an Open vSwitch under real traffic, and who else measures."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.loader.features import read_kernel_features
from kernel_delay.probes.user import UPROBE_PMU
from lab.binaries import Binaries
from lab.instance import Instance
from lab.traffic import Traffic
from tests import ovs_with_usdt
from tests.integration import kernel_datapath, oracles
from tests.needs import need_registers
from tests.workload import LASTS_S


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """What a test starts, ended with the test, whatever becomes of it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def uprobes(measurable: None) -> None:
    """Skips where the kernel has no uprobes."""
    if not UPROBE_PMU.exists():
        pytest.skip("this kernel has no uprobes")


@pytest.fixture(scope="session")
def earlier_calls(measurable: None) -> None:
    """Skips where the kernel does not say in which call a thread is whose entry was not seen."""
    need_registers()


@pytest.fixture(scope="session")
def memory_of_others(measurable: None) -> None:
    """Skips where no program reads another process's memory, as at a lock."""
    if not read_kernel_features().reads_other_processes:
        pytest.skip("this kernel has no bpf_copy_from_user_task() (Linux 5.18)")


@pytest.fixture(scope="session")
def bpftrace_works() -> None:
    """Skips where bpftrace can trace nothing."""
    oracles.skip_without_bpftrace()


@pytest.fixture(scope="session")
def perf_works() -> None:
    """Skips where perf can count nothing."""
    oracles.skip_without_perf()


@pytest.fixture(scope="session")
def ovs_root(project: Path) -> Path:
    """Where Open vSwitch is: $KERNEL_DELAY_OVS, else where setup/openvswitch.sh has it."""
    root = os.environ.get("KERNEL_DELAY_OVS")
    if root is None:
        script = project / "setup" / "openvswitch.sh"
        root = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout
    return Path(root.strip())


@pytest.fixture(scope="session")
def ovs_binaries(ovs_root: Path) -> Binaries:
    """The programs of that Open vSwitch."""
    return Binaries.under(ovs_root)


@pytest.fixture(scope="session")
def usdt_binaries() -> Binaries:
    """An Open vSwitch with USDT probes and symbols: $KERNEL_DELAY_USDT_OVS, or built once."""
    root = os.environ.get("KERNEL_DELAY_USDT_OVS")
    return Binaries.under(Path(root) if root else ovs_with_usdt.build())


@pytest.fixture(scope="session")
def ovs(root_user: None, ovs_binaries: Binaries) -> Iterator[Instance]:
    """A running Open vSwitch with the userspace datapath."""
    with Instance(ovs_binaries) as instance:
        yield instance


@pytest.fixture
def busy_ovs(ovs: Instance) -> Iterator[Instance]:
    """The same, while new flows come in at 500 a second and are answered."""
    with Traffic(ovs, rate=500, seconds=LASTS_S):
        yield ovs


@pytest.fixture(scope="session")
def datapath(root_user: None, usdt_binaries: Binaries) -> Iterator[Instance]:
    """A bridge in the kernel that gets the packets that a test sends, and no others."""
    if not kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is not loaded")
    with Instance(usdt_binaries, datapath="system") as ovs, kernel_datapath.bridge(ovs):
        yield ovs
