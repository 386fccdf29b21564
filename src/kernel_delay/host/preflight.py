"""What must hold before BPF is asked for anything, and why it may still be refused."""

import os
from pathlib import Path

from kernel_delay.errors import PermissionDeniedError, UnavailableError

BTF = Path("/sys/kernel/btf/vmlinux")
LOCKDOWN = Path("/sys/kernel/security/lockdown")

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

CONTAINER_OPTIONS = "--privileged --pid=host"


def check() -> None:
    """Raise what keeps a capture from working on this machine, if anything is known to.

    PermissionDeniedError for missing capabilities, UnavailableError for a
    kernel without BTF. Lockdown and seccomp show only when BPF is refused:
    see `why_refused`.
    """
    missing = missing_capabilities(process_status("CapEff"))
    if missing:
        raise PermissionDeniedError(
            f"missing {' and '.join(missing)}: run as root, or in a container with"
            f" {CONTAINER_OPTIONS}"
        )
    if not in_first_user_namespace():
        raise PermissionDeniedError(
            "root only within a user namespace (a rootless container?), which the kernel"
            f" does not take for BPF: run as the machine's root, with {CONTAINER_OPTIONS}"
        )
    if not BTF.exists():
        raise UnavailableError(
            f"no BTF ({BTF} is not there): it takes a kernel built with"
            " CONFIG_DEBUG_INFO_BTF=y, and /sys mounted"
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
    else:
        remedy = "a security module (SELinux, AppArmor, Landlock) guards it, also from root"
    return PermissionDeniedError(f"may not look at {what}: {remedy}")


def why_refused() -> str:
    """Why bpf(2) gave EPERM or EACCES to one with CAP_BPF and CAP_PERFMON, and what to do.

    Where a type that a program may do without is not the kernel's, libbpf (1.1) looks for it in
    those of the modules, which takes CAP_SYS_ADMIN (kernel/bpf/syscall.c, bpf_obj_get_next_id(),
    6.18). With that it comes from outside BPF: the kernel's lockdown, a seccomp filter (Docker's
    and Podman's default blocks bpf(2)), or a security module.
    """
    if _locked_down():
        return (
            "it is locked down for confidentiality: boot with lockdown=integrity,"
            " or without Secure Boot"
        )
    if not holds(process_status("CapEff"), CAP_SYS_ADMIN):
        return (
            "CAP_SYS_ADMIN is missing, which the kernel asks for when a program looks for what"
            " this kernel has not: add that capability"
        )
    if process_status("Seccomp") == SECCOMP_MODE_FILTER:
        return f"a seccomp filter is set, as in a container: start it with {CONTAINER_OPTIONS}"
    return (
        "a security module (SELinux, AppArmor), lockdown or a container's limits:"
        f" run as the machine's root, in a container with {CONTAINER_OPTIONS}"
    )


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


def process_status(field: str) -> str:
    """A field of /proc/self/status; see proc_pid_status(5)."""
    for line in Path("/proc/self/status").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return value.strip()
    return "0"
