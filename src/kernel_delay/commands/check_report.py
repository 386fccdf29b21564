"""Puts the findings together, and has them as text: a line each, and below it what to do."""

import os
from collections.abc import Iterator

from kernel_delay.commands.check_findings import CheckFinding, Inspection, can_capture
from kernel_delay.commands.check_kernel import kernel_findings
from kernel_delay.commands.check_machine import machine_findings, read_machine_facts
from kernel_delay.commands.check_process import process_findings
from kernel_delay.errors import KernelDelayError
from kernel_delay.formatting import printable
from kernel_delay.host.selection import Selection, find_one
from kernel_delay.host.target import ProcessTarget
from kernel_delay.reporters.layout import IN_A_PIPE, Layout


def inspect(selection: Selection) -> Inspection:
    """Examine the user's rights, the machine, its kernel, and the process.

    Where none is asked for it is the one ovs-vswitchd; that there is none, or several,
    is a finding then. Raises what find_one() raises for one that is asked for.
    """
    target, no_target = _target(selection)
    machine = machine_findings(read_machine_facts())
    features = kernel_findings(machine)
    process = process_findings(target) if target is not None else ()
    uname = os.uname()
    return Inspection(
        schema="kernel-delay-check/1",
        kernel=f"{uname.release} {uname.machine}",
        machine=machine,
        features=features,
        target=target,
        no_target=no_target,
        process=process,
        can_capture=can_capture(machine + features + process),
    )


def _target(selection: Selection) -> tuple[ProcessTarget | None, str | None]:
    try:
        return find_one(selection), None
    except KernelDelayError as error:
        if selection != Selection():
            raise
        return None, str(error)


NAME_WIDTH = 20
INDENT = "  "


def render(inspection: Inspection, layout: Layout = IN_A_PIPE) -> str:
    """The findings by section, and the verdict in the last line; as wide as a terminal is."""
    lines = [
        "This user and machine",
        *_section(inspection.machine, layout),
        f"Kernel {printable(inspection.kernel)}",
        *_section(inspection.features, layout),
        *layout.wrapped(_process_heading(inspection), further=INDENT),
        *_section(inspection.process, layout),
        "A capture can run." if inspection.can_capture else "No capture can run: see above.",
    ]
    return "\n".join(lines) + "\n"


def _process_heading(inspection: Inspection) -> str:
    target = inspection.target
    if target is None:
        return f"No process: {printable(inspection.no_target or '')}"
    return f"Process {target.pid} {printable(target.comm)}"


def _section(findings: tuple[CheckFinding, ...], layout: Layout) -> Iterator[str]:
    below = f"{INDENT}{'':{NAME_WIDTH}} {'':7}  "
    for finding in findings:
        first = f"{INDENT}{finding.name:{NAME_WIDTH}} {finding.state:7}  "
        for line in layout.wrapped(printable(finding.detail), first, below):
            yield line.rstrip()
        if finding.cost is not None:
            yield from layout.wrapped(f"what it costs: {printable(finding.cost)}", below, below)
        if finding.remedy is not None:
            yield from layout.wrapped(f"how to get it: {printable(finding.remedy)}", below, below)
