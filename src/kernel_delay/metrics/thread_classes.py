"""Threads by class: a series is of a class, as threads come and go."""

import re
from collections import Counter
from collections.abc import Iterable

from kernel_delay.printable import printable

OTHER = "other"
MAIN = "main"

OVS_CLASSES = ("handler", "revalidator", "pmd", "urcu")
"""Of Open vSwitch's threads; lib/ovs-thread.c and lib/dpif-netdev.c name them, a number behind."""

MOST_CLASSES = 6
"""With the main thread's and what is left: together with the rest, up to 300 series."""

# As of pmd-c03/id:12, the number of a core and an id.
_PMD = re.compile(r"pmd-c\d+/id:\d*$")
_NUMBER = re.compile(r"[^A-Za-z]*\d+$")


def base_name(name: str) -> str:
    """Return a thread's name, safe to print, without the number at its end and what leads to it."""
    # Here, where names that print alike become one class: a label must not be there twice.
    name = printable(name)
    if _PMD.match(name):
        return "pmd"
    return _NUMBER.sub("", name) or OTHER


class ThreadClasses:
    """The classes of one program's threads: the first names that are seen, and no more."""

    def __init__(self, *, is_open_vswitch: bool) -> None:
        """Know Open vSwitch's own from the beginning; it has no others."""
        self._names = {MAIN, OTHER, *(OVS_CLASSES if is_open_vswitch else ())}
        self._is_fixed = is_open_vswitch

    def learn(self, names: Iterable[str]) -> None:
        """Have classes of these threads, of those that there are most of, while there is room."""
        if self._is_fixed:
            return
        counted = Counter(base_name(name) for name in names)
        for name, _ in counted.most_common():
            if len(self._names) >= MOST_CLASSES:
                return
            self._names.add(name)

    def of(self, name: str, *, is_main: bool) -> str:
        """Return the class of a thread of that name."""
        if is_main:
            return MAIN
        found = base_name(name)
        # Any thread may be called as the first one's class.
        return found if found in self._names and found != MAIN else OTHER
