"""python -m tests.peers.cost: what following a datapath of many flows costs Open vSwitch, and us.

With each monitor in turn: how long a round of the revalidators takes by Open vSwitch's own measure,
how much CPU time they take, how large the monitor gets, and what it says that it lost; and how many
upcalls a second it leaves. Before each of these comes a measurement without any, as a busy machine
is not the same all the time. With the module openvswitch loaded it is the kernel's datapath, and
there are more monitors.
"""

import argparse
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from lab.traffic import upcalls_in_user_space
from tests import commands, ovs_with_usdt
from tests.integration import kernel_datapath
from tests.peers.pahole import pahole_substitute
from tests.peers.upstream import Upstream, answer_for

FLOWS = 100_000
MEASURED_S = 10.0
STARTS_S = 3.0
LOOKS_S = 0.2

OURS = {"bridge-loop": ("-q",), "revalidator": ("-q",), "flows": ("-q",)}
THEIRS = {"reval_monitor.py": ("-g",), "flow_reval_monitor.py": ()}
READS_STRUCTS = THEIRS.keys()
OURS_OF_THE_KERNEL = {
    "datapath-ops": ("-q",),
    "upcall-monitor": ("-r", "error"),
    "upcall-cost": ("-q",),
}
THEIRS_OF_THE_KERNEL = {
    "dpif_op_nl_monitor.py": ("--trace-put-op", "--trace-del-op", "--trace-exec-op", "-n", "none"),
    "upcall_monitor.py": (),
    "upcall_cost.py": ("-q",),
}


# What ours say when they are; upcall-monitor has a head alone, as upstream's.
_ATTACHED = re.compile(r"Ctrl-C ends it|^TIME ", re.MULTILINE)


class Monitor(NamedTuple):
    """What is attached by `attach`, which yields its PID; then `lost` says what that lost."""

    name: str
    attach: Callable[[], AbstractContextManager[int]]
    lost: Callable[[], str]


def main() -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.cost")
    parser.add_argument("--flows", type=int, default=FLOWS)
    parser.add_argument("--only", choices=("rounds", "upcalls"))
    parser.add_argument("--seconds", type=float, default=MEASURED_S, help="how long each")
    parser.add_argument("--without-scripts", action="store_true", help="ours alone")
    options = parser.parse_args()
    console = Console(width=100)
    datapath: Datapath = "system" if kernel_datapath.is_there() else "netdev"
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        root = os.environ.get("KERNEL_DELAY_USDT_OVS") or ovs_with_usdt.build()
        binaries = Binaries.under(Path(root))
        ovs = stack.enter_context(Instance(binaries, datapath=datapath))
        stack.enter_context(kernel_datapath.bridge(ovs))
        monitors = [*_ours(ovs, Path(name))]
        if not options.without_scripts:
            monitors += _theirs(ovs, Path(name), binaries)
        if options.only != "rounds":
            console.print(_upcall_table(ovs, monitors, options.seconds))
        if options.only != "upcalls":
            console.print(_round_table(ovs, monitors, options.flows, options.seconds))
    return 0


def _round_table(ovs: Instance, monitors: list[Monitor], flows: int, seconds: float) -> Table:
    """Rounds of so many flows that stay."""
    table = Table(
        "monitor", "flows", "round ms", "revalidators' CPU %", "monitor's RSS MiB", "it lost"
    )
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000")
    kernel_datapath.fill(ovs, flows)
    for monitor in monitors:
        table.add_row(*_rounds("none", ovs, None, seconds), "-")
        with monitor.attach() as pid:
            cells = _rounds(monitor.name, ovs, pid, seconds)
        table.add_row(*cells, monitor.lost())
        print(*cells, file=sys.stderr)
    return table


def _upcall_table(ovs: Instance, monitors: list[Monitor], seconds: float) -> Table:
    """Upcalls of as many new flows as this machine makes; idle ones go after half a second."""
    table = Table("monitor", "upcalls a second", "of none just before", "it lost")
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
    for monitor in monitors:
        print(f"{monitor.name} …", file=sys.stderr)
        none = _upcall_rate(ovs, seconds)
        with monitor.attach():
            found = _upcall_rate(ovs, seconds)
        table.add_row("none", f"{none:,.0f}", "", "")
        table.add_row(monitor.name, f"{found:,.0f}", f"{100 * found / none:.0f} %", monitor.lost())
        print(f"{none:,.0f} upcalls a second without, {found:,.0f} with it", file=sys.stderr)
    return table


def _upcall_rate(ovs: Instance, seconds: float) -> float:
    """How many upcalls a second were answered while all that could be sent was."""
    before, begun = _missed(ovs), time.monotonic()
    ovs.in_network(kernel_datapath.flood(seconds))
    return (_missed(ovs) - before) / (time.monotonic() - begun)


def _missed(ovs: Instance) -> int:
    """Packets for which the datapath had no flow, so far, by its own count."""
    if ovs.datapath == "system":
        shown = ovs.appctl("dpctl/show", "-s", "system@ovs-system")
        # Those that are lost come to no handler.
        (missed, lost), *_ = re.findall(r"missed:(\d+) lost:(\d+)", shown)
        return int(missed) - int(lost)
    return upcalls_in_user_space(ovs)


def _ours(ovs: Instance, folder: Path) -> Iterator[Monitor]:
    of_the_kernel = OURS_OF_THE_KERNEL if ovs.datapath == "system" else {}
    for command, options in {**OURS, **of_the_kernel}.items():
        output = folder / f"{command}.output"
        yield Monitor(
            command,
            partial(_our_command, ovs, output, command, *options),
            partial(_lost_by_us, output),
        )


@contextmanager
def _our_command(ovs: Instance, path: Path, command: str, *options: str) -> Iterator[int]:
    """Our command, until Ctrl-C; yields its PID."""
    with path.open("w") as output:
        process = commands.start(
            command, "-p", ovs.pid, *options, stdout=output.fileno(), stderr=output.fileno()
        )
        while not _ATTACHED.search(path.read_text()):
            if process.poll() is not None:
                raise SystemExit(f"{command}: {path.read_text()}")
            time.sleep(LOOKS_S)
        yield process.pid
        process.send_signal(signal.SIGINT)
        process.wait()


def _lost_by_us(output: Path) -> str:
    """What it says of that at its end."""
    found = re.search(r"([\d,]+) [\w ]*(lost|missed)", output.read_text())
    return found[1] if found else "0"


def _theirs(ovs: Instance, folder: Path, binaries: Binaries) -> Iterator[Monitor]:
    pahole = ("--pahole", str(pahole_substitute(binaries.ovs_vswitchd, folder)))
    answer_for(ovs, folder)
    of_the_kernel = THEIRS_OF_THE_KERNEL if ovs.datapath == "system" else {}
    for script, options in {**THEIRS, **of_the_kernel}.items():
        reads = pahole if script in READS_STRUCTS else ()
        upstream = Upstream(folder, script, ovs.pid, *options, *reads)
        yield Monitor(script, partial(_their_script, upstream), partial(_lost_by_it, upstream))


@contextmanager
def _their_script(upstream: Upstream) -> Iterator[int]:
    with upstream:
        yield upstream.pid


def _lost_by_it(upstream: Upstream) -> str:
    """What it says of that at its end, if it comes to it."""
    lost = re.search(r"captured, (\d+) were", upstream.output)
    by_itself = lost[1] if lost else "0"
    return by_itself if upstream.ended else "(does not end)"


def _rounds(name: str, ovs: Instance, pid: int | None, seconds: float) -> tuple[str, ...]:
    print(f"{name} …", file=sys.stderr)
    time.sleep(STARTS_S)
    begun_ns, begun = time.monotonic_ns(), _revalidators_ns(ovs.pid)
    rounds_ms = []
    while time.monotonic_ns() - begun_ns < seconds * 1e9:
        # By itself it falls with each round that is slow, and flows go.
        ovs.appctl("upcall/set-flow-limit", kernel_datapath.FLOW_LIMIT)
        rounds_ms.append(_round_ms(ovs))
        time.sleep(LOOKS_S)
    took = time.monotonic_ns() - begun_ns
    share = (_revalidators_ns(ovs.pid) - begun) / took
    return (
        name,
        f"{kernel_datapath.current_flows(ovs):,}",
        f"{statistics.median(rounds_ms):.0f}",
        f"{100 * share:.0f}",
        "-" if pid is None else f"{_resident_mib(pid):.0f}",
    )


def _round_ms(ovs: Instance) -> int:
    """How many milliseconds the last round took, by Open vSwitch's own measure."""
    duration = re.search(r"dump duration *: *(\d+)ms", ovs.appctl("upcall/show"))
    assert duration is not None
    return int(duration[1])


def _revalidators_ns(pid: int) -> int:
    """The CPU time of the threads that revalidate, with what is done in them for a probe."""
    return sum(
        int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
        if (task / "comm").read_text().startswith("revalidator")
    )


def _resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", text)
    return int(kib) / 1024


if __name__ == "__main__":
    sys.exit(main())
