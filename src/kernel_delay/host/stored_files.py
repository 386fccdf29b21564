"""Opening files that another process has named or mapped: what is stored, not what acts.

Files that a process supplies are copied by a process of its own: file_copier.py. Nobody else waits
for who supplies them.
"""

import errno
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

from kernel_delay.host._files import ffi, lib
from kernel_delay.host.address_space import read_in_time
from kernel_delay.host.mounts import Mounts

# As path_resolution(7) has it.
_MOST_LINKS = 40

_MOST_NS = (1 << 63) - 1

_FOUND = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Status(NamedTuple):
    """What is known of a stored file; see stat(2)."""

    device: int
    inode: int
    owner: int
    size: int
    changed_ns: int


class StoredFile(NamedTuple):
    """A file that is open for reading, and its status.

    `copied`: the file is supplied by a process, and this is a copy of so many bytes in memory.
    """

    fd: int
    status: Status
    copied: int = 0


class ServedError(OSError):
    """A process supplies the file, or a folder on the way to it, and would have to be asked."""

    def __init__(self) -> None:
        """Of no error of the kernel's."""
        super().__init__(errno.EREMOTE, "it is on a FUSE file system, whose server may not answer")


class Copier:
    """Makes copies of files that processes supply; this one makes none.

    `lost` is why there are no others, once one is late.
    """

    lost: str | None = None

    def copy(self, found: int, path: str = "") -> StoredFile | None:
        """Copy what is at that path below a directory, or that file itself; both are of O_PATH.

        None if it is no file with content, or there is no copy in time.
        """
        return None


class Root:
    """A root directory, ours or a process's (/proc/PID/root), kept open after its exit."""

    def __init__(self, path: Path, copier: Copier | None = None) -> None:
        """Open `path`; OSError when it can't be. Without `copier` no file is copied."""
        self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._mounts = Mounts(_process_of(path))
        self._copier = copier or Copier()

    def find(self, path: str) -> int:
        """Return a descriptor of O_PATH of what is at that path below this root.

        OSError when there is nothing, or no more files may be open; ServedError where a process
        would have to be asked, then or by who uses the descriptor.
        """
        found = self._find(path)
        if self._mounts.is_served(found):
            os.close(found)
            raise ServedError
        return found

    def _find(self, path: str) -> int:
        if "\0" in path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self._mounts.is_served(self.fd):
            raise ServedError
        found = lib.find_in_mount(self.fd, os.fsencode(path))
        if found >= 0:
            return found
        if ffi.errno != errno.EXDEV:
            raise OSError(ffi.errno, os.strerror(ffi.errno))
        return self._walk(path)

    def _walk(self, path: str) -> int:
        """Find it across mounts, and ask no file system whose files a process supplies."""
        names = deque(path.split("/"))
        folders = [os.dup(self.fd)]
        links = 0
        try:
            while names:
                name = names.popleft()
                if name == "..":
                    if len(folders) > 1:
                        os.close(folders.pop())
                    continue
                if name in ("", "."):
                    continue
                if self._mounts.is_served(folders[-1]):
                    raise ServedError
                found = os.open(name, _FOUND, dir_fd=folders[-1])
                folders.append(found)
                target = None if self._mounts.is_served(found) else _link(found)
                if target is None:
                    continue
                os.close(folders.pop())
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    while len(folders) > 1:
                        os.close(folders.pop())
                names.extendleft(reversed(target.split("/")))
            return folders.pop()
        finally:
            for folder in folders:
                os.close(folder)

    def open(self, path: str) -> StoredFile | None:
        """Open a stored file below this root for reading; None when there is none.

        OSError when no more files may be open.
        """
        try:
            return _opened(self._find(path), self._mounts, self._copier)
        except ServedError:
            return self._copier.copy(self.fd, path)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return None

    def open_mapped(self, link: Path) -> StoredFile | None:
        """Open a file of map_files; None for what is no file with content, as a device.

        TimeoutError: others have the lock of the process's address space.
        """
        try:
            found = read_in_time(lambda: os.open(link, os.O_PATH | os.O_CLOEXEC))
            return _opened(found, self._mounts, self._copier)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return None

    def release_mounts(self) -> None:
        """Hold no mount but that of the directory, so that others can be unmounted."""
        self._mounts.close()

    def close(self) -> None:
        """Close the directory."""
        self._mounts.close()
        os.close(self.fd)


def find_stored(path: str | Path) -> int:
    """Return a descriptor of O_PATH of a file that no process supplies; else ServedError.

    `path` is as open_stored() has it. OSError when there is no such file.
    """
    root, below = _split(path)
    if below:
        within = Root(root)
        try:
            return within.find(below)
        finally:
            within.close()
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    mounts = Mounts(_process_of(path))
    try:
        if mounts.is_served(found):
            raise ServedError
    except OSError:
        os.close(found)
        raise
    finally:
        mounts.close()
    return found


def open_stored(path: str | Path, copier: Copier | None = None) -> StoredFile:
    """Open a regular file that has content, and is not one of the kernel's, for reading.

    Without `copier`, ServedError for one that a process supplies. OSError when it can't be,
    EINVAL for anything else: a device, a FIFO and a file of sysfs are found, but never opened.

    Args:
        path: The file's own, what leads to it, as /proc/123/map_files/1-2, or what is below
            /proc/123/root.
        copier: What copies a file that a process supplies.
    """
    root, below = _split(path)
    if below:
        within = Root(root, copier)
        try:
            file = within.open(below)
        finally:
            within.close()
    else:
        mounts = Mounts(_process_of(path))
        try:
            file = _opened(os.open(path, os.O_PATH | os.O_CLOEXEC), mounts, copier)
        finally:
            mounts.close()
    if file is None:
        late = f"it is on a FUSE file system, and {copier.lost}" if copier and copier.lost else ""
        raise OSError(errno.EINVAL, late or "not a file with content")
    return file


def _opened(found: int, mounts: Mounts, copier: Copier | None) -> StoredFile | None:
    try:
        if not mounts.is_served(found):
            return open_found(found)
        if copier is None:
            raise ServedError
        return copier.copy(found)
    finally:
        os.close(found)


def find_below(root: int, path: bytes) -> int:
    """Return a descriptor of O_PATH of what is there; OSError. It asks who supplies the file."""
    found = lib.find_in_root(root, path)
    if found < 0:
        raise OSError(ffi.errno, os.strerror(ffi.errno))
    return found


def open_found(found: int) -> StoredFile:
    """Open what a descriptor of O_PATH is of; see open_stored(). It asks who supplies the file."""
    fd = lib.open_stored(found)
    if fd < 0:
        error = ffi.errno
        reason = "not a file with content" if error == errno.EINVAL else os.strerror(error)
        raise OSError(error, reason)
    status = os.fstat(fd)
    # A file system may have any time: its seconds have 64 bits.
    changed_ns = max(-_MOST_NS, min(status.st_mtime_ns, _MOST_NS))
    return StoredFile(
        fd, Status(status.st_dev, status.st_ino, status.st_uid, status.st_size, changed_ns)
    )


def _process_of(path: str | Path) -> Path:
    """The directory of /proc that a path leads through, as /proc/123; any other for another."""
    return Path(*Path(path).parts[:3])


def _split(path: str | Path) -> tuple[Path, str]:
    """The root directory of a process, and what is below it; that is "" for any other path."""
    parts = Path(path).parts
    is_below = parts[:2] == ("/", "proc") and parts[3:4] == ("root",)
    return Path(*parts[:4]), "/".join(parts[4:]) if is_below else ""


def _link(found: int) -> str | None:
    """Where a symbolic link leads to; None for anything else."""
    try:
        return os.readlink("", dir_fd=found)
    except OSError:
        return None
