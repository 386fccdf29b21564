"""What the kernel counted of threads between two dumps of them."""

from typing import TYPE_CHECKING

from kernel_delay.capture.threads.task_times import processes_with_uprobes, scheduled
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import TaskTimes

if TYPE_CHECKING:
    from kernel_delay.loader._records import DumpedThread

NOTHING = TaskTimes(user_ns=0, system_ns=0, minor_faults=0, major_faults=0, steal_ns=0)


def dumped(identity: int, *, user_ns: int = 0, migrations: int = 0, policy: int = 0) -> bytes:
    state: DumpedThread = ffi.new("struct dumped_thread *")
    state.identity, state.tid, state.process = identity, 100 + identity, 100
    state.times.user_ns, state.times.migrations, state.policy = user_ns, migrations, policy
    return ffi.buffer(state)[:]


def test_counts_are_from_one_dump_to_the_next() -> None:
    before = dumped(1, user_ns=5) + dumped(2, user_ns=7, migrations=2) + dumped(3, policy=1)
    after = dumped(1, user_ns=5) + dumped(2, user_ns=9, migrations=3) + dumped(3)
    found = scheduled(before, after)
    assert found.times == {101: NOTHING, 102: TaskTimes(2, 0, 0, 0, 0), 103: NOTHING}
    assert found.migrations == {101: 0, 102: 1, 103: 0}
    assert found.changed == {103}


def test_threads_that_came_or_ended_move_no_counts_to_others() -> None:
    before = dumped(1, user_ns=5) + dumped(2, user_ns=7) + dumped(4, user_ns=8)
    after = (
        dumped(2, user_ns=8) + dumped(3, user_ns=1) + dumped(4, user_ns=8) + dumped(5, user_ns=6)
    )
    # 3 is older than 4 and was not dumped then: since when it is counted is not known.
    assert {tid: each.user_ns for tid, each in scheduled(before, after).times.items()} == {
        102: 1,
        104: 0,
        105: 6,
    }


def test_sleeper_without_a_steal_clock_has_none() -> None:
    state: DumpedThread = ffi.new("struct dumped_thread *")
    state.tid, state.times.steal_ns = 7, lib.NO_STEAL_CLOCK
    raw = ffi.buffer(state)[:]
    assert scheduled(raw, raw).times[7].steal_ns is None


def test_uprobes_are_known_by_process() -> None:
    states = []
    each = (1, lib.UPROBES_UNKNOWN), (1, lib.UPROBES_SET), (2, lib.UPROBES_NONE), (3, 0)
    for process, uprobes in each:
        state: DumpedThread = ffi.new("struct dumped_thread *")
        state.process, state.uprobes = process, uprobes
        states.append(ffi.buffer(state)[:])
    assert processes_with_uprobes(b"".join(states)) == {1: True, 2: False}
