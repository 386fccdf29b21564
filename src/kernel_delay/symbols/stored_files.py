"""Opening files that another process has named or mapped: what is stored, not what acts."""

import errno
import os
from pathlib import Path

from kernel_delay.symbols._libdw import ffi, lib


class Root:
    """A root directory, ours or a process's (/proc/PID/root), kept open after its exit."""

    def __init__(self, path: Path) -> None:
        """Open `path`; OSError when it can't be."""
        self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def open(self, path: str) -> int | None:
        """Open a stored file below this root for reading; None when there is none.

        OSError when no more files may be open.
        """
        if "\0" in path:
            return None
        fd = lib.open_in_root(self.fd, os.fsencode(path))
        if fd < 0 and ffi.errno in (errno.EMFILE, errno.ENFILE):
            raise OSError(ffi.errno, os.strerror(ffi.errno))
        return fd if fd >= 0 else None

    def close(self) -> None:
        """Close the directory."""
        os.close(self.fd)


def open_stored(path: str | Path) -> int:
    """Open a regular file that has content, and is not one of the kernel's, for reading.

    OSError when it can't be, EINVAL for anything else: a device, a FIFO and a
    file of sysfs are found, but never opened.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        fd = lib.open_stored(found)
        error = ffi.errno
    finally:
        os.close(found)
    if fd < 0:
        reason = "not a file with content" if error == errno.EINVAL else os.strerror(error)
        raise OSError(error, reason)
    return fd
