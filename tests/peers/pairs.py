"""Open vSwitch's scripts and the commands that do what they do, and what each of them counted."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from kernel_delay.host.syscalls import syscall

Counts = Counter[tuple[object, ...]]


# Of flows that one datapath has during the traffic: see run.py.
PACKETS = 200


class Interval(Struct):
    """A line of bridge-loop."""

    kind: str


class Round(Struct):
    """A line of revalidator."""

    n_flows: int
    revalidated: int
    poll_wait_ms: int


class Change(Struct):
    """A line of flows."""

    change: str
    ufid: str
    reason: str | None


class Operation(Struct):
    """A line of datapath-ops."""

    operation: str


class Pair(Struct, frozen=True):
    """A script with its options, our command, and how to count what each of them printed.

    One that `reads_structs` of Open vSwitch asks pahole for them. Only what attaches to the probes
    with their semaphores, as we do, can be attached `together` with us: the kernel takes uprobes at
    one place with one ref_ctr_offset (kernel/events/uprobes.c:alloc_uprobe(), 6.18). BCC counts up
    the semaphore itself, and its Python (0.26) gives no such offset: it calls bpf_attach_uprobe()
    without the last argument, so that the kernel gets what lies on the stack. A command without a
    `line` of JSON prints text, all of which `ours` gets.
    """

    script: str
    options: tuple[str, ...]
    command: str
    line: type[Struct] | None
    theirs: Callable[[str], Counts]
    ours: Callable[[Any], Counts]
    together: bool
    reads_structs: bool
    our_options: tuple[str, ...] = ()


def _intervals(output: str) -> Counts:
    kinds = {"bridge run loop time": "run", "poll_block() wait time": "wait"}
    found = re.findall(r"\] (bridge run loop time|poll_block\(\) wait time)", output)
    return Counter((kinds[words],) for words in found)


def _rounds(output: str) -> Counts:
    rows = [line.split(", ") for line in output.splitlines() if re.match(r"\d+, \d+, ", line)]
    return _steady((int(row[2]), int(row[3]), int(row[8])) for row in rows)


def _our_rounds(lines: list[Round]) -> Counts:
    return _steady((line.n_flows, line.revalidated, line.poll_wait_ms) for line in lines)


def _steady(rows: Iterable[tuple[object, ...]]) -> Counts:
    """What most rounds were while all flows were there and stayed."""
    there = Counter(row for row in rows if row[0] == PACKETS)
    return Counter(row for row, _ in there.most_common(1))


# What flow_reval_monitor.py calls the reasons that this traffic has.
_REASONS = {"Flow idle timeout": "flow_idle", "User requested flow deletion": "purge"}


def _deletions(output: str) -> Counts:
    # With the kernel's datapath it has a row of each flow that is made, too.
    rows = re.findall(r"^\d+ +[\d.]+ +([0-9a-f-]{36}) +(?!Insert )(.*?) *$", output, re.MULTILINE)
    return Counter((ufid, _REASONS.get(words, words)) for ufid, words in rows)


def _our_deletions(lines: list[Change]) -> Counts:
    # The script writes zeros for 16 bits of each UFID (format_ufid() of 3.5).
    return Counter(
        (f"{line.ufid[:24]}0000{line.ufid[28:]}", line.reason)
        for line in lines
        if line.change == "delete"
    )


# What dpif_op_nl_monitor.py calls them; a modification is a FLOW_GET there, by its number.
_OPERATIONS = {"PUT": "flow_new", "DEL": "flow_del", "EXECUTE": "packet_execute"}


def _operations(output: str) -> Counts:
    found = re.findall(r" DPIF_OP_(?:FLOW_)?(PUT|DEL|EXECUTE)\b", output)
    return Counter((_OPERATIONS[name],) for name in found)


def _our_operations(lines: list[Operation]) -> Counts:
    return Counter((line.operation,) for line in lines if line.operation in _OPERATIONS.values())


def _upcalls(output: str) -> Counts:
    """Lengths of packet and key of each."""
    rows = re.findall(r"^[\d.]+ +\d+ .* (\d+) +(\d+) *$", output, re.MULTILINE)
    return Counter(rows)


def _our_upcalls(output: str) -> Counts:
    """The same, of those that were received."""
    rows = re.findall(r"^[\d.]+ +\[\d+\] .* (\d+) +(\d+) ok *$", output, re.MULTILINE)
    return Counter(rows)


def _events_of_upcalls(output: str) -> Counts:
    """How many of each event upcall_cost.py could use, and we; each has names of its own."""
    rows = re.findall(r"^  (\S+) *: +(\d+)/ +(\d+) \[", output, re.MULTILINE)
    names = {name: re.split("__|:", name)[-1].removeprefix("ovs_") for name, _, _ in rows}
    return Counter({(names[name], "usable"): int(usable) for name, usable, _ in rows})


# Calls that wait: one may have begun before the window, and is not counted by kernel_delay.py then.
_WAITING = ("poll", "ppoll", "futex", "restart_syscall", "clock_nanosleep", "epoll_wait")


def _calls(output: str) -> Counts:
    """How often each thread made each call that does not wait; BCC does not know all names."""
    found: Counts = Counter()
    tables = re.split(r"^ *(\d*) .*\[(\w[\w ]*)\] *$", output, flags=re.MULTILINE)[1:]
    for thread, title, table in zip(tables[::3], tables[1::3], tables[2::3], strict=True):
        if title == "SYSCALL STATISTICS":
            for number, count in re.findall(r"^ {28}.{20} +(\d+) +(\d+) ", table, re.MULTILINE):
                name = syscall(int(number)).name
                if name not in _WAITING:
                    found[thread, name] += int(count)
    return found


PAIRS = (
    Pair(
        "kernel_delay.py",
        ("--sample-time", "600", "--skip-upcall-stats"),
        "capture",
        None,
        _calls,
        _calls,
        together=True,
        reads_structs=False,
        our_options=("--sample-time", "600", "--skip-upcall-stats"),
    ),
    Pair(
        "bridge_loop.bt",
        (),
        "bridge-loop",
        Interval,
        _intervals,
        lambda lines: Counter((line.kind,) for line in lines),
        together=True,
        reads_structs=False,
    ),
    Pair("reval_monitor.py", ("-g",), "revalidator", Round, _rounds, _our_rounds, False, True),
    Pair("flow_reval_monitor.py", (), "flows", Change, _deletions, _our_deletions, False, True),
)
OF_THE_KERNEL = (
    Pair(
        "dpif_op_nl_monitor.py",
        ("--trace-put-op", "--trace-del-op", "--trace-exec-op", "--nlmsg-decode", "none"),
        "datapath-ops",
        Operation,
        _operations,
        _our_operations,
        together=True,
        reads_structs=False,
    ),
    Pair("upcall_monitor.py", (), "upcall-monitor", None, _upcalls, _our_upcalls, False, False),
    Pair(
        "upcall_cost.py",
        ("--quiet",),
        "upcall-cost",
        None,
        _events_of_upcalls,
        _events_of_upcalls,
        together=False,
        reads_structs=False,
        our_options=("--quiet",),
    ),
)
"""Those that take the kernel's datapath."""
