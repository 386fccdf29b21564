"""What the kernel calls a process that the tool sees under a number of its own.

BPF programs see the initial PID namespace's numbers. Inside a container the
tool sees those of the container's, so the kernel is asked which is which.
"""

import os
from contextlib import ExitStack, closing

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


class ProcessFinder:
    """Finds processes, from construction to close(): then nothing is to be loaded any more."""

    def __init__(self) -> None:
        """Load what asks the kernel, if the tool is in a PID namespace of its own.

        Raises UnavailableError if /proc is not of that, and else as load_object() does.
        """
        self._closing = ExitStack()
        self._is_initial = True
        inode = _own_namespace()
        if inode == INITIAL_PID_NAMESPACE_INODE:
            return
        self._is_initial = False
        with ExitStack() as failing:
            failing.callback(self.close)
            bpf_object = self._closing.enter_context(open_object("namespace"))
            load_object(bpf_object)
            self._program = bpf_object.program("find_process")
            query = bpf_object.map(".data.query").mmap(writable=True)
            answer = bpf_object.map(".data.answer").mmap(writable=True)
            self._query = ffi.from_buffer("struct namespace_query *", query)
            self._answer = ffi.from_buffer("struct namespace_answer *", answer)
            self._query.namespace_inode = inode
            failing.pop_all()

    def close(self) -> None:
        """Unload what was loaded."""
        self._closing.close()

    def find(self, pid: int) -> KernelProcess:
        """Return what the kernel calls the process that /proc here lists as `pid`.

        Raises UnavailableError if it has another number in the namespace of the tool.
        """
        if self._is_initial:
            return KernelProcess(tgid=pid, pid_level=0)
        self._query.pid, self._answer.tgid = pid, 0
        self._program.iterate()
        if not self._answer.tgid:
            raise UnavailableError(
                f"process {pid} has another number in this PID namespace than in /proc: run where"
                " both agree (container: --pid=host)"
            )
        return KernelProcess(tgid=self._answer.tgid, pid_level=self._answer.pid_level)


def find_process(pid: int) -> KernelProcess:
    """Return what the kernel calls one process; raises as a ProcessFinder does."""
    with closing(ProcessFinder()) as finder:
        return finder.find(pid)


def _own_namespace() -> int:
    """The inode of the PID namespace that the tool is in."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        raise UnavailableError(
            "/proc is of another PID namespace, as it does not show this process: run in that"
            " namespace (container: --pid=host)"
        ) from None
