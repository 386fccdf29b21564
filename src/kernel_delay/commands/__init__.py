"""The commands: one module each, imported only when its command runs.

A command is a module here, named as the command with `_` for `-`, that has
the two functions of `Command`; adding one takes the module and a line in
`COMMANDS`. Those of monitors are in the folders that `monitors/register.py` names.
"""

import argparse
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, cast

from kernel_delay.monitors.register import MONITORS, command_module

DEFAULT_COMMAND = "capture"

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "capture": "measure where the time of each thread of a process went",
        "watch": "stay attached and record each slow iteration of an event loop",
        "report": "print a report from recordings, on any machine",
        "compare": "show what changed between two recordings, beyond chance",
        "check": "show what this machine supports and what is missing",
        "probes": "list USDT probes, functions and tracepoints for triggers",
        "export": "write recordings as Parquet files, to compare many nodes",
        "fleet": "find the nodes that lose most time, to what, and since when",
        "log": "classify the long poll intervals in logs of Open vSwitch and OVN",
        **{name: each.purpose for name, each in MONITORS.items()},
    }
)
"""Each command's name and, for --help, what it does."""

OVERVIEW = """\
kernel-delay: is the kernel to blame for a slow process?
It measures where the time of each thread went, and who caused the delays.

Examples:
  sudo kernel-delay -p PID              measure a process for half a second
  sudo kernel-delay --summary -- make   run a program and measure it
  sudo kernel-delay watch -p PID        print each slow iteration of its loop
  sudo kernel-delay -p PID -o now.kdr   also write a recording
  kernel-delay report now.kdr           report from it, on any machine

Commands:
  capture   measure a process (the command if none is given)
  watch     stay attached and record each slow iteration
  report    print a report from a recording; compare: what changed between two
  check     show what this machine supports; probes: list triggers
  export    write recordings for fleet: which of many nodes lose most time

Commands for Open vSwitch: bridge-loop, revalidator, flows, datapath-ops,
  upcall-monitor, upcall-cost; log: from logs, why poll intervals were long

Options of a command:   kernel-delay COMMAND --help, man kernel-delay-COMMAND
Options without one:    kernel-delay capture --help
Version:                kernel-delay --version
"""
"""What `kernel-delay --help` prints: one screen of 24 lines and 80 columns."""


class Command(Protocol):
    """What a command's module provides.

    One that has RUNS_A_PROGRAM has what follows `--` in `program` of its arguments.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options; --debug, --help and --version are there."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit code, raises KernelDelayError where it can't."""


def load(name: str) -> Command:
    """Import the command called `name`, one of `COMMANDS`."""
    if name in MONITORS:
        return cast(Command, command_module(name).MONITOR)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast(Command, module)
