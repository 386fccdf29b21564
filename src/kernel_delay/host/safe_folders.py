"""Folders on the way to an output: opened each within the one before, and who may change them.

A symbolic link among them is followed unless another user may have made it.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOST_LINKS = 40
"""The kernel follows no more in one path (MAXSYMLINKS)."""

# Only Linux has O_PATH, for which a folder need not be readable.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_folder(folder: Path, new_mode: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a folder: it stays that, whatever others make of its path.

    `new_mode`: it is made of that mode if it is missing, and those above it. Raises OSError,
    PermissionError where a link that another user may have made leads to it.
    """
    fd = _walk(folder, new_mode)
    try:
        yield fd
    finally:
        os.close(fd)


def _walk(folder: Path, new_mode: int | None) -> int:
    """Open each folder within the one before, so that nobody can exchange what was looked at."""
    at, links, rest = "", 0, [*reversed(folder.parts)]
    fd = os.open(folder.anchor or ".", _FOLDER)
    try:
        while rest:
            name = rest.pop()
            path = os.path.normpath(os.path.join(at, name))
            if new_mode is not None:
                _make_missing(name, fd, 0o777 if rest else new_mode)
            found, flags = os.lstat(name, dir_fd=fd), _FOLDER
            if stat.S_ISLNK(found.st_mode):
                _check_link(os.fstat(fd), found, path)
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.readlink(name, dir_fd=fd)
                if len(os.fsencode(target)) == found.st_size:
                    rest.extend(reversed(Path(target).parts))
                    continue
                # One of proc(5), as /proc/PID/root: what it says is not where it leads.
                flags &= ~os.O_NOFOLLOW
            below = os.open(name, flags, dir_fd=fd)
            os.close(fd)
            fd, at = below, path
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make_missing(name: str, folder: int, mode: int) -> None:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=folder)


def _check_link(folder: os.stat_result, link: os.stat_result, path: str) -> None:
    """Raise PermissionError where another user may have made a link in a folder."""
    who = _who_may_change(folder, os.path.dirname(path) or ".") or _who_may_change(link, path)
    if who is not None:
        what = f"{path} is a symbolic link, and {who}: name the folder that you mean"
        raise PermissionError(errno.EPERM, what)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, which may be there, of this mode, and those above it. Raises OSError."""
    with opened_folder(folder, mode):
        pass


@contextmanager
def locked(path: str | Path, folder: int | None = None) -> Iterator[None]:
    """Have the lock of a file or folder of ours, below the open `folder` if there is one.

    Raises OSError where that can't be.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, dir_fd=folder)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def list_folder(folder: int) -> list[str]:
    """Return the names in an open folder. Raises OSError."""
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(listed)
    finally:
        os.close(listed)


def who_may_replace(path: Path) -> str | None:
    """Say who else can replace what is written at `path`, by the folders above; None: nobody."""
    path = Path(os.path.abspath(path))
    folders = {*path.parents, *Path(os.path.realpath(path.parent)).parents}
    folders.add(Path(os.path.realpath(path.parent)))
    if os.path.isdir(path):
        folders |= {path, Path(os.path.realpath(path))}
    whose = (_who_may_change_path(folder) for folder in sorted(folders, reverse=True))
    return next(filter(None, whose), None)


def _who_may_change_path(path: Path) -> str | None:
    try:
        return _who_may_change(path.lstat(), os.fspath(path))
    except OSError:
        return None


def _who_may_change(found: os.stat_result, path: str) -> str | None:
    """Say who else owns a folder or a link, or may rename what is in the folder; None: nobody."""
    if found.st_uid not in own_users() | {0}:
        return f"{path} belongs to {user_name(found.st_uid)}"
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return f"anyone may write to {path}"
    if found.st_mode & stat.S_IWGRP and found.st_gid not in _own_groups():
        return f"group {_group_name(found.st_gid)} may write to {path}"
    return None


def own_users() -> set[int]:
    """The user, and with sudo the one who called it."""
    user = os.geteuid()
    caller = os.environ.get("SUDO_UID", "")
    return {user, int(caller)} if user == 0 and caller.isdecimal() else {user}


def _own_groups() -> set[int]:
    """Root's, the user's own, and with sudo the caller's: by most systems nobody else is in it."""
    caller = os.environ.get("SUDO_GID", "")
    return {0, os.getegid(), *([int(caller)] if os.geteuid() == 0 and caller.isdecimal() else [])}


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def user_name(uid: int) -> str:
    """Return a user's name, or `user 1000` where there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
