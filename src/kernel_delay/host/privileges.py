"""What this process may do once its programs are attached: what it still uses, and no more.

Which capabilities and system calls each use takes was found by leaving out one after the other.
The calls that are denied are a list. A list of those that are allowed would break with the next
version of glibc, Python or OpenSSL, and an error in the middle of a measurement is worse than a
call too many that a process without capabilities may make.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from kernel_delay.host._seccomp import ffi, lib
from kernel_delay.host.preflight import (
    PERFMON_LEVEL,
    holds,
    note_own_filter,
    perf_event_paranoid,
    process_status,
)

# include/uapi/linux/capability.h (6.18)
CAPABILITIES = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_FOWNER": 3,
    "CAP_KILL": 5,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
    "CAP_SYSLOG": 34,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
    "CAP_CHECKPOINT_RESTORE": 40,
}

# Those that were part of CAP_SYS_ADMIN before Linux 5.9, and that it still stands for.
SPLIT_OFF = frozenset({"CAP_BPF", "CAP_PERFMON", "CAP_CHECKPOINT_RESTORE"})

# Nothing here makes these calls once it measures, except for a use that says so.
DENIED_CALLS = (
    # What changes the machine.
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "stime"),
    *("clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64", "adjtimex"),
    *("sethostname", "setdomainname", "syslog", "iopl", "ioperm", "vhangup", "mknod", "mknodat"),
    # What leads into other file systems and namespaces.
    *("mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen"),
    *("fsconfig", "fsmount", "fspick", "pivot_root", "chroot", "setns", "unshare"),
    *("open_by_handle_at", "fanotify_init"),
    # What reaches into other processes.
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    *("migrate_pages", "move_pages"),
    # Parts of the kernel that attacks have begun with.
    *("add_key", "request_key", "keyctl", "userfaultfd", "io_uring_setup", "io_uring_enter"),
    *("io_uring_register", "modify_ldt", "personality", "perf_event_open"),
    # What starts other programs, or speaks to others.
    *("execve", "execveat", "socket", "connect", "bind", "listen"),
)

# enum bpf_cmd of include/uapi/linux/bpf.h (6.18): elements of maps, what programs missed, links of
# programs that are loaded, and iterators. None loads a program or makes a map.
BPF_MAP_LOOKUP_ELEM = 1
BPF_MAP_UPDATE_ELEM = 2
BPF_MAP_DELETE_ELEM = 3
BPF_MAP_GET_NEXT_KEY = 4
BPF_OBJ_GET_INFO_BY_FD = 15
BPF_RAW_TRACEPOINT_OPEN = 17
BPF_LINK_CREATE = 28
BPF_ITER_CREATE = 33
BPF_COMMANDS = (
    BPF_MAP_LOOKUP_ELEM,
    BPF_MAP_UPDATE_ELEM,
    BPF_MAP_DELETE_ELEM,
    BPF_MAP_GET_NEXT_KEY,
    BPF_OBJ_GET_INFO_BY_FD,
    BPF_RAW_TRACEPOINT_OPEN,
    BPF_LINK_CREATE,
    BPF_ITER_CREATE,
)

# What a program needs that reads lines, and writes lines.
CALLS_OF_A_FILTER = (
    *("read", "write", "close", "fstat", "newfstatat", "lseek", "mmap", "munmap", "mremap"),
    *("mprotect", "madvise", "brk", "futex", "getrandom", "clock_gettime", "rt_sigaction"),
    *("rt_sigprocmask", "rt_sigreturn", "sigaltstack", "exit", "exit_group"),
)


OWNER_MAKES_FILES = stat.S_IWUSR | stat.S_IXUSR


class Use(Struct, frozen=True):
    """What a command does after its programs are attached, and what that takes.

    Attributes:
        what: What is done, for people.
        when: By which commands and options.
        capabilities: Which capabilities it takes. Of perf events CAP_SYS_ADMIN is one more where
            kernel.perf_event_paranoid is above PERFMON_LEVEL.
        calls: Which of DENIED_CALLS it makes.
        loads: Whether it loads BPF programs: all commands of bpf(2).
    """

    what: str
    when: str
    capabilities: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    loads: bool = False


EVENTS = Use("read maps and iterate over threads", "always", ("CAP_BPF",))
PROCESS = Use(
    "read `/proc` of the process: its cgroups, locked files and tracer",
    "`capture`, `top`, `watch`, `where`",
    ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"),
)
NAMES = Use(
    "name the functions of stacks: its memory and files, `/proc/kallsyms`, a demangler",
    "`capture -s`, `capture --wakers stacks`, `--chains`, `watch` without `--no-stacks`, `where`",
    ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE", "CAP_SYSLOG"),
    ("execve",),
)
PROFILES = Use(
    "sample what a slow thread runs",
    "`watch`, except with `--no-stacks --calls`",
    ("CAP_PERFMON",),
    ("perf_event_open",),
)
FOLLOW = Use(
    "attach to the next process",
    "`watch --follow`, `top` without a process",
    (
        *("CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"),
        *("CAP_SYSLOG", "CAP_SYS_NICE"),
    ),
    ("perf_event_open", "fsopen", "fsconfig", "fsmount"),
    loads=True,
)
NETWORK = Use(
    "serve and send metrics",
    "`watch --metrics`, `watch --otlp`",
    calls=("socket", "connect", "bind", "listen"),
)
PROGRAM = Use("pass signals on to the PROGRAM", "`capture -- PROGRAM`", ("CAP_KILL",))
FOLDERS = Use(
    "write into a folder of another user",
    "an output in such a folder",
    ("CAP_DAC_OVERRIDE", "CAP_FOWNER"),
)
_given_up = False

USES = (EVENTS, PROCESS, NAMES, PROFILES, FOLLOW, NETWORK, PROGRAM, FOLDERS)


def keep_only(uses: Iterable[Use], outputs: Iterable[Path | None] = ()) -> None:
    """Give up what the uses do not take: capabilities of this thread, and calls of all threads.

    `outputs` are files and folders that are written to later. A kernel without seccomp(2) denies no
    call. Threads that run already keep their capabilities: see without_capabilities(). After the
    first time nothing is left to give up.
    """
    global _given_up
    if _given_up:
        return
    _given_up = True
    kept = [EVENTS, *uses]
    if any(path is not None and _is_of_another(path) for path in outputs):
        kept.append(FOLDERS)
    calls = _numbers(set(DENIED_CALLS).difference(*(use.calls for use in kept)))
    commands = () if any(use.loads for use in kept) else BPF_COMMANDS
    error = lib.deny_calls(
        ffi.new("int32_t[]", calls), len(calls), ffi.new("int32_t[]", commands), len(commands)
    )
    if not error:
        note_own_filter()
    lib.limit_capabilities(_mask(_names(kept)))


def _names(kept: Iterable[Use]) -> set[str]:
    """Return which capabilities these uses take on this kernel."""
    names = {name for use in kept for name in use.capabilities}
    if "CAP_PERFMON" in names and perf_event_paranoid() > PERFMON_LEVEL:
        names.add("CAP_SYS_ADMIN")
    return names


def keep_nothing(
    calls: Iterable[str] = CALLS_OF_A_FILTER, capabilities: Iterable[str] = ()
) -> None:
    """Give up all capabilities and calls but these: calls that read and write what is open."""
    numbers = _numbers(calls)
    lib.limit_capabilities(sum(1 << CAPABILITIES[name] for name in capabilities))
    lib.allow_calls(ffi.new("int32_t[]", numbers), len(numbers))


def become(user: int) -> None:
    """Be another user, of no group but that of its number; the same where that is not allowed."""
    with suppress(OSError):
        os.setgroups(())
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def end_with_parent() -> None:
    """Have the kernel end this process with its parent: prctl(2), PR_SET_PDEATHSIG."""
    lib.end_with_parent()


def refuse_tracers() -> None:
    """Keep others of this user from this process's memory and files: prctl(2), PR_SET_DUMPABLE."""
    lib.refuse_tracers()


def without_capabilities(start: Callable[[], object]) -> None:
    """Call `start`, whose threads have no capabilities, nor have those that these start."""
    import threading

    failed: list[Exception] = []

    def run() -> None:
        lib.limit_capabilities(0)
        try:
            start()
        except Exception as error:
            failed.append(error)

    starting = threading.Thread(target=run)
    starting.start()
    starting.join()
    if failed:
        raise failed[0]


def _is_of_another(path: Path) -> bool:
    """Whether the folder's permissions keep this user from making a file there."""
    try:
        found = os.stat(path if path.is_dir() else path.parent)
    except OSError:
        return True
    return found.st_uid != os.geteuid() or found.st_mode & OWNER_MAKES_FILES != OWNER_MAKES_FILES


def _numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of those calls that this architecture has."""
    native = lib.seccomp_arch_native()
    found = (lib.seccomp_syscall_resolve_name_arch(native, name.encode()) for name in names)
    return sorted(number for number in found if number >= 0)


def _mask(names: Collection[str]) -> int:
    """Return the mask of these, and of CAP_SYS_ADMIN where that has to stand for one of them."""
    effective = process_status("CapEff")
    mask = sum(1 << CAPABILITIES[name] for name in names)
    split_off = (CAPABILITIES[name] for name in SPLIT_OFF.intersection(names))
    if all(holds(effective, capability) for capability in split_off):
        return mask
    return mask | 1 << CAPABILITIES["CAP_SYS_ADMIN"]
