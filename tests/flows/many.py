"""python -m tests.flows.many: 100,000 flows in user space, beside what Open vSwitch says of them.

With each of Debian's Open vSwitches (3.1, 3.5, 4.0) flows are made by real packets, meet the flow
limit, and go at once. Meanwhile `revalidator` and, from 3.4 on, `flows` record, and a capture looks
at the limit. A table has what these say and what ovs-appctl says; exit status 1 if they differ, or
if something was lost and not said.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import kernel_delay
from kernel_delay.monitors.flows.events import FlowEvent
from kernel_delay.monitors.revalidator.events import RevalidatorRound
from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands, ovs_with_usdt
from tests.integration import kernel_datapath
from tests.watching.churn import Monitor

SUITES = {"bookworm": ("revalidator",), "trixie": ("revalidator", "flows")}
SUITES["unstable"] = SUITES["trixie"]
FLOWS = 100_000
BEYOND = 500
STAY = ("other_config:max-idle=3600000", "other_config:flow-limit=1000000")
# Threads add up what they counted once a second or so.
COUNTED_S = 3.0
LIMIT_S = 300.0


class Row(NamedTuple):
    """What was staged, what is said of it, and what ovs-appctl says."""

    staged: str
    command: str
    ours: int
    theirs: int
    asked: str

    def __str__(self) -> str:
        """As a row of Markdown."""
        same = "same" if self.ours == self.theirs else "DIFFERS"
        said = f"{self.command}: {self.ours:,} | {self.asked}: {self.theirs:,}"
        return f"| {self.staged} | {said} | {same} |"


def main() -> int:
    """Run each of the Open vSwitches; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.flows.many")
    parser.add_argument("--flows", type=int, default=FLOWS)
    parser.add_argument("--suite", action="append", choices=SUITES)
    options = parser.parse_args()
    differ = False
    for suite in options.suite or SUITES:
        binaries = Binaries.under(ovs_with_usdt.build(suite))
        with tempfile.TemporaryDirectory() as folder, Instance(binaries) as ovs:
            print(f"\n{ovs.appctl('version').splitlines()[0]}\n", flush=True)
            print("| staged | kernel-delay | ovs-appctl | |\n|---|---|---|---|")
            with kernel_datapath.bridge(ovs):
                for row in _rows(ovs, Path(folder), SUITES[suite], options.flows):
                    print(row, flush=True)
                    differ |= row.ours != row.theirs
    return int(differ)


def _rows(ovs: Instance, folder: Path, names: tuple[str, ...], flows: int) -> Iterator[Row]:
    ovs.vsctl("set", "Open_vSwitch", ".", *STAY)
    monitors = [
        Monitor(folder, ovs.pid, name, "-q", "-o", str(folder / f"{name}.kdr")) for name in names
    ]
    kernel_datapath.fill(ovs, flows, limit="1000000")
    ovs.appctl("revalidator/wait")
    made = kernel_datapath.current_flows(ovs)
    filled_ns = time.monotonic_ns()
    ovs.appctl("revalidator/wait")
    ovs.appctl("revalidator/wait")
    yield from _limited(ovs, folder)
    # A round goes on meanwhile, and what it deletes is no purge.
    there = kernel_datapath.current_flows(ovs)
    purged_ns = time.monotonic_ns()
    ovs.appctl("revalidator/purge")
    _until(lambda: kernel_datapath.current_flows(ovs) == 0)
    time.sleep(COUNTED_S)
    for monitor in monitors:
        monitor.end()
    rounds = [
        each
        for each in kernel_delay.open_recording(folder / "revalidator.kdr").events()
        if isinstance(each, RevalidatorRound)
    ]
    full = next(each for each in rounds if each.start_ns > filled_ns)
    yield Row("new flows come", "revalidator, FLOWS", full.n_flows, made, "upcall/show")
    if "flows" in names:
        changes = [
            each
            for each in kernel_delay.open_recording(folder / "flows.kdr").events()
            if isinstance(each, FlowEvent)
        ]
        kept = Counter(each.change for each in changes if each.time_ns < purged_ns)
        left = kept["insert"] - kept["delete"]
        yield Row("the same", "flows, made and not deleted", left, there, "upcall/show")
        purged = sum(each.change == "delete" and each.reason == "purge" for each in changes)
        lost = sum(kernel_delay.open_recording(folder / "flows.kdr").trailer.lost.values())
        said = f"flows, purge ({purged:,}) and said to be lost"
        yield Row("revalidator/purge", said, purged + lost, there, "upcall/show before")
    lost = sum(kernel_delay.open_recording(folder / "revalidator.kdr").trailer.lost.values())
    yield Row("all of it", "revalidator, said to be lost", lost, 0, "nothing is missing above")


def _limited(ovs: Instance, folder: Path) -> Iterator[Row]:
    """Have the limit be as many as are there, and send packets of other flows."""
    file, there = folder / "limit.kdr", kernel_datapath.current_flows(ovs)
    ovs.vsctl("set", "Open_vSwitch", ".", f"other_config:flow-limit={there}")
    ovs.appctl("revalidator/wait")
    ovs.appctl("revalidator/wait")
    capture = commands.start(
        *("-p", ovs.pid, "--sample-time", "8", "--summary", "-o", file),
        stdout=subprocess.DEVNULL,
        stderr=2,
    )
    time.sleep(COUNTED_S)
    before = _without_flow(ovs)
    kernel_datapath.send_of_flows(ovs, 3 * FLOWS, BEYOND)
    capture.wait(LIMIT_S)
    time.sleep(COUNTED_S)
    packets = _without_flow(ovs) - before
    (sample,) = kernel_delay.open_recording(file)
    found = [each for each in sample.verdict if each.rule == "flow_limit"]
    said = found[0].evidence["packets"] if found else 0
    yield Row(f"{BEYOND} packets above the limit", "capture, no flow", said, packets, "dpctl/show")


def _without_flow(ovs: Instance) -> int:
    """What it calls lost: nothing of it is dropped here."""
    return int(re.findall(r"lost:(\d+)", ovs.appctl("dpctl/show"))[0])


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError("flows stay")
        time.sleep(COUNTED_S)


if __name__ == "__main__":
    assert os.geteuid() == 0, "run it as root"
    sys.exit(main())
