"""Output files: opened in one way, for their owner's eyes, and whole or an error.

Root writes where others may have been before: a symbolic link, a hard link, a FIFO or a file of
theirs by the name of the output is refused. A symbolic link among the folders above is followed
unless another user may have made it. What is not a file but was named on purpose is written to:
/dev/null, a FIFO of one's own, /dev/stdout and the other descriptors of this process.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernel_delay.errors import WriteFailedError, cannot_write
from kernel_delay.host.safe_folders import (
    list_folder,
    locked,
    opened_folder,
    own_users,
    user_name,
)

READER_S = 2.0
"""For so long a FIFO's reader is waited for: a shell may start it at the same time."""

STDOUT_NAMES = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
"""What people call the standard output."""

_DESCRIPTOR = re.compile(
    r"/dev/(std(?P<name>out|err)|fd/(?P<fd>\d{1,99}))|/proc/self/fd/(?P<own>\d{1,99})"
)

# Of C's int: larger ones are as little open as this one.
_MOST_DESCRIPTOR = 2**31 - 1

# What a kill leaves behind: of this version, and of those before it.
_PART = re.compile(
    r"\.kernel-delay-[0-9a-f]{16}\.part|\..+\.parquet\.[0-9a-f]{16}\.part|round-.*\.kdr\.part"
)

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_THERE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class PrivateFile:
    """An output file of mode 0600 whose writes are whole or an error.

    What was in it stays until there is something in its place: `replaces` says that it is there.
    """

    def __init__(self, path: Path, known_as: Path | None = None) -> None:
        """Create or open `path`, which errors call `known_as` if that is another.

        Raises OutputError where it is not ours to write to.
        """
        self._path = path
        self._known_as = known_as or path
        with writing(self._known_as):
            self.fd = _open(path)
            found = os.fstat(self.fd)
        is_file = _descriptor(path) is None and stat.S_ISREG(found.st_mode)
        self.replaces = is_file and found.st_size > 0

    def empty(self) -> None:
        """Remove what was in it before. Raises OutputError."""
        if self.replaces:
            with writing(self._known_as):
                os.ftruncate(self.fd, 0)
            self.replaces = False

    def write(self, data: bytes) -> None:
        """Append `data` in one write(2), so that a kill can't leave a part of it.

        Raises WriteFailedError when the kernel takes none of it or, on a full disk,
        only its beginning.
        """
        self.empty()
        try:
            written = os.write(self.fd, data)
        except OSError as error:
            raise self._failed(error.strerror) from error
        if written < len(data):
            # The rest would have the error of its cause, as a second write(2) has.
            try:
                written += os.write(self.fd, data[written:])
            except OSError as error:
                raise self._failed(error.strerror) from error
        if written < len(data):
            raise self._failed(f"only {written} of {len(data)} bytes were taken, is the disk full?")

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    def discard(self) -> None:
        """Close the file, and remove it if it has nothing that was there before."""
        if not self.replaces:
            remove(self._path, self.fd)
        self.close()

    def _failed(self, reason: str | None) -> WriteFailedError:
        return WriteFailedError(f"can't write {os.fspath(self._known_as)!r}: {reason}")


class PartFile:
    """A file that is not to be seen until it is whole, of mode 0600.

    Until then it has a name that nobody can know before, in the folder of `path`, and is locked:
    what a kill leaves behind is not, and remove_stale_parts() removes it.
    """

    def __init__(self, path: Path) -> None:
        """Create it. Raises OutputError where that can't be, or `path` is not ours to replace."""
        self._path = path
        with writing(path), opened_folder(path.parent) as folder:
            _check_replaceable(path.name, folder)
            name, self.fd = _new_part(folder)
        self.part = path.parent / name

    def appear(self) -> None:
        """Give it its name, in place of what has that, and close it. Raises OutputError."""
        with writing(self._path), opened_folder(self._path.parent) as folder:
            os.replace(self.part.name, self._path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.close(self.fd)

    def discard(self) -> None:
        """Remove it, and close it."""
        with suppress(OSError):
            self.part.unlink(missing_ok=True)
        os.close(self.fd)


class WholeFile:
    """An output that is written at once, in the end: it is there whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Raise OutputError where it can't be written, as far as that can be known before."""
        self._path = path
        self._stream: PrivateFile | None = None
        if _is_no_file(path):
            self._stream = PrivateFile(path)
        else:
            # What is wrong with the folder the next line says; it need not be readable.
            with suppress(OSError):
                remove_stale_parts(path.parent)
            PartFile(path).discard()

    @contextmanager
    def writing(self) -> Iterator[PrivateFile]:
        """Yield what takes the content; the file has its name when that was left."""
        if self._stream is not None:
            yield self._stream
            self._stream.close()
            return
        part = PartFile(self._path)
        try:
            file = PrivateFile(part.part, self._path)
            try:
                yield file
            finally:
                file.close()
        except BaseException:
            part.discard()
            raise
        part.appear()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an OSError of what is done within as an OutputError of that file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "it is a symbolic link: name the file itself"
        if error.errno == errno.EISDIR:
            error.strerror = "it is a folder: name a file in it"
        raise cannot_write(repr(os.fspath(path)), error) from error


def remove(path: Path, fd: int) -> None:
    """Remove what has that name, if it is the open file, and a file."""
    with suppress(OSError), opened_folder(path.parent) as folder:
        opened, named = os.fstat(fd), os.lstat(path.name, dir_fd=folder)
        if stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, named):
            os.unlink(path.name, dir_fd=folder)


def remove_stale_parts(folder: Path) -> None:
    """Remove what runs that were killed left half written in a folder. Raises OSError."""
    with opened_folder(folder) as opened:
        for name in filter(_PART.fullmatch, list_folder(opened)):
            with suppress(OSError), locked(name, opened):
                os.unlink(name, dir_fd=opened)


def _open(path: Path) -> int:
    descriptor = _descriptor(path)
    if descriptor is not None:
        return os.dup(descriptor)
    with opened_folder(path.parent) as folder:
        fd = _open_in(path.name, folder)
    try:
        _make_ours(fd)
    except OSError:
        os.close(fd)
        raise
    return fd


def _open_in(name: str, folder: int) -> int:
    _check_name(name)
    until_s = time.monotonic() + READER_S
    while True:
        with suppress(FileExistsError):
            return os.open(name, _NEW, 0o600, dir_fd=folder)
        try:
            return os.open(name, _THERE, dir_fd=folder)
        except FileNotFoundError:
            pass  # Removed between the two.
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() >= until_s:
                why = "it is a FIFO that nobody reads: start its reader first"
                raise OSError(errno.ENXIO, why) from None
            time.sleep(0.02)


def _make_ours(fd: int) -> None:
    """Check what was there before."""
    found = os.fstat(fd)
    _check_own(found)
    os.set_blocking(fd, True)
    if stat.S_ISREG(found.st_mode):
        os.fchmod(fd, 0o600)


def _check_own(found: os.stat_result) -> None:
    """Raise PermissionError for what another user may have put there."""
    if stat.S_ISCHR(found.st_mode):
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
        raise PermissionError(errno.EPERM, "it is neither a file nor a FIFO")
    if found.st_uid not in own_users():
        owner = user_name(found.st_uid)
        raise PermissionError(errno.EPERM, f"it belongs to {owner}: remove it, or name another")
    if found.st_nlink > 1:
        raise PermissionError(errno.EPERM, "it has other names (hard links): name another file")


def _check_name(name: str) -> None:
    """Raise IsADirectoryError for the name of `.` and of `/`, which is empty."""
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def _check_replaceable(name: str, folder: int) -> None:
    """Raise OSError where the name is there in a folder and is no file of ours."""
    _check_name(name)
    try:
        found = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    _check_own(found)


def _is_no_file(path: Path) -> bool:
    """Whether it is a device, a FIFO or a descriptor, which can't be replaced."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        mode = 0
    return _descriptor(path) is not None or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _descriptor(path: Path) -> int | None:
    """The descriptor of this process that a path names, as /dev/fd/63 of a shell's >(...) does."""
    found = _DESCRIPTOR.fullmatch(os.fspath(path))
    if found is None:
        return None
    names = {"out": 1, "err": 2}
    number = names.get(found["name"] or "") or int(found["fd"] or found["own"])
    return min(number, _MOST_DESCRIPTOR)


def _new_part(folder: int) -> tuple[str, int]:
    while True:
        name = f".kernel-delay-{os.urandom(8).hex()}.part"
        fd = os.open(name, _NEW, 0o600, dir_fd=folder)
        # A file system without locks: what a kill leaves there stays.
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            # Not removed as stale before it was locked.
            if os.path.samestat(os.fstat(fd), os.lstat(name, dir_fd=folder)):
                return name, fd
        os.close(fd)
