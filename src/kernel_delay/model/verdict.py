"""What was found: sentences about a Sample, each with its evidence."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Who = Literal["program", "other-process", "kernel", "limit", "hypervisor", "person"]
"""Whose doing a finding is.

The program's own; another process's; the kernel's or a device's; a limit's that was set (quota,
affinity, priority); the hypervisor's; or a person's (signal, debugger, freezer).
"""


class Finding(Struct, frozen=True):
    """One sentence of the verdict, with its evidence.

    `rule` names what was found (docs/verdict.md has them all), `who` whose doing it is. A
    `remark` says where time went that the thread may not have wanted for work: waiting, or its
    own code. `share` is how much of the window it took of the thread that it hit worst, `tid`
    that thread's. `evidence` has the figures by name, in ns or as counts, and `advice` what to
    do about it.
    """

    rule: str
    who: Who
    share: float
    tid: int
    text: str
    remark: bool = False
    evidence: Mapping[str, int] = {}
    advice: str | None = None
