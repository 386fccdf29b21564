"""A real OVN of Debian's packages, unpacked: two databases, northd and a controller."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.binaries import Binaries
from lab.instance import Instance
from tests.debian import library_path, unpacked

PACKAGES = ("ovn-host", "ovn-common", "ovn-central", "python3-openvswitch")
SWITCH = "sw0"
BRIDGE = ("datapath_type=dummy", "fail-mode=secure")
PORTS = 2
WAITED_S = 120


def address(port: int) -> str:
    """The Ethernet address that OVN knows at that port of the logical switch."""
    return f"50:54:00:00:00:{port:02x}"


class Ovn:
    """A logical switch, whose ports are those of the bridge br-int of an Open vSwitch."""

    def __init__(self, folder: Path) -> None:
        """Its databases are in the folder."""
        self._root = unpacked(*PACKAGES)
        self._folder = folder
        self._options = [f"--ovn{each}=unix:{folder}/ovn{each}_db.sock" for each in ("nb", "sb")]

    def detrace(self, text: str) -> str:
        """What ovn-detrace makes of a text."""
        command = [sys.executable, str(self._root / "usr/bin/ovn-detrace"), *self._options]
        packages = self._root / "usr/lib/python3/dist-packages"
        environment = {**os.environ, "PYTHONPATH": str(packages)}
        done = subprocess.run(
            command, input=text, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    @contextmanager
    def running(self, binaries: Binaries, ovs: Instance) -> Iterator[None]:
        """Have it program that Open vSwitch; its databases are served by one of `binaries`."""
        with ExitStack() as stack:
            for name in ("nb", "sb"):
                file, schema = self._folder / f"{name}.db", f"usr/share/ovn/ovn-{name}.ovsschema"
                self._run(binaries.ovsdb_tool, "create", file, self._root / schema)
                socket = f"--remote=punix:{self._folder}/ovn{name}_db.sock"
                self._start(stack, name, binaries.ovsdb_server, file, socket)
            northd = [f"--ovn{name}-db={self._database(name)}" for name in ("nb", "sb")]
            self._start(stack, "northd", self._root / "usr/bin/ovn-northd", *northd)
            for port in range(1, PORTS + 1):
                ports = ("lsp-add", SWITCH, f"lp{port}", "--", "lsp-set-addresses", f"lp{port}")
                self._nbctl("--may-exist", "ls-add", SWITCH, "--", *ports, address(port))
            self._bind(ovs)
            environment = {"OVS_RUNDIR": str(ovs.folder)}
            controller = self._root / "usr/bin/ovn-controller"
            self._start(stack, "", controller, f"unix:{ovs.folder}/db.sock", **environment)
            for port in range(1, PORTS + 1):
                self._nbctl("wait-until", "Logical_Switch_Port", f"lp{port}", "up=true")
            yield

    def _bind(self, ovs: Instance) -> None:
        ovs.vsctl(
            *("set", "Open_vSwitch", ".", "external_ids:system-id=chassis"),
            f'external_ids:ovn-remote="{self._database("sb")}"',
            *("external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=127.0.0.1"),
        )
        ovs.vsctl("add-br", "br-int", "--", "set", "Bridge", "br-int", *BRIDGE)
        for port in range(1, PORTS + 1):
            interface = (f"ofport_request={port}", f"external_ids:iface-id=lp{port}")
            ovs.vsctl(
                *("add-port", "br-int", f"p{port}", "--", "set", "Interface", f"p{port}"),
                *("type=dummy", *interface),
            )

    def _database(self, name: str) -> str:
        return f"unix:{self._folder}/ovn{name}_db.sock"

    def _nbctl(self, *arguments: str) -> None:
        database = (f"--db={self._database('nb')}", f"--timeout={WAITED_S}")
        self._run(self._root / "usr/bin/ovn-nbctl", *database, *arguments)

    def _run(self, *command: object) -> None:
        subprocess.run(list(map(str, command)), env=self._environment(), check=True)

    def _start(self, stack: ExitStack, name: str, *command: object, **more: str) -> None:
        control = [f"--unixctl={self._folder}/{name}.ctl"] if name else []
        process = subprocess.Popen(
            [*map(str, command), *control, "-vconsole:off", "-vsyslog:off"],
            env=self._environment() | more,
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)

    def _environment(self) -> dict[str, str]:
        own = {f"OVN_{each}DIR": str(self._folder) for each in ("RUN", "LOG", "DB")}
        return {**os.environ, **own, **library_path(self._root)}
