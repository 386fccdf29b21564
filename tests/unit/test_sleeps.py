"""From records of sleeps to a thread's, with what is still going on at the window's end."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.accounting import ThreadState
from kernel_delay.capture.threads import MOST_ASKED, SleepStacks, stacks_in
from kernel_delay.capture.threads.causes import OpenWaits
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.sleeps import with_sleeps
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import Thread
from tests.system_calls import syscall_number
from tests.unit.samples import timed_thread

MS = 1_000_000
WINDOW = 1_000 * MS, 2_000 * MS
STACKS = b"1\tanon_pipe_read\tvfs_read\n7\tschedule\tsubmit_bio_wait [dm_mod]\n"
READ = syscall_number("read") or 0
PSELECT = syscall_number("pselect6") or 0


def blocked(ms: int) -> Thread:
    thread = timed_thread(5, "a")
    assert thread.time is not None
    return replace(thread, time=replace(thread.time, blocked_ns=ms * MS))


def record(stack: int, ms: int, waker: int = 0, comm: bytes = b"", file: int = 0) -> Any:
    """Three sleeps; without a waker an interrupt ended them."""
    made = ffi.new("struct sleep_record *")
    made.stack = stack
    made.syscall = READ
    made.file = file
    made.waker_kind = lib.WAKER_THREAD if waker else lib.WAKER_HARD_IRQ
    made.waker.task = made.waker.tid = made.waker.process = waker
    made.waker.comm[0 : len(comm)] = [bytes([byte]) for byte in comm]
    made.sleeps = 3
    made.total_ns = ms * MS
    made.max_ns = ms * MS // 2
    return made


def parts(*sleeps: Any, short_ms: int = 0, other_ms: int = 0) -> ThreadRecords:
    thread = ffi.new("struct thread_record *")
    thread.account.short_sleeps_ns = short_ms * MS
    thread.account.other_sleeps_ns = other_ms * MS
    return ThreadRecords([thread], [], [], [], list(sleeps))


def asleep(since_ms: int, stack: int, file: int = 0) -> OpenWaits:
    state = ThreadState("syscall", 0, "blocked", since_ms * MS, READ)
    return OpenWaits(state, sleep_stack=stack, sleep_file=file)


def file(fd: int, inode: int) -> int:
    """A descriptor and an inode as struct sleep_record has them."""
    return inode << 32 | fd + 1


def sums(thread: Thread) -> dict[str, int]:
    return {sleep.reason: sleep.ns // MS for sleep in thread.sleeps}


def slept(measured: Thread, records: ThreadRecords, waits: OpenWaits | None = None) -> Thread:
    return with_sleeps(measured, records, waits, SleepStacks(lambda: STACKS), WINDOW)


def test_stacks_are_read_without_the_names_of_modules() -> None:
    assert dict(stacks_in(STACKS.decode())) == {
        1: ("anon_pipe_read", "vfs_read"),
        7: ("schedule", "submit_bio_wait"),
    }


def test_stacks_are_asked_for_once() -> None:
    asked = []

    def tell() -> bytes:
        asked.append(1)
        return STACKS

    stacks = SleepStacks(tell)
    names: Sequence[Sequence[str]] = [stacks.names(stack) for stack in (0, 1, 7, 1)]
    assert [len(each) for each in names] == [0, 2, 2, 2]
    assert len(asked) == 1
    # One that the programs never named is asked for again, in case it was being written.
    assert [stacks.names(9) for _ in range(100)] == [()] * 100
    assert 2 <= len(asked) <= 1 + MOST_ASKED


def test_sleeps_are_by_place_and_their_wakers_within() -> None:
    records = parts(record(1, 60, 42, b"writer"), record(1, 30), record(7, 10))
    thread = slept(blocked(100), records)
    assert sums(thread) == {"pipe": 90, "disk": 10}
    pipe = thread.sleeps[0]
    assert (pipe.syscall, pipe.count, pipe.max_ns) == ("read", 6, 30 * MS)
    assert [(each.kind, each.tid, each.comm) for each in pipe.wakers] == [
        ("thread", 42, "writer"),
        ("hard_irq", 0, ""),
    ]


def test_all_that_was_blocked_is_there() -> None:
    thread = slept(blocked(100), parts(record(1, 60), short_ms=20, other_ms=5))
    assert sums(thread) == {"pipe": 60, "short": 20, "unknown": 20}


def test_what_does_not_fit_is_unknown() -> None:
    assert sums(slept(blocked(50), parts(record(1, 60)))) == {"unknown": 50}


def test_unfinished_sleep_counts_up_to_the_windows_end() -> None:
    thread = slept(blocked(1000), parts(), asleep(500, 1))
    assert sums(thread) == {"pipe": 1000}
    assert thread.sleeps[0].wakers == ()
    assert sums(slept(blocked(300), parts(record(7, 100)), asleep(1800, 1))) == {
        "pipe": 200,
        "disk": 100,
    }


def files(thread: Thread) -> list[tuple[int, int, int] | int]:
    """The descriptor, the inode and how many ms it slept there; where none is known, how many."""
    return [
        (sleep.file.fd, sleep.file.inode, sleep.ns // MS) if sleep.file else sleep.ns // MS
        for sleep in thread.sleeps
    ]


def test_sleeps_on_several_files_are_told_apart() -> None:
    records = parts(
        record(1, 300, 42, b"writer", file(0, 7)),
        record(1, 200, 43, b"other", file(0, 7)),
        record(1, 100, 42, b"writer", file(5, 8)),
        record(1, 40, 42, b"writer", file(6, 9)),
    )
    thread = slept(blocked(840), records, asleep(1800, 1, file(5, 8)))
    # What was slept less on than one part in twenty is not told apart.
    assert files(thread) == [(0, 7, 500), (5, 8, 300), 40]
    assert sums(thread) == {"pipe": 40}
    assert [waker.tid for waker in thread.sleeps[0].wakers] == [42, 43]
    assert thread.sleeps[0].count == 6


def test_a_32_bit_call_has_its_descriptor_elsewhere() -> None:
    compat = record(1, 300, file=file(3, 7))
    compat.syscall = lib.COMPAT_SYSCALL | 3
    thread = slept(blocked(300), parts(compat))
    assert (thread.sleeps[0].syscall, files(thread)) == ("read", [300])


def test_a_call_without_a_file_has_none() -> None:
    """Its first argument is no descriptor, or it was over when the thread slept."""
    outside = record(1, 300, file=file(3, 7))
    outside.syscall = lib.NO_SYSCALL
    assert files(slept(blocked(300), parts(outside))) == [300]


@pytest.mark.parametrize(("bits", "reason"), [(0, "clock"), (4, "poll")])
def test_select_of_no_descriptor_is_a_sleep_on_a_timer(bits: int, reason: str) -> None:
    stacks = SleepStacks(lambda: b"1\tpoll_schedule_timeout\tdo_select\n")
    selects = record(1, 60, file=file(bits, 9))
    selects.syscall = PSELECT
    (sleep,) = with_sleeps(blocked(60), parts(selects), None, stacks, WINDOW).sleeps
    assert (sleep.reason, sleep.syscall, sleep.file) == (reason, "pselect6", None)


def test_one_that_began_just_before_the_end_is_short() -> None:
    waits = OpenWaits(ThreadState("syscall", 0, "blocked", 2_000 * MS - 50_000, READ))
    thread = timed_thread(5, "a")
    assert thread.time is not None
    thread = replace(thread, time=replace(thread.time, blocked_ns=50_000))
    (sleep,) = slept(thread, parts(), waits).sleeps
    assert (sleep.reason, sleep.count, sleep.ns) == ("short", 1, 50_000)
