"""What was found: sentences about a Sample, each with its evidence."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Who = Literal["program", "other-process", "kernel", "limit", "hypervisor", "person", "tool"]
"""Whose doing a finding is.

The program's own; another process's; the kernel's or a device's; a limit's that was set (quota,
affinity, priority); the hypervisor's; a person's (signal, debugger, freezer); or kernel-delay's
own, which is only there as it measures.
"""


class Finding(Struct, frozen=True):
    """One verdict or remark, with its evidence.

    Attributes:
        rule: The name of the rule.
        who: Who or what caused the delay.
        share: The share of the window that the thread lost, from 0 to 1.
        tid: The thread that lost most.
        text: All sentences: what happened, the details and the advice.
        remark: The sentence shows where time went, and accuses nobody.
        evidence: The figures of the sentences, in ns or as counts.
        advice: What to do, in sentences. None: no advice.
        sentence: What happened to which thread, and for how long; without the share. Empty: the
            recording is older than this field.
        details: Further sentences: who caused it, the object, and what is not known.
    """

    rule: str
    who: Who
    share: float
    tid: int
    text: str
    remark: bool = False
    evidence: Mapping[str, int] = {}
    advice: str | None = None
    sentence: str = ""
    details: tuple[str, ...] = ()
