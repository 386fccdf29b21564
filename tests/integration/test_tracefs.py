"""tracefs through a mount of its own and through one that no mount table shows."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.errors import PermissionDeniedError, UnavailableError
from kernel_delay.host.tracefs import detached, tracefs

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="tracefs is for root only")

SCHED_SWITCH_ID = "events/sched/sched_switch/id"

# In a mount namespace of the subprocess's own, so that this machine's stays as it is.
READ_ID = f"""
import ctypes, os
from kernel_delay.host.tracefs import tracefs
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "mount namespace")
check(libc.unshare(CLONE_NEWNS))
check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
if not os.path.ismount("/sys/kernel/tracing"):
    check(libc.mount(b"none", b"/sys/kernel/tracing", b"tracefs", 0, None))
with tracefs() as root:
    print(root, (root / "{SCHED_SWITCH_ID}").read_text())
"""


@needs_root
def test_an_unmounted_and_a_mounted_tracefs_say_the_same() -> None:
    with detached("tracefs") as root:
        unmounted = (root / SCHED_SWITCH_ID).read_text()
    mounted = subprocess.run([sys.executable, "-c", READ_ID], capture_output=True, check=True)
    assert mounted.stdout.split() == [b"/sys/kernel/tracing", unmounted.strip().encode()]


def mounted_tracefs() -> list[str]:
    """Other tests may mount other file systems meanwhile."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[2] == "tracefs"]


@needs_root
def test_nothing_stays_behind() -> None:
    descriptors = Path("/proc/self/fd")
    # What other tests left may have some open, and would be collected meanwhile.
    gc.collect()
    before = mounted_tracefs(), len(list(descriptors.iterdir()))
    with detached("tracefs") as root:
        assert (root / "events").is_dir()
        assert mounted_tracefs() == before[0]
    assert (mounted_tracefs(), len(list(descriptors.iterdir()))) == before
    assert not root.exists()


@needs_root
def test_tracefs_is_found() -> None:
    with tracefs() as root:
        assert (root / SCHED_SWITCH_ID).read_text().strip().isdecimal()


@needs_root
def test_a_file_system_the_kernel_lacks() -> None:
    with pytest.raises(UnavailableError, match="nosuchfs is not mounted"), detached("nosuchfs"):
        pass


def test_an_ordinary_user_has_to_be_root() -> None:
    if os.geteuid() != 0:
        with pytest.raises(PermissionDeniedError, match="run as root"), detached("tracefs"):
            pass
        return
    pid = os.fork()
    if pid == 0:
        os.setresuid(65534, 65534, 65534)
        try:
            with detached("tracefs"):
                os._exit(1)
        except PermissionDeniedError:
            os._exit(0)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
