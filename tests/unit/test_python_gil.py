"""Who holds Python's interpreter lock: from memory that changes, or is not what it seems."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.symbols.python import PythonFrame
from kernel_delay.symbols.python import threads as python_threads
from kernel_delay.symbols.python.gil import GilHolder, GilState, is_waited_for, read_gil
from kernel_delay.symbols.python.threads import MOST_READS, ThreadsError
from kernel_delay.where import Holder
from kernel_delay.where.calls import Call, Waited, awaited_futex
from kernel_delay.where.python_frames import gil_wait
from tests.unit.made_python import HEX_3_9, HEX_3_10, HEX_3_11, HEX_3_12, Made

# Where the fields are, and what they are.
HOLDER, LOCKED, SWITCHES, CONDITION, MUTEX = 8, 16, 24, 32, 80


class Locked(Made):
    """A made-up process whose one thread holds the lock."""

    GIL = 0x8000

    def __init__(self, number: int = HEX_3_12) -> None:
        """Of a version of CPython."""
        super().__init__(["f@/usr/a.py", "g@b.py", ""], number)
        if self.layout.runtime_gil is not None:
            self.gil = self.RUNTIME + self.layout.runtime_gil
        else:
            assert self.layout.interpreter_gil is not None
            self.gil = self.GIL
            self.words[self.INTERPRETER + self.layout.interpreter_gil] = self.gil
        self.words[self.gil + HOLDER] = self.STATE
        self.words[self.gil + LOCKED] = 1
        self.words[self.gil + SWITCHES] = 5
        self.words[self.gil + MUTEX] = 0
        self.futex = self.gil + CONDITION + 8

    def holder(self) -> GilHolder | None:
        return self.threads().gil_holder(self.futex)

    def when_read(self, place: int, change: Callable[[], object]) -> None:
        """Let something change just after each time that this address is read."""
        made_read = self.read

        def changing(address: int, size: int) -> bytes:
            content = made_read(address, size)
            if address == place:
                change()
            return content

        self.read = changing  # type: ignore[method-assign]


@pytest.mark.parametrize("number", [0x030812F0, HEX_3_9, HEX_3_10, HEX_3_11, HEX_3_12])
def test_holder_has_its_innermost_function(number: int) -> None:
    found = Locked(number).holder()
    assert found is not None
    assert (found.tid, found.state) == (Made.TID, GilState(Made.STATE, 5))
    assert found.frame is not None
    assert (found.frame.function, found.frame.file) == ("f", "/usr/a.py")


@pytest.mark.parametrize(
    ("offset", "is_its"),
    [
        (0, False),
        (CONDITION - 1, False),
        (CONDITION, True),
        (CONDITION + 40, True),
        (MUTEX - 1, True),
        # Who gives the lock up waits for these too.
        (MUTEX, False),
        (MUTEX + 40, False),
        (-(1 << 40), False),
    ],
)
def test_futex_is_in_the_condition_variable(offset: int, is_its: bool) -> None:
    made = Locked()
    assert is_waited_for(made.gil, made.gil + offset) == is_its
    assert (made.threads().gil_holder(made.gil + offset) is not None) == is_its


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (LOCKED, 0),
        (LOCKED, 2),
        (LOCKED, 0xFFFF_FFFF),
        (HOLDER, 0),
        # It is no thread state.
        (HOLDER, Made.INTERPRETER),
        # Another thread is about to take the lock, or to give it up.
        (MUTEX, 1),
        (MUTEX, 2),
    ],
)
def test_lock_that_is_not_held_has_no_holder(offset: int, value: int) -> None:
    made = Locked()
    made.words[made.gil + offset] = value
    assert made.holder() is None


def test_lock_that_cannot_be_read_has_no_holder() -> None:
    made = Locked()
    for offset in (HOLDER, LOCKED, SWITCHES, MUTEX):
        del made.words[made.gil + offset]
    assert read_gil(made.read, made.gil) is None
    assert made.holder() is None


def test_lock_that_moves_on_has_no_holder() -> None:
    made = Locked()

    def move_on() -> None:
        made.words[made.gil + SWITCHES] += 1

    made.when_read(made.gil, move_on)
    assert made.holder() is None
    assert made.reads < 100 * MOST_READS


def test_holder_that_gives_up_meanwhile_is_not_named() -> None:
    made = Locked()

    def give_up() -> None:
        made.words[made.gil + LOCKED] = 0

    made.when_read(made.FRAMES, give_up)
    assert made.holder() is None


def test_lock_that_is_taken_once_is_read_again() -> None:
    made = Locked()
    changes = iter([None])

    def move_on() -> None:
        if next(changes, made) is None:
            made.words[made.gil + SWITCHES] += 1

    made.when_read(made.FRAMES, move_on)
    found = made.holder()
    assert found is not None
    assert found.state.switches == 6


def test_holder_without_frame_has_no_function() -> None:
    made = Locked()
    made.words[made.C_FRAME + made.layout.current_frame] = 0
    found = made.holder()
    assert found is not None
    assert (found.tid, found.frame) == (made.TID, None)


def test_same_holder_is_one_that_was_found_before() -> None:
    made = Locked()
    threads = made.threads()
    assert threads.same_gil_holder(made.futex) is None
    found = threads.gil_holder(made.futex)
    assert found is not None
    assert threads.same_gil_holder(made.futex) == found
    assert threads.same_gil_holder(made.gil) is None
    made.words[made.gil + SWITCHES] += 1
    assert threads.same_gil_holder(made.futex) is None
    threads.note(made.pointers)
    assert threads.same_gil_holder(made.futex) is None


def test_second_waiter_does_not_read_the_frames_again() -> None:
    made = Locked()
    threads = made.threads()
    found = threads.gil_holder(made.futex)
    before = made.reads
    assert threads.gil_holder(made.futex) == found
    # The lock, twice.
    assert made.reads == before + 2


def test_holder_is_not_read_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_threads, "READING_S", 0.0)
    assert Locked().holder() is None


@given(st.sampled_from([HEX_3_9, HEX_3_12]), st.data())
def test_any_damaged_words_name_no_other_thread(number: int, data: st.DataObject) -> None:
    made = Locked(number)
    places = sorted(made.words)
    values = st.one_of(st.sampled_from(places), st.integers(0, (1 << 64) - 1))
    made.words |= data.draw(st.dictionaries(st.sampled_from(places), values, max_size=6))
    with suppress(ThreadsError):
        found = made.holder()
        if found is not None:
            assert made.words[made.gil + HOLDER] == found.state.holder
            assert made.words[made.gil + LOCKED] & 0xFFFF_FFFF == 1
    assert made.reads < 200 * MOST_READS


FUTEX = 0x1000


@pytest.mark.parametrize(
    ("name", "operation", "compat", "is_awaited"),
    [
        ("futex", 0, False, True),
        # FUTEX_WAIT_BITSET, private, by CLOCK_REALTIME.
        ("futex", 9 | 0x80 | 0x100, False, True),
        # FUTEX_WAKE, FUTEX_LOCK_PI
        ("futex", 1 | 0x80, False, False),
        ("futex", 6 | 0x80, False, False),
        ("futex", 9, True, False),
        ("read", 0, False, False),
    ],
)
def test_awaited_futex_is_that_of_a_wait(
    name: str, operation: int, compat: bool, is_awaited: bool
) -> None:
    call = Call(name, (FUTEX, operation, 0, 0, 0, 0), compat)
    assert awaited_futex(call) == (FUTEX if is_awaited else None)


@pytest.mark.parametrize(
    ("frame", "behind"),
    [
        (PythonFrame("f", "/usr/a.py", 3), " in f (a.py:3)"),
        (PythonFrame("C.f", "<string>", None), " in C.f (<string>)"),
        (None, ""),
    ],
)
def test_words_name_thread_and_function(frame: PythonFrame | None, behind: str) -> None:
    found = gil_wait(GilHolder(1, 7, frame, GilState(1, 1)), 8, {7: (70, "worker")})
    assert found is not None
    words = f"Python's interpreter lock (GIL), held by worker (70){behind}"
    assert found.waited(is_still_held=True) == Waited(words, (Holder("owner", 70, "worker"),))
    words = f"Python's interpreter lock (GIL), which changes hands: worker (70) held it{behind}"
    assert found.waited(is_still_held=False) == Waited(words)


def test_thread_does_not_wait_for_itself() -> None:
    held = GilHolder(1, 7, None, GilState(1, 1))
    assert gil_wait(held, 7, {7: (70, "worker")}) is None
    assert gil_wait(held, 8, {}) is None


@pytest.mark.parametrize("offset", [HOLDER, LOCKED, SWITCHES])
def test_lock_that_went_to_another_is_not_still_held(offset: int) -> None:
    made = Locked()
    threads = made.threads()
    found = threads.gil_holder(made.futex)
    assert found is not None
    assert threads.is_still_held(found)
    made.words[made.gil + offset] += 1
    assert not threads.is_still_held(found)
