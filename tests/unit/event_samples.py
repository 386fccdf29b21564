"""A Sample with syscall events; those of the manual of kernel_delay.py among them."""

from msgspec import structs

from kernel_delay.model import Sample, StackFrame, SyscallEvent
from tests.unit.samples import bare_sample, bare_thread

SWITCH = "/usr/sbin/ovs-vswitchd"

STACKS = (
    (
        StackFrame(0xFFFFFFFF81000161, "syscall_exit_to_user_mode_prepare", 0x161, "kernel"),
        StackFrame(0xFFFFFFFF82000068, "do_syscall_64", 0x68, "kernel"),
    ),
    (
        StackFrame(0x7F0000000030, "__GI___lll_lock_wait", 0x30, "/lib64/libc.so.6"),
        StackFrame(0x550000000018, "ovs_mutex_lock_at", 0x18, SWITCH),
        StackFrame(0x696C003936313A63, None, 0, None),
    ),
    (
        StackFrame(0x7FFF19F2BD00, None, 0xD00, "[vdso]"),
        StackFrame(0x55000000102F, "ovs_mutex_lock_at", 0, SWITCH, "lib/ovs-thread.c:76", True),
        StackFrame(
            0x55000000102F, "main", 0x2F, f"{SWITCH} (replaced)", "vswitchd/ovs-vswitchd.c:127"
        ),
    ),
)

EVENTS = (
    SyscallEvent(3359699, 202, "futex", 2161821694935486, 2161821695031201, 0, 0, 1),
    SyscallEvent(3359698, 202, "futex", 2161821695276882, 2161821695333687, -11, None, None),
    SyscallEvent(3359635, 9999, None, 2161821695964969, 2161822696052021, -38, None, 2),
)

WITH_EVENTS: Sample = bare_sample(
    bare_thread(3359699, "revalidator14"),
    bare_thread(3359698, "revalidator13", exited=True),
    syscall_events=EVENTS,
    stacks=STACKS,
)


def renamed(sample: Sample, old: str, new: str) -> Sample:
    """The Sample, where a thread or a function has another name."""
    threads = tuple(
        structs.replace(thread, name=new) if thread.name == old else thread
        for thread in sample.threads
    )
    stacks = tuple(
        tuple(structs.replace(at, name=new) if at.name == old else at for at in stack)
        for stack in sample.stacks
    )
    return structs.replace(sample, threads=threads, stacks=stacks)
