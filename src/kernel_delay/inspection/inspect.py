"""Puts the findings together."""

import os

from kernel_delay.inspection.findings import Inspection, can_capture
from kernel_delay.inspection.kernel import kernel_findings
from kernel_delay.inspection.machine import machine_findings, read_machine_facts


def inspect_machine() -> Inspection:
    """Examine the user's rights, the machine and its kernel."""
    machine = machine_findings(read_machine_facts())
    features = kernel_findings(has_rights=can_capture(machine))
    uname = os.uname()
    return Inspection(
        schema="kernel-delay-check/1",
        kernel=f"{uname.release} {uname.machine}",
        machine=machine,
        features=features,
        can_capture=can_capture(machine + features),
    )
