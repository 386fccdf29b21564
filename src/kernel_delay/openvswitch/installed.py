"""Which Open vSwitch there is: its version, and if its kernel datapath can be looked into."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kernel_delay.errors import NoInputError
from kernel_delay.host.netlink import network_path
from kernel_delay.host.preflight import may_not_look_at
from kernel_delay.host.proc_text import read_lines
from kernel_delay.host.target import living_thread

if TYPE_CHECKING:
    from kernel_delay.probes.objects import ProbedObject


MODULE = Path("/sys/module/openvswitch")
MODULE_BTF = Path("/sys/kernel/btf/openvswitch")
KALLSYMS = Path("/proc/kallsyms")


# The kernel's datapath of ovs-vswitchd, which has an interface of that name in its network
# namespace (ofproto/ofproto-dpif.c, open_dpif_backer(), Open vSwitch 3.5).
KERNEL_DATAPATH = "ovs-system"


def has_kernel_datapath(pid: int) -> bool:
    """Whether there is a kernel datapath where process `pid`, an ovs-vswitchd, has its own.

    False with userspace datapaths (netdev) alone, whether or not the module is loaded.
    """
    devices = Path(f"/proc/{living_thread(pid) or pid}/net/dev")
    try:
        lines = read_lines(devices)
    except OSError:  # it exits
        return False
    return any(line.partition(":")[0].strip() == KERNEL_DATAPATH for line in lines)


def why_no_datapath() -> str | None:
    """Say why programs can't look into the kernel's datapath; None if they can."""
    if MODULE_BTF.exists() or _built_in():
        return None
    if not MODULE.exists():
        return "the kernel module openvswitch is not loaded"
    return (
        f"the kernel module openvswitch has no BTF ({MODULE_BTF} is not there): it takes a kernel"
        " built with CONFIG_DEBUG_INFO_BTF_MODULES=y"
    )


def _built_in() -> bool:
    """Whether the datapath is a part of the kernel itself, and so in the kernel's own BTF."""
    try:
        with KALLSYMS.open() as symbols:
            return any(line.rstrip().endswith(" ovs_dp_upcall") for line in symbols)
    except OSError:
        return False


# What `ovs-vswitchd --version` prints, and with a library of its own what that has
# (lib/util.c and lib/dirs.c, Open vSwitch 2.17 to 4.0).
_VERSION = re.compile(rb"(?:\(Open vSwitch\)|Open vSwitch Library) (\d{1,3})\.(\d{1,3})\.\d{1,3}")

MOST_BYTES = 1 << 30
"""Of a file no more is looked through."""

_CHUNK = 1 << 20
_LONGEST = 64

Version = tuple[int, int]


def find_version(objects: "Iterable[ProbedObject]") -> Version | None:
    """The version's first two numbers, by the first of the files that names one; None if none."""
    for where in objects:
        try:
            with where.open() as file:
                version = read_version(file)
        except OSError:
            continue
        if version is not None:
            return version
    return None


def read_version(file: BinaryIO) -> Version | None:
    """The version that is named in a file's bytes; None if none is."""
    before = b""
    for _ in range(MOST_BYTES // _CHUNK):
        chunk = file.read(_CHUNK)
        found = _VERSION.search(before + chunk)
        if found is not None:
            return int(found[1]), int(found[2])
        if not chunk:
            break
        before = chunk[-_LONGEST:]
    return None


def network_inode(pid: int) -> int:
    """The inode of the network namespace of process `pid`: /proc/PID/ns/net's.

    Raises NoInputError when it has exited, PermissionDeniedError when this user
    may not look at it.
    """
    try:
        return os.stat(network_path(pid)).st_ino
    except PermissionError:
        raise may_not_look_at(f"the namespaces of process {pid}") from None
    except (FileNotFoundError, ProcessLookupError):
        raise NoInputError(f"process {pid} has exited: nothing to measure") from None
