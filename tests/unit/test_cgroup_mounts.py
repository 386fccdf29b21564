"""Where hierarchies of cgroups are mounted."""

from pathlib import Path

import pytest

from kernel_delay.host import cgroups
from kernel_delay.host.cgroups import mount_points

MOUNTS = """\
25 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
27 25 0:24 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
28 25 0:25 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
29 25 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
30 25 0:27 / /sys/fs/cgroup/unified/inner rw - cgroup cgroup rw,memory
"""


def test_those_within_others_come_first_and_else_the_order_is_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    names = [place.name for place in mount_points()]
    assert names == ["inner", "unified", "pids", "cpu,cpuacct", "blkio"]
