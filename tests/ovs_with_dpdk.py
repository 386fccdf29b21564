"""Debian's Open vSwitch with DPDK, unpacked once."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from lab.binaries import Binaries
from lab.instance import Instance
from tests.debian import library_path, unpacked

PROGRAM = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"

# What it takes besides for ports without any hardware, which DPDK loads as it starts.
DRIVERS = ("librte-bus-vdev23", "librte-mempool-ring23", "librte-net-null23")

MEMORY_MIB = 256


@contextmanager
def running(binaries: Binaries) -> Iterator[Instance]:
    """Run it, with the other programs of `binaries`, until DPDK is initialized.

    It takes no huge pages, so that it changes nothing of the machine.
    """
    root = unpacked("openvswitch-switch-dpdk", *DRIVERS)
    (drivers,) = root.rglob("dpdk/pmds-*")
    options = f"--no-pci --no-huge --legacy-mem --iova-mode=va -m {MEMORY_MIB} -d {drivers}"
    with tempfile.TemporaryDirectory() as folder:
        # Open vSwitch calls its files by the name that it is run by: update-alternatives(1).
        link = Path(folder) / "ovs-vswitchd"
        link.symlink_to(root / PROGRAM)
        programs = replace(binaries, ovs_vswitchd=link)
        # DPDK's own files, which are of one process: others may run meanwhile.
        environment = library_path(root) | {"RUNTIME_DIRECTORY": folder}
        with Instance(programs, environment=environment) as ovs:
            ovs.vsctl(
                *("set", "Open_vSwitch", ".", "other_config:dpdk-init=true"),
                f'other_config:dpdk-extra="{options}"',
            )
            yield ovs
