"""python -m bench.verifying FILE: what loading takes on this kernel, written to FILE as JSON."""

import errno
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bench.cost.programs import LOG_LEVEL, LOG_SIZE, Verified, read_log
from bench.option_sets import CAPTURE, object_sets
from bench.rounds import progress
from kernel_delay.capture.program_names import FAULT_PROGRAMS
from kernel_delay.errors import KernelDelayError
from kernel_delay.loader.base import BpfError, start_log, take_log
from kernel_delay.loader.features import read_kernel_features
from kernel_delay.loader.objects import load_object, refusal
from kernel_delay.loader.programs import BpfObject

LOADS = 3

# BPF_LOG_STATS: the sums, and the time, alone.
_SUMS, _SUMS_SIZE = 4, 1 << 12
_TIME = re.compile(r"^verification time (\d+) usec", re.MULTILINE)

# libbpf finds no type of what the program is at: it is of a module, and that is not loaded.
NOT_THERE = "the kernel function or tracepoint is not there"

# What libbpf says last of a program that can't be loaded.
_REFUSED = re.compile(r"^libbpf: prog '([^']+)': failed to ", re.MULTILINE)


class Loading(msgspec.Struct, frozen=True):
    """What an object takes with one set of options.

    Attributes:
        object: Which object.
        verified: What the verifier processed of each program.
        verify_us: How long that took, the shortest time of all loads, by program.
        load_ms: How long it took to load them all, each time.
        refused: Why this kernel does not load others, by program.
    """

    object: str
    verified: dict[str, Verified]
    verify_us: dict[str, int]
    load_ms: list[float]
    refused: dict[str, str]


def main() -> int:
    """Load each object with each set of options."""
    start_log(-1)
    try:
        found = {name: _load(name, *each) for name, each in object_sets()}
    except KernelDelayError as error:
        print(f"verifying: {error}", file=sys.stderr)
        return error.exit_code
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(found))
    return 0


def _load(options: str, name: str, opened: Callable[[], BpfObject]) -> Loading:
    # A guest that is silent for long is taken to hang.
    progress(options)
    verified, refused = _verify(opened)
    if name == CAPTURE:
        refused |= _left_out()
    times_us: dict[str, list[int]] = {}
    load_ms = []
    for _ in range(LOADS if verified else 0):
        with opened() as bpf_object:
            logs = _keep_logs(bpf_object, refused, _SUMS, _SUMS_SIZE)
            begun = time.monotonic()
            load_object(bpf_object)
            load_ms.append((time.monotonic() - begun) * 1e3)
            for program, log in logs.items():
                times_us.setdefault(program, []).extend(map(int, _TIME.findall(log())))
    shortest_us = {program: min(times) for program, times in times_us.items()}
    return Loading(name, verified, shortest_us, load_ms, refused)


def _verify(opened: Callable[[], BpfObject]) -> tuple[dict[str, Verified], dict[str, str]]:
    """Load all programs that this kernel does not refuse; return these, and why it refuses others.

    The first that is refused ends the loading: then it is left out.
    """
    refused: dict[str, str] = {}
    while True:
        with opened() as bpf_object:
            logs = _keep_logs(bpf_object, refused, LOG_LEVEL, LOG_SIZE)
            if not logs:
                return {}, refused
            take_log()
            try:
                bpf_object.load()
            except BpfError as error:
                found = _REFUSED.findall(take_log())
                if not found or found[-1] in refused:
                    raise refusal(error) from error
                is_there = error.errno != errno.ESRCH
                refused[found[-1]] = str(error.strerror) if is_there else NOT_THERE
            else:
                return {name: read_log(log()) for name, log in logs.items()}, refused


def _keep_logs(
    bpf_object: BpfObject, refused: Mapping[str, str], level: int, size: int
) -> dict[str, Callable[[], str]]:
    for program in bpf_object.programs():
        if program.name in refused:
            program.autoload = False
    return {
        program.name: program.keep_log(level, size)
        for program in bpf_object.programs()
        if program.autoload
    }


def _left_out() -> dict[str, str]:
    """Return which programs a capture does without on this kernel, and why."""
    kernel = read_kernel_features()
    left_out: dict[str, str] = {}
    if not kernel.sees_faults:
        reason = f"at handle_mm_fault(): {os.strerror(kernel.faults_errno)}"
        left_out |= dict.fromkeys(FAULT_PROGRAMS, reason)
    if not kernel.reads_other_processes:
        left_out["note_futex_owners"] = "no helper bpf_copy_from_user_task()"
    return left_out


if __name__ == "__main__":
    sys.exit(main())
