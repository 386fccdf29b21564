"""Kernel addresses → names, by /proc/kallsyms (kernel/kallsyms.c, 6.18)."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from kernel_delay.symbols.frames import Frame, Stack

KALLSYMS = Path("/proc/kallsyms")
TEXT = "tTwW"

# A line is an address, so that lines are in the order of these; what is there, and its name.
_DIGITS = 16
_KIND = 17
_NAME = 19

HIDDEN = (
    "kernel symbols are hidden: run as root with CAP_SYSLOG, "
    "and with the sysctl kernel.kptr_restrict at 0 or 1"
)


class KernelSymbols:
    """The functions of the running kernel, its modules and its BPF programs.

    `reason` says in one line why there are none, and is None when there are.
    """

    def __init__(self, path: Path = KALLSYMS) -> None:
        """Look whether there are any; they are read when the first address is named.

        That takes 50 ms or more, which a window that is to open need not wait for. Modules loaded
        later are not known.
        """
        self._path = path
        self.reason = _reason(path)

    def symbolise(self, pc: int, exact: bool = True) -> Frame:
        """Name one address; a return address (not `exact`) by the call before it."""
        within = f"{pc if exact else pc - 1:0{_DIGITS}x}"
        i = bisect_right(self._addresses, within) - 1
        if i < 0:
            return Frame(pc, None, 0, "kernel")
        address = self._addresses[i]
        # Of several at an address the first listed.
        first = self._functions[bisect_left(self._addresses, address)]
        name, _, module = first[_NAME:].partition("\t")
        return Frame(pc, name, pc - int(address, 16), module.strip("[]") or "kernel")

    @cached_property
    def _functions(self) -> Sequence[str]:
        """The lines of functions, by address."""
        if self.reason is not None:
            return ()
        lines = self._path.read_text(errors="backslashreplace").splitlines()
        return sorted(filter(_is_function, lines), key=_address)

    @cached_property
    def _addresses(self) -> Sequence[str]:
        return tuple(map(_address, self._functions))

    def name_of(self, address: int) -> str | None:
        """Return the name of what the kernel or a module has at just that address, as a lock.

        None if that has none of its own, or the kernel shows only functions (CONFIG_KALLSYMS_ALL).
        """
        return self._objects.get(f"{address:0{_DIGITS}x}")

    @cached_property
    def _objects(self) -> Mapping[str, str]:
        """The names of what is no function, by address: many threads may wait for one lock."""
        if self.reason is not None:
            return {}
        lines = self._path.read_text(errors="backslashreplace").splitlines()
        objects = (line for line in lines if not _is_function(line))
        return {_address(line): line[_NAME:].partition("\t")[0] for line in objects}

    def frames(self, stack: Stack) -> tuple[Frame, ...]:
        """Name a kernel stack's frames."""
        pairs = zip(stack.pcs, stack.exact, strict=True)
        return tuple(self.symbolise(pc, exact) for pc, exact in pairs)


def _reason(path: Path) -> str | None:
    """Return why there are no symbols, by the first line of a function whose address is shown."""
    try:
        with path.open(errors="backslashreplace") as lines:
            is_shown = any(_is_function(line) and int(_address(line), 16) for line in lines)
    except OSError as error:
        return f"kernel symbols can't be read: {path}: {error.strerror}"
    return None if is_shown else HIDDEN


def _is_function(line: str) -> bool:
    return line[_KIND] in TEXT


def _address(line: str) -> str:
    return line[:_DIGITS]
