"""Soft IRQs and returns of calls: hooked while a round is open for long, and a while after it."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.late_hooks import (
    REST_NS,
    LateHooks,
    late_returns,
    late_soft_irqs,
)
from kernel_delay.capture.rounds.threads import ReportedThread, ThreadReading
from kernel_delay.loader.base import BpfError
from kernel_delay.model import ThreadRounds

SUSPECT_NS = 100_000_000
BEGUN_NS = 7_000_000_000


class FakePrograms:
    """Notes which ends are attached, in which order they came and went."""

    def __init__(self, *, always: bool = False) -> None:
        self.soft_irqs_attached = always
        self.hooks_returns = not always
        self.refuses = False
        self.noted: list[str] = []

    def attach_returns(self) -> Any:
        return self.attach_soft_irq("returns")

    def set_returns_hooked(self, since_ns: int) -> None:
        self.noted.append(f"since {since_ns}")

    def attach_soft_irq(self, end: str) -> Any:
        if self.refuses:
            raise BpfError(1, "attaching")
        self.noted.append(f"+{end}")
        return FakeLink(self.noted, end)


class FakeLink:
    def __init__(self, noted: list[str], end: str) -> None:
        self._noted, self._end = noted, end

    def close(self) -> None:
        self._noted.append(f"-{self._end}")


def reading(time_ns: int, open_since_ns: int | None) -> ThreadReading:
    rounds = ThreadRounds(31, "handler4", (), 0, open_since_ns)
    return ThreadReading(time_ns, {31: ReportedThread(31, rounds, 0, 0)})


def soft_irqs_of(programs: FakePrograms, clock: Iterator[int]) -> LateHooks:
    return late_soft_irqs(cast(Programs, programs), SUSPECT_NS, lambda: next(clock))


def test_soft_irqs_are_reported_from_old_rounds_until_rest() -> None:
    programs = FakePrograms()
    attached_ns = BEGUN_NS + SUSPECT_NS + 5
    with soft_irqs_of(programs, iter([attached_ns])) as soft_irqs:
        soft_irqs.update(reading(BEGUN_NS + SUSPECT_NS - 1, BEGUN_NS))
        assert programs.noted == []
        assert soft_irqs.attached_from_ns(BEGUN_NS, BEGUN_NS + SUSPECT_NS) == BEGUN_NS + SUSPECT_NS
        last_ns = BEGUN_NS + SUSPECT_NS
        soft_irqs.update(reading(last_ns, BEGUN_NS))
        assert programs.noted == ["+exit", "+entry"]
        assert soft_irqs.attached_from_ns(BEGUN_NS, attached_ns + 9) == attached_ns
        # A round that was over before the programs were there; and one that began since.
        assert soft_irqs.attached_from_ns(BEGUN_NS, attached_ns - 1) == attached_ns - 1
        assert soft_irqs.attached_from_ns(attached_ns, attached_ns + 9) is None
        soft_irqs.update(reading(last_ns + REST_NS - 1, None))
        assert programs.noted == ["+exit", "+entry"]
        soft_irqs.update(reading(last_ns + REST_NS, None))
        assert programs.noted[2:] == ["-entry"]
        soft_irqs.update(reading(last_ns + REST_NS + 1, None))
        assert programs.noted[3:] == ["-exit"]
        soft_irqs.update(reading(last_ns + REST_NS + 2, None))
        assert len(programs.noted) == 4


def test_attached_exit_program_stays_for_the_next_round() -> None:
    programs = FakePrograms()
    with soft_irqs_of(programs, iter([1, 2])) as soft_irqs:
        now_ns = BEGUN_NS + SUSPECT_NS
        soft_irqs.update(reading(now_ns, BEGUN_NS))
        soft_irqs.update(reading(now_ns + REST_NS, None))
        soft_irqs.update(reading(now_ns + REST_NS + 1, now_ns))
        assert programs.noted == ["+exit", "+entry", "-entry", "+entry"]
    assert sorted(programs.noted[4:]) == ["-entry", "-exit"]


def test_where_all_are_reported_nothing_is_attached() -> None:
    programs = FakePrograms(always=True)
    with soft_irqs_of(programs, iter(())) as soft_irqs:
        soft_irqs.update(reading(BEGUN_NS + REST_NS, BEGUN_NS))
        assert soft_irqs.attached_from_ns(BEGUN_NS, BEGUN_NS + 1) is None
    assert programs.noted == []


@pytest.mark.parametrize("stop_ns", [BEGUN_NS + 1, BEGUN_NS + REST_NS])
def test_soft_irqs_refused_by_the_kernel_are_not_reported(stop_ns: int) -> None:
    programs = FakePrograms()
    programs.refuses = True
    with soft_irqs_of(programs, iter(())) as soft_irqs:
        soft_irqs.update(reading(BEGUN_NS + SUSPECT_NS, BEGUN_NS))
        assert soft_irqs.attached_from_ns(BEGUN_NS, stop_ns) == stop_ns


def test_returns_are_known_to_be_hooked_only_while_they_are() -> None:
    programs = FakePrograms()
    with late_returns(cast(Programs, programs), SUSPECT_NS, lambda: 7) as returns:
        now_ns = BEGUN_NS + SUSPECT_NS
        returns.update(reading(now_ns - 1, BEGUN_NS))
        assert programs.noted == []
        returns.update(reading(now_ns, BEGUN_NS))
        returns.update(reading(now_ns + REST_NS - 1, None))
        assert programs.noted == ["+returns", "since 7"]
        returns.update(reading(now_ns + REST_NS, None))
        assert programs.noted[2:] == ["since 0", "-returns"]


def test_a_record_has_the_next_returns_hooked() -> None:
    programs = FakePrograms()
    with late_returns(cast(Programs, programs), SUSPECT_NS, lambda: 7) as returns:
        returns.begin(BEGUN_NS)
        returns.begin(BEGUN_NS + 1)
        returns.update(reading(BEGUN_NS + REST_NS, None))
        assert programs.noted == ["+returns", "since 7"]


def test_returns_of_a_kernel_that_refuses_are_not_hooked() -> None:
    programs = FakePrograms()
    programs.refuses = True
    with late_returns(cast(Programs, programs), SUSPECT_NS, lambda: 7) as returns:
        returns.begin(BEGUN_NS)
    assert programs.noted == []


def test_where_each_call_is_hooked_no_returns_are() -> None:
    programs = FakePrograms(always=True)
    with late_returns(cast(Programs, programs), SUSPECT_NS, lambda: 7) as returns:
        returns.begin(BEGUN_NS)
    assert programs.noted == []


def test_what_nobody_needs_any_more_is_attached_no_more() -> None:
    programs = FakePrograms()
    with late_returns(cast(Programs, programs), SUSPECT_NS, lambda: 7) as returns:
        now_ns = BEGUN_NS + SUSPECT_NS
        returns.update(reading(now_ns, BEGUN_NS))
        assert programs.noted == ["+returns", "since 7"]
        returns.end()
        assert programs.noted[2:] == ["since 0", "-returns"]
        returns.update(reading(now_ns, BEGUN_NS))
        returns.begin(now_ns)
    assert len(programs.noted) == 4
