"""Finds what can be a trigger, of a process, of files and of the kernel, and has it as text."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.host.tracefs import tracefs
from kernel_delay.probes.arguments import Argument
from kernel_delay.probes.kernel import kernel_functions, tracepoint_names
from kernel_delay.probes.objects import ProbedObject, find_library
from kernel_delay.probes.user import read_all_usdt, stripped_advice, why_no_usdt


class ListedArgument(Struct, frozen=True):
    """A USDT probe's argument, decoded and in words."""

    words: str
    decoded: Argument


class ListedUsdt(Struct, frozen=True):
    """One place of a USDT probe; addresses are those that the object's own headers use."""

    trigger: str
    provider: str
    name: str
    object: str
    address: int
    file_offset: int
    semaphore_address: int | None
    arguments: tuple[ListedArgument, ...]


class ListedFunction(Struct, frozen=True):
    """A function of an object, at `file_offset`.

    The trigger names it by that offset where another function has its name.
    """

    trigger: str
    name: str
    object: str
    file_offset: int


class ProbeList(Struct, frozen=True):
    """Lists that were asked for, each None where it was not.

    `kernel` and `tracepoints` are triggers. `remarks` are lines that say what
    a list lacks, and why.
    """

    schema: Literal["kernel-delay-probes/1"] = "kernel-delay-probes/1"
    usdt: tuple[ListedUsdt, ...] | None = None
    functions: tuple[ListedFunction, ...] | None = None
    kernel: tuple[str, ...] | None = None
    tracepoints: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()


def list_probes(
    objects: Sequence[ProbedObject],
    *,
    usdt: bool = False,
    functions: str | None = None,
    kernel: str | None = None,
    tracepoints: str | None = None,
) -> ProbeList:
    """Make the lists that are asked for, `usdt` and `functions` of `objects`.

    The others are globs, as the functions below take them. Raises what finding
    the probes raises: NoInputError, InputError, UnavailableError and
    PermissionDeniedError.
    """
    of_usdt, usdt_remarks = list_usdt(objects) if usdt else (None, ())
    of_functions, functions_remarks = (
        list_functions(objects, functions) if functions is not None else (None, ())
    )
    return ProbeList(
        usdt=of_usdt,
        functions=of_functions,
        kernel=list_kernel(kernel) if kernel is not None else None,
        tracepoints=list_tracepoints(tracepoints) if tracepoints is not None else None,
        remarks=usdt_remarks + functions_remarks,
    )


def list_usdt(objects: Sequence[ProbedObject]) -> tuple[tuple[ListedUsdt, ...], tuple[str, ...]]:
    """List the USDT probes of `objects`, the executable first; and remarks."""
    found = read_all_usdt(objects)
    listed = tuple(
        ListedUsdt(
            trigger=f"u:{probe.provider}:{probe.name}",
            provider=probe.provider,
            name=probe.name,
            object=where.name,
            address=probe.address,
            file_offset=probe.file_offset,
            semaphore_address=probe.semaphore_address,
            arguments=tuple(ListedArgument(str(one), one) for one in probe.arguments),
        )
        for where, usdt in found
        for probe in usdt.probes
    )
    remarks = [
        f"{where.name}: {usdt.malformed_notes} malformed USDT notes are left out"
        for where, usdt in found
        if usdt.malformed_notes
    ]
    if not listed:
        remarks.append(f"no USDT probes: {why_no_usdt(objects, found)}")
    return listed, tuple(remarks)


def list_functions(
    objects: Sequence[ProbedObject], pattern: str
) -> tuple[tuple[ListedFunction, ...], tuple[str, ...]]:
    """List the functions that match `pattern`, [LIBRARY:]GLOB; and remarks."""
    library, _, glob = pattern.rpartition(":")
    where = find_library(objects, library) if library else objects[0]
    functions = where.functions()
    listed = tuple(
        ListedFunction(
            trigger=where.uprobe_trigger(
                one.name if len(functions.find(one.name)) == 1 else hex(one.file_offset)
            ),
            name=one.name,
            object=where.name,
            file_offset=one.file_offset,
        )
        for one in functions.matching(glob)
    )
    advice = f"{where.name} {stripped_advice(where, functions)}"
    return listed, (advice,) if functions.stripped else ()


def list_kernel(glob: str) -> tuple[str, ...]:
    """List the kernel functions that match `glob` and that a kprobe can be set at."""
    names = kernel_functions().probeable()
    return tuple(sorted(f"k:{name}" for name in names if fnmatchcase(name, glob)))


def list_tracepoints(glob: str) -> tuple[str, ...]:
    """List the tracepoints that match `glob`: SYSTEM:EVENT, or without a colon EVENT."""
    with tracefs() as root:
        names = tracepoint_names(root)
    whole = ":" in glob
    return tuple(
        f"t:{name}" for name in names if fnmatchcase(name if whole else name.split(":")[1], glob)
    )


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
