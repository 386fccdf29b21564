"""Packets into a kernel datapath, each of a flow of its own, that nothing else disturbs."""

import contextlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lab.instance import Instance
from tests.needs import in_kernels_types

MODULE = Path("/sys/module/openvswitch")

# What keeps flows that have no packets: of Open vSwitch's settings.
NO_TIME = "other_config:max-idle=3600000"
# A slow Open vSwitch deletes flows that it has no time to check (ofproto/ofproto-dpif-upcall.c:
# should_revalidate(), 3.5).
ALWAYS_CHECKED = "other_config:min-revalidate-pps=0"
BRIDGE = "br0"
# One end is the bridge's port, the other is where packets are sent from.
PORT, SENDER = "kd-port", "kd-sender"

# The hash depends on addresses and ports, so no flow of the datapath covers two of them.
EVERY_FLOW_ANEW = "udp,actions=multipath(symmetric_l3l4+udp,0,modulo_n,8,0,NXM_NX_REG0[]),LOCAL"


def is_there() -> bool:
    """Whether this kernel has its datapath: the module is loaded, or built in.

    What is built in has no folder in /sys/module, but its functions are in the kernel's own types.
    """
    return MODULE.exists() or in_kernels_types("ovs_dp_upcall")


_SEND = """
import socket, sys, time
frames = [bytes.fromhex(line) for line in sys.stdin]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((sys.argv[1], 0))
    for again in range(int(sys.argv[2])):
        if again:
            time.sleep(0.1)
        for frame in frames:
            sender.send(frame)
"""

# A packet of each pair of ports, a few at a time, so that few are lost on the way to the bridge.
_FILL = """
import socket, struct, sys, time
packet = bytearray.fromhex(sys.argv[2])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((sys.argv[1], 0))
    for number in range(int(sys.argv[3]), int(sys.argv[4])):
        packet[34:38] = struct.pack("!HH", 1024 + number % 60000, 9 + number // 60000)
        sender.send(packet)
        if number % 20 == 0:
            time.sleep(0.004)
"""
_AT_ONCE = 2500
_SETTLES_S = 0.5
# What other_config:flow-limit is if not set (vswitchd/vswitch.xml, Open vSwitch 3.5).
FLOW_LIMIT = "200000"

# A packet of each pair of ports, for that many seconds; then it prints how many.
_FLOOD = """
import itertools, socket, struct, sys, time
packet = bytearray.fromhex(sys.argv[2])
ends = time.monotonic() + float(sys.argv[3])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((sys.argv[1], 0))
    for number in itertools.count():
        packet[34:38] = struct.pack("!HH", 1024 + number % 60000, 9 + number // 60000 % 60000)
        sender.send(packet)
        if number % 100 == 0 and time.monotonic() > ends:
            print(number + 1)
            break
"""


@contextlib.contextmanager
def bridge(ovs: Instance) -> Iterator[None]:
    """A bridge with one port, and no packets but those of send()."""
    # No router solicitations and the like.
    quiet = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    ovs.in_network(["sh", "-c", f"test ! -e {quiet} || echo 1 >{quiet}"])
    pair = f"link add {PORT} type veth peer name {SENDER}\n"
    up = f"link set {PORT} up\nlink set {SENDER} up\n"
    ovs.in_network(["ip", "-batch", "-"], pair + up)
    try:
        ovs.add_bridge(BRIDGE)
        ovs.ofctl("del-flows", BRIDGE)
        ovs.ofctl("add-flow", BRIDGE, EVERY_FLOW_ANEW)
        ovs.vsctl("add-port", BRIDGE, PORT)
        yield
    finally:
        ovs.vsctl("--if-exists", "del-br", BRIDGE)
        ovs.in_network(["ip", "link", "delete", PORT])


def packets(count: int, first: int = 0, size: int = 60) -> list[bytes]:
    """So many UDP packets of `size` bytes, each of another flow."""
    return [_packet(number, size) for number in range(first, first + count)]


def send(ovs: Instance, frames: list[bytes], times: int = 1) -> None:
    """Send the packets to the bridge's port, one after the other; several times, 0.1 s apart."""
    command = [sys.executable, "-c", _SEND, SENDER, str(times)]
    ovs.in_network(command, "\n".join(map(bytes.hex, frames)))


def fill(ovs: Instance, flows: int, limit: str = FLOW_LIMIT) -> None:
    """Send a packet of each flow, and of others for those that got lost, until there are enough."""
    first = 0
    while (there := _settled(ovs)) < flows:
        count = min(flows - there, _AT_ONCE)
        # By itself it begins low, and falls with each round that is slow.
        ovs.appctl("upcall/set-flow-limit", limit)
        send_of_flows(ovs, first, count)
        first += count


def send_of_flows(ovs: Instance, first: int, count: int) -> None:
    """Send a packet of each of so many flows, slowly enough for most to come to the bridge."""
    (packet,) = packets(1)
    sender = (sys.executable, "-c", _FILL, SENDER, packet.hex())
    ovs.in_network([*sender, str(first), str(first + count)])


def current_flows(ovs: Instance) -> int:
    """How many flows Open vSwitch has in the datapath by its own count."""
    match = re.search(r"current (\d+)", ovs.appctl("upcall/show"))
    assert match is not None
    return int(match[1])


def _settled(ovs: Instance) -> int:
    """The same, once no more are made of packets that were sent."""
    before, now = -1, current_flows(ovs)
    while before != now:
        time.sleep(_SETTLES_S)
        before, now = now, current_flows(ovs)
    return now


def flood(seconds: float) -> list[str]:
    """Return the command that sends packets of new flows all the time, and prints how many."""
    (packet,) = packets(1)
    return [sys.executable, "-c", _FLOOD, SENDER, packet.hex(), str(seconds)]


def lost(ovs: Instance) -> int:
    """The kernel's own count of upcalls that it could not send."""
    match = re.search(r"lost:(\d+)", ovs.appctl("dpctl/show", "system@ovs-system"))
    assert match is not None
    return int(match[1])


def _packet(number: int, size: int) -> bytes:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    payload = bytes(at % 251 for at in range(size - 42))
    packet = (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="198.18.0.1", dst="198.18.0.2", id=number)
        / UDP(sport=1024 + number % 60000, dport=9 + number // 60000)
        / payload
    )
    return bytes(packet)
