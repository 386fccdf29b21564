"""Real packets through a private Open vSwitch, nearly every one a flow miss."""

import contextlib
import re
import sys
from typing import Self

from lab import endpoint
from lab.child import Child, ChildFailedError
from lab.instance import Instance

BRIDGE = "br0"
CLIENT, SERVER = "client", "server"
_CLIENT_ADDRESS = "198.18.0.1"
_START_S = 120.0

# A hash over the addresses and ports makes the flow depend on all of them, as a load balancer's
# does: Open vSwitch then can't widen it to a megaflow that covers the next packet too.
_EVERY_FLOW_ANEW = "udp,actions=multipath(symmetric_l3l4+udp,0,modulo_n,8,0,NXM_NX_REG0[]),NORMAL"


class Traffic:
    """A bridge with two hosts on it, one opening new UDP flows to the other, which answers.

    A context manager: on entry packets come and go, on exit the bridge, the
    hosts and their network namespaces are gone, and the Instance is as
    before. Both ends stop by themselves after `seconds`.

    `rate` is in new flows a second; the answers double the flow misses. Where
    upcalls are handled depends on the datapath: `system` in the handler
    threads; `netdev` (whose handler threads are idle in 3.1 and gone in 3.5)
    in the thread that polls the port, the main one, or with `pmd_cpu` a PMD
    thread on that CPU, which polls the client's port by AF_XDP. `pmd` tells
    whether it does: not every build and kernel can.
    """

    def __init__(
        self,
        ovs: Instance,
        *,
        rate: int = 1000,
        seconds: float = 60.0,
        pmd_cpu: int | None = None,
    ) -> None:
        """Takes note; __enter__ starts it."""
        self.pmd = False
        self._ovs = ovs
        self._rate = rate
        self._seconds = seconds
        self._pmd_cpu = pmd_cpu
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Returns once a packet has gone through the bridge and an answer has come back.

        Raises OvsCommandError, ChildFailedError or TimeoutExpiredError.
        """
        with contextlib.ExitStack() as stack:
            server = self._start(stack, "echo")
            client = self._start(stack, "send", f"--rate={self._rate}")
            server.expect("ready", _START_S)
            client.expect("ready", _START_S)
            self._connect(stack, server, SERVER, endpoint.SERVER)
            self._connect(stack, client, CLIENT, _CLIENT_ADDRESS)
            self._add_bridge(stack)
            self._add_ports()
            server.tell("go")
            client.tell("go")
            client.expect("answered", _START_S)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the hosts, their links and the bridge away."""
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack, *args: str) -> Child:
        argv = [sys.executable, endpoint.__file__, f"--seconds={self._seconds}", *args]
        host = Child(argv, own_network=True)
        stack.callback(host.stop)
        return host

    def _connect(self, stack: contextlib.ExitStack, host: Child, port: str, address: str) -> None:
        """Lays a veth pair from `port`, at Open vSwitch, to eth0 of the host."""
        pair = f"link add {port} type veth peer name eth0 netns {host.pid}\n"
        self._ovs.in_network(["ip", "-batch", "-"], f"{pair}link set {port} up\n")
        stack.callback(self._disconnect, port)
        host.in_network(
            ["ip", "-batch", "-"], f"address add {address}/24 dev eth0\nlink set eth0 up\n"
        )

    def _disconnect(self, port: str) -> None:
        # Its host's end takes it along, but only when the kernel gets to it, and the next Traffic
        # wants the name. If it is gone already, all is well.
        with contextlib.suppress(ChildFailedError):
            self._ovs.in_network(["ip", "link", "delete", port])

    def _add_bridge(self, stack: contextlib.ExitStack) -> None:
        stack.callback(self._remove_bridge)
        self._ovs.add_bridge(BRIDGE)
        self._ovs.ofctl("add-flow", BRIDGE, _EVERY_FLOW_ANEW)

    def _remove_bridge(self) -> None:
        if self._ovs.running():
            self._ovs.vsctl("--if-exists", "del-br", BRIDGE)

    def _add_ports(self) -> None:
        self._ovs.vsctl("add-port", BRIDGE, SERVER)
        if self._pmd_cpu is not None:
            self.pmd = self._add_polled_port(self._pmd_cpu)
        if not self.pmd:
            self._ovs.vsctl("--if-exists", "del-port", CLIENT)
            self._ovs.vsctl("add-port", BRIDGE, CLIENT)

    def _add_polled_port(self, cpu: int) -> bool:
        """Adds the client's port so that a PMD thread polls it; False where that can't be."""
        if "afxdp" not in self._ovs.vsctl("get", "Open_vSwitch", ".", "iface_types"):
            return False
        self._ovs.vsctl(
            *("set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={1 << cpu:#x}"),
            *("--", "add-port", BRIDGE, CLIENT),
            *("--", "set", "Interface", CLIENT, "type=afxdp", "options:n_rxq=1"),
        )
        # Where opening it fails, Open vSwitch says so in `error`: an empty set is none.
        return self._ovs.vsctl("get", "Interface", CLIENT, "error").strip() == "[]"


def upcalls_in_user_space(ovs: Instance) -> int:
    """As ovs-vswitchd counts them; it says nothing of a thread that has received no packet.

    Since 4.0 pmd-stats-show prints what pmd-perf-show does.
    """
    counted = ovs.appctl("dpif-netdev/pmd-stats-show")
    return sum(map(int, re.findall(r"(?:miss with success upcall|- Upcalls): +(\d+)", counted)))
