"""It sets up a network interface while another process makes and removes others."""

import fcntl
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import program, running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

# ioctl(2) of netdevice(7): it takes the kernel's one lock of all interfaces.
SIOCSIFMTU = 0x8922

# One process adds many and removes them at once, so that it has the lock for long.
LOOP = """
while :; do
    for i in $(seq 50); do echo link add verdict$i group 7 type veth; done
    echo link delete group 7
done | ip -batch -
"""


def victim() -> None:
    request = struct.pack("16si12x", b"lo", 65536)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        tell()
        while True:
            fcntl.ioctl(own, SIOCSIFMTU, request)
            time.sleep(0.0002)


@contextmanager
def namespace() -> Iterator[str]:
    """A network of the stage's own."""
    name = f"verdict-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        raise NotHereError("no network namespaces here")
    within = ("ip", "netns", "exec", name)
    try:
        make = (*within, "ip", "link", "add", "verdict0", "type", "veth")
        if subprocess.run(make, check=False).returncode:
            raise NotHereError("no pairs of interfaces here")
        yield name
    finally:
        time.sleep(0.1)
        subprocess.run(["ip", "netns", "delete", name], check=True)


@contextmanager
def stage() -> Iterator[Staged]:
    with namespace() as name:
        within = ("ip", "netns", "exec", name)
        with (
            program("sh", "-c", LOOP, within=within, tells=False),
            running(victim, within=within) as process,
        ):
            yield Staged(
                process.pid,
                cause(
                    "wait_kernel_lock",
                    names=("ioctl", "rtnl_mutex", "dev_ioctl", "ip ("),
                    also=("wait_rcu",),
                ),
            )
