"""USDT and uprobe triggers → places in the files of a process."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from kernel_delay.errors import InputError, NoInputError, UnavailableError, hint, similar_names
from kernel_delay.probes import UserProbe
from kernel_delay.probes.object_layout import read_object_layout
from kernel_delay.probes.objects import ProbedObject, find_library
from kernel_delay.probes.triggers import UprobeTrigger, UsdtTrigger
from kernel_delay.probes.usdt import UsdtProbes
from kernel_delay.symbols.elf import Segment
from kernel_delay.symbols.functions import Functions

UPROBE_PMU = Path("/sys/bus/event_source/devices/uprobe")

BUILD_OPTION = "--enable-usdt-probes"
"""What Open vSwitch's configure takes."""


def resolve_usdt(trigger: UsdtTrigger, objects: Sequence[ProbedObject]) -> tuple[UserProbe, ...]:
    """Find every place of a USDT probe in `objects`, the executable and libraries.

    Raises NoInputError, with the closest that there are, if there is none.
    """
    _need_uprobes()
    found = read_all_usdt(objects)
    places = tuple(
        UserProbe(where.path, where.name, probe.file_offset, probe.semaphore_offset or 0)
        for where, usdt in found
        for probe in usdt.probes
        if (probe.provider, probe.name) == (trigger.provider, trigger.probe)
    )
    if places:
        return places
    reason = why_no_usdt(objects, found)
    names = (f"u:{probe.provider}:{probe.name}" for _, usdt in found for probe in usdt.probes)
    raise NoInputError(
        f"no USDT probe {trigger}: {reason}{hint(similar_names(str(trigger), names))}"
    )


ObjectProbes = tuple[ProbedObject, UsdtProbes]


def read_all_usdt(objects: Sequence[ProbedObject]) -> tuple[ObjectProbes, ...]:
    """Read the USDT probes of `objects`; InputError if the first is no ELF file.

    Of the others, those that are none are passed over: a process may have
    anything mapped executable, as a JIT's cache.
    """
    found = [(objects[0], objects[0].usdt_probes())]
    for where in objects[1:]:
        with suppress(InputError):
            found.append((where, where.usdt_probes()))
    return tuple(found)


def why_no_usdt(objects: Sequence[ProbedObject], found: Iterable[ObjectProbes]) -> str:
    """Say why a probe is not among those `found` in `objects`, the executable first."""
    executable = objects[0].name
    having = [where.name for where, usdt in found if usdt.probes]
    if is_ovs(executable) and not any(map(is_ovs, having)):
        return f"{executable} has none: it takes an OVS built with {BUILD_OPTION}"
    if not having:
        return f"{executable} and its libraries have none at all"
    return f"{executable} and its libraries have none of that name"


def resolve_uprobe(trigger: UprobeTrigger, objects: Sequence[ProbedObject]) -> UserProbe:
    """Find the place of a uprobe: in the executable, the first of `objects`, or a library.

    Raises NoInputError, with the closest names that there are, if there is none.
    """
    _need_uprobes()
    where = objects[0] if trigger.library is None else find_library(objects, trigger.library)
    start = 0 if trigger.function is None else _find_function(trigger, trigger.function, where)
    offset = start + trigger.offset
    code = [segment for segment in _segments(where) if segment.executable]
    if not any(part.offset <= offset < part.offset + part.size for part in code):
        listed = ", ".join(f"{p.offset:#x} to {p.offset + p.size - 1:#x}" for p in code)
        raise NoInputError(
            f"{trigger}: file offset {offset:#x} of {where.name} is not code;"
            f" its code is at {listed or 'none'}"
        )
    return UserProbe(where.path, where.name, offset, is_return=trigger.is_return)


def _find_function(trigger: UprobeTrigger, function: str, where: ProbedObject) -> int:
    functions = where.functions()
    match functions.find(function):
        case [found]:
            return found.file_offset
        case []:
            _no_function(function, where, functions)
        case several:
            starts = (one.file_offset + trigger.offset for one in several)
            forms = (str(replace(trigger, function=None, offset=start)) for start in starts)
            raise NoInputError(
                f"{where.name} has {len(several)} functions {function}:"
                f" choose one of {', '.join(forms)}"
            )


def _no_function(function: str, where: ProbedObject, functions: Functions) -> NoReturn:
    likely = hint(functions.similar(function))
    if not functions.stripped:
        raise NoInputError(f"{where.name} has no function {function}{likely}")
    advice = stripped_advice(where, functions)
    raise NoInputError(f"{where.name} exports no function {function} and {advice}{likely}")


def stripped_advice(where: ProbedObject, functions: Functions) -> str:
    """Say how to get at the functions that the stripped file `where` no longer names."""
    debug_file = functions.debug_file()
    package = f"the package of {debug_file}" if debug_file else "its debug package"
    unfetched = f", and {functions.unfetched}" if functions.unfetched else ""
    return (
        f"is stripped{unfetched}: install {package} (-dbgsym or -debuginfo),"
        f" or give an offset in the file, {where.uprobe_trigger('0xADDRESS')}"
    )


def is_ovs(path: str) -> bool:
    """Whether a file is of Open vSwitch, as its name says."""
    return os.path.basename(path).startswith(("ovs", "libopenvswitch", "libofproto", "libovs"))


def _segments(where: ProbedObject) -> tuple[Segment, ...]:
    try:
        with where.open() as file:
            return read_object_layout(file, where.name).segments
    except OSError as error:
        raise NoInputError(f"can't read {where.name}: {error.strerror}") from error


def _need_uprobes() -> None:
    if not UPROBE_PMU.exists():
        raise UnavailableError(
            "this kernel has no uprobes (it is built without CONFIG_UPROBE_EVENTS):"
            " use a tracepoint, t:SYSTEM:EVENT, or a kernel that has them"
        )
