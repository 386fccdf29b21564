"""Two hosts on a bridge, each a network namespace of its own, for ping and iperf3."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from lab.child import Child
from lab.instance import Instance

BRIDGE = "brhosts"
ADDRESSES = {"near": "198.18.1.1", "far": "198.18.1.2"}  # for benchmarks: RFC 2544, C.2.2
ANSWER_S = 400.0
# The hash depends on addresses and ports, so no flow of the datapath covers two connections.
EVERY_CONNECTION_A_FLOW = (
    "actions=multipath(symmetric_l3l4+udp,0,modulo_n,8,0,NXM_NX_REG0[]),NORMAL"
)
# Port 5201 in state TCP_LISTEN, in hexadecimal (net/ipv6/tcp_ipv6.c:get_tcp6_sock(), 6.18).
LISTENING = ":1451 00000000000000000000000000000000:0000 0A"


class Hosts(NamedTuple):
    """The hosts' processes: whatever they run is in their networks."""

    near: Child
    far: Child

    def command(self, *arguments: str) -> list[str]:
        """What runs a command on the near host."""
        return ["nsenter", f"--net=/proc/{self.near.pid}/ns/net", "--", *arguments]

    def ping(self, count: int) -> int:
        """Ping the far host, five times a second; how many answers came."""
        command = self.command("ping", "-n", "-i", "0.2", "-c", str(count), ADDRESSES["far"])
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
        found = re.search(r"(\d+) received", done.stdout)
        assert found is not None, done.stdout + done.stderr
        return int(found[1])

    @contextlib.contextmanager
    def iperf3(self, *options: str) -> Iterator[None]:
        """Have iperf3 send to the far host meanwhile."""
        command = self.command("iperf3", "--time", "3600", "-c", ADDRESSES["far"], *options)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                yield
                assert process.poll() is None, "iperf3 has ended"
            finally:
                process.kill()

    def received_bytes(self) -> int:
        """How much came to the far host until now."""
        devices = Path(f"/proc/{self.far.pid}/net/dev").read_text()
        found = re.search(r"eth0: *(\d+)", devices)
        assert found is not None
        return int(found[1])


@contextlib.contextmanager
def hosts(ovs: Instance) -> Iterator[Hosts]:
    """A bridge that learns addresses, with the two hosts on it; iperf3 listens on the far one."""
    with contextlib.ExitStack() as stack:
        ovs.add_bridge(BRIDGE)
        stack.callback(ovs.vsctl, "--if-exists", "del-br", BRIDGE)
        for protocol in ("tcp", "udp"):
            ovs.ofctl("add-flow", BRIDGE, f"{protocol},{EVERY_CONNECTION_A_FLOW}")
        near = _host(stack, ovs, "near", "sleep", "infinity")
        far = _host(stack, ovs, "far", "iperf3", "--server")
        _wait_until(lambda: LISTENING in Path(f"/proc/{far.pid}/net/tcp6").read_text(), far)
        yield Hosts(near, far)


def _host(stack: contextlib.ExitStack, ovs: Instance, name: str, *command: str) -> Child:
    host = Child(command, own_network=True)
    stack.callback(host.stop)
    _wait_until(lambda: _network(host.pid) != _network("self"), host)
    pair = f"link add {name} type veth peer name eth0 netns {host.pid}\nlink set {name} up\n"
    ovs.in_network(["ip", "-batch", "-"], pair)
    host.in_network(
        ["ip", "-batch", "-"],
        f"address add {ADDRESSES[name]}/24 dev eth0\nlink set eth0 up\nlink set lo up\n",
    )
    ovs.vsctl("add-port", BRIDGE, name)
    stack.callback(ovs.vsctl, "--if-exists", "del-port", name)
    return host


def _network(process: int | str) -> str:
    return os.readlink(f"/proc/{process}/ns/net")


def _wait_until(condition: Callable[[], bool], host: Child) -> None:
    deadline = time.monotonic() + ANSWER_S
    while not condition():
        host.check()
        assert time.monotonic() < deadline, f"{host.name} is not ready"
        time.sleep(0.01)
