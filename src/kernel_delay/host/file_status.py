"""What the kernel knows of a file by itself: no server of its file system is asked."""

import os
from typing import NamedTuple

from kernel_delay.host._files import ffi, lib


class FileStatus(NamedTuple):
    """What the kernel knows of a file.

    `mode` is as in os.stat_result. `filesystem` is the device of its file system. `device` is of a
    device file its own number, and else that.
    """

    inode: int
    mode: int
    device: int
    filesystem: int


def file_status(path: str) -> FileStatus:
    """Return what a path leads to, as of /proc/PID/fd; OSError as os.stat() has it.

    os.stat() of a file whose FUSE server is stopped does not return (fs/fuse/dir.c:fuse_getattr(),
    5.14 to 6.18).
    """
    found = ffi.new("struct file_status *")
    result = lib.read_file_status(os.fsencode(path), found)
    if result:
        raise OSError(-result, os.strerror(-result), path)
    return FileStatus(found.inode, found.mode, found.device, found.filesystem)
