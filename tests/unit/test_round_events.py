"""Which calls the record of a round has, when it is made and what ended before is forgotten."""

from typing import Any, cast

import pytest

from kernel_delay.capture.plan import EventPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds import round_events
from kernel_delay.capture.rounds.round_events import EventsOfRounds
from kernel_delay.capture.syscall_events.event_store import EventsOfWindow
from kernel_delay.model import Lost, SyscallEvent

TID = 31
WRITE = SyscallEvent(
    TID, 1, "write", entry_ns=1_000, exit_ns=9_000, ret=8, kernel_stack=None, user_stack=None
)


class FakeStore:
    """Has one call, until it is taken."""

    def __init__(self, *_: object) -> None:
        self._events = [WRITE]

    def nameless(self) -> str | None:
        return None

    def take(self, stop_ns: int) -> EventsOfWindow:
        taken, self._events = self._events, []
        return EventsOfWindow(tuple(taken), (), Lost(events=1))

    def discard(self, stop_ns: int) -> None:
        self._events = [event for event in self._events if event.exit_ns >= stop_ns]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> EventsOfRounds:
    monkeypatch.setattr(round_events, "EventStore", FakeStore)
    return EventsOfRounds(cast(Programs, None), TID, EventPlan(), lambda text: None)


def calls_of_round(events: EventsOfRounds) -> list[Any]:
    events.take(20_000)
    return list(events.of_round(TID, 0, 10_000).events)


def test_a_round_that_ended_just_before_has_its_calls(events: EventsOfRounds) -> None:
    """The threads were read after it ended, and before its notice was taken."""
    events.forget(15_000)
    assert calls_of_round(events) == [WRITE]


def test_events_before_the_last_but_one_look_are_forgotten(events: EventsOfRounds) -> None:
    events.forget(15_000)
    events.forget(16_000)
    assert calls_of_round(events) == []


def test_what_is_lost_is_left_for_the_sample_that_is_made(events: EventsOfRounds) -> None:
    """An iteration of a PMD thread may have no Sample once its calls have been looked at."""
    calls_of_round(events)
    calls_of_round(events)
    assert events.newly_lost() == Lost(events=2)
    assert events.newly_lost() == Lost()
