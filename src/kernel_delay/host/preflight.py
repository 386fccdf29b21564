"""What must hold before BPF is asked for anything, and why it may still be refused."""

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernel_delay.errors import PermissionDeniedError, UnavailableError
from kernel_delay.formatting import NS_PER_S, printable
from kernel_delay.host.proc_text import read_lines

SELINUX_ENFORCE = Path("/sys/fs/selinux/enforce")
# A context of SELinux: user:role:type:level.
CONTEXT = Path("/proc/self/attr/current")
CONTEXT_COLONS = 2
# From Linux 5.8 on; a profile and its mode, "docker-default (enforce)", or "unconfined".
APPARMOR_PROFILE = Path("/proc/self/attr/apparmor/current")
ENFORCED = " (enforce)"


def active_modules() -> tuple[str, ...]:
    """Return the active security modules, each with the context or profile of this process."""
    return tuple(_active_modules())


def _active_modules() -> Iterator[str]:
    context = _read(CONTEXT)
    # Containers often have no selinuxfs: then it is not known whether the context is enforced.
    if context.count(":") >= CONTEXT_COLONS and _read(SELINUX_ENFORCE) != "0":
        yield f"SELinux (context {printable(context)})"
    profile = _read(APPARMOR_PROFILE)
    if profile.endswith(ENFORCED):
        yield f"AppArmor (profile {printable(profile.removesuffix(ENFORCED))})"


def _read(path: Path) -> str:
    """The line in a file; nothing where it can't be read, as the module is not active."""
    try:
        return path.read_text(errors="backslashreplace").rstrip("\0\n")
    except OSError:
        return ""


BTF = Path("/sys/kernel/btf/vmlinux")
# struct btf_header of include/uapi/linux/btf.h (5.14 to 6.18).
_BTF_HEADER = struct.Struct("=HBBIIIII")

LOCKDOWN = Path("/sys/kernel/security/lockdown")

# What no program does without, and the name by which the kernel's types show that it is there; the
# commit that brought it, and the release. Red Hat's kernels have them by older numbers.
NEEDED_OF_BPF = (
    ("ring buffers", "BPF_MAP_TYPE_RINGBUF"),  # 457f44363a88, 5.8: enum bpf_map_type
    ("bpf_get_current_task_btf()", "BPF_FUNC_get_current_task_btf"),  # 3ca1032ab7ab, 5.11
    # a10787e6d58c, 5.13: a field of struct task_struct
    ("task storage for tracing programs", "bpf_storage"),
)
NEWER = "use a kernel of 5.14 or later (RHEL 9, Ubuntu 22.04, Debian 12 and later have it)"

# include/uapi/linux/capability.h (6.18)
CAP_DAC_READ_SEARCH = 2
CAP_SYS_PTRACE = 19
CAP_SYS_ADMIN = 21
CAP_SYSLOG = 34
NEEDED_CAPABILITIES = (("CAP_PERFMON", 38), ("CAP_BPF", 39))

# include/linux/proc_ns.h (6.18), PROC_USER_INIT_INO: the first user namespace's inode.
PROC_USER_INIT_INO = 0xEFFF_FFFD
# PROC_CGROUP_INIT_INO, the same of cgroup namespaces.
PROC_CGROUP_INIT_INO = 0xEFFF_FFFB

SECCOMP_MODE_FILTER = "2"

PERF_EVENT_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# The highest one of kernels from kernel.org. Debian's (3) and Ubuntu's (4) go beyond, and then ask
# for CAP_SYS_ADMIN where CAP_PERFMON would do: kernel/events/core.c, perf_paranoid_any().
PERFMON_LEVEL = 2
LESS_PARANOID = f"add that capability, or set kernel.perf_event_paranoid to {PERFMON_LEVEL}"

_own_filters = 0

CONTAINER_OPTIONS = "--privileged --pid=host"

OUTSIDE_TIME_NAMESPACE = "run outside of it, as by `nsenter --time --target 1`"


class Reason(NamedTuple):
    """Why the kernel refused something, and what to do about that."""

    why: str
    remedy: str


def check() -> None:
    """Raise what keeps a capture from working on this machine, if anything is known to.

    PermissionDeniedError for missing capabilities, UnavailableError for a
    kernel without BTF or one that is too old, or in a time namespace of other
    times. Lockdown and seccomp show only when BPF is refused: see `why_refused`.
    """
    missing = missing_capabilities(process_status("CapEff"))
    if missing:
        raise PermissionDeniedError(
            f"missing {' and '.join(missing)}: run as root, or in a container with"
            f" {CONTAINER_OPTIONS}"
        )
    if not in_first_user_namespace():
        raise PermissionDeniedError(
            "root of a user namespace (a rootless container?) may not load BPF: run as the"
            f" machine's root, with {CONTAINER_OPTIONS}"
        )
    if not BTF.exists():
        raise UnavailableError(
            f"no BTF ({BTF} does not exist): use a kernel with CONFIG_DEBUG_INFO_BTF=y, and mount"
            " /sys"
        )
    if lacking := lacking_of_bpf():
        raise UnavailableError(f"this kernel's BPF has no {' and no '.join(lacking)}: {NEWER}")
    # Programs stamp events with the kernel's clock, windows begin by this process's.
    if offset_ns := monotonic_offset_ns(Path("/proc/self")):
        raise UnavailableError(
            f"this time namespace shifts CLOCK_MONOTONIC by {offset_ns / NS_PER_S:,.3f} s, so all"
            f" times would be wrong: {OUTSIDE_TIME_NAMESPACE}"
        )


def lacking_of_bpf() -> tuple[str, ...]:
    """What the programs need and this kernel's BPF has not, by the kernel's own types.

    The names of types, fields and enumerators are strings in BTF, each between zeros, behind the
    types (Documentation/bpf/btf.rst, 5.14), so that to look for one takes no parser.
    """
    with BTF.open("rb") as file:
        *_, header_len, _, _, strings, strings_len = _BTF_HEADER.unpack(file.read(_BTF_HEADER.size))
        try:
            # From 6.16 on, commit a539e2a6d51d; a read has a page of it at most.
            types = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        except OSError:
            file.seek(header_len + strings)
            return _lacking(file.read(strings_len))
        with types:
            return _lacking(types, header_len + strings)


def _lacking(names: bytes | mmap.mmap, begin: int = 0) -> tuple[str, ...]:
    return tuple(
        what for what, name in NEEDED_OF_BPF if names.find(b"\0%b\0" % name.encode(), begin) < 0
    )


def missing_capabilities(cap_eff: str) -> tuple[str, ...]:
    """The names of capabilities that a capture needs and `cap_eff` lacks.

    `cap_eff` is the hexadecimal mask in /proc/self/status. CAP_SYS_ADMIN
    stands for the ones that were split off it in Linux 5.8; see capabilities(7).
    """
    if holds(cap_eff, CAP_SYS_ADMIN):
        return ()
    return tuple(name for name, bit in NEEDED_CAPABILITIES if not holds(cap_eff, bit))


def holds(cap_eff: str, capability: int) -> bool:
    """Whether the capability is in the mask of /proc/self/status."""
    return bool(int(cap_eff, 16) >> capability & 1)


def perf_event_paranoid() -> int:
    """Return the level of that sysctl: above PERFMON_LEVEL, perf events take CAP_SYS_ADMIN."""
    try:
        return int(_read(PERF_EVENT_PARANOID))
    except ValueError:
        return PERFMON_LEVEL


def may_not_look_at(what: str) -> PermissionDeniedError:
    """The error for a process, or what /proc has of it, that this user may not look at.

    The rule is ptrace(2)'s, "Ptrace access mode checking".
    """
    if os.geteuid() != 0:
        remedy = "run as root or with CAP_SYS_PTRACE"
    elif not holds(process_status("CapEff"), CAP_SYS_PTRACE):
        remedy = (
            "root has no CAP_SYS_PTRACE here, as in a container, and the process has more"
            f" capabilities: run as the machine's root, in a container with {CONTAINER_OPTIONS}"
        )
    elif not in_first_user_namespace():
        remedy = (
            "root only within a user namespace (a rootless container?): run as the machine's root"
        )
    elif modules := active_modules():
        remedy = f"{' and '.join(modules)} may guard it, also from root"
    else:
        remedy = (
            "why is not known: this is root, and neither SELinux nor AppArmor is active;"
            " Landlock may guard it"
        )
    return PermissionDeniedError(f"this user may not inspect {what}", remedy)


def why_refused() -> Reason:
    """Why bpf(2) or perf_event_open(2) gave EPERM or EACCES, and it was not the verifier.

    To one with CAP_BPF and CAP_PERFMON it comes from outside BPF: the kernel's lockdown, a seccomp
    filter (Docker's and Podman's default blocks bpf(2)), or a security module; or what was asked
    for takes CAP_SYS_ADMIN. What is not active here is not blamed.
    """
    if _locked_down():
        return Reason(
            "it is locked down for confidentiality",
            "boot with lockdown=integrity, or without Secure Boot",
        )
    if is_filtered():
        return Reason(
            "a seccomp filter is set, as in a container", f"start it with {CONTAINER_OPTIONS}"
        )
    is_admin = holds(process_status("CapEff"), CAP_SYS_ADMIN)
    level = perf_event_paranoid()
    if not is_admin and level > PERFMON_LEVEL:
        return Reason(
            f"at kernel.perf_event_paranoid={level} it takes CAP_SYS_ADMIN, which is missing",
            LESS_PARANOID,
        )
    if modules := active_modules():
        return Reason(
            f"of what may forbid it, {' and '.join(modules)} is active",
            f"permit it there; in a container, start that with {CONTAINER_OPTIONS}",
        )
    if not is_admin:
        return Reason("CAP_SYS_ADMIN is missing, and may be needed", "add that capability")
    return Reason(
        "why is not known: no SELinux, AppArmor, seccomp filter or lockdown for confidentiality"
        " is active here",
        "report it, with what --debug prints",
    )


def note_own_filter() -> None:
    """Blame no refusal on a seccomp filter that this tool has set."""
    global _own_filters
    _own_filters += 1


def is_filtered() -> bool:
    """Whether a seccomp filter is set that is not this tool's own."""
    if process_status("Seccomp") != SECCOMP_MODE_FILTER:
        return False
    return int(process_status("Seccomp_filters")) != _own_filters


def _locked_down() -> bool:
    """Whether lockdown's level is confidentiality, the one that keeps BPF from reading."""
    try:
        return "[confidentiality]" in LOCKDOWN.read_text()
    except OSError:  # no lockdown, or securityfs is not mounted
        return False


def in_first_user_namespace() -> bool:
    """Whether the user's rights are the machine's, and not those within a container's."""
    try:
        return os.stat("/proc/self/ns/user").st_ino == PROC_USER_INIT_INO
    except FileNotFoundError:  # a kernel without user namespaces
        return True


def in_first_cgroup_namespace() -> bool:
    """Whether the paths in /proc/PID/cgroup are the machine's; see cgroup_namespaces(7)."""
    try:
        return os.stat("/proc/self/ns/cgroup").st_ino == PROC_CGROUP_INIT_INO
    except FileNotFoundError:  # a kernel without cgroups
        return True


def monotonic_offset_ns(process: Path) -> int | None:
    """Return by how much CLOCK_MONOTONIC of a process is ahead of the kernel's; None: not known.

    What /proc has is that of its children, which may be in another time namespace
    (time_namespaces(7)). `process` is its directory, such as /proc/123.
    """
    try:
        lines = read_lines(process / "timens_offsets")
        if os.readlink(process / "ns/time") != os.readlink(process / "ns/time_for_children"):
            return None
        words = next(line.split() for line in lines if line.startswith("monotonic"))
        return int(words[1]) * NS_PER_S + int(words[2])
    except FileNotFoundError:  # a kernel without time namespaces
        return 0
    except (OSError, StopIteration):
        return None


def process_status(field: str) -> str:
    """A field of /proc/self/status; see proc_pid_status(5)."""
    for line in read_lines(Path("/proc/self/status")):
        name, _, value = line.partition(":")
        if name == field:
            return value.strip()
    return "0"
