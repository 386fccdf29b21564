"""CPUs' numbers: those of a machine that leaves some out, too, each have a place."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel_delay.capture.plan import EventPlan
from kernel_delay.capture.program_options import ProgramOptions
from kernel_delay.host import cpus
from kernel_delay.host.cpus import cpu_numbers
from kernel_delay.loader._records import ffi


@pytest.mark.parametrize(("possible", "numbers"), [("0\n", 1), ("0-3\n", 4), ("0-1,8-9\n", 10)])
def test_numbers_end_after_the_highest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, possible: str, numbers: int
) -> None:
    (tmp_path / "possible").write_text(possible)
    monkeypatch.setattr(cpus, "POSSIBLE", tmp_path / "possible")
    assert cpu_numbers() == numbers


def test_what_has_a_place_for_each_cpu_has_one_for_the_highest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "possible").write_text("0-1,8-9\n")
    monkeypatch.setattr(cpus, "POSSIBLE", tmp_path / "possible")
    options = ffi.new("struct options *")
    maps: defaultdict[str, SimpleNamespace] = defaultdict(
        lambda: SimpleNamespace(initial_values=lambda: options)
    )
    set_up = ProgramOptions.__new__(ProgramOptions)
    parts = {"_object": SimpleNamespace(map=maps.__getitem__), "_accounting": True, "_rounds": None}
    set_up.__dict__ |= parts
    set_up._set_sizes([1])
    set_up._set_events(EventPlan())
    assert maps["run_queues"].max_entries == 10
    assert maps["slices"].max_entries == 10 * options.slices
    assert maps["deep_events"].max_entries == 10
