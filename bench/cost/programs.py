"""Verified instructions of each program, by option set; and the maps and files of the objects."""

import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from kernel_delay.capture.plan import EventPlan, Plan, RoundPlan, WindowPlan
from kernel_delay.capture.program_options import ProgramOptions
from kernel_delay.loader.base import start_log
from kernel_delay.loader.objects import load_object, open_object
from kernel_delay.loader.programs import BpfObject

_WINDOW = WindowPlan(sample_time_ns=500_000_000)
# BPF_LOG_LEVEL2 | BPF_LOG_STATS: each instruction, whenever it is processed, and sums.
LOG_LEVEL = 2 | 4
LOG_SIZE = 1 << 24
_REGISTERS = re.compile(r"^\d+: R\d", re.MULTILINE)
_CONDITIONAL = re.compile(r"^\d+: \([0-9a-f]{2}\) if ", re.MULTILINE)

_POLLS_ONLY = RoundPlan(threshold_ns=1_000_000_000)
_ROUNDS = RoundPlan(threshold_ns=1_000_000_000, max_slices=1024, calls=True)


class OptionSet(NamedTuple):
    """What a command has ProgramOptions set, by default `capture` alone."""

    plan: Plan = Plan(_WINDOW)
    children: bool = False


OPTION_SETS = {
    "default": OptionSet(),
    "--no-accounting": OptionSet(Plan(_WINDOW, accounting=False)),
    "-s": OptionSet(Plan(_WINDOW, EventPlan())),
    "--timeline": OptionSet(Plan(_WINDOW, timeline=True)),
    "--chains": OptionSet(Plan(_WINDOW, chains=True)),
    "-s --timeline --wakers=stacks --children": OptionSet(
        Plan(_WINDOW, EventPlan(), timeline=True, waker_stacks=True), children=True
    ),
    "watch": OptionSet(Plan(_WINDOW, EventPlan(), rounds=_POLLS_ONLY)),
    "watch --calls --timeline": OptionSet(Plan(_WINDOW, EventPlan(), rounds=_ROUNDS)),
    "watch --metrics": OptionSet(Plan(_WINDOW, EventPlan(), rounds=_ROUNDS, totals=True)),
}


class Verified(NamedTuple):
    """What the verifier processed of a program: each path through it, until it knows the rest.

    A path that is to be looked at later is kept on a stack, whose limit is 8,192
    (kernel/bpf/verifier.c:push_stack(), 5.14): `jumps`, the conditional ones that were processed,
    are at least as many.
    """

    instructions: int
    jumps: int


class Loaded(NamedTuple):
    """What an object took that was loaded: each program of it, and its maps' memory."""

    verified: dict[str, Verified]
    maps_bytes: int


def load_capture(options: OptionSet) -> Loaded:
    """Load capture.bpf.o with these options, and unload it."""
    start_log(-1)
    with open_capture(options) as bpf_object:
        logs = {
            program.name: program.keep_log(LOG_LEVEL, LOG_SIZE)
            for program in bpf_object.programs()
            if program.autoload
        }
        load_object(bpf_object)
        return Loaded({name: read_log(log()) for name, log in logs.items()}, sum(_maps_bytes()))


def open_capture(options: OptionSet) -> BpfObject:
    """Open capture.bpf.o, and set it up with these options."""
    bpf_object = open_object("capture", built_in=True)
    ProgramOptions(bpf_object, (os.getpid(),), options.plan, children=options.children)
    return bpf_object


def verified_figures() -> dict[str, int]:
    """Load it with each option set; return what the verifier and the maps took."""
    found: dict[str, int] = {}
    for name, options in OPTION_SETS.items():
        verified, maps_bytes = load_capture(options)
        for program, (instructions, jumps) in verified.items():
            found[f"{name}: {program}, instructions verified"] = instructions
            found[f"{name}: {program}, jumps verified"] = jumps
        found[f"{name}: all programs, instructions verified"] = sum(
            program.instructions for program in verified.values()
        )
        found[f"{name}: all maps, bytes"] = maps_bytes
    return found


def object_bytes() -> dict[str, int]:
    """Return the size of each object's file."""
    folder = files("kernel_delay") / "bpf"
    objects = [file for file in folder.iterdir() if file.name.endswith(".bpf.o")]
    return {f"{file.name}, bytes": len(file.read_bytes()) for file in objects}


def read_log(log: str) -> Verified:
    """Read a program's log: its last line has the sum, and each line of an instruction its own.

    7.2 writes instructions before that too, as it looks for what registers are read later: those
    that it processes come after the first line of what registers hold.
    """
    (instructions,) = re.findall(r"^processed (\d+) insns", log, re.MULTILINE)
    registers = _REGISTERS.search(log)
    processed = log[registers.start() :] if registers else log
    return Verified(int(instructions), len(_CONDITIONAL.findall(processed)))


def _maps_bytes() -> Iterator[int]:
    for descriptor in os.listdir("/proc/self/fd"):
        if any(_of_descriptor(int(descriptor), "map_type")):
            yield from _of_descriptor(int(descriptor), "memlock")


def _of_descriptor(descriptor: int, field: str) -> Iterator[int]:
    """Yield what /proc/self/fdinfo has of it: kernel/bpf/syscall.c, bpf_prog_show_fdinfo()."""
    try:
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    except FileNotFoundError:  # that of the list of descriptors
        return
    yield from map(int, re.findall(rf"^{field}:\t(\d+)", text, re.MULTILINE))
