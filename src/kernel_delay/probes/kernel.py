"""What of the running kernel a trigger can be set at: functions, by kprobes, and tracepoints."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from kernel_delay.errors import (
    KernelDelayError,
    NoInputError,
    PermissionDeniedError,
    UnavailableError,
    hint,
    similar_names,
)
from kernel_delay.host.tracefs import detached, tracefs
from kernel_delay.probes import KernelProbe, Tracepoint

KPROBE_PMU = Path("/sys/bus/event_source/devices/kprobe")
KALLSYMS = Path("/proc/kallsyms")
DEBUGFS = Path("/sys/kernel/debug")

# Text and weak symbols of /proc/kallsyms (proc(5)), but not those that objtool gives
# to the padding in front of functions.
_ADDRESS_AND_FUNCTION = re.compile(rb"^([0-9a-f]+) [tTwW] (?!__pfx_|__cfi_)(\S+)", re.MULTILINE)

# In place of all addresses, where the user may not know them (kptr_restrict, proc_sys_kernel(5)).
_HIDDEN = b"0" * 16


class KernelFunctions(Struct, frozen=True):
    """The functions of the kernel and its modules.

    `count` is how many functions share a name: static ones do. `traceable` are
    those that ftrace can reach, `blacklist` those that kprobes must not; each
    is None where the kernel does not list them.
    """

    count: dict[str, int]
    traceable: frozenset[str] | None
    blacklist: frozenset[str] | None

    def find(self, function: str, offset: int, is_return: bool) -> KernelProbe:
        """Find where the probe goes; NoInputError or UnavailableError if it can't go there."""
        if function not in self.count:
            likely = similar_names(function, self.probeable())
            raise NoInputError(
                f"no kernel function {function} (it may be inlined, or in a module that is not"
                f" loaded){hint(f'k:{name}' for name in likely)}"
            )
        reason = self._obstacle(function)
        if reason is not None:
            raise UnavailableError(f"the kernel function {function} can't be probed: {reason}")
        return KernelProbe(function, offset, is_return)

    def probeable(self) -> Iterator[str]:
        """Name each function that `find` accepts, in no order."""
        return (function for function in self.count if self._obstacle(function) is None)

    def _obstacle(self, function: str) -> str | None:
        if self.blacklist is not None and function in self.blacklist:
            return "it is on the kernel's kprobe blacklist; choose one that calls it"
        # kprobe events refuse what ftrace can't reach (kernel/trace/trace_kprobe.c,
        # within_notrace_func(), 6.18).
        if self.traceable is not None and function not in self.traceable:
            return "the kernel is built not to trace it (notrace); choose one that calls it"
        if self.count[function] > 1:
            return f"{self.count[function]} functions have that name; choose one that calls it"
        return None


def kernel_functions() -> KernelFunctions:
    """Read the running kernel's functions; UnavailableError where it has no kprobes."""
    if not KPROBE_PMU.exists():
        raise UnavailableError(
            "this kernel has no kprobes (it is built without CONFIG_KPROBE_EVENTS):"
            " use a tracepoint, t:SYSTEM:EVENT, or a kernel that has them"
        )
    count, aliases = read_kallsyms(KALLSYMS)
    return KernelFunctions(
        count,
        with_aliases(_traceable(), aliases),
        with_aliases(_blacklist(), aliases),
    )


def read_kallsyms(path: Path) -> tuple[dict[str, int], tuple[frozenset[str], ...]]:
    """Read /proc/kallsyms, which lists a function a line, at once: it is long, and made anew.

    Returns how many functions have each name, and which names are of one
    function. So are a syscall's __x64_sys_… and __ia32_sys_… if it takes no
    arguments.
    """
    count: Counter[bytes] = Counter()
    names: dict[bytes, list[bytes]] = {}
    for address, name in _ADDRESS_AND_FUNCTION.findall(path.read_bytes()):
        count[name] += 1
        names.setdefault(address, []).append(name)
    names.pop(_HIDDEN, None)
    aliases = tuple(frozenset(map(_text, group)) for group in names.values() if len(group) > 1)
    return {_text(name): number for name, number in count.items()}, aliases


def _text(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def with_aliases(
    names: frozenset[str] | None, aliases: tuple[frozenset[str], ...]
) -> frozenset[str] | None:
    """Add to the names their aliases: the kernel's lists have one name for an address."""
    if names is None:
        return None
    return names.union(*(group for group in aliases if not group.isdisjoint(names)))


def read_traceable(tracing: Path) -> frozenset[str] | None:
    """Read the functions that ftrace can reach; None where the kernel does not list them."""
    return _column(tracing / "available_filter_functions", column=0)


def read_blacklist(debugfs: Path) -> frozenset[str] | None:
    """Read the functions that kprobes must not touch; None where the kernel does not list them."""
    return _column(debugfs / "kprobes" / "blacklist", column=1)


def _column(path: Path, column: int) -> frozenset[str] | None:
    try:
        lines = path.read_text(errors="backslashreplace").splitlines()
    except OSError:
        return None
    return frozenset(words[column] for line in lines if len(words := line.split()) > column)


def _traceable() -> frozenset[str] | None:
    try:
        with tracefs() as tracing:
            return read_traceable(tracing)
    except KernelDelayError:
        return None


def _blacklist() -> frozenset[str] | None:
    mounted = read_blacklist(DEBUGFS)
    if mounted is not None:
        return mounted
    try:
        with detached("debugfs") as debugfs:
            return read_blacklist(debugfs)
    except KernelDelayError:
        return None


def find_tracepoint(tracefs: Path, system: str, event: str) -> Tracepoint:
    """Find a tracepoint under `tracefs`; NoInputError, with the closest, if there is none."""
    try:
        number = (tracefs / "events" / system / event / "id").read_text()
    except (FileNotFoundError, NotADirectoryError):
        raise NoInputError(_missing(system, event, tracepoint_names(tracefs))) from None
    except PermissionError as error:
        raise PermissionDeniedError(
            f"tracepoint t:{system}:{event} can't be read by this user: run as root"
        ) from error
    return Tracepoint(system, event, int(number))


def tracepoint_names(tracefs: Path) -> tuple[str, ...]:
    """Every tracepoint there is, as SYSTEM:EVENT, sorted."""
    # `available_events` names them all in one read, but a locked-down kernel denies it.
    try:
        return tuple(sorted((tracefs / "available_events").read_text().split()))
    except PermissionError:
        events = (tracefs / "events").glob("*/*/id")
        return tuple(sorted(f"{path.parts[-3]}:{path.parts[-2]}" for path in events))


def _missing(system: str, event: str, names: Iterable[str]) -> str:
    names = tuple(names)
    if any(name.startswith(f"{system}:") for name in names):
        likely = similar_names(f"{system}:{event}", names)
        return f"no tracepoint t:{system}:{event}{hint(f't:{name}' for name in likely)}"
    systems = similar_names(system, sorted({name.partition(":")[0] for name in names}))
    elsewhere = tuple(name for name in names if name.endswith(f":{event}"))
    likely = tuple(f"t:{name}" for name in elsewhere) or tuple(f"t:{name}:…" for name in systems)
    return (
        f"no tracepoint t:{system}:{event}: this kernel has no system {system!r}"
        f" (a module's is there once the module is loaded){hint(likely[:3])}"
    )
