"""The BPF objects that are installed with the package: opened and loaded.

What the kernel refuses becomes one line that says what is missing and how to
get it.
"""

import errno
import itertools
from importlib.resources import as_file, files

from kernel_delay.errors import (
    KernelDelayError,
    PermissionDeniedError,
    UnavailableError,
    raise_descriptors,
    too_few_descriptors,
)
from kernel_delay.host.preflight import why_refused
from kernel_delay.libbpf import BpfError, BpfObject, take_log

# libbpf puts this above the verifier's log of a program that was refused.
VERIFIER_LOG = "BEGIN PROG LOAD LOG"


def open_object(name: str) -> BpfObject:
    """Open `name`.bpf.o; nothing is in the kernel yet."""
    # An editable build has them elsewhere than the modules.
    with as_file(files("kernel_delay") / "bpf" / f"{name}.bpf.o") as path:
        return BpfObject(path)


def load_object(bpf_object: BpfObject) -> None:
    """Load the object's maps and programs.

    Raises PermissionDeniedError when eBPF is refused, and UnavailableError
    when this kernel can't run a program.
    """
    try:
        bpf_object.load()
    except BpfError as error:
        raise refusal(error) from error


def is_loadable(name: str) -> bool:
    """Return whether this kernel takes the programs of `name`.bpf.o."""
    with open_object(name) as bpf_object:
        try:
            bpf_object.load()
        except BpfError:
            return False
    return True


def refusal(error: BpfError) -> KernelDelayError:
    """Return what to tell the user of an error of libbpf's or the kernel's."""
    log = take_log()
    # Where libbpf finds no descriptor to try a feature with, it goes on as if the kernel lacked
    # it, without a map, and the program that uses the map has a bad one.
    if too_few_descriptors(error) or error.errno == errno.EBADF:
        return UnavailableError(raise_descriptors())
    # The verifier, too, says no with EACCES, but it has a log.
    if error.errno in (errno.EPERM, errno.EACCES) and VERIFIER_LOG not in log:
        return PermissionDeniedError(
            f"the kernel refuses eBPF ({error.filename}: {error.strerror}): {why_refused()}"
        )
    reason = _verifier_reason(log)
    return UnavailableError(
        f"this kernel can't run the program ({error.filename}: {error.strerror}"
        f"{': ' + reason if reason else ''}): 'kernel-delay check' says what is missing, "
        "--debug shows the kernel's own words"
    )


def _verifier_reason(log: str) -> str:
    """Return the verifier's verdict: the line above its count of instructions."""
    lines = log.splitlines()
    for line, following in itertools.pairwise(lines):
        if following.startswith("processed "):
            return line.strip()
    return ""
