"""Puts the findings together."""

import os

from kernel_delay.errors import KernelDelayError
from kernel_delay.host.target import ProcessTarget, find_target
from kernel_delay.inspection.findings import Inspection, can_capture
from kernel_delay.inspection.kernel import kernel_findings
from kernel_delay.inspection.machine import machine_findings, read_machine_facts
from kernel_delay.inspection.process import process_findings


def inspect(pid: int | None) -> Inspection:
    """Examine the user's rights, the machine, its kernel, and process `pid`.

    Without `pid` it is the one ovs-vswitchd; that there is none, or several,
    is a finding then. Raises NoInputError where there is no process `pid`.
    """
    target, no_target = _target(pid)
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


def _target(pid: int | None) -> tuple[ProcessTarget | None, str | None]:
    try:
        return find_target(pid), None
    except KernelDelayError as error:
        if pid is not None:
            raise
        return None, str(error)
