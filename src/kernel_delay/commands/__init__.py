"""The commands: one module each, imported only when its command runs.

A command is a module here, named as the command with `_` for `-`, that has
the two functions of `Command`; adding one takes the module and a line in
`COMMANDS`.
"""

import argparse
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, cast

DEFAULT_COMMAND = "capture"

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "bridge-loop": "measure the passes of ovs-vswitchd's main loop, and its waits",
        "capture": "measure what the kernel does to each thread of a process",
        "compare": "say what changed from one recording to another, beyond chance",
        "probes": "list what can be a trigger: USDT probes, functions, tracepoints",
        "check": "say what this machine can do, and what is missing",
        "datapath-ops": "show what ovs-vswitchd asks of the kernel's datapath, and the answers",
        "export": "write recordings as Parquet files, for what reads those of many nodes",
        "fleet": "say which nodes of a fleet lose most, to what, and since when",
        "flows": "say which flows ovs-vswitchd makes, modifies and deletes, and why",
        "report": "report from recordings what was measured, on any machine",
        "revalidator": "say what each round of ovs-vswitchd's revalidators does and takes",
        "upcall-cost": "measure what a packet's trip through ovs-vswitchd costs",
        "watch": "stay attached, and write down each round of a thread that is too long",
        "upcall-monitor": "show each upcall that ovs-vswitchd receives or the kernel drops",
    }
)
"""Each command's name and, for --help, what it does."""


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
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return cast(Command, module)
