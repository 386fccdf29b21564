"""The page that lists the metrics: docs/reference/metrics.md."""

from kernel_delay.metrics.families import FAMILIES

HEAD = """\
# Metrics

`kernel-delay watch --metrics PORT` serves these metrics for Prometheus. `--otlp URL` sends the
same to a receiver of OpenTelemetry, where counters have no `_total`. [How to set this
up](../how-to/metrics.md) has the commands.

| metric | kind | labels | meaning |
|---|---|---|---|
"""

TAIL = """
## Labels

- `thread_class` is the thread name without the number at its end, as `handler` for `handler12`.
  The first thread of the process is `main`. There are six classes at most, chosen by the number of
  threads when the watch begins. All other threads are `other`.
- `state` on a CPU is `user`, `kernel`, `guest`, `hard_irq` or `soft_irq`. Off the CPU it is
  `runnable` (waiting for a CPU), `blocked`, `stopped`, `throttled` or `frozen`. Time that is not
  known is `unaccounted`. The states of a class add up to the seconds of its threads.
- `cause` is the [rule of the verdict](verdict.md) that explains most, or else the state with most
  time. `not_recorded`: a longer iteration came just before (`--min-gap`).
- `reason` is what the kernel functions on the stack of a wait say, as in the [JSON](json.md):
  `disk`, `futex`, `kernel_lock`, `socket_receive` and others; `short` are waits below 200 µs. There
  are 24 pairs of class and reason; later ones are `other`. The seconds of all reasons are the
  blocked time of the long iterations that have a record.
- `state` of a root is `running`, `runnable`, `throttled`, `stopped`, `frozen`, `blocked` (as for a
  disk) or `unknown`: see [wait chains](../how-to/wait-chains.md).
- `syscall` has the 14 calls with most time, from a thousandth of all time on. All others are
  `other`.
- `core` is the core of a [PMD thread](../open-vswitch/pmd-threads.md). There are 64 at most; later
  ones are `other`.
- `kind` of a loss is `missed_events` (no BPF program ran for a kernel event), `dropped_records` or
  `missed_rounds` (no room). `missed_ends`: a thread ended without its last sums.
- `kind` of a lost packet is `upcall`, `netlink_receive` (a message that a socket had no room for),
  `conntrack_drop`, `conntrack_early_drop` (an entry that made room), `port_receive`,
  `port_transmit` or `port_overrun`. In user space a port's socket had no room for the last kind.
  [Lost packets](../open-vswitch/lost-packets.md) says what each counts.

Metrics of upcalls need the kernel's datapath, and a kernel that lets its functions be traced. Those
of lost packets are of an `ovs-vswitchd`; those of flows are missing while it does not answer.
Metrics of PMD threads are the counts of `ovs-vswitchd`, from its first answer that has the thread.

## Accuracy

The BPF programs add each interval to the sums of its thread when the interval ends. A scrape reads
these sums and the open intervals.

- A scrape waits for fresh figures: a tenth of a second in general, three seconds at most. After
  three seconds it returns the last ones: see `kernel_delay_last_read_timestamp_seconds`.
- A thread that ends between two scrapes reports its sums itself. There is room for 800 such threads
  until `watch` reads them. Further ones count in `kernel_delay_losses_total{kind="missed_ends"}`.
- A thread that keeps changing while it is read has its time in the next scrape.
- Counters never decrease. If time turns out to belong to another state, later time is charged
  less, so the sum stays correct.
- System calls and iterations count when they end.
- A histogram bound is the longest length in whole nanoseconds below a power of two.
  `le="0.001048575"` counts all that took less than 2^20 ns.
- `--follow` continues the metrics with the next process of the name.

## Spans

With `--otlp` each long iteration is a span `long round` with these attributes:

- `thread.name`, `thread.id`, `process.pid`, `process.executable.name`;
- `kernel_delay.cause`, `kernel_delay.verdict` (the sentence of the record);
- `kernel_delay.STATE_ns` for each state.
"""


def table() -> str:
    """Return all metrics as rows of a table of Markdown."""
    return "".join(
        f"| `{family.exported}` | {family.kind} |"
        f" {', '.join(f'`{label}`' for label in family.labels)} | {family.help} |\n"
        for family in FAMILIES
    )


def page() -> str:
    """Return the page."""
    return HEAD + table() + TAIL
