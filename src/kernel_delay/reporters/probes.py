"""What can be a trigger, as text: one a line, the trigger first."""

from collections.abc import Iterator, Sequence

from kernel_delay.printable import printable
from kernel_delay.probes.listing import ListedFunction, ListedUsdt, ProbeList

_USDT_HEADINGS = ("USDT PROBE", "ADDRESS", "SEMAPHORE", "OBJECT", "ARGUMENTS")
_FUNCTION_HEADINGS = ("FUNCTION", "FILE OFFSET", "OBJECT", "NAME")


def render(found: ProbeList) -> str:
    """The lists in columns, each with its headings, and the remarks."""
    parts = ["".join(f"{line}\n" for line in lines) for lines in _lists(found)]
    return "\n".join(parts) + "".join(f"# {printable(remark)}\n" for remark in found.remarks)


def _lists(found: ProbeList) -> Iterator[Iterator[str]]:
    if found.usdt is not None:
        yield _columns(_USDT_HEADINGS, [_usdt(probe) for probe in found.usdt])
    if found.functions is not None:
        yield _columns(_FUNCTION_HEADINGS, [_function(function) for function in found.functions])
    if found.kernel is not None:
        yield _columns(("KERNEL FUNCTION",), [(name,) for name in found.kernel])
    if found.tracepoints is not None:
        yield _columns(("TRACEPOINT",), [(name,) for name in found.tracepoints])


def _usdt(probe: ListedUsdt) -> tuple[str, ...]:
    semaphore = "-" if probe.semaphore_address is None else hex(probe.semaphore_address)
    arguments = ", ".join(argument.words for argument in probe.arguments)
    return probe.trigger, hex(probe.address), semaphore, probe.object, arguments or "-"


def _function(function: ListedFunction) -> tuple[str, ...]:
    return function.trigger, hex(function.file_offset), function.object, function.name


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as wide as their widest; none at all is said in words."""
    printed = [headings, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*printed, strict=True)]
    for row in printed:
        yield "  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
    if not rows:
        yield "(none)"
