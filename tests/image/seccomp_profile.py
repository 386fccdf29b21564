"""python -m tests.image.seccomp_profile >deploy/seccomp/kernel-delay.json

Writes the seccomp profile of containers: the system calls that the commands make, as strace(1) sees
them, and what stands for these on arm64 and in other versions of glibc, Python and runc.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernel_delay.host.privileges import CALLS_OF_A_FILTER
from tests.faults.failing import traced_run
from tests.faults.tried import Command, commands, has_any
from tests.workload import Workload, compile_workload

PROFILE = Path(__file__).parents[2] / "deploy" / "seccomp" / "kernel-delay.json"

# What one C library or architecture calls, another does by another: each stands for all of its row.
EQUAL_CALLS = (
    ("access", "faccessat", "faccessat2"),
    ("alarm", "setitimer"),
    ("arch_prctl", "set_thread_area"),
    ("clone", "clone3", "fork", "vfork"),
    ("dup", "dup2", "dup3"),
    ("epoll_create", "epoll_create1"),
    ("epoll_wait", "epoll_pwait", "epoll_pwait2"),
    ("eventfd", "eventfd2"),
    ("getdents", "getdents64"),
    ("getrlimit", "prlimit64", "setrlimit"),
    ("link", "linkat"),
    ("lstat", "newfstatat", "stat", "statx", "fstat", "fstatat64"),
    ("mkdir", "mkdirat"),
    ("nanosleep", "clock_nanosleep"),
    ("open", "openat"),
    ("pipe", "pipe2"),
    ("poll", "ppoll"),
    ("pread64", "preadv", "preadv2", "readv", "read"),
    ("pwrite64", "pwritev", "pwritev2", "writev", "write"),
    ("readlink", "readlinkat"),
    ("recvfrom", "recvmsg", "recvmmsg"),
    ("rename", "renameat", "renameat2"),
    ("rmdir", "unlink", "unlinkat"),
    ("select", "pselect6"),
    ("sendto", "sendmsg", "sendmmsg"),
    ("statfs", "fstatfs"),
    ("accept", "accept4"),
    ("chmod", "fchmod", "fchmodat", "fchmodat2"),
    ("chown", "fchown", "fchownat", "lchown"),
    ("utimensat", "utimes", "utime", "futimesat"),
    ("waitid", "wait4"),
    ("signalfd", "signalfd4"),
    ("inotify_init", "inotify_init1"),
)

# In containers, and what traces seldom have: what runc does behind its filter, tracefs that is not
# mounted, another network namespace, signals, and what a busy machine has the C library do.
SELDOM = (
    *("capget", "capset", "prctl", "setgid", "setgroups", "setuid", "setresgid", "setresuid"),
    *("getppid", "execve", "exit", "exit_group", "rt_sigreturn", "restart_syscall", "tgkill"),
    *("kill", "pidfd_open", "pidfd_send_signal", "fsopen", "fsconfig", "fsmount", "setns"),
    *("sched_yield", "sched_getaffinity", "sched_setaffinity", "futex", "futex_waitv", "rseq"),
    *("membarrier", "set_robust_list", "get_robust_list", "mremap", "madvise", "close_range"),
    *("copy_file_range", "sendfile", "fallocate", "ftruncate", "fsync", "fdatasync", "flock"),
    *("accept", "shutdown", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto"),
    *("getcwd", "chdir", "umask", "sysinfo", "uname", "getrusage", "clock_getres", "nanosleep"),
    *("gettimeofday", "time", "openat2", "ioctl", "fcntl", "select", "waitid", "geteuid", "getuid"),
    *("getegid", "getgid", "getgroups", "setpriority", "getpriority", "utimensat", "chmod"),
)

CALL = re.compile(r"\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)")


def made(command: Command) -> set[str]:
    """Return which calls it makes."""
    with tempfile.NamedTemporaryFile() as log:
        traced_run(command, log.name)
        lines = Path(log.name).read_text(errors="replace").splitlines()
    return {match[1] for line in lines if (match := CALL.match(line))}


def others() -> Iterator[Command]:
    """Yield commands that make calls which those of tests.faults do not."""
    workload = Workload([compile_workload("sleeps"), "nanosleep", 1_000_000_000, 1_000_000])
    workload.send()
    try:
        target = ("-p", str(workload.pid), "--sample-time", "0.2")
        for options in (
            ("--children",),
            ("--chains",),
            ("--timeline",),
            ("--wakers", "stacks"),
            ("--html", "{folder}/page.html"),
            ("--perfetto", "{folder}/trace.pftrace", "-s"),
            ("--start-trigger", "t:syscalls:sys_enter_clock_nanosleep", "--timeout", "5"),
        ):
            yield Command(" ".join(options), (*target, *options), has_any)
        yield Command("-- true", ("--sample-time", "0.2", "--", "/bin/sleep", "1"), has_any)
    finally:
        workload.kill()


def profile(calls: set[str]) -> dict[str, object]:
    """Return the profile that allows these: see the OCI runtime specification."""
    allowed = calls | set(SELDOM) | set(CALLS_OF_A_FILTER)
    for row in EQUAL_CALLS:
        if allowed.intersection(row):
            allowed.update(row)
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        # ENOSYS, so that libraries take the call of before.
        "defaultErrnoRet": 38,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": sorted(allowed), "action": "SCMP_ACT_ALLOW"}],
    }


def main() -> int:
    """Print the profile; the exit status."""
    found: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, commands(Path(folder), "") as tried:
        for command in (*tried, *others()):
            calls = made(command)
            print(f"{command.name}: {' '.join(sorted(calls - found))}", file=sys.stderr)
            found |= calls
    print(json.dumps(profile(found), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
