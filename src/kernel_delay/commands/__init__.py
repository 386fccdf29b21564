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
        "top": "show the threads that lose most time, live",
        "where": "show where each thread stands now, and who keeps it, without stopping it",
        "report": "print a report from recordings, on any machine",
        "compare": "show what changed between two recordings, beyond chance",
        "check": "show what this machine supports and what is missing",
        "probes": "list USDT probes, functions and tracepoints for triggers",
        "export": "write recordings as Parquet files, to compare many nodes",
        "fleet": "find the nodes that lose most time, to what, and since when",
        "mcp": "let assistants read recordings, by the Model Context Protocol",
        "log": "classify the long poll intervals in logs of Open vSwitch and OVN",
        **{name: each.purpose for name, each in MONITORS.items()},
    }
)
"""Each command's name and, for --help, what it does."""


class Command(Protocol):
    """What a command's module provides.

    One that has RUNS_A_PROGRAM has what follows `--` in `program` of its arguments. One that has
    READS_ENVIRONMENT takes options from variables too. Those that add_late_arguments() adds, if it
    has that, are there where they are given or listed.
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
