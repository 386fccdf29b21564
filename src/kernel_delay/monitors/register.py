"""The register of monitors. Recordings, reports and the command line know no other names."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import NamedTuple


class Registered(NamedTuple):
    """A monitor: what it does, its folder here, and the module of that with its MONITOR."""

    purpose: str
    folder: str
    module: str = "command"


MONITORS: Mapping[str, Registered] = MappingProxyType(
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


def command_module(name: str) -> ModuleType:
    """Import what a monitor's command is made of; its MONITOR is a Monitor."""
    folder, module = MONITORS[name][1:]
    return importlib.import_module(f"{__package__}.{folder}.{module}")


def events_module(name: str) -> ModuleType:
    """Import what a recording of a monitor has; its RECORD is a subclass of Events."""
    return importlib.import_module(f"{__package__}.{MONITORS[name].folder}.events")
