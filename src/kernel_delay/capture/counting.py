"""From the programs' structs to what accounting.py takes."""

from collections import Counter
from typing import Any

from msgspec import Struct

from kernel_delay.accounting import Away, Counted, CountedCalls, Mode, Standing, State
from kernel_delay.capture._records import ffi, lib
from kernel_delay.capture.epochs import ThreadRecords
from kernel_delay.capture.thread_stats import ThreadName, name_of, syscall_of

MODES: dict[int, Mode] = {
    lib.MODE_UNKNOWN: "unknown",
    lib.MODE_USER: "user",
    lib.MODE_SYSCALL: "syscall",
    lib.MODE_FAULT: "fault",
}

STATES: dict[int, State] = {
    lib.STATE_UNKNOWN: "unknown",
    lib.STATE_RUNNING: "running",
    lib.STATE_READY_WOKEN: "ready_woken",
    lib.STATE_READY_PREEMPTED: "ready_preempted",
    lib.STATE_BLOCKED: "blocked",
    lib.STATE_STOPPED: "stopped",
    lib.STATE_ABSENT: "absent",
}

AWAY_STATES: dict[int, Away] = {
    lib.STATE_READY_WOKEN: "ready_woken",
    lib.STATE_READY_PREEMPTED: "ready_preempted",
    lib.STATE_BLOCKED: "blocked",
    lib.STATE_STOPPED: "stopped",
}

# The epoch of a thread that has had no event yet.
NO_EPOCH = (1 << 64) - 1


class ThreadStanding(Struct, frozen=True):
    """What a thread is called, and what it stands at since its newest event, of `epoch`.

    `state_changes` grows with each change of its state, and is odd while one is made.
    """

    name: ThreadName
    epoch: int
    standing: Standing
    state_changes: int


def standings(data: bytes) -> dict[int, ThreadStanding]:
    """Return each struct thread_standing in `data`, by the thread's identity."""
    return {
        told.identity: ThreadStanding(
            name_of(told), epoch_of(told.now), standing(told.now), int(told.now.state_changes)
        )
        for told in ffi.from_buffer("struct thread_standing[]", data)
    }


def epoch_of(struct: Any) -> int:
    """Return the epoch of a struct standing; -1 if there was no event yet."""
    return -1 if struct.epoch == NO_EPOCH else int(struct.epoch)


def standing(struct: Any) -> Standing:
    """Return a struct standing as accounting takes it."""
    mode = MODES[struct.mode]
    in_syscall = mode == "syscall" and struct.syscall != lib.NO_SYSCALL
    return Standing(
        mode=mode,
        mode_since_ns=struct.mode_since_ns,
        state=STATES[struct.state],
        state_since_ns=struct.state_since_ns,
        syscall=syscall_of(struct) if in_syscall else None,
    )


def counted(parts: ThreadRecords) -> Counted:
    """Return what all records of a thread in one epoch add up to."""
    mode_ns: Counter[Mode] = Counter()
    away_ns: Counter[tuple[Mode, Away]] = Counter()
    accounts = [record.account for record in parts.threads]
    for account in accounts:
        for index, mode in MODES.items():
            mode_ns[mode] += account.mode_ns[index]
            away_ns[mode, "hard_irq"] += account.hard_irq_ns[index]
            away_ns[mode, "soft_irq"] += account.soft_irq_ns[index]
            for state, away in AWAY_STATES.items():
                away_ns[mode, away] += account.state_ns[index][state]
    gone_ns = max((account.gone_ns for account in accounts), default=0)
    return Counted(
        mode_ns=mode_ns,
        away_ns=away_ns,
        absent_ns=sum(account.absent_ns for account in accounts),
        gone_ns=gone_ns or None,
        syscalls=_calls(parts.syscalls),
    )


def _calls(records: list[Any]) -> dict[int, CountedCalls]:
    total_ns: Counter[int] = Counter()
    away_ns: dict[int, Counter[Away]] = {}
    for record in records:
        number = syscall_of(record)
        total_ns[number] += record.calls.total_ns + record.edge_ns
        away = away_ns.setdefault(number, Counter())
        for state, kind in AWAY_STATES.items():
            away[kind] += record.state_ns[state]
    return {number: CountedCalls(total_ns[number], away_ns[number]) for number in away_ns}
