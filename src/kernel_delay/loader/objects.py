"""The BPF objects that are installed with the package: opened and loaded, or why they are not."""

import errno
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path

from kernel_delay.errors import (
    KernelDelayError,
    PermissionDeniedError,
    UnavailableError,
    is_memory_limited,
    raise_descriptors,
    raise_memory,
    shortage,
    soft_limit,
)
from kernel_delay.formatting import printable
from kernel_delay.host.preflight import BTF, Reason, is_filtered, why_refused
from kernel_delay.loader import _records
from kernel_delay.loader.base import BpfError, take_log
from kernel_delay.loader.features import takes_bpf
from kernel_delay.loader.programs import BpfObject

# What libbpf (1.1 to 1.5) says of a program that is refused: src/libbpf.c:bpf_object_load_prog()
# and bpf_object__load_progs(). The verifier's log comes in between; of a long one only the end is
# kept.
PROGRAM = re.compile(r"^libbpf: prog '([^']+)': failed to load: -\d+$", re.MULTILINE)
VERIFIER_LOG_END = "-- END PROG LOAD LOG --"

# Below the verifier's verdict: kernel/bpf/verifier.c:print_verification_stats().
COUNT_OF_INSTRUCTIONS = "processed "

# With fewer no capture can be: its programs and maps are more.
LEAST_DESCRIPTORS = 64

# The same of the types of the kernel's modules, which takes CAP_SYS_ADMIN
# (kernel/bpf/syscall.c:bpf_obj_get_next_id(), 5.14 to 6.18): src/libbpf.c:load_module_btfs(), 1.1.
NO_MODULES_TYPES = f"failed to iterate BTF objects: -{errno.EPERM}"

# And where it can't read those of the kernel itself, that preflight found: src/btf.c and
# src/libbpf.c, 1.1 to 1.5.
NO_TYPES = ("failed to find valid kernel BTF", "Error loading vmlinux BTF")

# write(2) into the file of memory that an object's types are in; bpf(2) has none of these, but
# ENOSPC where the verifier's log is too long.
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def refusal(error: BpfError, takes: Callable[[], bool] = takes_bpf) -> KernelDelayError:
    """Return the exception for an error of libbpf's or the kernel's; `takes` as below."""
    log = take_log()
    if shortage := _shortage(error, log):
        return shortage
    asked = f"{error.filename}: {error.strerror}"
    if verdict := verifier_verdict(log):
        return UnavailableError(
            f"the kernel's verifier refuses {_program(log)} ({asked}): {verdict}", _another_kernel()
        )
    if NO_MODULES_TYPES in log:
        return PermissionDeniedError(
            f"the kernel refuses eBPF ({asked}): CAP_SYS_ADMIN is missing, and reading the types of"
            " kernel modules needs it: run as root",
            "add that capability",
        )
    if reason := why_forbidden(error, takes):
        return PermissionDeniedError(
            f"the kernel refuses eBPF ({asked}): {reason.why}", reason.remedy
        )
    if any(text in log for text in NO_TYPES):
        # libbpf has ESRCH for whatever reading them failed with.
        return UnavailableError(
            "the kernel's types can't be read", f"free some memory, and try `wc -c {BTF}`"
        )
    if error.errno in NOT_WRITTEN:
        return UnavailableError(f"no room for the kernel's types ({asked})", "free some memory")
    said = _last_line(log)
    return UnavailableError(
        f"this kernel refuses it ({asked}{': ' + said if said else ''})", _another_kernel()
    )


def refusal_at_function(error: BpfError) -> KernelDelayError:
    """The same of a program at a function of the kernel, where those at tracepoints are loaded.

    The kernel asks for the same rights for both (kernel/bpf/syscall.c:bpf_prog_load(), 5.14 to
    6.18), and to a seccomp filter both are the same call: neither is the cause.
    """
    if error.errno not in (errno.EPERM, errno.EACCES):
        return refusal(error)
    return PermissionDeniedError(
        f"the kernel refuses {error.filename} ({error.strerror}), though programs at tracepoints"
        " take the same rights",
        "no capability helps: use another kernel, or end the BPF LSM program that forbids it",
    )


def why_forbidden(error: BpfError, takes: Callable[[], bool]) -> Reason | None:
    """Why a system call is forbidden to this user; None: its error has another cause.

    A seccomp filter may answer with any error. Then the call fails whatever it asks for, and
    `takes` is False: takes_bpf() of bpf(2), takes_perf_events() of perf_event_open(2).
    """
    is_denied = error.errno in (errno.EPERM, errno.EACCES)
    return why_refused() if is_denied or (is_filtered() and not takes()) else None


def not_opened(error: BpfError) -> KernelDelayError:
    """Return the exception where an object file of ours can't be opened."""
    what = f"{error.filename}: {error.strerror}"
    return _shortage(error) or UnavailableError(what, "install kernel-delay again")


def _shortage(error: BpfError, log: str = "") -> UnavailableError | None:
    # Where libbpf finds no descriptor to try a feature with, or for the kernel's types, it goes on
    # as if the kernel lacked that, and what fails then has any error.
    limit = soft_limit(resource.RLIMIT_NOFILE)
    if limit is not None and limit < LEAST_DESCRIPTORS:
        return UnavailableError(raise_descriptors())
    if reason := shortage(error):
        return UnavailableError(reason)
    if is_memory_limited() and any(text in log for text in NO_TYPES):
        return UnavailableError(raise_memory())
    return None


def verifier_verdict(log: str) -> str:
    """Return the verifier's last line in libbpf's log, on one program; "" where it has none.

    The verifier says no with EACCES, EINVAL, E2BIG and others, always with a log; what has none is
    no refusal of the verifier's.
    """
    before, end, _ = log.rpartition(VERIFIER_LOG_END)
    if not end:
        return ""
    lines = [line.strip() for line in before.splitlines() if line.strip()]
    if lines and lines[-1].startswith(COUNT_OF_INSTRUCTIONS):
        lines.pop()
    return printable(lines[-1]) if lines else ""


def _program(log: str) -> str:
    last = ""
    for found in PROGRAM.finditer(log):
        last = found.group(1)
    return f"the program {printable(last)}" if last else "a program"


def _last_line(log: str) -> str:
    """The last but one of libbpf's lines where the last says only which file was not loaded."""
    lines = [line.removeprefix("libbpf: ") for line in log.splitlines() if line.strip()]
    if lines and lines[-1].startswith("failed to load object"):
        lines.pop()
    return printable(lines[-1]) if lines else ""


def _another_kernel() -> str:
    release = os.uname().release
    return f"report it, with what --debug prints; until then use another kernel than {release}"


def open_object(name: str, *, built_in: bool = False) -> BpfObject:
    """Open `name`.bpf.o; nothing is in the kernel yet. `built_in` as for a BpfObject.

    Raises UnavailableError where the file is damaged, or memory or descriptors are short.
    """
    take_log()  # An error is not to quote what was said of another object.
    # An editable build has what is compiled elsewhere than the modules, and extensions of all
    # rooms in one folder.
    folders = [room / "bpf" for room in Path(_records.__file__).parents[:2]]
    path = next(filter(Path.is_dir, folders), folders[-1]) / f"{name}.bpf.o"
    try:
        return BpfObject(path, built_in=built_in)
    except BpfError as error:
        raise not_opened(error) from error


def load_object(bpf_object: BpfObject, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Load the object's maps and programs, and call `meanwhile` beside that.

    Raises PermissionDeniedError when eBPF is refused, and UnavailableError
    when this kernel can't run a program.
    """
    take_log()  # As above.
    try:
        bpf_object.load(meanwhile)
    except BpfError as error:
        raise refusal(error) from error
