"""A timeline: kept while a window is open, and named when it is over."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.threads import sleep_reasons_in
from kernel_delay.capture.threads.accounts import ThreadAccount
from kernel_delay.capture.threads.counting import MODES, STATES
from kernel_delay.capture.threads.thread_stats import hard_irq_names
from kernel_delay.capture.timeline._timeline import ffi, lib
from kernel_delay.capture.timeline.slices import Slices, ThreadNames, memory_of
from kernel_delay.capture.windows import NEVER_NS
from kernel_delay.errors import UnavailableError
from kernel_delay.loader._records import lib as records
from kernel_delay.model import Lost

if TYPE_CHECKING:
    from kernel_delay.capture.timeline._timeline import LastSlices

STATE_NUMBERS = {name: number for number, name in STATES.items()}
MODE_NUMBERS = {name: number for number, name in MODES.items()}


class TimelineOfWindow(Struct, frozen=True):
    """A window's slices, and how many were lost since the window before."""

    slices: Slices
    lost: Lost


class TimelineStore:
    """Keeps the slices of all threads from now until close(), at most `max_slices` of a window."""

    def __init__(self, programs: Programs, max_slices: int) -> None:
        """Keep what the programs report."""
        self._programs = programs
        # The C side uses both as long as it lives.
        rings, slices, cpus, per_cpu = programs.timeline_memory()
        self._memory = ffi.from_buffer("char[]", rings), ffi.from_buffer("char[]", slices)
        self._store = lib.timeline_store_open(*self._memory, cpus, per_cpu, max_slices)
        if self._store == ffi.NULL:
            raise UnavailableError("no memory for a timeline: lower --max-slices")

    def close(self) -> None:
        """Stop, and forget what is kept."""
        lib.timeline_store_close(self._store)

    def take(
        self, start_ns: int, stop_ns: int, accounts: Iterable[ThreadAccount]
    ) -> TimelineOfWindow:
        """Return what these threads did in the window [start_ns, stop_ns), which must be over."""
        known = sorted(accounts, key=_identity)
        last = ffi.new("struct last_slices[]", len(known))
        for struct, account in zip(last, known, strict=True):
            _set_last(struct, account)
        taken = ffi.new("struct taken_timeline *")
        if lib.timeline_store_take(self._store, start_ns, stop_ns, last, len(known), taken):
            raise MemoryError
        memory = memory_of(taken.slices, taken.count)
        reasons = sleep_reasons_in(self._programs.sleep_stacks())
        slices = Slices(memory, [*map(_names, known)], reasons)
        return TimelineOfWindow(
            slices,
            Lost(
                timeline_interrupts=taken.lost[records.SLICE_OF_INTERRUPT],
                timeline_states=taken.lost[records.SLICE_OF_STATE],
                timeline_modes=taken.lost[records.SLICE_OF_MODE],
            ),
        )

    def discard(self, stop_ns: int) -> None:
        """Forget the slices of the windows until `stop_ns`, which must be over."""
        lib.timeline_store_forget(self._store, stop_ns)

    def forget(self) -> None:
        """Forget all slices and what was lost of them, while no window is open."""
        lib.timeline_store_forget(self._store, NEVER_NS)


def _identity(account: ThreadAccount) -> int:
    return account.identity


def _names(account: ThreadAccount) -> ThreadNames:
    interrupts = hard_irq_names(account.parts.hard_irqs)
    name = account.name
    return ThreadNames(name.tid, name.kernel_worker, interrupts, name.process)


def _set_last(last: "LastSlices", account: ThreadAccount) -> None:
    """Set what the thread did at the window's end, and since when."""
    last.thread = account.identity
    exit_ns = max((record.account.exit_ns for record in account.parts.threads), default=0)
    if exit_ns:
        last.state, last.mode_kind = records.STATE_NOT_ALIVE, records.SLICE_PROGRAM
        last.state_since_ns = last.mode_since_ns = exit_ns
        return
    if account.waits is None:
        last.state, last.mode_kind = records.SLICE_LOST_STATES, records.SLICE_LOST_MODES
        return
    waits, now = account.waits, account.waits.thread_state
    last.state, last.state_since_ns = STATE_NUMBERS[now.state], now.state_since_ns
    last.throttled_ns = now.throttled_ns
    last.blocked_until_ns, last.frozen_since_ns = now.blocked_until_ns, now.frozen_since_ns
    last.mode = MODE_NUMBERS.get(now.mode, records.MODE_USER)
    last.mode_since_ns = now.mode_since_ns
    if waits.cpu is not None and waits.cpu.cpu is not None:
        last.state_what = waits.cpu.cpu + 1
    elif now.state == "blocked":
        last.state_what = waits.sleep_stack
    last.mode_kind = _kind_of_mode(account)
    if now.syscall is not None:
        last.mode_what = now.syscall & 0xFFFFFFFF


def _kind_of_mode(account: ThreadAccount) -> int:
    assert account.waits is not None
    now = account.waits.thread_state
    if now.mode == "fault":
        return records.SLICE_FAULT
    if now.mode != "syscall":
        return records.SLICE_PROGRAM
    if now.syscall is None:
        return records.SLICE_UNSEEN_CALL
    is_compat = now.syscall & records.COMPAT_SYSCALL
    return records.SLICE_COMPAT_CALL if is_compat else records.SLICE_CALL
