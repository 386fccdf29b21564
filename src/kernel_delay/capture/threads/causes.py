"""Who had what a thread waited for in a window: CPUs, and locks.

What the programs charged, and what was still going on at the window's end.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.accounting import ThreadState
from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.capture.threads import SleepStacks
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.run_queues import CpuSlices, CpuWait, Taker, waited
from kernel_delay.capture.threads.thread_stats import ThreadName, syscall_of, text_of
from kernel_delay.host.system_state import POLICIES
from kernel_delay.loader._records import lib
from kernel_delay.model import CpuTaker, LockWait, OwnerActivity, Thread

if TYPE_CHECKING:
    from kernel_delay.loader._records import OwnerActivity as OwnerActivityRecord
    from kernel_delay.loader._records import OwnerRecord, TaskInfo


class OpenWaits(Struct, frozen=True, gc=False):
    """What a thread waits for after its last event that is charged: a CPU, or a lock, or neither.

    `lock` is its address and `owner` the id of the thread that has it. `sleep_stack` is where
    it sleeps, and `sleep_file` on what, as struct sleep_record has it. `newest_sleep` is the number
    of the sleep_record of its newest wake-up.
    """

    thread_state: ThreadState
    cpu: CpuWait | None = None
    lock: int = 0
    owner: int = 0
    sleep_stack: int = 0
    sleep_file: int = 0
    newest_sleep: int = 0
    uninterruptible: bool = False


class _Waits:
    """How many, for how long."""

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self.ns += ns


def with_cpu_takers(
    thread: Thread,
    parts: ThreadRecords,
    waits: OpenWaits | None,
    slices: Mapping[int, CpuSlices],
    window: tuple[int, int],
) -> Thread:
    """Return the thread, of the window from start to stop, with who had the CPUs it waited for.

    `waits` are those at the window's end, `slices` those of each CPU that one is for.
    """
    assert thread.time is not None
    ready_ns = thread.time.ready_ns
    accounts = [record.account for record in parts.threads]
    others_ns = sum([account.other_tasks_ns for account in accounts])
    unknown_ns = sum([account.unknown_tasks_ns for account in accounts])
    takers: dict[int, Taker | TaskInfo] = {}
    taken: defaultdict[int, _Waits] = defaultdict(_Waits)
    charged = set()
    for record in parts.owners:
        if not record.lock:
            info = record.info
            task = info.task
            if task not in takers:
                takers[task] = info
            taken[task].add(record.waits, record.total_ns)
            charged.add((task, record.wait_ns))
    if waits is not None and waits.cpu is not None:
        for who, ns in _taken_at_boundary(waits.cpu, slices, *window).items():
            if who is None:
                unknown_ns += ns
            else:
                is_new = (who.task, waits.cpu.ready_since_ns) not in charged
                takers.setdefault(who.task, who)
                taken[who.task].add(int(is_new), ns)
    missing_ns = ready_ns - others_ns - unknown_ns - sum([each.ns for each in taken.values()])
    if missing_ns < 0:
        # It was being written all the time that it was read, and does not fit together.
        taken.clear()
        others_ns, unknown_ns, missing_ns = 0, 0, ready_ns
    found = [_cpu_taker(takers[task], each) for task, each in taken.items()]
    found.sort(key=lambda each: (-each.ns, each.tid))
    cpu_taken_by = tuple(found)
    return replace(
        thread,
        cpu_taken_by=cpu_taken_by,
        cpu_taken_by_others_ns=others_ns,
        cpu_taken_by_unknown_ns=unknown_ns + missing_ns,
    )


def _taken_at_boundary(
    wait: CpuWait, slices: Mapping[int, CpuSlices], start_ns: int, stop_ns: int
) -> Mapping[Taker | None, int]:
    if wait.cpu is None or wait.cpu not in slices:
        return {None: max(0, stop_ns - max(start_ns, wait.since_ns))}
    return waited(wait, slices[wait.cpu], start_ns, stop_ns).taken_ns


def _cpu_taker(who: "Taker | TaskInfo", waits: _Waits) -> CpuTaker:
    if not who.task:
        return CpuTaker(0, "idle", waits.count, waits.ns)
    comm = who.comm if isinstance(who, Taker) else text_of(who.comm)
    return CpuTaker(
        tid=who.tid,
        comm=comm,
        waits=waits.count,
        ns=waits.ns,
        pid=who.process,
        policy=POLICIES.get(who.policy, str(who.policy)),
        nice=who.nice,
        rt_priority=who.rt_priority,
        kernel_thread=bool(who.kernel_thread),
        is_tool=is_tool(who.process, comm),
    )


TASKS_REMEMBERED = 256
"""Thousands of threads wait for the CPUs of few others."""


@lru_cache(TASKS_REMEMBERED)  # type: ignore[misc]  # functools' own types have Any
def is_tool(process: int, comm: str) -> bool:
    """Return whether a task of that process and name is this tool's.

    The name counts too: in a PID namespace of its own, another one's process may have its number.
    """
    return process == os.getpid() and comm == Path("/proc/self/comm").read_text().rstrip("\n")


def with_lock_waits(
    thread: Thread,
    parts: ThreadRecords,
    waits: OpenWaits | None,
    owner_of: Callable[[int], ThreadName | None],
    stacks: SleepStacks,
    window: tuple[int, int],
) -> Thread:
    """Add the waits for locks of the process's own threads; others are no locks.

    `owner_of` gives the process's thread of an id in its own PID namespace. Where there was no
    room for an owner it is not known whether it was a thread: these are taken for such unless one
    is seen that was not.
    """
    found: defaultdict[tuple[int, int], _Waits] = defaultdict(_Waits)
    activities: dict[tuple[int, int], OwnerActivity] = {}
    for record in parts.owners:
        if record.lock:
            key = _several(record), record.info.task
            found[key].add(record.waits, record.total_ns)
            if record.owner.known_ns:
                activities[key] = _activity(record.owner, stacks)
    if waits is not None and waits.owner:
        start_ns, stop_ns = window
        now = waits.thread_state
        ns = now.lasts_until_ns(stop_ns) - max(start_ns, now.state_since_ns)
        if ns > 0:
            found[waits.lock, waits.owner].add(1, ns)
    assert thread.time is not None
    if sum([each.ns for each in found.values()]) > thread.time.blocked_ns:
        # It was being written all the time that it was read, and does not fit together.
        return thread
    locks = [
        LockWait(
            address, owner.tid, owner.name, each.count, each.ns, activities.get((address, own_tid))
        )
        for (address, own_tid), each in found.items()
        if (owner := owner_of(own_tid)) is not None
    ]
    locks.sort(key=lambda wait: (-wait.ns, wait.address, wait.tid))
    others_ns = 0
    if len(locks) == len(found):
        others_ns = sum([record.account.other_owners_ns for record in parts.threads])
    if not locks and not others_ns:
        return thread
    lock_waits = tuple(locks)
    return replace(thread, lock_waits=lock_waits, lock_waits_others_ns=others_ns)


def _activity(struct: "OwnerActivityRecord", stacks: SleepStacks) -> OwnerActivity:
    call = None if struct.syscall == lib.NO_SYSCALL else syscall_of(struct.syscall)
    return OwnerActivity(
        known_ns=struct.known_ns,
        blocked_ns=struct.blocked_ns,
        ready_ns=struct.ready_ns,
        held_ns=struct.held_ns,
        syscall=None if call is None else call.name or str(call.number),
        reason=sleep_reason(stacks.names(struct.stack)),
    )


def _several(record: "OwnerRecord") -> int:
    """Return the address of a struct owner_record's lock, 0 for several of them."""
    return 0 if record.lock == lib.SEVERAL_LOCKS else record.lock
