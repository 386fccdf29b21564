"""Processes of the same program as one at the end of a chain, that something held meanwhile."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from msgspec import Struct

from kernel_delay.host.held_processes import Held, held, held_like
from kernel_delay.host.target import name_of, title_of
from kernel_delay.model import ChainThread, HeldProcess

MOST_HELD = 8
"""Of each process at the end of a chain."""


class _Seen(Struct, frozen=True):
    """What a process was seen to be, and since when it was seen so."""

    held: Held
    since_ns: int


class Siblings:
    """Those of the processes that it was asked for, as they were seen."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seen: dict[int, _Seen] = {}
        self._like: dict[int, list[int]] = {}

    def look(self, pids: Iterable[int], now_ns: int) -> None:
        """Look for those of each process, once a window."""
        new = set(pids) - self._like.keys()
        self._like.update((pid, []) for pid in new)
        for pid, other, found in held_like(new):
            if len(self._like[pid]) >= MOST_HELD:
                continue
            self._like[pid].append(other)
            if other not in self._seen or self._seen[other].held != found:
                self._seen[other] = _Seen(found, now_ns)

    def held(
        self,
        pid: int,
        start_ns: int,
        stop_ns: int,
        stopper: Callable[[int], ChainThread | None],
    ) -> Iterator[HeldProcess]:
        """Yield those of a process that were held up to the end of the window, and still are."""
        for other in self._like.get(pid, ()):
            seen = self._seen[other]
            if held(other) != seen.held or stop_ns <= seen.since_ns:
                continue
            with suppress(OSError):
                yield HeldProcess(
                    pid,
                    other,
                    name_of(other),
                    seen.held.state,
                    stop_ns - max(start_ns, seen.since_ns),
                    title_of(other),
                    stopper(other) if seen.held.state == "stopped" else None,
                )

    def forget(self) -> None:
        """A window is over: each is looked for again."""
        kept = {other for found in self._like.values() for other in found}
        self._seen = {other: seen for other, seen in self._seen.items() if other in kept}
        self._like.clear()
