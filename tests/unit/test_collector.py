"""From records to Threads, without a kernel: the records are made by the test."""

from typing import Any

import pytest

from kernel_delay.capture.threads import accounts
from kernel_delay.capture.threads.collector import PAUSES_S, Collector
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.loader._records import lib
from kernel_delay.model import Lost, PageFaults, Thread, ThreadTime
from tests.unit.recorded import RECORDS, Recorded

START_NS, STOP_NS = 1_000, 2_000
WINDOW_NS = STOP_NS - START_NS


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def collected(recorded: Recorded, collector: Collector) -> dict[str, Thread]:
    """The threads of the newest window, whose time sums up to it."""
    threads = collector.collect(recorded.newest_epoch(), START_NS, STOP_NS)
    for thread in threads:
        assert thread.time is not None
        whole_ns = sum(getattr(thread.time, field) for field in thread.time.__struct_fields__)
        assert whole_ns == thread.threads * WINDOW_NS
    return {thread.name: thread for thread in threads}


def test_thread_without_records_keeps_its_state_throughout(recorded: Recorded) -> None:
    recorded.open_window(START_NS, STOP_NS)
    recorded.state(1, 7, b"sleeper")
    thread = collected(recorded, Collector(recorded))["sleeper"]
    assert (thread.tid, thread.time and thread.time.blocked_ns) == (7, WINDOW_NS)


def test_sleep_whose_end_was_missed_is_not_known(recorded: Recorded) -> None:
    recorded.open_window(START_NS, STOP_NS)
    state = recorded.state(1, 7, b"woken")
    state.woken = 1
    thread = collected(recorded, Collector(recorded))["woken"]
    assert thread.time is not None
    assert (thread.time.blocked_ns, thread.time.unaccounted_ns) == (0, WINDOW_NS)


def test_a_call_is_charged_to_its_thread(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    state = recorded.state(1, 7, b"caller")
    record = recorded.thread(1, 7, b"caller", epoch)
    recorded.syscall(record.number, 300)
    # It returned at 1,300, and is in its program since.
    record.account.mode_ns[lib.MODE_SYSCALL] = 300
    state.now.epoch = epoch
    state.now.mode, state.now.mode_since_ns = lib.MODE_USER, START_NS + 300
    state.now.state, state.now.state_since_ns = lib.STATE_RUNNING, START_NS + 300
    state.on_cpu = 1
    thread = collected(recorded, Collector(recorded))["caller"]
    assert thread.time is not None
    assert (thread.time.kernel_ns, thread.time.user_ns) == (300, 700)
    assert [(call.count, call.total_ns) for call in thread.syscalls] == [(1, 300)]


def test_what_changes_while_it_is_read_is_read_again(recorded: Recorded) -> None:
    recorded.open_window(START_NS, STOP_NS)
    changing = recorded.state(1, 7, b"changing")
    changing.now.state_changes = 1
    recorded.state(2, 8, b"steady")
    threads = collected(recorded, Collector(recorded))
    assert set(threads) == {"changing", "steady"}
    # After a pause they are dumped anew.
    assert recorded.readings == 1 + len(PAUSES_S) + sum(map(bool, PAUSES_S))
    # Once it is done with that, twice are enough: before the records, and after.
    changing.now.state_changes = 2
    recorded.readings = 0
    recorded.open_window(START_NS, STOP_NS)
    collected(recorded, Collector(recorded))
    assert recorded.readings == 2


def test_what_changes_while_it_is_read_is_accounted_for_once(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of threads half change: their first accounts would be thrown away."""
    recorded.open_window(START_NS, STOP_NS)
    changing = recorded.state(1, 7, b"changing")
    recorded.state(2, 8, b"steady")
    accounted: list[int] = []
    dump, account_of = recorded.thread_states, accounts.account_of

    def change_once() -> bytes:
        states = dump()
        changing.now.state_changes = 2
        return states

    def note(*arguments: Any) -> Any:
        accounted.append(1)
        return account_of(*arguments)

    monkeypatch.setattr(recorded, "thread_states", change_once)
    monkeypatch.setattr(accounts, "account_of", note)
    assert set(collected(recorded, Collector(recorded))) == {"changing", "steady"}
    assert len(accounted) == 2
    assert recorded.readings == 3


def test_what_never_fits_is_read_twice_and_no_more(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    state = recorded.state(1, 7, b"lost")
    record = recorded.thread(1, 7, b"lost", epoch)
    record.account.mode_ns[lib.MODE_USER] = 300
    # There was no room for the record of what it did next.
    state.now.epoch = epoch + 1
    thread = collected(recorded, Collector(recorded))["lost"]
    assert thread.time is not None
    assert (thread.time.user_ns, thread.time.unaccounted_ns) == (300, WINDOW_NS - 300)
    assert recorded.readings == 3


def test_thread_made_after_the_window_is_not_in_it(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    for identity, made_ns in ((1, STOP_NS - 1), (2, STOP_NS)):
        state = recorded.state(identity, identity, b"%d" % made_ns)
        # There was no room for the record of what it did in the next window.
        state.made_ns, state.now.epoch = made_ns, epoch + 1
    threads = collected(recorded, Collector(recorded))
    assert [name for name, thread in threads.items() if thread.time] == [str(STOP_NS - 1)]


def test_a_program_that_is_held_up_is_waited_for(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.open_window(START_NS, STOP_NS)
    changing = recorded.state(1, 7, b"changing")
    changing.now.state_changes = 1

    def go_on(pause_s: float) -> None:
        if pause_s:
            changing.now.state_changes = 2

    monkeypatch.setattr("time.sleep", go_on)
    reader = Collector(recorded)
    collected(recorded, reader)
    # Three for the first two readings, and after a pause they are dumped anew.
    assert recorded.readings == 2 + 1 + 2
    assert reader.lost() == Lost()


def test_permanently_changing_state_is_a_missed_event(recorded: Recorded) -> None:
    recorded.open_window(START_NS, STOP_NS)
    recorded.state(1, 7, b"changing").now.state_changes = 1
    reader = Collector(recorded)
    collected(recorded, reader)
    assert reader.lost() == Lost(missed_events=1)


def test_an_account_that_never_fits_is_a_missed_event(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    # It went on in the next window, of which no record is there, and none was dropped.
    recorded.state(1, 7, b"lost").now.epoch = epoch + 1
    reader = Collector(recorded)
    thread = collected(recorded, reader)["lost"]
    assert thread.time is not None
    assert thread.time.unaccounted_ns == WINDOW_NS
    assert reader.lost() == Lost(missed_events=1)


def test_an_account_above_its_window_has_no_parts(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    # A program was preempted after it had charged a call, and before it said that this was over.
    record = recorded.thread(1, 7, b"preempted", epoch)
    record.account.mode_ns[lib.MODE_SYSCALL] = record.account.mode_ns[lib.MODE_FAULT] = WINDOW_NS
    for state in (lib.STATE_READY_PREEMPTED, lib.STATE_BLOCKED):
        for mode in (lib.MODE_SYSCALL, lib.MODE_FAULT):
            record.account.state_ns[mode][state] = 200
    record.account.soft_irq_ns[lib.MODE_SYSCALL] = 50
    call = recorded.syscall(record.number, WINDOW_NS)
    call.state_ns[lib.STATE_READY_PREEMPTED] = call.state_ns[lib.STATE_BLOCKED] = 200
    recorded.lock_wait(record.number, 0xA0, owner=7, ns=200)
    reader = Collector(recorded)
    thread = collected(recorded, reader)["preempted"]
    assert thread.time == ThreadTime(0, 0, 0, 0, 0, 0, 0, 0, unaccounted_ns=WINDOW_NS)
    assert (thread.preempted_ns, thread.own_soft_irq_ns) == (0, 0)
    assert thread.page_faults == PageFaults(0, 0, 0)
    assert (thread.lock_waits, thread.sleeps, thread.cpu_taken_by) == ((), (), ())
    (its,) = thread.syscalls
    assert (its.on_cpu_ns, its.ready_ns, its.blocked_ns) == (0, 0, 0)
    assert its.unaccounted_ns == its.total_ns == WINDOW_NS
    assert reader.lost() == Lost(missed_events=1)


def test_held_up_program_beside_dropped_record_is_missed(recorded: Recorded) -> None:
    reader = Collector(recorded)
    epoch = recorded.open_window(START_NS, STOP_NS)
    record = recorded.thread(1, 7, b"caller", epoch)
    reader.discard(epoch, STOP_NS)
    recorded.syscall(record.number, 5)
    recorded.open_window(START_NS, STOP_NS)
    recorded.state(2, 8, b"changing").now.state_changes = 1
    collected(recorded, reader)
    assert reader.lost() == Lost(dropped_records=1, missed_events=1)


def test_records_of_the_next_window_are_kept_for_it(recorded: Recorded) -> None:
    collector = Collector(recorded)
    first = recorded.open_window(START_NS, STOP_NS)
    recorded.state(1, 7, b"caller").now.epoch = first + 1
    recorded.open_window(STOP_NS, STOP_NS + WINDOW_NS)
    record = recorded.thread(1, 7, b"caller", first + 1)
    record.account.first.epoch = first
    record.account.mode_ns[lib.MODE_SYSCALL] = 0
    recorded.syscall(record.number, 5)
    (thread,) = collector.collect(first, START_NS, STOP_NS)
    # What it did in the first window is what it did before its first event in the second.
    assert thread.time is not None
    assert (thread.time.blocked_ns, thread.syscalls[0].count) == (WINDOW_NS, 0)
    (thread,) = collector.collect(first + 1, STOP_NS, STOP_NS + WINDOW_NS)
    assert thread.syscalls[0].count == 1


def test_record_of_a_released_thread_is_counted_as_dropped(recorded: Recorded) -> None:
    collector = Collector(recorded)
    epoch = recorded.open_window(START_NS, STOP_NS)
    record = recorded.thread(1, 7, b"caller", epoch)
    collector.discard(epoch, STOP_NS)
    recorded.syscall(record.number, 5)
    collector.discard(recorded.open_window(START_NS, STOP_NS), lib.monotonic_ns())
    recorded.missed_events, recorded.clamped = 2, 3
    assert collector.lost() == Lost(dropped_records=1, missed_events=2, clamped_lengths=3)
    assert collector.lost() == Lost()


def test_without_accounting_threads_with_nothing_counted_are_left_out() -> None:
    recorded = Recorded(accounting=False)
    epoch = recorded.open_window(START_NS, STOP_NS)
    caller = recorded.thread(1, 7, b"caller", epoch)
    recorded.thread(2, 8, b"idle", epoch)
    recorded.syscall(caller.number, 5)
    (thread,) = Collector(recorded).collect(epoch, START_NS, STOP_NS)
    assert (thread.name, thread.time) == ("caller", None)


def test_copied_records_survive_reuse_of_the_ring(recorded: Recorded) -> None:
    record = recorded.thread(1, 7, b"caller", 1)
    call = recorded.syscall(record.number, 5)
    copied = ThreadRecords([record], [call], [], [], []).copied()
    record.tid, call.calls.count = 0, 0
    assert copied.threads[0].tid == 7
    assert copied.syscalls[0].calls.count == 1


def test_ended_thread_keeps_its_details_if_there_is_room(recorded: Recorded) -> None:
    collector = Collector(recorded)
    epoch = recorded.open_window(START_NS, STOP_NS)
    ended = recorded.thread(1, 20, b"brief", epoch)
    ended.exited = 1
    ended.account.mode_ns[lib.MODE_USER] = 500
    ended.account.exit_ns = START_NS + 500
    # As at any notice: a trigger's hit is one too.
    collector.make_room(epoch, START_NS, STOP_NS)
    thread = collected(recorded, collector)["brief"]
    assert (thread.tid, thread.exited) == (20, True)


def test_an_owner_that_was_summed_up_is_named(recorded: Recorded) -> None:
    collector = Collector(recorded)
    epoch = recorded.open_window(START_NS, STOP_NS)
    waiter = recorded.thread(1, 7, b"waiter", epoch)
    waiter.account.mode_ns[lib.MODE_SYSCALL] = 400
    waiter.account.state_ns[lib.MODE_SYSCALL][lib.STATE_BLOCKED] = 400
    call = recorded.syscall(waiter.number, 400)
    call.state_ns[lib.STATE_BLOCKED] = 400
    recorded.lock_wait(waiter.number, 0xA0, owner=20, ns=400)
    state = recorded.state(1, 7, b"waiter")
    state.now.epoch = epoch
    state.now.mode_since_ns = state.now.state_since_ns = START_NS + 400
    for number in range(RECORDS // 2):
        ended = recorded.thread(10 + number, 20 + number, b"owner", epoch)
        ended.exited = 1
        ended.account.mode_ns[lib.MODE_SYSCALL] = 500
        ended.account.state_ns[lib.MODE_SYSCALL][lib.STATE_BLOCKED] = 500
        recorded.syscall(ended.number, 500).state_ns[lib.STATE_BLOCKED] = 500
        ended.account.exit_ns = START_NS + 500
    collector.make_room(epoch, START_NS, STOP_NS)
    threads = collected(recorded, collector)
    assert threads["owner"].threads == RECORDS // 2
    (wait,) = threads["waiter"].lock_waits
    assert (wait.address, wait.tid, wait.name, wait.ns) == (0xA0, 20, "owner", 400)


def test_sleepers_are_accounted_for_together_as_each_alone(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    for identity, call in ((1, 1), (2, 1), (3, 2), (4, 1), (5, 1), (6, 1)):
        state = recorded.state(identity, 10 + identity, b"sleeper%d" % identity)
        state.now.syscall = call
    recorded.states[3].now.uninterruptible = 1
    # It has slept since a while after the window's beginning, and one is amid its window.
    recorded.states[4].now.state_since_ns = recorded.states[4].now.mode_since_ns = START_NS + 400
    recorded.states[5].kernel_worker = 1
    together = {each.tid: each for each in Collector(recorded).collect(epoch, START_NS, STOP_NS)}
    for state in recorded.states:
        alone = Recorded()
        alone.open_window(START_NS, STOP_NS)
        alone.states.append(state)
        (thread,) = Collector(alone).collect(epoch, START_NS, STOP_NS)
        assert together[state.tid] == thread
    assert len(together) == 6


def test_thread_that_woke_since_it_was_read_is_read_anew(recorded: Recorded) -> None:
    collector = Collector(recorded)
    recorded.open_window(START_NS, STOP_NS)
    state = recorded.state(1, 7, b"sleeper")
    collected(recorded, collector)
    epoch = recorded.open_window(STOP_NS, 2 * STOP_NS)
    state.now.state, state.now.state_since_ns = lib.STATE_READY_WOKEN, STOP_NS + 600
    state.now.ready_since_ns = STOP_NS + 600
    state.now.state_changes += 2
    record = recorded.thread(1, 7, b"sleeper", epoch)
    record.account.mode_ns[lib.MODE_SYSCALL] = 0
    state.now.epoch = epoch
    (thread,) = collector.collect(epoch, STOP_NS, 2 * STOP_NS)
    assert thread.time is not None
    assert thread.time.ready_ns == STOP_NS - 600


def test_states_that_were_dumped_before_are_dumped_once_more(recorded: Recorded) -> None:
    epoch = recorded.open_window(START_NS, STOP_NS)
    recorded.state(1, 7, b"sleeper")
    dumped = recorded.thread_states()
    recorded.readings = 0
    ((_, thread),) = Collector(recorded).collect_each(epoch, START_NS, STOP_NS, dumped)
    assert thread.time
    assert thread.time.blocked_ns == WINDOW_NS
    assert recorded.readings == 1
