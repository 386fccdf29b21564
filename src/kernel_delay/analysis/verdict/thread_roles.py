"""What a thread is there for: its role in Open vSwitch, and helpers of a Java VM."""

from kernel_delay.host.kernel_names import OVS_VSWITCHD
from kernel_delay.model import Sample, Thread

# How ovs-vswitchd names its threads: ovs_thread_create() in lib/ovs-thread.c, 3.5; the callers
# are in lib/dpif-netdev.c, lib/conntrack.c, lib/ovs-rcu.c and ofproto/ofproto-dpif-upcall.c.
_OVS_ROLES = {
    "handler": "the handler",
    "revalidator": "the revalidator",
    "pmd-c": "the PMD thread",
    "urcu": "the RCU thread",
    "ct_clean": "the conntrack cleaner",
}


def ovs_role(sample: Sample, thread: Thread) -> str | None:
    """What the thread does in an ovs-vswitchd, None in other processes or if not known.

    A thread that one of them makes, as glibc does for aio_write(3), has its name and not its role.
    """
    if sample.target.comm not in OVS_VSWITCHD:
        return None
    role = next(
        (role for prefix, role in _OVS_ROLES.items() if thread.name.startswith(prefix)), None
    )
    if role is None:
        return None
    # Ended threads that are summed up have no ID.
    namesakes = (each.tid for each in sample.threads if each.name == thread.name)
    return None if any(0 < tid < thread.tid for tid in namesakes) else role


def spins_by_design(sample: Sample, thread: Thread) -> bool:
    """Whether the thread is made to poll without ever sleeping, as a PMD thread is."""
    return ovs_role(sample, thread) == "the PMD thread"


# HotSpot's own threads, whose names the kernel cuts to 15 characters: JavaThread and NamedThread in
# src/hotspot/share, Reference Handler to Common-Cleaner in java.base (OpenJDK 17 to 25).
_JVM_HELPERS = (
    *("VM Thread", "VM Periodic Tas", "Service Thread", "Monitor Deflati", "Signal Dispatch"),
    *("Notification Th", "Attach Listener", "C1 CompilerThre", "C2 CompilerThre", "GC Thread#"),
    *("Sweeper thread", "G1 ", "Shenandoah", "ZDriver", "ZWorker", "ZDirector", "ZStat"),
    *("Reference Handl", "Finalizer", "Common-Cleaner"),
)


def idles_by_design(sample: Sample, thread: Thread) -> bool:
    """Whether the thread waits for rare work by design.

    Kernel workers do, threads that poll without sleeping, and a Java VM's helpers.
    """
    if thread.kernel_worker or spins_by_design(sample, thread):
        return True
    return is_java_helper(sample, thread)


def is_java_helper(sample: Sample, thread: Thread) -> bool:
    """Whether it is a thread of a Java VM that runs none of the program's work.

    The launcher's first thread waits for that of main() (src/java.base/share/native/libjli/java.c).
    """
    if not is_java(sample):
        return False
    return thread.tid == sample.target.pid or thread.name.startswith(_JVM_HELPERS)


def is_java(sample: Sample) -> bool:
    """Whether it is a Java VM that the launcher started."""
    return sample.target.comm == "java"
