"""python -m tests.peers.run: our commands and Open vSwitch's scripts, on the same traffic.

Each is attached while ovs-vswitchd is stopped, and taken off when it is stopped again: what a
script and ours count in between is the same, or one of them is wrong. Exits with 1 unless it is.
With the module openvswitch loaded it is the kernel's datapath, and there are more of both.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from tests import ovs_with_usdt
from tests.integration import kernel_datapath
from tests.integration.json_follower import JsonFollower
from tests.integration.test_flows_command import until_there
from tests.peers.options import options_in, read_scripts
from tests.peers.pahole import pahole_substitute
from tests.peers.pairs import OF_THE_KERNEL, PACKETS, PAIRS, Counts, Pair
from tests.peers.printed import Printed
from tests.peers.scripts import scripts
from tests.peers.upstream import Upstream, answer_for

# So many that none is lost on the way to the bridge.
AT_ONCE = 40
# Until all have read what is in their buffers.
SETTLES_S = 2.0
# A round is half a second and more.
STEADY_S = 5.0


def main() -> int:
    """Compare options and counts, and print what came of it."""
    datapath: Datapath = "system" if kernel_datapath.is_there() else "netdev"
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
        pahole = pahole_substitute(binaries.ovs_vswitchd, Path(folder))
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
    answer_for(ovs, folder)
    script = Upstream(folder, pair.script, ovs.pid, *pair.options, *with_pahole)
    command = (pair.command, "-p", ovs.pid, *pair.our_options)
    if pair.line is None:
        printed = Printed(folder, *command)
        _attach(ovs, pair, printed, script)
        return pair.theirs(script.output), pair.ours(printed.output)
    lines = JsonFollower(folder, pair.line, *command)
    _attach(ovs, pair, lines, script)
    return pair.theirs(script.output), pair.ours(lines.seen())


def _attach(
    ovs: Instance, pair: Pair, ours: AbstractContextManager[object], script: Upstream
) -> None:
    if pair.together:
        _attached(ovs, ours, script)
    else:
        _attached(ovs, ours)
        _attached(ovs, script)


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
