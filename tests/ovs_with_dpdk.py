"""Debian's Open vSwitch with DPDK, unpacked once: python -m tests.ovs_with_dpdk prints where.

Its libraries are unpacked beside it, so that nothing is installed on the machine.
"""

from pathlib import Path

from msgspec.structs import replace

from lab.binaries import Binaries
from lab.instance import Instance
from tests.cache import cache_dir, locked
from tests.debian import Suite

SUITE = "bookworm"
PACKAGE = "openvswitch-switch-dpdk"
PROGRAM = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
# As update-alternatives(1) has it: Open vSwitch calls its files by the name that it is run by.
LINK = "usr/sbin/ovs-vswitchd"

# What each port and each pool of packets takes, without any hardware; loaded by DPDK at its start.
DRIVERS = ("bus-vdev", "mempool-ring", "net-null")

# The machine's own, which the dynamic loader of the machine goes with.
OF_THE_MACHINE = ("libc6", "libgcc-s1", "libstdc++6", "libcrypt1")

MEMORY_MIB = 256


def unpack() -> Path:
    """The root below which it and its libraries are. Raises DebianError where it can't be had."""
    with locked("dpdk"):
        suite = Suite(SUITE)
        root = cache_dir() / "dpdk" / suite.version(PACKAGE)
        if not root.exists():
            needed = [each for each in suite.closure(PACKAGE) if each.startswith("lib")]
            version = next(each for each in needed if each.startswith("librte-ethdev"))[13:]
            drivers = [f"librte-{driver}{version}" for driver in DRIVERS]
            libraries = {*needed, *drivers}.difference(OF_THE_MACHINE)
            partial = root.with_name(root.name + ".partial")
            suite.unpack(partial, PACKAGE, *sorted(libraries))
            (partial / LINK).parent.mkdir(exist_ok=True)
            (partial / LINK).symlink_to(Path("../..") / PROGRAM)
            partial.rename(root)
        return root


def instance(binaries: Binaries) -> Instance:
    """Return an Open vSwitch that runs with DPDK; the other programs are of `binaries`.

    It takes no huge pages, so that it changes nothing of the machine.
    """
    root = unpack()
    folders = sorted({file.parent for file in root.rglob("lib*.so*")})
    return Instance(
        replace(binaries, ovs_vswitchd=root / LINK),
        environment={"LD_LIBRARY_PATH": ":".join(map(str, folders))},
    )


def start(ovs: Instance) -> None:
    """Have it initialize DPDK, with the drivers that it needs."""
    (drivers,) = unpack().rglob("dpdk/pmds-*")
    options = f"--no-pci --no-huge --legacy-mem --iova-mode=va -m {MEMORY_MIB} -d {drivers}"
    ovs.vsctl(
        *("set", "Open_vSwitch", ".", "other_config:dpdk-init=true"),
        f'other_config:dpdk-extra="{options}"',
    )


if __name__ == "__main__":
    print(unpack())
