"""The options that the programs get on a kernel that is not here."""

import os
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_delay.capture import program_options
from kernel_delay.capture.plan import Plan
from kernel_delay.capture.program_options import ProgramOptions
from kernel_delay.loader._records import ffi
from kernel_delay.loader.features import KernelFeatures
from kernel_delay.loader.namespace import KernelProcess

NEWER = KernelFeatures(
    sees_faults=False,
    reads_other_processes=True,
    preempts_tracepoints=False,
    calls_unpreempted=False,
    knows_earlier_calls=True,
    loops=True,
    contexts_distance=0,
)


def options_on(
    kernel: KernelFeatures, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> tuple[ProgramOptions, Any]:
    """The options for this process on that kernel, and the maps by their names."""
    # What the kernel would be asked.
    monkeypatch.setattr(program_options, "find_process", lambda pid: KernelProcess(pid, 0))
    monkeypatch.setattr(program_options, "read_kernel_features", lambda: kernel)
    options = ffi.new("struct options *")
    maps, programs = (
        defaultdict[str, SimpleNamespace](
            lambda: SimpleNamespace(initial_values=lambda: options, leave_out=lambda: None)
        )
        for _ in range(2)
    )
    bpf_object: Any = SimpleNamespace(map=maps.__getitem__, program=programs.__getitem__)
    return ProgramOptions(bpf_object, [os.getpid()], plan, children=False), maps
