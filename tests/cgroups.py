"""Where a test may put processes into cgroups of its own."""

import os
from pathlib import Path

import pytest

from kernel_delay.host.cgroups import mount_points


def writable_hierarchy() -> Path:
    """Return where a hierarchy is mounted whose new cgroups take processes; skips if none is.

    Not cgroup v1's cpuset: a new one has no CPUs, and takes nobody (cpuset(7)).
    """
    for place in mount_points():
        if os.access(place / "cgroup.procs", os.W_OK) and not (place / "cpuset.cpus").exists():
            return place
    pytest.skip("no cgroup can be made here")
