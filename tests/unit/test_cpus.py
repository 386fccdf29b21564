"""CPUs' numbers: those of a machine that leaves some out, too, each have a place."""

import os
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_delay.capture import program_options
from kernel_delay.capture.plan import EventPlan, Plan, WindowPlan
from kernel_delay.host import system_state
from kernel_delay.host.system_state import cpu_numbers
from kernel_delay.loader._records import ffi
from kernel_delay.loader.features import KernelFeatures
from kernel_delay.loader.namespace import KernelProcess


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
    # What the kernel would be asked.
    monkeypatch.setattr(program_options, "find_process", lambda pid: KernelProcess(pid, 0))
    features = KernelFeatures(
        sees_faults=False,
        reads_other_processes=False,
        preempts_tracepoints=False,
        calls_unpreempted=False,
        knows_earlier_calls=True,
        contexts_distance=0,
    )
    monkeypatch.setattr(program_options, "read_kernel_features", lambda: features)
    options = ffi.new("struct options *")
    maps, programs = (
        defaultdict[str, SimpleNamespace](
            lambda: SimpleNamespace(initial_values=lambda: options, leave_out=lambda: None)
        )
        for _ in range(2)
    )
    bpf_object: Any = SimpleNamespace(map=maps.__getitem__, program=programs.__getitem__)
    program_options.ProgramOptions(
        bpf_object,
        [os.getpid()],
        Plan(WindowPlan(sample_time_ns=1), EventPlan()),
        children=False,
    )
    assert maps["run_queues"].max_entries == 10
    assert maps["slices"].max_entries == 10 * options.slices
    assert maps["scratch_events"].max_entries == 10
