"""Puts the findings together."""

import os

from kernel_delay.errors import KernelDelayError
from kernel_delay.host.selection import Selection, find_one
from kernel_delay.host.target import ProcessTarget
from kernel_delay.inspection.findings import Inspection, can_capture
from kernel_delay.inspection.kernel import kernel_findings
from kernel_delay.inspection.machine import machine_findings, read_machine_facts
from kernel_delay.inspection.process import process_findings


def inspect(selection: Selection) -> Inspection:
    """Examine the user's rights, the machine, its kernel, and the process.

    Where none is asked for it is the one ovs-vswitchd; that there is none, or several,
    is a finding then. Raises what find_one() raises for one that is asked for.
    """
    target, no_target = _target(selection)
    machine = machine_findings(read_machine_facts())
    features = kernel_findings(has_rights=can_capture(machine))
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
