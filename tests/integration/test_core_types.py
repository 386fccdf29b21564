"""Programs that are relocated by a few of the kernel's types, beside those by all of them."""

import os
from pathlib import Path

import pytest

from kernel_delay.capture.plan import EventPlan, Plan, WindowPlan
from kernel_delay.capture.program_options import ProgramOptions
from kernel_delay.loader.objects import load_object, open_object

pytestmark = pytest.mark.usefixtures("measurable")


def tags(*, built_in: bool) -> dict[str, str]:
    """Of each program that is loaded what the kernel makes of its instructions."""
    with open_object("capture", built_in=built_in) as bpf_object:
        windows = WindowPlan(sample_time_ns=500_000_000)
        plan = Plan(
            windows, EventPlan(), timeline=True, waker_stacks=True, chains=True, totals=True
        )
        ProgramOptions(bpf_object, (os.getpid(),), plan, children=True)
        load_object(bpf_object)
        return {
            program.name: field(program.fd, "prog_tag")
            for program in bpf_object.programs()
            if program.autoload
        }


def field(fd: int, name: str) -> str:
    """What /proc has of a descriptor: kernel/bpf/syscall.c, bpf_prog_show_fdinfo()."""
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return dict(line.split(":\t") for line in lines)[name]


def test_few_types_make_the_same_programs() -> None:
    assert tags(built_in=True) == tags(built_in=False)
