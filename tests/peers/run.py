"""python -m tests.peers.run: our commands and Open vSwitch's scripts, on the same traffic.

Each is attached while ovs-vswitchd is stopped, and taken off when it is stopped again: what a
script and ours count in between is the same, or one of them is wrong. Exits with 1 unless it is.
With the module openvswitch loaded it is the kernel's datapath, and there are more of both.
"""

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from tests import ovs_with_usdt
from tests.integration import kernel_datapath
from tests.integration.json_follower import JsonFollower
from tests.integration.test_flows_command import until_there
from tests.peers.options import options_in, read_scripts
from tests.peers.pahole import stand_in
from tests.peers.scripts import scripts
from tests.peers.upstream import Upstream

PACKETS = 200
# So many that none is lost on the way to the bridge.
AT_ONCE = 40
# Until all have read what is in their buffers.
SETTLES_S = 2.0
# A round is half a second and more.
STEADY_S = 5.0

Counts = Counter[tuple[object, ...]]


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
    with their semaphores, as we do, can be attached `together` with us: the kernel refuses a second
    uprobe at a place without (kernel/events/uprobes.c, 6.18), as BCC's are.
    """

    script: str
    options: tuple[str, ...]
    command: str
    line: type[Struct]
    theirs: Callable[[str], Counts]
    ours: Callable[[list[Any]], Counts]
    together: bool
    reads_structs: bool


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


PAIRS = (
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
)


def main() -> int:
    """Compare options and counts, and print what came of it."""
    datapath: Datapath = "system" if Path("/sys/module/openvswitch").exists() else "netdev"
    pairs = PAIRS + OF_THE_KERNEL if datapath == "system" else PAIRS
    parser = argparse.ArgumentParser(prog="python -m tests.peers.run")
    names = [pair.script for pair in pairs]
    parser.add_argument("--script", action="append", choices=names, help="only this one")
    chosen = parser.parse_args().script or names
    console = Console(width=120)
    wrong = _options(console)
    table = Table("script", "it counted", "ours", "the same")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = os.environ.get("KERNEL_DELAY_USDT_OVS") or ovs_with_usdt.build()
        binaries = Binaries.under(Path(root))
        ovs = stack.enter_context(Instance(binaries, datapath=datapath))
        stack.enter_context(kernel_datapath.bridge(ovs))
        pahole = stand_in(binaries.ovs_vswitchd, Path(folder))
        for pair in (pair for pair in pairs if pair.script in chosen):
            own = Path(folder) / pair.command
            own.mkdir()
            theirs, ours = _measure(ovs, pair, pahole, own)
            same = bool(theirs) and theirs == ours
            wrong += not same
            table.add_row(
                pair.script, str(theirs.total()), str(ours.total()), "yes" if same else "NO"
            )
            if not same:
                alone = (dict((a - b).most_common(5)) for a, b in ((theirs, ours), (ours, theirs)))
                console.print(f"{pair.script} alone: {next(alone)} …; ours alone: {next(alone)} …")
    console.print(table)
    return 1 if wrong else 0


def _options(console: Console) -> int:
    """How many scripts have an option that options.toml does not know, each told."""
    wrong = 0
    for script in read_scripts():
        if script.name.endswith(".py"):
            missing = options_in((scripts() / script.name).read_text()) - script.options.keys()
            for option in missing:
                console.print(f"{script.name} has {option}, which is not in options.toml")
            wrong += bool(missing)
    return wrong


def _measure(ovs: Instance, pair: Pair, pahole: Path, folder: Path) -> tuple[Counts, Counts]:
    """What each counted; where both can't be attached at once, of the same traffic twice."""
    with_pahole = ("--pahole", str(pahole)) if pair.reads_structs else ()
    script = Upstream(folder, pair.script, ovs.pid, *pair.options, *with_pahole)
    ours = JsonFollower(folder, pair.line, pair.command, "-p", ovs.pid)
    if pair.together:
        _attached(ovs, ours, script)
    else:
        _attached(ovs, ours)
        _attached(ovs, script)
    return pair.theirs(script.output), pair.ours(ours.seen())


def _attached(ovs: Instance, *tools: AbstractContextManager[object]) -> None:
    """The traffic, and nothing before and after, with the tools attached."""
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000")
    with ExitStack() as stack:
        os.kill(ovs.pid, signal.SIGSTOP)
        stack.callback(os.kill, ovs.pid, signal.SIGCONT)
        for tool in tools:
            stack.enter_context(tool)
        os.kill(ovs.pid, signal.SIGCONT)
        _traffic(ovs)
        os.kill(ovs.pid, signal.SIGSTOP)
        time.sleep(SETTLES_S)


def _traffic(ovs: Instance) -> None:
    """Flows come and stay, and are purged; they come again, and idle."""
    _send_all(ovs)
    time.sleep(STEADY_S)
    ovs.appctl("revalidator/purge")
    until_there(ovs, 0)
    _send_all(ovs)
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
    until_there(ovs, 0)
    time.sleep(SETTLES_S)


def _send_all(ovs: Instance) -> None:
    for first in range(0, PACKETS, AT_ONCE):
        kernel_datapath.send(ovs, kernel_datapath.packets(AT_ONCE, first))
        until_there(ovs, first + AT_ONCE)


if __name__ == "__main__":
    sys.exit(main())
