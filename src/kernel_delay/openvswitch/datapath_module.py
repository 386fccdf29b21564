"""Whether the kernel's datapath, the module openvswitch, can be looked into."""

from pathlib import Path

from kernel_delay.host.target import living_thread

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
        lines = devices.read_text(errors="replace").splitlines()
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
