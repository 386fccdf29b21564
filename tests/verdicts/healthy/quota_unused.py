"""It has a CPU quota, a low weight and a memory limit, and needs less than these leave."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.healthy.load import victim
from tests.verdicts.staging import running
from tests.verdicts.truth import HEALTHY, Staged

LIMIT = 512 << 20


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        cgroup(controller("cpu"), cpu__cfs_quota_us=80_000, cpu__shares=64) as cpu,
        cgroup(controller("memory"), memory__limit_in_bytes=LIMIT) as memory,
        running(victim) as process,
    ):
        join(cpu, process.pid)
        join(memory, process.pid)
        yield Staged(process.pid, HEALTHY)
