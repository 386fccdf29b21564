"""kernel-delay on a real Open vSwitch that is kept from its work by two causes.

Starts a private Open vSwitch, sends it flow misses, lets a competitor spin on
the CPU of its main and PMD threads, stops it for a fifth of each second, and has
kernel-delay say where its time went. Everything is taken down again, also on Ctrl-C and on failure.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from kernel_delay.errors import KernelDelayError
from lab.binaries import Binaries
from lab.disturbers import Competitor, Halter
from lab.instance import Instance
from lab.traffic import Traffic

# The load ends by itself, should nobody be left to end it.
_LOAD_S = 60.0
_FLOWS_PER_S = 1000
_INTERRUPTED = 128 + signal.SIGINT


def say(text: str) -> None:
    """Tells what comes next; the report alone goes to stdout."""
    print(f"demo: {text}", file=sys.stderr, flush=True)


def measure(pid: int, sample_time: str) -> int:
    """Runs kernel-delay, as installed next to this Python, and returns its exit status."""
    tool = Path(sys.executable).with_name("kernel-delay")
    command = [str(tool), "--pid", str(pid), "--sample-time", sample_time]
    say(f"running {' '.join(command)}")
    with subprocess.Popen(command) as running:
        try:
            return running.wait()
        except KeyboardInterrupt:
            # It got Ctrl-C too, and reports what it has measured until now.
            running.wait()
            return _INTERRUPTED


def demonstrate(binaries: Binaries, sample_time: str) -> int:
    """Sets up, measures, takes down; returns kernel-delay's exit status."""
    cpu = max(os.sched_getaffinity(0))
    say(f"starting a private Open vSwitch ({binaries.ovs_vswitchd})")
    with Instance(binaries) as ovs:
        say(f"sending it {_FLOWS_PER_S} new flows a second, each answered")
        with Traffic(ovs, rate=_FLOWS_PER_S, seconds=_LOAD_S, pmd_cpu=cpu) as traffic:
            if not traffic.pmd:
                say("no AF_XDP in this Open vSwitch or kernel: the main thread polls, no PMD")
            say(f"putting its main thread and a competitor on CPU {cpu}")
            os.sched_setaffinity(ovs.pid, {cpu})
            say("stopping all of it for 200 ms of each second (SIGSTOP)")
            with (
                Competitor(cpu, seconds=_LOAD_S) as competitor,
                Halter(ovs.pid, seconds=_LOAD_S),
            ):
                say(f"the competitor is process {competitor.pid}")
                status = measure(ovs.pid, sample_time)
        say("taking everything down")
    return status


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="demo", description="kernel-delay on a busy Open vSwitch")
    parser.add_argument(
        "--ovs", type=Path, default=Path("/"), help="root below which Open vSwitch is (default: /)"
    )
    parser.add_argument("--sample-time", default="1", help="seconds to measure (default: 1)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return demonstrate(Binaries.under(args.ovs), args.sample_time)
    except KernelDelayError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
