# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kernel-delay in a sos report: what it recorded, what this machine allows, and what logs say.

sos finds a plugin in its own folder: `sos/report/plugins/` of Python's packages.
"""

import shlex
from pathlib import Path
from typing import ClassVar

from sos.report.plugins import DebianPlugin, Plugin, RedHatPlugin, UbuntuPlugin

try:
    from sos.report.plugins import PluginOpt
except ImportError:  # before sos 4.2
    PluginOpt = None

MEASURE = "measures the process of this name for half a second, as `-k kernel_delay.measure=NAME`"
LOGS = ("/var/log/openvswitch", "/var/log/ovn", "/var/log/containers/openvswitch")


class KernelDelay(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin):
    """Collects recordings of `kernel-delay watch`, and what kernel-delay says here."""

    short_desc = "kernel-delay: what kept processes from their work"
    plugin_name = "kernel_delay"
    profiles = ("network", "openshift", "openstack_compute", "performance")
    packages = ("kernel-delay",)
    commands = ("kernel-delay",)
    files = ("/var/lib/kernel-delay",)
    option_list: ClassVar[list[object]] = [
        PluginOpt("measure", default="", val_type=str, desc=MEASURE)
        if PluginOpt
        else ("measure", MEASURE, "fast", "")
    ]

    def setup(self) -> None:
        """Name what is collected. Nothing is measured unless that is asked for."""
        # DynamicUser= of the units keeps the recordings in private/, where the others lead to.
        self.add_copy_spec(
            ["/var/lib/kernel-delay*", "/var/lib/private/kernel-delay*", "/etc/kernel-delay"]
        )
        self.add_cmd_output(
            [
                "kernel-delay --version",
                "kernel-delay check",
                *(f"kernel-delay log {folder}" for folder in LOGS if Path(folder).is_dir()),
            ]
        )
        self.add_journal(units=["kernel-delay-watch", "kernel-delay-watch@*"])
        if name := self.get_option("measure"):
            self.add_cmd_output(f"kernel-delay --comm {shlex.quote(name)} --sample-count 4")
