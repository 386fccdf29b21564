"""What a perf event of a process has attached: bpf(2), BPF_TASK_FD_QUERY."""

from typing import NamedTuple

from kernel_delay.libbpf._libbpf import ffi, lib

PATH_BYTES = 4096


class AttachedUprobe(NamedTuple):
    """A program at a place in a file, whose path is as the process gave it that attached it."""

    path: str
    offset: int


def attached_uprobe(pid: int, fd: int) -> AttachedUprobe | None:
    """Return what that descriptor of that process attaches a program to.

    None where it is no uprobe of a BPF program, or this user may not ask (CAP_SYS_ADMIN).
    """
    path = ffi.new("char[]", PATH_BYTES)
    length = ffi.new("uint32_t *", PATH_BYTES)
    program, kind = ffi.new("uint32_t *"), ffi.new("uint32_t *")
    offset, address = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    if lib.bpf_task_fd_query(pid, fd, 0, path, length, program, kind, offset, address):
        return None
    if kind[0] not in (lib.BPF_FD_TYPE_UPROBE, lib.BPF_FD_TYPE_URETPROBE):
        return None
    return AttachedUprobe(ffi.string(path).decode(errors="surrogateescape"), offset[0])
