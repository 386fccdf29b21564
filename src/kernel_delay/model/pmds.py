"""What a PMD thread of Open vSwitch did, by ovs-vswitchd's own counters."""

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
        lost_upcalls: Upcalls that failed.
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
