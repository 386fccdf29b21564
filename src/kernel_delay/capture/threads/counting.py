"""From the programs' structs to what analysis/accounting.py takes."""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.accounting import (
    Counted,
    CountedCalls,
    Mode,
    NotRunning,
    State,
    ThreadState,
)
from kernel_delay.capture.threads.causes import OpenWaits
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.run_queues import CpuWait, Running, taker
from kernel_delay.capture.threads.thread_stats import (
    ThreadName,
    name_of,
    syscall_of,
)
from kernel_delay.host.kernel_names import FUTEXES
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.loader._records import Account as AccountRecord
    from kernel_delay.loader._records import DumpedThread as DumpedThreadRecord
    from kernel_delay.loader._records import Slice, SyscallRecord
    from kernel_delay.loader._records import ThreadState as ThreadStateRecord
    from kernel_delay.loader._records import ThreadTotals as ThreadTotalsRecord

MODES: dict[int, Mode] = {
    lib.MODE_UNKNOWN: "unknown",
    lib.MODE_USER: "user",
    lib.MODE_SYSCALL: "syscall",
    lib.MODE_FAULT: "fault",
}

# A kernel worker has no program, and is in no call.
WORKER_MODES: dict[int, Mode] = dict.fromkeys(MODES, "worker")

STATES: dict[int, State] = {
    lib.STATE_UNKNOWN: "unknown",
    lib.STATE_RUNNING: "running",
    lib.STATE_READY_WOKEN: "ready_woken",
    lib.STATE_READY_PREEMPTED: "ready_preempted",
    lib.STATE_BLOCKED: "blocked",
    lib.STATE_STOPPED: "stopped",
    lib.STATE_NOT_ALIVE: "absent",
    lib.STATE_THROTTLED: "throttled",
    lib.STATE_FROZEN: "frozen",
}

NOT_RUNNING_STATES: dict[int, NotRunning] = {
    lib.STATE_READY_WOKEN: "ready_woken",
    lib.STATE_READY_PREEMPTED: "ready_preempted",
    lib.STATE_BLOCKED: "blocked",
    lib.STATE_STOPPED: "stopped",
    lib.STATE_GUEST: "guest",
    lib.STATE_THROTTLED: "throttled",
    lib.STATE_FROZEN: "frozen",
    lib.STATE_UNKNOWN: "unknown",
}

Kind = TypeVar("Kind")


class _Slots:
    """What each slot of the arrays of struct account is for, where these are the modes.

    None where nothing is ever charged.
    """

    def __init__(self, by_slot: Mapping[int, Mode]) -> None:
        modes = [by_slot[slot] for slot in range(lib.MODE_SLOTS)]
        self.modes = modes
        self.not_running: list[tuple[Mode, NotRunning] | None] = [
            *(kind and (mode, kind) for mode in modes for kind in STATE_KINDS),
            *((mode, "hard_irq") for mode in modes),
            *((mode, "soft_irq") for mode in modes),
        ]


STATE_KINDS = [NOT_RUNNING_STATES.get(state) for state in range(lib.STATE_SLOTS)]
SLOTS = _Slots(MODES)
WORKER_SLOTS = _Slots(WORKER_MODES)

# The epoch of a thread that has had no event yet.
NO_EPOCH = (1 << 64) - 1


class DumpedThread(Struct, frozen=True, gc=False):
    """What a thread is called, and its state since its newest event, of `epoch`.

    `state_changes` grows with each change of its state, and is odd while one is made. `made_ns` is
    when the thread was made.
    """

    name: ThreadName
    epoch: int
    waits: OpenWaits
    state_changes: int
    made_ns: int

    @property
    def thread_state(self) -> ThreadState:
        """What it does, and since when."""
        return self.waits.thread_state


class StateChanges(Struct, frozen=True, gc=False):
    """How often a thread's state has changed, and its state: enough to see that it is the same."""

    count: int
    state: State


class DumpedThreads:
    """Reads what is dumped. What a thread's struct says is kept for as long as that is the same."""

    def __init__(self) -> None:
        """Have read nothing."""
        self._newest: dict[bytes, tuple[int, DumpedThread]] = {}

    def threads(self, data: bytes, known: Container[int] = ()) -> dict[int, DumpedThread]:
        """Return each struct dumped_thread in `data` whose identity is not in `known`, by that."""
        found: dict[int, DumpedThread] = {}
        newest: dict[bytes, tuple[int, DumpedThread]] = {}
        for start in range(0, len(data), _DUMPED_BYTES):
            raw = data[start : start + _DUMPED_BYTES]
            read = self._newest.get(raw)
            if read is None:
                read = _dumped_thread(ffi.from_buffer("struct dumped_thread[]", raw)[0])
            newest[raw] = read
            identity, thread = read
            if identity not in known:
                found[identity] = thread
        self._newest = newest
        return found


_DUMPED_BYTES = ffi.sizeof("struct dumped_thread")


def _dumped_thread(dumped: "DumpedThreadRecord") -> tuple[int, DumpedThread]:
    state = dumped.now
    thread = DumpedThread(
        name_of(dumped),
        epoch_of(state),
        _dumped_waits(dumped),
        state.state_changes,
        dumped.made_ns,
    )
    return dumped.identity, thread


def state_changes(data: bytes) -> dict[int, StateChanges]:
    """Return the state of each struct dumped_thread in `data`, by the thread's identity."""
    return {
        dumped.identity: StateChanges(dumped.now.state_changes, _dumped_state(dumped))
        for dumped in ffi.from_buffer("struct dumped_thread[]", data)
    }


def _dumped_state(dumped: "DumpedThreadRecord") -> State:
    """Return a thread's state, unknown if an event of it was missed."""
    state = dumped.now.state
    fits = bool(dumped.on_cpu) == (state == lib.STATE_RUNNING)
    missed = dumped.returned or dumped.woken or dumped.ran
    return STATES[state] if fits and not missed else "unknown"


def _dumped_waits(dumped: "DumpedThreadRecord") -> OpenWaits:
    """Return what a thread waits for, and its state as _dumped_state() has it."""
    if _dumped_state(dumped) == STATES[dumped.now.state]:
        return open_waits(dumped.now, bool(dumped.kernel_worker), dumped.running)
    return OpenWaits(replace(thread_state(dumped.now, bool(dumped.kernel_worker)), state="unknown"))


def open_waits(
    struct: "ThreadStateRecord", kernel_worker: bool, running: "Slice | None" = None
) -> OpenWaits:
    """Return what a struct thread_state says; `running` is the CPU's struct slice, not ended."""
    now = thread_state(struct, kernel_worker)
    if now.state in ("ready_woken", "ready_preempted"):
        return OpenWaits(now, cpu=_cpu_wait(struct, running))
    if now.state != "blocked":
        return OpenWaits(now)
    waits = OpenWaits(
        now,
        sleep_stack=struct.sleep_stack,
        sleep_file=struct.sleep_file,
        newest_sleep=struct.sleep_record,
        uninterruptible=bool(struct.uninterruptible),
    )
    if _is_futex(now.syscall) and struct.futex_owner:
        return replace(waits, lock=struct.lock, owner=struct.futex_owner)
    return waits


def _is_futex(id_: int | None) -> bool:
    return id_ is not None and syscall_of(id_).name in FUTEXES


def _cpu_wait(struct: "ThreadStateRecord", running: "Slice | None") -> CpuWait:
    now = None
    if running is not None and running.number:
        now = Running(running.number, taker(running.prev), running.group)
    return CpuWait(
        cpu=struct.wait_cpu - 1 if struct.wait_cpu else None,
        first_slice=struct.first_slice,
        since_ns=struct.state_since_ns,
        ready_since_ns=struct.ready_since_ns,
        running=now,
        group=struct.group,
    )


def epoch_of(struct: "ThreadStateRecord") -> int:
    """Return the epoch of a struct thread_state; -1 if there was no event yet."""
    return -1 if struct.epoch == NO_EPOCH else struct.epoch


def thread_state(struct: "ThreadStateRecord", kernel_worker: bool) -> ThreadState:
    """Return a struct thread_state as accounting takes it."""
    mode = (WORKER_MODES if kernel_worker else MODES)[struct.mode]
    in_syscall = mode == "syscall" and struct.syscall != lib.NO_SYSCALL
    return ThreadState(
        mode=mode,
        mode_since_ns=struct.mode_since_ns,
        state=STATES[struct.state],
        state_since_ns=struct.state_since_ns,
        syscall=struct.syscall if in_syscall else None,
        hard_irq_since_ns=struct.hard_irq_since_ns,
        soft_irq_since_ns=struct.soft_irq_since_ns,
        soft_irq_lost_ns=struct.soft_irq_lost_ns,
        blocked_until_ns=struct.blocked_until_ns if is_frozen(struct) else 0,
        frozen_since_ns=struct.frozen_since_ns if is_frozen(struct) else 0,
    )


def is_frozen(struct: "ThreadStateRecord") -> bool:
    """Return whether a struct thread_state is of a sleeper that was frozen meanwhile."""
    return struct.state == lib.STATE_BLOCKED and struct.frozen_since_ns > struct.state_since_ns


def counted(parts: ThreadRecords) -> Counted:
    """Return what all records of a thread in one epoch add up to."""
    mode_ns: defaultdict[Mode, int] = defaultdict(int)
    not_running_ns: defaultdict[tuple[Mode, NotRunning], int] = defaultdict(int)
    absent_ns = exit_ns = 0
    for record in parts.threads:
        account = record.account
        _add_time(mode_ns, not_running_ns, account, bool(record.kernel_worker))
        not_running_ns["user", "tool"] += account.tool_ns
        absent_ns += account.not_alive_ns
        exit_ns = max(exit_ns, account.exit_ns)
    return Counted(
        mode_ns=mode_ns,
        not_running_ns=not_running_ns,
        absent_ns=absent_ns,
        exit_ns=exit_ns or None,
        syscalls=_calls(parts.syscalls),
    )


def counted_time(
    totals: "ThreadTotalsRecord", kernel_worker: bool
) -> tuple[Mapping[Mode, int], Mapping[tuple[Mode, NotRunning], int]]:
    """Return all time of a thread by modes, and what of each it was kept from running."""
    mode_ns: defaultdict[Mode, int] = defaultdict(int)
    not_running_ns: defaultdict[tuple[Mode, NotRunning], int] = defaultdict(int)
    _add_time(mode_ns, not_running_ns, totals, kernel_worker)
    return mode_ns, not_running_ns


def _add_time(
    mode_ns: defaultdict[Mode, int],
    not_running_ns: defaultdict[tuple[Mode, NotRunning], int],
    charged: "AccountRecord | ThreadTotalsRecord",
    kernel_worker: bool,
) -> None:
    slots = WORKER_SLOTS if kernel_worker else SLOTS
    # All arrays are read at once: one comes behind the other.
    counted_ns = ffi.unpack(charged.mode_ns, _TIMES)
    _add(mode_ns, slots.modes, counted_ns[: lib.MODE_SLOTS])
    _add(not_running_ns, slots.not_running, counted_ns[lib.MODE_SLOTS :])


_TIMES = lib.MODE_SLOTS * (1 + lib.STATE_SLOTS + 2)
"""Of mode_ns, state_ns, hard_irq_ns and soft_irq_ns of a struct account or thread_totals."""


def _add(
    total_ns: defaultdict[Kind, int], kinds: Sequence[Kind | None], counted_ns: Sequence[int]
) -> None:
    """Add what is counted, of whatever the slots of an array are for.

    Slots with nothing in them are passed over in C: slot by slot takes most of the time of a
    report.
    """
    for kind, ns in zip(compress(kinds, counted_ns), filter(None, counted_ns), strict=True):
        if kind is not None:
            total_ns[kind] += ns


def _calls(records: "list[SyscallRecord]") -> dict[int, CountedCalls]:
    total_ns: defaultdict[int, int] = defaultdict(int)
    not_running_ns: defaultdict[int, defaultdict[NotRunning, int]] = defaultdict(
        lambda: defaultdict(int)
    )
    for record in records:
        id_ = record.syscall
        total_ns[id_] += record.calls.total_ns + record.boundary_ns
        _add(not_running_ns[id_], STATE_KINDS, ffi.unpack(record.state_ns, lib.STATE_SLOTS))
    return {id_: CountedCalls(total_ns[id_], not_running_ns[id_]) for id_ in not_running_ns}
