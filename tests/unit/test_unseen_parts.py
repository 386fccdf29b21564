"""What a kernel does not show: a capture that asks for it says so, and another does not."""

import pytest
from msgspec.structs import replace

from kernel_delay.capture.plan import EventPlan, Plan, RoundPlan, WindowPlan
from kernel_delay.model import Unseen
from tests.unit.options_on_kernels import NEWER, options_on

WINDOWS = WindowPlan(sample_time_ns=1)
ROUNDS = RoundPlan(1_000_000)

# Each capture with accounting.
ALWAYS: set[Unseen] = {"earlier_calls", "files_of_sleeps"}


@pytest.mark.parametrize(
    ("plan", "unseen"),
    [
        (Plan(WINDOWS), ALWAYS),
        (Plan(WINDOWS, waker_stacks=True), ALWAYS | {"stacks_of_wakers"}),
        (Plan(WINDOWS, rounds=ROUNDS), ALWAYS | {"samples"}),
        (Plan(WINDOWS, rounds=replace(ROUNDS, calls=True)), ALWAYS),
        (
            Plan(WINDOWS, EventPlan(), rounds=replace(ROUNDS, calls=True)),
            ALWAYS | {"samples"},
        ),
        (Plan(WINDOWS, accounting=False, waker_stacks=True), set()),
    ],
)
def test_without_registers_all_that_needs_them_is_missing(
    plan: Plan, unseen: set[Unseen], monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts(knows_earlier_calls: bool) -> set[Unseen]:
        kernel = replace(NEWER, knows_earlier_calls=knows_earlier_calls)
        options, _ = options_on(kernel, plan, monkeypatch)
        return {*options.unseen} - {"page_faults", "calls"}

    assert parts(False) == unseen
    assert parts(True) == set()
