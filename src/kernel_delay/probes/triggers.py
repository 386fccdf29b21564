"""The TRIGGER grammar: what the user writes, as typed values.

A trigger names an event that opens or closes a window:

    u|usdt:PROVIDER:PROBE
    t|trace:SYSTEM:EVENT
    k|kprobe:FUNCTION[+0xOFFSET]
    kr|kretprobe:FUNCTION
    up|uprobe:[LIBRARY:]FUNCTION[+0xOFFSET]    up|uprobe:[LIBRARY:]0xADDRESS
    ur|upr|uretprobe:[LIBRARY:]FUNCTION        ur|upr|uretprobe:[LIBRARY:]0xADDRESS

Nothing here looks at a process or a kernel: that is `probes.resolve`. `str()`
of a trigger is its canonical text, and parses back to an equal trigger.
"""

import re
from typing import NoReturn

from msgspec import Struct

from kernel_delay.errors import UsageError

_TYPES = "u|usdt, t|trace, k|kprobe, kr|kretprobe, up|uprobe, ur|upr|uretprobe"

# The kernel's event names are those its own is_good_name() and
# is_good_system_name() let through (kernel/trace/trace_probe.c, 6.18); they are
# also path components in tracefs, so nothing else may pass.
_TRACEPOINT_NAME = re.compile(r"[A-Za-z0-9_-]+")
_KERNEL_FUNCTION = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")
_WORD = re.compile(r"[^\s:]+")
_USER_FUNCTION = re.compile(r"[^\s:+\d][^\s:+]*")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")


class UsdtTrigger(Struct, frozen=True):
    """A statically defined probe of the process, at all the places it is in."""

    provider: str
    probe: str

    def __str__(self) -> str:
        """Return the canonical text, which parses back to an equal trigger."""
        return f"u:{self.provider}:{self.probe}"


class TracepointTrigger(Struct, frozen=True):
    """A kernel tracepoint, as in tracefs' events/SYSTEM/EVENT."""

    system: str
    event: str

    def __str__(self) -> str:
        """Return the canonical text, which parses back to an equal trigger."""
        return f"t:{self.system}:{self.event}"


class KprobeTrigger(Struct, frozen=True):
    """A kernel function: `offset` bytes into it, or (`is_return`) its return."""

    function: str
    offset: int = 0
    is_return: bool = False

    def __str__(self) -> str:
        """Return the canonical text, which parses back to an equal trigger."""
        return f"{'kr' if self.is_return else 'k'}:{self.function}{_plus(self.offset)}"


class UprobeTrigger(Struct, frozen=True):
    """A function of the process: `offset` bytes into it, or (`is_return`) its return.

    `library` is None for the process's executable. Where `function` is None,
    `offset` is counted from the start of the file: the form for a file that
    has lost its symbols.
    """

    library: str | None
    function: str | None
    offset: int = 0
    is_return: bool = False

    def __str__(self) -> str:
        """Return the canonical text, which parses back to an equal trigger."""
        library = "" if self.library is None else f"{self.library}:"
        place = hex(self.offset) if self.function is None else self.function + _plus(self.offset)
        return f"{'ur' if self.is_return else 'up'}:{library}{place}"


Trigger = UsdtTrigger | TracepointTrigger | KprobeTrigger | UprobeTrigger


def parse_trigger(text: str) -> Trigger:
    """The trigger that `text` writes; UsageError, with the form it should have, if none."""
    kind, colon, rest = text.partition(":")
    if not colon:
        raise UsageError(f"trigger {text!r} has no type: write TYPE:NAME, TYPE one of {_TYPES}")
    if not text.isprintable():
        raise UsageError(f"trigger {text!r} has characters that no name has")
    match kind:
        case "u" | "usdt":
            return _usdt(text, rest)
        case "t" | "trace":
            return _tracepoint(text, rest)
        case "k" | "kprobe":
            return _kprobe(text, rest)
        case "kr" | "kretprobe":
            return _kretprobe(text, rest)
        case "up" | "uprobe":
            return _uprobe(text, rest, is_return=False)
        case "ur" | "upr" | "uretprobe":
            return _uprobe(text, rest, is_return=True)
    raise UsageError(f"trigger {text!r} has unknown type {kind!r}: it is one of {_TYPES}")


def _usdt(text: str, rest: str) -> UsdtTrigger:
    match rest.split(":"):
        case [provider, probe] if _WORD.fullmatch(provider) and _WORD.fullmatch(probe):
            return UsdtTrigger(provider, probe)
    _malformed(text, "a USDT probe is u:PROVIDER:PROBE")


def _tracepoint(text: str, rest: str) -> TracepointTrigger:
    match rest.split(":"):
        case [system, event] if all(map(_TRACEPOINT_NAME.fullmatch, (system, event))):
            return TracepointTrigger(system, event)
    _malformed(text, "a tracepoint is t:SYSTEM:EVENT")


def _kprobe(text: str, rest: str) -> KprobeTrigger:
    function, offset = _split_offset(text, rest)
    if not _KERNEL_FUNCTION.fullmatch(function):
        _malformed(text, "a kprobe is k:FUNCTION or k:FUNCTION+0xOFFSET")
    return KprobeTrigger(function, offset)


def _kretprobe(text: str, rest: str) -> KprobeTrigger:
    if not _KERNEL_FUNCTION.fullmatch(rest):
        _malformed(text, "a kretprobe is kr:FUNCTION")
    return KprobeTrigger(rest, is_return=True)


def _uprobe(text: str, rest: str, *, is_return: bool) -> UprobeTrigger:
    # A colon can be in a path, but not in a function that C or a mangler names.
    library, colon, place = rest.rpartition(":")
    bad_library = colon and (not library or (":" in library and not library.startswith("/")))
    if _ADDRESS.fullmatch(place) and not bad_library:
        return UprobeTrigger(library or None, None, int(place, 16), is_return)
    # A return probe swaps the word on top of the stack for its own address:
    # that word is the return address at the function's first instruction only.
    function, offset = (place, 0) if is_return else _split_offset(text, place)
    if bad_library or not _USER_FUNCTION.fullmatch(function):
        kind, extra = ("uretprobe is ur", "") if is_return else ("uprobe is up", "[+0xOFFSET]")
        _malformed(text, f"a {kind}:[LIBRARY:]FUNCTION{extra} or, in a file, 0xADDRESS")
    return UprobeTrigger(library or None, function, offset, is_return)


def _split_offset(text: str, place: str) -> tuple[str, int]:
    name, plus, offset = place.partition("+")
    if not plus:
        return name, 0
    if not _ADDRESS.fullmatch(offset):
        _malformed(text, f"the offset after '+' is hexadecimal, as in {name}+0x10")
    return name, int(offset, 16)


def _plus(offset: int) -> str:
    return f"+{offset:#x}" if offset else ""


def _malformed(text: str, form: str) -> NoReturn:
    raise UsageError(f"trigger {text!r} is malformed: {form}")
