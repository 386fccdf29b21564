"""python -m tests.watching.churn: do the monitors of Open vSwitch grow, and what do they lose?

Each follows one Open vSwitch while new flows come in as fast as this machine makes them, and idle
ones go after half a second. From a tenth of the time on, and from 30 s, no monitor may grow; and
of the deletions that Open vSwitch itself counts each was seen, or is among what the monitor says
that it lost. With the module openvswitch loaded it is the kernel's datapath, and there are more
monitors.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from tests import commands, ovs_with_usdt
from tests.integration import kernel_datapath
from tests.watching import growth

OF_ANY = (("bridge-loop", "-q"), ("revalidator", "-q"), ("flows", "-q"))
OF_THE_KERNEL = (("datapath-ops", "-q"), ("upcall-monitor", "-r", "error"))
READINGS = 60
STARTS_S = 120.0
# `flows` remembers what was deleted in the last 10 s, and Python's allocator has it then.
WARM_S = 30.0
# Open vSwitch's threads add up what they counted every second or so.
COUNTED_S = 5.0
LOOKS_S = 0.5
# What monitors say when they have begun: the first words of one are its table's heading.
BEGUN = ("Ctrl-C ends it", "KEY_LEN")


class Monitor:
    """A command that runs, and what it printed."""

    def __init__(self, folder: Path, pid: int, command: str, *options: str) -> None:
        """Start it; returns once it says that it has begun."""
        self.command = command
        self.readings: list[growth.Reading] = []
        self._output = folder / command
        with self._output.open("w") as output:
            self.process = commands.start(
                command, "-p", pid, *options, stdout=output.fileno(), stderr=output.fileno()
            )
        deadline = time.monotonic() + STARTS_S
        while not any(words in self.output for words in BEGUN):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} did not start: {self.output}")
            time.sleep(LOOKS_S)

    @property
    def output(self) -> str:
        """All of it so far."""
        return self._output.read_text(errors="replace")

    def end(self) -> None:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(STARTS_S)
        if status != os.EX_OK:
            raise RuntimeError(f"{self.command} ended with {status}: {self.output[-2000:]}")

    def read(self, time_s: float) -> None:
        """Note what it has by now."""
        self.readings.append(growth.read(self.process.pid, time_s))
        print(f"{self.command:15} {growth.reading_text(self.readings[-1])}", flush=True)

    def counted(self, pattern: str) -> int:
        """The sum of the numbers of that pattern in what it printed."""
        return sum(int(found.replace(",", "")) for found in re.findall(pattern, self.output))


def main() -> int:
    """Run it, print the readings; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N")
    seconds = parser.parse_args().minutes * 60
    datapath: Datapath = "system" if kernel_datapath.is_there() else "netdev"
    chosen = OF_ANY + OF_THE_KERNEL if datapath == "system" else OF_ANY
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        root = os.environ.get("KERNEL_DELAY_USDT_OVS") or ovs_with_usdt.build()
        ovs = stack.enter_context(Instance(Binaries.under(Path(root)), datapath=datapath))
        stack.enter_context(kernel_datapath.bridge(ovs))
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
        monitors = [Monitor(Path(name), ovs.pid, *command) for command in chosen]
        before = _deleted(ovs)
        sent = _churn(ovs, monitors, seconds)
        _until_empty(ovs)
        time.sleep(COUNTED_S)
        deleted = _deleted(ovs) - before
        for monitor in monitors:
            monitor.end()
        print(f"{sent:,} packets in {seconds:,.0f} s; {deleted:,} flows were deleted")
        wrong = [*_problems(monitors, deleted)]
        for monitor in monitors:
            print(f"--- {monitor.command}\n{monitor.output.strip()[-1500:]}")
    for problem in wrong:
        print(f"WRONG: {problem}")
    return int(bool(wrong))


def _churn(ovs: Instance, monitors: list[Monitor], seconds: float) -> int:
    """Send, and read what the monitors have meanwhile; how many packets were sent."""
    send = kernel_datapath.flood(seconds)
    network = f"--net=/proc/{ovs.pid}/ns/net"
    began = time.monotonic()
    with subprocess.Popen(["nsenter", network, *send], stdout=subprocess.PIPE, text=True) as sender:
        while sender.poll() is None:
            for monitor in monitors:
                monitor.read(time.monotonic() - began)
            time.sleep(seconds / READINGS)
        assert sender.stdout is not None
        return int(sender.stdout.read())


def _until_empty(ovs: Instance) -> None:
    deadline = time.monotonic() + STARTS_S
    while "(current 0)" not in ovs.appctl("upcall/show"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"flows stay: {ovs.appctl('upcall/show')}")
        time.sleep(LOOKS_S)


def _deleted(ovs: Instance) -> int:
    """Open vSwitch's own count of flows that it had the datapath delete."""
    return int(ovs.appctl("coverage/read-counter", "dpif_flow_del"))


# What each says of deletions, and of what it lost of them.
_SEEN = {
    "revalidator": (r"modified, ([\d,]+) deleted", r"([\d,]+) flows were not counted"),
    "flows": (r"made, ([\d,]+) deleted", r"([\d,]+) (?:events were lost|results of flows)"),
    "datapath-ops": (r"flow_del +([\d,]+)", r"([\d,]+) operations were lost"),
}


def _problems(monitors: list[Monitor], deleted: int) -> "list[str]":
    found = [
        f"{monitor.command}: {problem}"
        for monitor in monitors
        for problem in growth.problems(monitor.readings, WARM_S)
    ]
    for monitor in monitors:
        if monitor.command not in _SEEN:
            continue
        seen, lost = map(monitor.counted, _SEEN[monitor.command])
        print(f"{monitor.command}: {seen:,} deletions were seen, {lost:,} events lost")
        if not seen <= deleted <= seen + lost:
            found.append(f"{monitor.command}: {deleted:,} were deleted, {seen:,} seen")
    return found


if __name__ == "__main__":
    sys.exit(main())
