"""Threads that sleep throughout: what is not looked at, or not again, says the same."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis import verdict
from kernel_delay.analysis.verdict import RULES, Judge, judge
from kernel_delay.analysis.verdict.rule import Rule
from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.model import CpuUse, Sample, Sleep, SystemState, Target, Thread, ThreadTime
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window
from tests.unit.verdict_samples import samples_of

ALL_RULES = (*RULES, USER_WORK)


def asleep(tid: int) -> Thread:
    slept = Sleep("poll", "poll", (), False, 1, TIMED_WINDOW_NS, TIMED_WINDOW_NS)
    return replace(timed_thread(tid, "worker"), sleeps=(slept,))


def measured(*threads: Thread, idle_ns: int = 0, **changes: object) -> Sample:
    state = SystemState((CpuUse(0, idle_ns, 0),), None, None, None)
    first = window(duration_ns=TIMED_WINDOW_NS)
    fields = {"window": first, "target": Target(1, "redis", None), "system_state": state}
    return bare_sample(*threads, **(fields | changes))


def later(sample: Sample, by_ns: int = TIMED_WINDOW_NS) -> Sample:
    moved = replace(
        sample.window,
        start_ns=sample.window.start_ns + by_ns,
        stop_ns=sample.window.stop_ns + by_ns,
    )
    return replace(sample, window=moved)


def noted(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    """What is judged from now on, and has no verdict."""
    judged: list[Sample] = []

    def judge(sample: Sample) -> Sample:
        judged.append(sample)
        return sample

    monkeypatch.setattr(verdict, "judge", judge)
    return judged


@pytest.mark.parametrize(
    "rule", [rule for rule in ALL_RULES if not rule.of_sleepers], ids=lambda rule: rule.name
)
def test_rule_that_passes_over_sleepers_finds_nothing_in_them(rule: Rule) -> None:
    nothing = dict.fromkeys(ThreadTime.__struct_fields__, 0)
    for each in ALL_RULES:
        for known in samples_of(each.name):
            time = ThreadTime(**(nothing | {"blocked_ns": known.window.duration_ns}))
            for thread in known.threads:
                assert rule.lost_ns(known, replace(thread, time=time)) <= 0


def test_process_that_sleeps_on_keeps_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    judges = Judge()
    first = judges.judge(measured(asleep(1), asleep(2), idle_ns=1))
    then = later(measured(asleep(1), asleep(2), idle_ns=2))
    expected = judge(then)
    assert first.verdict
    monkeypatch.setattr(verdict, "judge", lambda sample: pytest.fail("was judged again"))
    assert judges.judge(then) == expected


@pytest.mark.parametrize(
    "changed",
    [
        measured(asleep(1)),
        measured(asleep(1), timed_thread(2, "worker", ready=300)),
        measured(asleep(1), replace(asleep(2), sleeps=())),
        measured(asleep(1), asleep(2), target=Target(1, "nginx", None)),
        measured(asleep(1), asleep(2), system_state=SystemState((), None, ("gdb", 5), None)),
        measured(asleep(1), asleep(2), window=window(duration_ns=2 * TIMED_WINDOW_NS)),
    ],
)
def test_process_of_which_anything_changed_is_judged_again(
    changed: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = Judge()
    judges.judge(measured(asleep(1), asleep(2)))
    judged = noted(monkeypatch)
    judges.judge(later(changed))
    assert judged == [later(changed)]


def test_process_that_was_not_in_the_window_before_is_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judges = Judge()
    judges.judge(measured(asleep(1)))
    judges.judge(later(measured(asleep(9), target=Target(9, "other", None))))
    judged = noted(monkeypatch)
    judges.judge(later(measured(asleep(1)), 2 * TIMED_WINDOW_NS))
    assert len(judged) == 1
