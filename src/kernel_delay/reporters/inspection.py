"""An Inspection as text: a line for each finding, and below it what to do."""

from collections.abc import Iterator

from kernel_delay.inspection.findings import Finding, Inspection
from kernel_delay.printable import printable

NAME_WIDTH = 20
INDENT = "  "


def render(inspection: Inspection) -> str:
    """The findings by section, and the verdict in the last line."""
    lines = [
        "This user and machine",
        *_section(inspection.machine),
        f"Kernel {printable(inspection.kernel)}",
        *_section(inspection.features),
        _process_heading(inspection),
        *_section(inspection.process),
        "A capture can run." if inspection.can_capture else "No capture can run: see above.",
    ]
    return "\n".join(lines) + "\n"


def _process_heading(inspection: Inspection) -> str:
    target = inspection.target
    if target is None:
        return f"No process: {printable(inspection.no_target or '')}"
    return f"Process {target.pid} {printable(target.comm)}"


def _section(findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield _line(finding)
        if finding.cost is not None:
            yield _below(f"what it costs: {finding.cost}")
        if finding.remedy is not None:
            yield _below(f"how to get it: {finding.remedy}")


def _line(finding: Finding) -> str:
    line = f"{INDENT}{finding.name:{NAME_WIDTH}} {finding.state:7}  {printable(finding.detail)}"
    return line.rstrip()


def _below(text: str) -> str:
    return f"{INDENT}{'':{NAME_WIDTH}} {'':7}  {printable(text)}"
