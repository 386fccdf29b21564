"""Kernel addresses → names, by /proc/kallsyms (kernel/kallsyms.c, 6.18)."""

from bisect import bisect_right
from pathlib import Path

from kernel_delay.symbols.frames import Frame, Stack

KALLSYMS = Path("/proc/kallsyms")
TEXT = "tTwW"
HIDDEN = (
    "kernel symbols are hidden: run as root with CAP_SYSLOG, "
    "and with the sysctl kernel.kptr_restrict at 0 or 1"
)


class KernelSymbols:
    """The functions of the running kernel, its modules and its BPF programs.

    `reason` says in one line why there are none, and is None when there are.
    """

    def __init__(self, path: Path = KALLSYMS) -> None:
        """Read the symbols; modules loaded later are not known."""
        self.reason: str | None = None
        self._addresses: list[int] = []
        self._names: list[str] = []
        try:
            symbols = _text_symbols(path)
        except OSError as error:
            self.reason = f"kernel symbols can't be read: {path}: {error.strerror}"
            return
        if not symbols or not symbols[-1][0]:
            self.reason = HIDDEN
            return
        self._addresses = [address for address, _ in symbols]
        self._names = [name for _, name in symbols]

    def symbolise(self, pc: int, exact: bool = True) -> Frame:
        """Name one address; a return address (not `exact`) by the call before it."""
        i = bisect_right(self._addresses, pc if exact else pc - 1) - 1
        if i < 0:
            return Frame(pc, None, 0, "kernel")
        name, _, module = self._names[i].partition("\t")
        return Frame(pc, name, pc - self._addresses[i], module.strip("[]") or "kernel")

    def frames(self, stack: Stack) -> tuple[Frame, ...]:
        """Name a kernel stack's frames."""
        pairs = zip(stack.pcs, stack.exact, strict=True)
        return tuple(self.symbolise(pc, exact) for pc, exact in pairs)


def _text_symbols(path: Path) -> list[tuple[int, str]]:
    """Address and name, with a module's after a tab; of several at an address the first listed."""
    symbols: dict[int, str] = {}
    for line in path.read_text(errors="backslashreplace").splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in TEXT:
            symbols.setdefault(int(address, 16), name)
    return sorted(symbols.items())
