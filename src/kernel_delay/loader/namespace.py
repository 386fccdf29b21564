"""What the kernel calls a process that the tool sees under a number of its own.

BPF programs see the initial PID namespace's numbers. Inside a container the
tool sees those of the container's, so the kernel is asked which is which.
"""

import os

from msgspec import Struct

from kernel_delay.errors import UnavailableError
from kernel_delay.loader._records import ffi
from kernel_delay.loader.objects import load_object, open_object

# PROC_PID_INIT_INO in include/linux/proc_ns.h (5.14 to 6.18): the inode of
# the initial PID namespace, the same on every machine.
INITIAL_PID_NAMESPACE_INODE = 0xEFFFFFFC


class KernelProcess(Struct, frozen=True):
    """A process as the kernel numbers it.

    `tgid` is its id in the initial PID namespace, `pid_level` how many
    namespaces below the initial one the tool's own is: 0 for the initial one.
    """

    tgid: int
    pid_level: int


def find_process(pid: int) -> KernelProcess:
    """Return what the kernel calls the process that /proc here lists as `pid`.

    Raises UnavailableError if /proc is not of the namespace the tool is in.
    """
    try:
        inode = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        raise UnavailableError(
            "/proc is of another PID namespace, as it does not show this process: run in that"
            " namespace (container: --pid=host)"
        ) from None
    if inode == INITIAL_PID_NAMESPACE_INODE:
        return KernelProcess(tgid=pid, pid_level=0)
    return _ask_kernel(pid, inode)


def _ask_kernel(pid: int, namespace_inode: int) -> KernelProcess:
    with open_object("namespace") as bpf_object:
        initial = bpf_object.map(".rodata.query").initial_values()
        query = ffi.cast("struct namespace_query *", initial)
        query.pid = pid
        query.namespace_inode = namespace_inode
        load_object(bpf_object)
        bpf_object.program("find_process").iterate()
        memory = bpf_object.map(".data.answer").mmap()
        answer = ffi.from_buffer("struct namespace_answer *", memory)
        process = KernelProcess(tgid=answer.tgid, pid_level=answer.pid_level)
    if not process.tgid:
        raise UnavailableError(
            f"process {pid} has another number in this PID namespace than in /proc: run where both"
            " agree (container: --pid=host)"
        )
    return process
