"""How much room maps have: the programs get it before they are loaded.

Rings of records are arrays that user space maps, and the kernel has no such that grow: a ring has
all of its memory from the beginning (kernel/bpf/arraymap.c:array_map_alloc(), 5.14 to 7.2). So it
is sized by the threads that are there.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType

from kernel_delay.capture.syscall_events.user_stacks import available_bytes
from kernel_delay.host.cgroups import read_hierarchy
from kernel_delay.loader._records import ffi

RING_SIZES: Mapping[str, int] = MappingProxyType(
    {
        "thread_records": 1 << 14,
        "syscall_records": 1 << 16,
        "hard_irq_records": 1 << 12,
        "owner_records": 1 << 14,
        "sleep_records": 1 << 14,
    }
)
"""Records of each ring, powers of two; all of them double together, and are halved together."""

FEW_THREADS = (1000, 100)
"""A process of no more has half of that, and then a quarter: its threads that end make room."""

RECORDS_OF_A_THREAD = 3
"""A window's, those of the next one, which is open while it is read, and of threads to come."""

MEMORY_SHARE = 4
"""Rings that were doubled take this part of the memory that is available, and no more."""

MOST_DOUBLINGS = 6
"""Then there are as many thread records as a round's slot has numbers: ROUND_SLOTS."""

MOST_HALVINGS = 6
"""The fewest are of 64 interrupts' handlers then."""

SLICES = 1 << 11
"""Slices of each CPU: a second of waiting with 2,000 switches in it, in 128 KiB."""

ALL_SLICES = 1 << 18
"""Machines of many CPUs have fewer of each, so that all are 16 MiB at most."""

SLICE_BYTES = ffi.sizeof("struct timeline_slice")
LEAST_SLICES = 1024
"""Of a timeline in each CPU's ring: several programs may be in it at once."""

LEAST_TIMELINES, MOST_TIMELINES = 64, 1024
"""Of as many threads one is kept, where rounds have some, or of twice as many as there are."""

LEAST_OF_ROUND = 64

ROUND_NOTICES_BYTES = 1 << 20
"""Of the buffer that says of rounds which were long: some 3,000 of them, a power of two."""

ENDED_TOTALS_BYTES = 1 << 20
"""Of the buffer of totals of threads that ended: some 800 of them, a power of two."""

EVENT_BYTES = ffi.sizeof("struct syscall_event") + ffi.sizeof("struct event_stacks")
"""Of an event with stacks, but for the copy of the user's."""


_LEAST = {ring: entries >> MOST_HALVINGS for ring, entries in RING_SIZES.items()}


def ring_entries(doubled: int) -> dict[str, int]:
    """Return how many records each ring has when all are doubled so often; below 0, halved."""
    return {ring: entries << MOST_HALVINGS + doubled for ring, entries in _LEAST.items()}


def ring_bytes(doubled: int) -> int:
    """Return what all of them take then."""
    return sum(
        entries * ffi.sizeof(f"struct {ring.removesuffix('s')}")
        for ring, entries in ring_entries(doubled).items()
    )


def doublings(threads: int, *, to_come: bool, room: int | None = None) -> int:
    """Return how often the rings are doubled for this number of threads; below 0, halved.

    Args:
        threads: how many there are.
        to_come: others are expected that are not there yet.
        room: bytes that all may take, if that is limited.
    """
    doubled = 0 if to_come else -sum(threads <= few for few in FEW_THREADS)
    wanted = RECORDS_OF_A_THREAD * threads
    if wanted > RING_SIZES["thread_records"]:
        memory = memory_room()
        while (
            doubled < MOST_DOUBLINGS
            and ring_entries(doubled)["thread_records"] < wanted
            and ring_bytes(doubled + 1) <= memory
        ):
            doubled += 1
    if room is not None:
        while ring_bytes(doubled) > room and doubled > -MOST_HALVINGS:
            doubled -= 1
    return doubled


def memory_room() -> int:
    """Return the bytes that rings may grow to: of what is available, here and in our cgroup.

    The kernel charges maps to the cgroup of who makes them (kernel/bpf/syscall.c, 5.11 on).
    """
    hierarchy = read_hierarchy(os.getpid())
    limits = [state.limit_bytes for state in hierarchy.memory] if hierarchy else []
    return min([available_bytes(), *limits]) // MEMORY_SHARE


def slices_of_round(max_slices: int) -> int:
    """Return how many there is room for where a round's timeline has so many: a power of two."""
    return 1 << (max(max_slices, LEAST_OF_ROUND) - 1).bit_length()


def least_timeline_bytes(max_slices: int) -> int:
    """Return what the timelines of rounds take at least: of a process of few threads."""
    return LEAST_TIMELINES * slices_of_round(max_slices) * SLICE_BYTES


def timelines_of_rounds(threads: int, max_slices: int, room: int | None = None) -> int:
    """Return how many timelines there are for this number of threads: a power of two.

    Args:
        threads: how many there are.
        max_slices: of the timeline of each.
        room: bytes that all may take, if that is limited and more than the least.
    """
    timelines = min(max(1 << (2 * threads).bit_length(), LEAST_TIMELINES), MOST_TIMELINES)
    each = slices_of_round(max_slices) * SLICE_BYTES
    while room is not None and timelines > LEAST_TIMELINES and timelines * each > room:
        timelines //= 2
    return timelines
