"""Which security modules of the kernel may refuse this process BPF, and are active.

Only those are asked that can: SELinux has a hook in bpf(2) (security/selinux/hooks.c,
selinux_bpf()), AppArmor one in the check of capabilities (security/apparmor/lsm.c,
apparmor_capable(); both 5.14 to 6.18). Yama, Landlock and others have neither.
"""

from collections.abc import Iterator
from pathlib import Path

from kernel_delay.printable import printable

SELINUX_ENFORCE = Path("/sys/fs/selinux/enforce")
# A context of SELinux: user:role:type:level.
CONTEXT = Path("/proc/self/attr/current")
CONTEXT_COLONS = 2
# From Linux 5.8 on; a profile and its mode, "docker-default (enforce)", or "unconfined".
APPARMOR_PROFILE = Path("/proc/self/attr/apparmor/current")
ENFORCED = " (enforce)"


def active_modules() -> tuple[str, ...]:
    """Return the names of those that are active, each with what it has for this process."""
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
