"""The register of commands, monitors among them, and what `--help` prints, which imports no more.

A monitor is known by its name here alone. Recordings, reports and the command line look it up.
"""

import importlib
from types import MappingProxyType, ModuleType

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
  watch     stay attached and record each slow iteration; top: a live view
  where     show where each thread stands now, and who keeps it
  report    print a report from a recording; compare: what changed between two
  check     show what this machine supports; probes: list triggers
  export    write recordings for fleet: the worst of many nodes; mcp: assistants

Commands for Open vSwitch: bridge-loop, revalidator, flows, datapath-ops,
  upcall-monitor, upcall-cost; log: from logs, why poll intervals were long

Options of a command:   kernel-delay COMMAND --help, man kernel-delay-COMMAND
Options without one:    kernel-delay capture --help
Version:                kernel-delay --version
"""
"""What `kernel-delay --help` prints: one screen of 24 lines and 80 columns."""


class Registered:
    """A monitor: what it does, its folder in `monitors/`, and the module there with its MONITOR."""

    # No NamedTuple: typing takes longer to import than all of --help.
    def __init__(self, purpose: str, folder: str, module: str = "command") -> None:
        """Register it."""
        self.purpose = purpose
        self.folder = folder
        self.module = module


MONITORS: MappingProxyType[str, Registered] = MappingProxyType(
    {
        "bridge-loop": Registered(
            "measure the main loop of ovs-vswitchd and its waits", "bridge_loop"
        ),
        "revalidator": Registered(
            "measure how ovs-vswitchd's revalidators check the flows", "revalidator"
        ),
        "flows": Registered(
            "show which flows ovs-vswitchd adds, modifies and deletes, and why", "flows"
        ),
        "datapath-ops": Registered(
            "show requests of ovs-vswitchd to the kernel's datapath and the answers", "datapath_ops"
        ),
        "upcall-cost": Registered(
            "measure the way of a packet through ovs-vswitchd", "upcalls", "cost_command"
        ),
        "upcall-monitor": Registered(
            "show each upcall that ovs-vswitchd receives or the kernel drops",
            "upcalls",
            "monitor_command",
        ),
    }
)
"""Each monitor by the name of its command. A module is imported when it is used."""

DEFAULT_COMMAND = "capture"

COMMANDS: MappingProxyType[str, str] = MappingProxyType(
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


def command_module(name: str) -> ModuleType:
    """Import what a monitor's command is made of; its MONITOR is a Monitor."""
    return _module(MONITORS[name].folder, MONITORS[name].module)


def events_module(name: str) -> ModuleType:
    """Import what a recording of a monitor has; its RECORD is a subclass of Events."""
    return _module(MONITORS[name].folder, "events")


def _module(folder: str, module: str) -> ModuleType:
    return importlib.import_module(f"kernel_delay.monitors.{folder}.{module}")
