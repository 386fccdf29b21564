"""The kernel's tracefs, whether or not it is mounted.

Containers and minimal systems have none mounted. A file system can be
instantiated without a place in any mount table: fsopen(2) and fsmount(2)
(Linux 5.2) give a descriptor of its root, which goes away when it is closed.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_delay.errors import PermissionDeniedError, UnavailableError

# include/uapi/asm-generic/unistd.h, 6.18: one number on every architecture.
_SYS_FSOPEN = 430
_SYS_FSCONFIG = 431
_SYS_FSMOUNT = 432

# include/uapi/linux/mount.h, 6.18
_FSOPEN_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6
_FSMOUNT_CLOEXEC = 1

_MOUNT_POINTS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))


@contextmanager
def tracefs() -> Iterator[Path]:
    """Give the directory of tracefs, valid inside the `with` only.

    Raises UnavailableError where this kernel has no tracefs or is older than
    5.2 with none mounted, PermissionDeniedError where this user may not.
    """
    for mount_point in _MOUNT_POINTS:
        if os.access(mount_point / "events", os.R_OK | os.X_OK):
            yield mount_point
            return
    with detached("tracefs") as root:
        yield root


@contextmanager
def detached(filesystem: str) -> Iterator[Path]:
    """Give the root of an instance of `filesystem` that no mount table shows.

    tracefs and debugfs have one superblock for all: the files are the same
    as those of any other mount. Raises as `tracefs()` does.
    """
    root = _open_root(filesystem)
    try:
        yield Path(f"/proc/self/fd/{root}")
    finally:
        os.close(root)


def _open_root(filesystem: str) -> int:
    try:
        context = _syscall(_SYS_FSOPEN, filesystem.encode(), _FSOPEN_CLOEXEC)
        try:
            _syscall(_SYS_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
            mount = _syscall(_SYS_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
        finally:
            os.close(context)
        try:
            # fsmount's own descriptor is O_PATH; only an open one can be listed.
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)
        finally:
            os.close(mount)
    except PermissionError as error:
        raise PermissionDeniedError(
            f"{filesystem} is not mounted where this user can read it: run as root"
        ) from error
    except OSError as error:
        lacking = error.errno in (errno.ENODEV, errno.ENOSYS)
        reason = "this kernel has none to offer" if lacking else error.strerror
        raise UnavailableError(
            f"{filesystem} is not mounted and can't be opened ({reason}):"
            f" mount it, or use a kernel built with it"
        ) from error


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    # glibc has names for these from 2.36 on; RHEL 9 has 2.34.
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
