"""What can be a trigger: the probes of a process, of its files, and of the kernel; and where.

Nothing here attaches anything; `resolve` says where to.
"""

from msgspec import Struct


class UserProbe(Struct, frozen=True):
    """A place in a file that the process has mapped; perf_event_open(2)'s uprobe PMU.

    `path` is the one to open here, valid while the process keeps the file
    mapped; it reaches through the process's own mount namespace. `object` is
    the file's name as the process knows it. `semaphore_offset` is the file
    offset of the 16-bit counter that must not be 0 for a USDT probe to fire
    (the PMU's ref_ctr_offset), 0 for none. The kernel fires it for every
    process that has the file mapped, unless one is given.
    """

    path: str
    object: str
    file_offset: int
    semaphore_offset: int = 0
    is_return: bool = False


class KernelProbe(Struct, frozen=True):
    """A place in a kernel function, or its return."""

    function: str
    offset: int = 0
    is_return: bool = False


class Tracepoint(Struct, frozen=True):
    """A kernel tracepoint; `id` is perf_event_open(2)'s config for it."""

    system: str
    event: str
    id: int


AttachPoint = UserProbe | KernelProbe | Tracepoint
