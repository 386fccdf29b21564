"""Where the bench runs: a name for the machine, and its tracefs."""

import ctypes
import os
import platform
import re
import subprocess
from pathlib import Path

from bench.figures import Machine

# include/uapi/linux/sched.h and mount.h, 6.18
_CLONE_NEWNS = 0x00020000
_MS_REC = 1 << 14
_MS_PRIVATE = 1 << 18


def describe() -> Machine:
    """Name the machine."""
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=model[1] if model else platform.machine(),
        cpus=len(os.sched_getaffinity(0)),
        virtual=_hypervisor(),
        memory_gib=round(memory / 2**30, 1),
        kernel=platform.release(),
        system=platform.freedesktop_os_release()["PRETTY_NAME"],
    )


def version() -> str:
    """Name the version of the sources, as git does; `-dirty` if they are changed."""
    return _output("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")


def mount_tracing() -> None:
    """Mount tracefs and debugfs for this process and its children alone.

    Other tools than kernel-delay need them mounted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for kind, place in (("debugfs", "/sys/kernel/debug"), ("tracefs", "/sys/kernel/tracing")):
        if not os.path.ismount(place):
            # Where that can't be, the tools that want it say so.
            libc.mount(kind.encode(), place.encode(), kind.encode(), 0, None)


def _hypervisor() -> str:
    found = re.search(r"Hypervisor vendor:\s*(.*)", _output("lscpu"))
    return found[1] if found else "none"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()
