"""What this kernel, user and process allow: what `kernel-delay check` finds, line by line."""

from typing import Literal

from msgspec import Struct

from kernel_delay.host.target import ProcessTarget

State = Literal["yes", "no", "unknown"]


class CheckFinding(Struct, frozen=True):
    """Whether one thing is there.

    `detail` says what was seen. Without a thing that is `needed` no capture
    runs. Where it is missing, or may be, `cost` says what the user can't do
    and `remedy` how to get it.
    """

    name: str
    state: State
    detail: str = ""
    needed: bool = False
    cost: str | None = None
    remedy: str | None = None


class Inspection(Struct, frozen=True):
    """All findings: of the user and the machine, of the kernel, and of a process.

    `kernel` is its release and architecture. `target` is the process that
    `process` is about; without one, `no_target` says why there is none.
    `can_capture` is False when something that is needed is known to be
    missing.
    """

    schema: Literal["kernel-delay-check/1"]
    kernel: str
    machine: tuple[CheckFinding, ...]
    features: tuple[CheckFinding, ...]
    target: ProcessTarget | None
    no_target: str | None
    process: tuple[CheckFinding, ...]
    can_capture: bool


def can_capture(findings: tuple[CheckFinding, ...]) -> bool:
    """Whether nothing that is needed is known to be missing."""
    return not any(finding.needed and finding.state == "no" for finding in findings)
