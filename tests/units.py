"""Units of systemd without systemd: what a unit leaves to its process, left to a command.

    python -m tests.units UNIT COMMAND...

sets the filter of system calls that UNIT has, and executes COMMAND.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import kernel_delay
from kernel_delay.host._seccomp import ffi, lib
from tests.needs import needed

# Nobody; but an editable build compiles at a start, which only its owner may.
USER = 65534 if "site-packages" in (kernel_delay.__file__ or "") else os.geteuid()

# include/uapi/linux/prctl.h, since Linux 6.3: what systemd has for MemoryDenyWriteExecute= there.
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1


def settings(unit: Path, name: str) -> list[str]:
    """The values of a setting, in order."""
    lines = unit.read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


def restricted(unit: Path) -> list[str]:
    """What runs a command as a user of its own, with what the unit leaves it."""
    (line,) = settings(unit, "CapabilityBoundingSet")
    assert settings(unit, "AmbientCapabilities") == [line]
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in line.split()]
    return [
        *("unshare", "--net", "--", "setpriv", "--no-new-privs"),
        *("--reuid", str(USER), "--clear-groups"),
        *("--bounding-set", ",".join(("-all", *kept))),
        *("--inh-caps", ",".join(kept), "--ambient-caps", ",".join(kept), "--"),
        *(sys.executable, "-m", "tests.units", str(unit)),
    ]


def allowed(unit: Path) -> set[str]:
    """The system calls of SystemCallFilter=, as systemd.exec(5) has it."""
    calls = set(_of_set("@default"))
    for value in settings(unit, "SystemCallFilter"):
        names = set(_calls(value.removeprefix("~").split()))
        calls = calls - names if value.startswith("~") else calls | names
    return calls


def _calls(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name.startswith("@"):
            yield from _of_set(name)
        else:
            yield name


def _of_set(name: str) -> Iterator[str]:
    command = [needed("systemd-analyze"), "syscall-filter", "--no-pager", name]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line.strip() for line in text.splitlines()[1:])
    yield from _calls(line for line in lines if line and not line.startswith("#"))


def main() -> None:
    """Be the command."""
    unit, *command = sys.argv[1:]
    native = lib.seccomp_arch_native()
    resolve = lib.seccomp_syscall_resolve_name_arch
    numbers = {resolve(native, name.encode()) for name in allowed(Path(unit))}
    known = sorted(number for number in numbers if number >= 0)
    if "yes" in settings(Path(unit), "MemoryDenyWriteExecute"):
        # An older kernel has no such call, and no harm is done.
        ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
    error = lib.allow_calls(ffi.new("int32_t[]", known), len(known))
    assert not error, os.strerror(-error)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
