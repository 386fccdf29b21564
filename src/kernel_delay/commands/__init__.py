"""The commands: one module each, imported only when its command runs.

A command is a module here, named as the command with `_` for `-`, that has
the two functions of `Command`; adding one takes the module and a line in
`COMMANDS` of `register.py`. Those of monitors are in the folders that it names too.
"""

import argparse
import importlib
from typing import Protocol, cast

from kernel_delay.register import MONITORS, command_module


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
