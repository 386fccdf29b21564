"""The two ends of the traffic: `send`, where every packet is a new flow, and `echo`.

Each runs as a process in a network namespace of its own. It says `ready`,
waits for a line on stdin (by then its interface is there), and works for a
bounded time. `send` says `answered` when the first packet came back.

The UDP sockets turn checksums off: a veth leaves them to the hardware that it
does not have (CHECKSUM_PARTIAL), so a packet that Open vSwitch reads as bytes
would otherwise carry a wrong one.
"""

import argparse
import collections
import contextlib
import itertools
import socket
import time

SERVER = "198.18.0.2"  # 198.18.0.0/15 is for benchmarks: RFC 2544, appendix C.2.2
PORT = 4789
_FIRST_PORT, _LAST_PORT = 1024, 65535
_SO_NO_CHECK = 11  # include/uapi/asm-generic/socket.h; the socket module has no name for it
_ANSWER_S = 0.1
_TICK_S = 0.005
# Sockets are kept for a while, so that answers don't come to closed ports and cause ICMP errors.
_KEPT = 512


def udp_socket() -> socket.socket:
    """A UDP socket that sends without checksums."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
    return udp


def open_flow(source_port: int) -> socket.socket:
    """Sends one packet to the echo end from `source_port`."""
    udp = udp_socket()
    udp.bind(("", source_port))
    udp.connect((SERVER, PORT))
    # A full queue or an error that came back: the next flow is another try.
    with contextlib.suppress(OSError):
        udp.send(b"kernel-delay")
    return udp


def answered(source_port: int) -> bool:
    """Whether a packet from `source_port` comes back soon."""
    with open_flow(source_port) as udp:
        udp.settimeout(_ANSWER_S)
        with contextlib.suppress(OSError):
            return bool(udp.recv(64))
    return False


def send(rate: int, deadline: float) -> None:
    """Opens `rate` new flows a second until `deadline` (time.monotonic(), s).

    The source ports come round again only after 65535 - 1024 flows.
    """
    ports = itertools.cycle(range(_FIRST_PORT, _LAST_PORT + 1))
    while not answered(next(ports)):
        if time.monotonic() > deadline:
            return
    print("answered", flush=True)
    flows = collections.deque[socket.socket]()
    start = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < deadline:
        # No more than one tick's worth at once: when late, go slower, never in a burst.
        due = min(int((now - start) * rate) - sent, max(1, int(rate * _TICK_S)))
        for port in itertools.islice(ports, due):
            flows.append(open_flow(port))
            if len(flows) > _KEPT:
                flows.popleft().close()
        sent += due
        time.sleep(_TICK_S / 2)


def echo(deadline: float) -> None:
    """Sends every packet back until `deadline` (time.monotonic(), s)."""
    with udp_socket() as udp:
        udp.bind(("", PORT))
        while (left := deadline - time.monotonic()) > 0:
            udp.settimeout(left)
            with contextlib.suppress(OSError):
                data, peer = udp.recvfrom(2048)
                udp.sendto(data, peer)


def main() -> None:
    """Plays the end that the command line names."""
    parser = argparse.ArgumentParser(prog="endpoint")
    parser.add_argument("end", choices=("send", "echo"))
    parser.add_argument("--rate", type=int, default=1000, help="new flows a second")
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    print("ready", flush=True)
    input()
    deadline = time.monotonic() + args.seconds
    if args.end == "send":
        send(args.rate, deadline)
    else:
        echo(deadline)


if __name__ == "__main__":
    main()
