"""Opening files that another process has named or mapped: what is stored, not what acts."""

import errno
import os
from pathlib import Path

from kernel_delay.host._files import ffi, lib


class Root:
    """A root directory, ours or a process's (/proc/PID/root), kept open after its exit."""

    def __init__(self, path: Path) -> None:
        """Open `path`; OSError when it can't be."""
        self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def find(self, path: str) -> int:
        """Return a descriptor of O_PATH of what is at that path below this root.

        OSError when there is nothing, or no more files may be open.
        """
        if "\0" in path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        found = lib.find_in_root(self.fd, os.fsencode(path))
        if found < 0:
            raise OSError(ffi.errno, os.strerror(ffi.errno))
        return found

    def open(self, path: str) -> int | None:
        """Open a stored file below this root for reading; None when there is none.

        OSError when no more files may be open.
        """
        try:
            return _opened(self.find(path))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return None

    def close(self) -> None:
        """Close the directory."""
        os.close(self.fd)


def open_stored(path: str | Path) -> int:
    """Open a regular file that has content, and is not one of the kernel's, for reading.

    OSError when it can't be, EINVAL for anything else: a device, a FIFO and a
    file of sysfs are found, but never opened.
    """
    return _opened(os.open(path, os.O_PATH | os.O_CLOEXEC))


def _opened(found: int) -> int:
    try:
        fd = lib.open_stored(found)
        error = ffi.errno
    finally:
        os.close(found)
    if fd < 0:
        reason = "not a file with content" if error == errno.EINVAL else os.strerror(error)
        raise OSError(error, reason)
    return fd
