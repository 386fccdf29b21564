"""It sets up a network interface while networks with many others are made and go again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes.network_lock import namespace, victim
from tests.verdicts.staging import program, running
from tests.verdicts.truth import Staged, cause

# Those of a network go with it, all at once, and a worker of the kernel's has the lock meanwhile
# (net/core/net_namespace.c:cleanup_net(), 5.14 to 7.2).
LOOP = """
for i in $(seq 40); do echo link add verdict$i type veth; done >"$1"
while :; do unshare --net ip -batch "$1"; done
"""


@contextmanager
def stage() -> Iterator[Staged]:
    batch = f"/run/verdict-batch-{os.getpid()}"
    with namespace() as name:
        within = ("ip", "netns", "exec", name)
        try:
            with (
                program("sh", "-c", LOOP, "sh", batch, tells=False),
                running(victim, within=within) as process,
            ):
                yield Staged(
                    process.pid,
                    cause(
                        "wait_kernel_lock",
                        names=("ioctl", "rtnl_mutex", "dev_ioctl"),
                        also=("wait_rcu", "kernel_work", "cpu_contention"),
                    ),
                )
        finally:
            os.unlink(batch)
