"""What the tests need is installed by `make test`: what is missing is a failure, not a skip."""

import os
import shutil
import socket
from contextlib import closing
from pathlib import Path

import pytest

from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.preflight import BTF
from tests.emulation import is_emulated

SDT_HEADER = "sys/sdt.h"


def needed(*programs: str) -> str:
    """The first program's path; the test fails if one of them is not there."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.fail(_said(", ".join(missing)), pytrace=False)
    return str(shutil.which(programs[0]))


def need_sdt_header() -> None:
    """The test fails without <sys/sdt.h>."""
    if not list(Path("/usr/include").rglob(SDT_HEADER)):
        pytest.fail(_said(f"<{SDT_HEADER}>"), pytrace=False)


def is_preempt_rt() -> bool:
    """Whether the kernel has CONFIG_PREEMPT_RT (kernel/ksysfs.c in its patches, 6.12 and later)."""
    realtime = Path("/sys/kernel/realtime")
    return realtime.exists() and realtime.read_text().strip() == "1"


def need_real_time() -> None:
    """Skips where a real-time task that never sleeps hangs the kernel, also without any tool.

    With PREEMPT_RT it goes before RCU's and the timers' threads. An emulated CPU is too slow for
    what is left to them.
    """
    if is_preempt_rt() and is_emulated():
        pytest.skip("a real-time task that never sleeps hangs an emulated PREEMPT_RT")


def need_unix_diag() -> None:
    """Skips where the kernel does not show Unix sockets."""
    with socket.socket(socket.AF_UNIX) as one, closing(UnixSockets()) as sockets:
        if sockets.find(os.fstat(one.fileno()).st_ino) is None:
            pytest.skip("this kernel has no CONFIG_UNIX_DIAG")


def need_other_debians() -> None:
    """Skips where none can be made: a guest with a Debian of its own has no network and no apt."""
    if is_emulated() and shutil.which("apt-get") is None:
        pytest.skip("a root of another Debian takes apt and a network")


def need_registers() -> None:
    """Skips where no program is given the registers of a thread beside its own (Linux 5.15)."""
    if not in_kernels_types("BPF_FUNC_task_pt_regs"):
        pytest.skip("this kernel has no bpf_task_pt_regs() (Linux 5.15)")


def make_real_time(pid: int, priority: int) -> None:
    """Have a task go before all others, by SCHED_FIFO."""
    need_real_time()
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(priority))


def in_kernels_types(name: str) -> bool:
    """Whether something of that name is in the types of this kernel."""
    return BTF.exists() and b"\0%b\0" % name.encode() in BTF.read_bytes()


def _said(missing: str) -> str:
    return (
        f"{missing}: not installed; `make test-host` installs what setup/packages-build.txt and"
        " packages-test.txt list"
    )
