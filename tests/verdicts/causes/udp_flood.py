"""Packets that others send are taken in on its CPU, which computes."""

import contextlib
import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
PORT = 9999
SENDER_CPU = min(os.sched_getaffinity(0))

# The kernel takes in what one CPU sends on another one: Documentation/networking/scaling.rst.
STEERS = "/sys/class/net/lo/queues/rx-0/rps_cpus"


def flood(cpu: int) -> None:
    """A role: send on a loopback of its own, whose packets that CPU takes in."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS | CLONE_NEWNET):
        tell(refused="no rights to a network namespace")
        return
    private = "mount --make-rprivate / && mount -t sysfs none /sys && ip link set lo up"
    if subprocess.run(["sh", "-c", private], capture_output=True, check=False).returncode:
        tell(refused="no loopback of its own")
        return
    try:
        with open(STEERS, "w") as file:
            file.write(f"{1 << cpu:x}")
    except OSError:
        tell(refused="the kernel does not steer packets (CONFIG_RPS)")
        return
    receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    receiver.bind(("127.0.0.1", PORT))
    sender.connect(("127.0.0.1", PORT))
    tell()
    while True:
        with contextlib.suppress(OSError):
            sender.send(bytes(64))


@contextmanager
def stage() -> Iterator[Staged]:
    if SENDER_CPU == CPU:
        raise NotHereError("packets are steered from one CPU to another, and there is one")
    with (
        running(hog, cpu=CPU) as victim,
        running(flood, CPU, name="flood", cpu=SENDER_CPU),
    ):
        yield Staged(victim.pid, cause("interrupt_load", names=("net_rx",), also=("user_work",)))
