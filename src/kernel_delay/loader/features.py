"""What the running kernel has of BPF, found by trying; and what a perf event has attached."""

import os
from collections.abc import Mapping, Sequence
from itertools import compress
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct

from kernel_delay.loader._libbpf import ffi, lib
from kernel_delay.loader.base import BpfError, bpf_error, strings

MapType = Literal["ARRAY", "RINGBUF", "TASK_STORAGE"]

MAP_TYPES: Mapping[MapType, int] = MappingProxyType(
    {
        "ARRAY": lib.BPF_MAP_TYPE_ARRAY,
        "RINGBUF": lib.BPF_MAP_TYPE_RINGBUF,
        "TASK_STORAGE": lib.BPF_MAP_TYPE_TASK_STORAGE,
    }
)


class KernelFeatures(Struct, frozen=True):
    """What must be known of the kernel before programs are loaded.

    Attributes:
        sees_faults: it takes a program at the entry of handle_mm_fault() (fentry).
        reads_other_processes: an iterator that may sleep can read another process's memory:
            the helper bpf_copy_from_user_task() (5.18, commit 376040e47334).
        preempts_tracepoints: programs at tracepoints can be preempted: tracepoints guard their
            probes by SRCU-fast from 7.0 on (include/linux/tracepoint.h:__DO_TRACE_CALL()). It takes
            the field srcu_struct.srcu_reader_flavor, which 6.19 has too: there what follows
            from this costs some ns and changes nothing.
        calls_unpreempted: a program that has switched preemption off may call functions that
            are verified by themselves: bpf_subprog_info.might_sleep (6.15, commit e2d8f560d176).
        knows_earlier_calls: a program can read which system call another thread is in: the helper
            bpf_task_pt_regs() (5.15, commit dd6e10fbd9fb).
        loops: a program can do so many steps as it finds out: the helper bpf_loop() (5.17, commit
            e6f2dd0f8067).
        contexts_distance: how many bytes the count of a CPU's contexts is behind its run queue; 0
            if that is not known.
        faults_errno: why it does not take the program that `sees_faults` is about, 0 if it does.
    """

    sees_faults: bool
    reads_other_processes: bool
    preempts_tracepoints: bool
    calls_unpreempted: bool
    knows_earlier_calls: bool
    loops: bool
    contexts_distance: int
    faults_errno: int = 0


def read_kernel_features() -> KernelFeatures:
    """Read the kernel's types, once for all.

    Raises:
        BpfError: the kernel has no types, or not for this user.
    """
    found = ffi.new("struct kernel_features *")
    result = lib.read_kernel_features(found)
    if result:
        raise bpf_error("reading the kernel's types", -result)
    return KernelFeatures(
        sees_faults=bool(found.sees_faults),
        reads_other_processes=bool(found.reads_other_processes),
        preempts_tracepoints=bool(found.preempts_tracepoints),
        calls_unpreempted=bool(found.calls_unpreempted),
        knows_earlier_calls=bool(found.knows_earlier_calls),
        loops=bool(found.loops),
        contexts_distance=int(found.contexts_distance),
        faults_errno=int(found.faults_errno),
    )


def kernel_functions(names: Sequence[str]) -> list[str]:
    """Return which of these are functions of the kernel; all begin with the same character.

    Raises:
        BpfError: as above.
    """
    found = ffi.new("uint8_t[]", len(names))
    result = lib.find_functions(strings(names), len(names), found)
    if result:
        raise bpf_error("reading the kernel's types", -result)
    return list(compress(names, found))


def has_map_type(name: MapType) -> bool:
    """Whether a map of BPF_MAP_TYPE_`name` can be made, by this user."""
    result = lib.libbpf_probe_bpf_map_type(MAP_TYPES[name], ffi.NULL)
    if result < 0:
        raise bpf_error(f"map type {name}", -result)
    return bool(result)


def takes_bpf() -> bool:
    """Whether this user can make maps, one of them with types, and load the simplest program."""
    simplest = lib.BPF_PROG_TYPE_SOCKET_FILTER
    try:
        has_maps = has_map_type("ARRAY") and has_map_type("TASK_STORAGE")
    except BpfError:
        return False
    return has_maps and lib.libbpf_probe_bpf_prog_type(simplest, ffi.NULL) > 0


def perf_event_error() -> BpfError | None:
    """Why perf_event_open(2) opens not even this thread's clock; None: it does."""
    fd = lib.open_task_clock(0, 1)
    if fd < 0:
        return bpf_error("opening a perf event")
    os.close(fd)
    return None


def takes_perf_events() -> bool:
    """Whether this user can open a perf event, as each trigger at a tracepoint or probe takes."""
    return perf_event_error() is None


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
    offset, address = ffi.new("unsigned long long *"), ffi.new("unsigned long long *")
    if lib.bpf_task_fd_query(pid, fd, 0, path, length, program, kind, offset, address):
        return None
    if kind[0] not in (lib.BPF_FD_TYPE_UPROBE, lib.BPF_FD_TYPE_URETPROBE):
        return None
    return AttachedUprobe(ffi.string(path).decode(errors="surrogateescape"), offset[0])
