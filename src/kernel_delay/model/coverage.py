"""What Open vSwitch and OVN counted and timed themselves: coverage counters and stopwatches."""

from collections.abc import Mapping

from msgspec import Struct


class Stopwatch(Struct, frozen=True):
    """A stopwatch of an OVN process: `ovn-appctl stopwatch/show`.

    Attributes:
        name: The part of its work that is timed.
        samples: How often that part ended from one answer to the next.
        average_ns: The short term average at the second answer, in ns.
        longest_ns: The longest sample between the answers, in ns. None: it was no longer than the
            longest one before.
    """

    name: str
    samples: int
    average_ns: int
    longest_ns: int | None = None


class Coverage(Struct, frozen=True):
    """What a process of Open vSwitch or OVN counted from one of its answers to the next.

    Attributes:
        asked_ns: The time from one answer to the next, in ns. 0: there are none.
        counters: How often each event happened (`ovs-appctl coverage/show`), by name; most
            frequent first. Events that did not happen are missing.
        stopwatches: The stopwatches that had samples, longest first.
        unread: Why there are no answers. None: there are.
    """

    asked_ns: int = 0
    counters: Mapping[str, int] = {}
    stopwatches: tuple[Stopwatch, ...] = ()
    unread: str | None = None
