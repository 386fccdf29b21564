"""CPUs' numbers: those of a machine that leaves some out, too, each have a place."""

from pathlib import Path

import pytest

from kernel_delay.capture.plan import EventPlan, Plan, WindowPlan
from kernel_delay.host import system_state
from kernel_delay.host.system_state import cpu_numbers
from tests.unit.options_on_kernels import NEWER, options_on


@pytest.mark.parametrize(("possible", "numbers"), [("0\n", 1), ("0-3\n", 4), ("0-1,8-9\n", 10)])
def test_numbers_end_after_the_highest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, possible: str, numbers: int
) -> None:
    (tmp_path / "possible").write_text(possible)
    monkeypatch.setattr(system_state, "POSSIBLE", tmp_path / "possible")
    assert cpu_numbers() == numbers


def test_maps_per_cpu_have_room_for_the_highest_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "possible").write_text("0-1,8-9\n")
    monkeypatch.setattr(system_state, "POSSIBLE", tmp_path / "possible")
    plan = Plan(WindowPlan(sample_time_ns=1), EventPlan())
    options, maps = options_on(NEWER, plan, monkeypatch)
    assert maps["run_queues"].max_entries == 10
    assert maps["slices"].max_entries == 10 * options.struct().slices
    assert maps["scratch_events"].max_entries == 10
