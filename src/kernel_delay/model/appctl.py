"""What processes of Open vSwitch and OVN say of themselves, as ovs-appctl asks them."""

from collections.abc import Mapping

from msgspec import Struct


class RxQueue(Struct, frozen=True, gc=False):
    """A receive queue that a PMD thread polls: `ovs-appctl dpif-netdev/pmd-rxq-show`.

    Attributes:
        port: The port.
        queue: The number of the queue.
        enabled: The queue is polled.
        usage_percent: The share of the thread's cycles that the queue took in the last minute, in
            %. None: ovs-vswitchd does not know it yet.
        moved_from_core: The core of the PMD thread that polled the queue when the counts began.
            None: this thread did, or the queue is new.
    """

    port: str
    queue: int
    enabled: bool
    usage_percent: int | None = None
    moved_from_core: int | None = None


class PmdStats(Struct, frozen=True, gc=False):
    """What a PMD thread did from one answer of ovs-vswitchd to the next.

    ovs-vswitchd is asked before the first window and after each: `dpif-netdev/pmd-perf-show`.

    Attributes:
        counted_ns: The time that the counts are of, in ns.
        iterations: Iterations of the thread's loop over its receive queues.
        busy_iterations: Iterations that found packets.
        packets: Packets received.
        upcalls: Packets without a flow. The thread handles their upcalls itself.
        lost_upcalls: Upcalls that failed or made no flow.
        sleep_ns: Sleep on purpose (`pmd-sleep-max`), in ns.
        busy_share: The share of the thread's cycles in iterations with packets, from 0 to 1.
            Cycles off the CPU count too, sleep on purpose does not. None: ovs-vswitchd does not
            print it exactly (since 4.0).
        upcall_ns: Time in upcalls, in ns. None: it is not measured
            (`other_config:pmd-perf-metrics`), or hidden by rounding.
        longest_ns: The longest iteration took this or up to 43 % more, in ns; from 24 million
            cycles on, this or any time more. None: it is not measured
            (`other_config:pmd-perf-metrics`).
        rx_queues: The receive queues at the end of the window.
    """

    counted_ns: int
    iterations: int
    busy_iterations: int
    packets: int
    upcalls: int
    lost_upcalls: int
    sleep_ns: int = 0
    busy_share: float | None = None
    upcall_ns: int | None = None
    longest_ns: int | None = None
    rx_queues: tuple[RxQueue, ...] = ()


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
