"""The records of rounds in the rings' memory, and what is read of threads now and then."""

from typing import Any

import pytest
from msgspec.structs import replace

from kernel_delay.capture.rounds import threads
from kernel_delay.capture.rounds.threads import (
    MOST_NAMES,
    OTHER_NAMES,
    EndedThreadRounds,
    Readings,
    ReportedThread,
    ThreadReading,
    lost_between,
    others_between,
)
from kernel_delay.capture.rounds.timelines import RoundTimelines
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import Lost, OtherThread, ThreadRounds
from tests.unit.windows import new_control

SLOTS = 8
SLICES = 64
SLOT = int(lib.ROUND_SLOTS)


@pytest.fixture
def parts() -> Any:
    """Records of the thread_records of slots 1 to 3, in several of their rounds."""
    records: Any = ffi.new("struct sleep_record[]", SLOTS)
    for slot, owner in enumerate([0, SLOT + 1, 2 * SLOT + 1, SLOT + 2, SLOT + 3, 0, 9 * SLOT + 2]):
        records[slot].number = slot
        records[slot].thread = owner
    return records


def free(records: Any, *owners: int) -> list[int]:
    """Free all of these thread_records' slots, twice; return the list of free ones."""
    position, freed = ffi.new("struct ring_position *"), ffi.new("uint64_t[]", SLOTS)
    is_owner = ffi.new("uint8_t[]", SLOTS)
    for owner in owners:
        is_owner[owner] = 1
    size = ffi.sizeof("struct sleep_record")
    for _ in range(2):
        lib.free_parts(records, size, SLOTS, is_owner, position, freed, SLOTS)
    return [freed[index] for index in range(position.freed)]


@pytest.mark.parametrize(("owner", "slots"), [(1, [1, 2]), (2, [3, 6]), (3, [4]), (4, []), (0, [])])
def test_parts_of_a_thread_are_found_for_any_round(
    parts: Any, owner: int, slots: list[int]
) -> None:
    found = ffi.new("uint32_t[]", SLOTS)
    size = ffi.sizeof("struct sleep_record")
    count = lib.find_parts(parts, size, SLOTS, owner, found)
    assert [found[index] for index in range(count)] == slots


def test_parts_are_freed_once_and_have_no_owner(parts: Any) -> None:
    assert free(parts, 2, 3) == [3, 4, 6]
    assert [parts[slot].thread for slot in (3, 4, 6)] == [0, 0, 0]
    assert [parts[slot].thread for slot in (1, 2)] == [SLOT + 1, 2 * SLOT + 1]


def test_the_list_of_freed_slots_goes_round() -> None:
    position, freed = ffi.new("struct ring_position *"), ffi.new("uint64_t[]", SLOTS)
    for slot in range(SLOTS + 3):
        lib.free_slot(position, freed, SLOTS, slot)
    assert position.freed == SLOTS + 3
    assert list(freed) == [8, 9, 10, 3, 4, 5, 6, 7]


def reported(tid: int, ran_ns: int, runnable_ns: int = 0) -> ReportedThread:
    rounds = ThreadRounds(tid, f"t{tid}", (0,) * 32, 0, None, "futex")
    return ReportedThread(own_tid=tid, rounds=rounds, ran_ns=ran_ns, runnable_ns=runnable_ns)


def test_what_others_did_is_what_their_counts_grew_by() -> None:
    before = ThreadReading(100, {1: reported(11, 500), 2: reported(12, 70, 5), 3: reported(13, 9)})
    after = ThreadReading(
        900,
        {1: reported(11, 900), 2: reported(12, 80, 25), 3: reported(13, 9), 4: reported(14, 50)},
    )
    assert others_between(before, after, after.threads, identity=1) == (
        OtherThread(14, "t14", 50, 0, "futex"),
        OtherThread(12, "t12", 10, 20, "futex"),
    )


def test_ended_threads_did_what_was_last_seen_of_them() -> None:
    before = ThreadReading(100, {1: reported(11, 500), 2: reported(12, 70)})
    between = ThreadReading(500, {1: reported(11, 600), 2: reported(12, 90), 3: reported(13, 40)})
    after = ThreadReading(900, {1: reported(11, 900)})
    readings = Readings()
    for reading in (ThreadReading(50, {9: reported(19, 7)}), before, between, after):
        readings.add(reading)
    seen = readings.last_seen(before, after)
    assert others_between(before, after, seen, identity=1) == (
        OtherThread(13, "t13", 40, 0, "ended"),
        OtherThread(12, "t12", 20, 0, "ended"),
    )


def test_losses_are_reported_for_each_round_they_may_affect() -> None:
    """Those of two threads at once: it is not used up by the first that is told."""
    readings = Readings()
    for reading in (
        ThreadReading(100, {}, Lost(missed_events=2)),
        ThreadReading(200, {}, Lost(missed_events=2)),
        ThreadReading(300, {}, Lost(missed_events=5, missed_calls=3, dropped_records=1)),
    ):
        readings.add(reading)
    for start_ns in (250, 220, 210):
        before = readings.before(start_ns)
        assert before is not None
        last = Lost(missed_events=6, missed_calls=3, dropped_records=1)
        assert lost_between(before, ThreadReading(900, {}, last)) == Lost(
            missed_events=4, missed_calls=3, dropped_records=1
        )


def test_readings_before_a_round_are_kept_but_bounded() -> None:
    readings = Readings()
    assert readings.before(5) is None
    for time_ns in range(10_000):
        readings.add(ThreadReading(time_ns, {time_ns % 100: reported(time_ns % 100, 0)}))
    newest = readings.newest
    assert newest is not None
    assert newest.time_ns == 9_999
    for age in (1, 5, 12):
        before = readings.before(9_999 - age)
        assert before is not None
        assert before.time_ns == 9_999 - age
    after = readings.after(9_990)
    assert after is not None
    assert after.time_ns == 9_990
    assert readings.after(10_000) is None
    # The older the fewer.
    old = readings.before(9_900)
    assert old is not None
    assert old.time_ns <= 9_900
    assert len(readings.names()) <= threads.MOST_READINGS


def in_round(tid: int, since_ns: int | None) -> ReportedThread:
    thread = reported(tid, 0)
    return replace(thread, rounds=replace(thread.rounds, open_since_ns=since_ns))


def test_reading_before_an_open_round_is_kept_however_long() -> None:
    readings = Readings()
    began = {1: 500, 2: 4_000, 3: 9_000}
    for time_ns in range(10_000):
        # The newest is made when the rounds are over.
        is_over = time_ns == 9_999
        readings.add(
            ThreadReading(
                time_ns,
                {
                    tid: in_round(tid, since_ns if since_ns <= time_ns and not is_over else None)
                    for tid, since_ns in began.items()
                },
            )
        )
    for since_ns in began.values():
        before = readings.before(since_ns)
        assert before is not None
        assert before.time_ns == since_ns


def test_readings_before_many_open_rounds_are_bounded() -> None:
    readings = Readings()
    for time_ns in range(500):
        readings.add(
            ThreadReading(time_ns, {tid: in_round(tid, tid) for tid in range(time_ns + 1)})
        )
    before = readings.before(250)
    assert before is not None
    assert 180 <= before.time_ns <= 250
    most = threads.MOST_READINGS + threads.MOST_BEFORE_OPEN + 1
    assert sum(1 for _ in readings.kept()) <= most


def test_ended_threads_are_summed_by_name_in_bounded_room() -> None:
    ended = EndedThreadRounds()
    count = 10 * MOST_NAMES
    for number in range(count):
        ended.add("pool", (1, 0, 2), number)
        ended.add(f"job-{number}", (0, 1, 0), number)
    sums = {each.name: each for each in ended.sums()}
    assert len(sums) == MOST_NAMES + 1
    assert sums["pool"] == ThreadRounds(0, "pool", (count, 0, 2 * count), count - 1)
    assert sums["job-7"] == ThreadRounds(0, "job-7", (0, 1, 0), 7)
    named = MOST_NAMES - 1
    assert sums[OTHER_NAMES] == ThreadRounds(0, OTHER_NAMES, (0, count - named, 0), count - 1)


class TimelinePrograms:
    """Programs with room for two timelines; the second one has a slice of thread 7."""

    def __init__(self) -> None:
        types: Any = ffi
        self.control = new_control()
        self.freed_slots = bytearray(2 * ffi.sizeof("uint64_t"))
        self.rounds = bytearray(2 * ffi.sizeof("struct round_timeline"))
        self.slices = bytearray(2 * SLICES * ffi.sizeof("struct timeline_slice"))
        own = ffi.from_buffer("struct round_timeline[]", self.rounds)[1]
        own.number, own.thread, own.reported = 3, 7, 1
        first = types.from_buffer("struct timeline_slice[]", self.slices)[SLICES]
        first.kind, first.thread = lib.STATE_BLOCKED, 7
        first.since_ns, first.until_ns = 100, 200

    def freed_slots_of(self, ring: int) -> tuple[int, int]:
        return 0, 2

    def round_timeline_memory(self) -> tuple[bytearray, bytearray, int]:
        return self.rounds, self.slices, SLICES

    def round_timelines(self) -> int:
        return 2

    def sleep_stacks(self) -> bytes:
        return b""


@pytest.mark.parametrize(("number", "kinds"), [(3, ["blocked", "running"]), (1, []), (0, [])])
def test_a_timeline_of_another_thread_is_not_shown(number: int, kinds: list[str]) -> None:
    programs: Any = TimelinePrograms()
    types: Any = ffi
    notice = types.new("struct round_notice *")
    notice.timeline, notice.identity = number, 7
    notice.start_ns, notice.stop_ns, notice.running_since_ns = 100, 300, 200
    shown = RoundTimelines(programs).of_round(notice, ThreadRecords.none())
    assert [each.kind for each in shown.slices] == kinds
