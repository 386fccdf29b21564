"""The ELF objects of a process, its executable and libraries, and how to open them from here.

A process in another mount namespace, as a container's, names its files by
paths that mean something else or nothing here. /proc/PID/map_files leads to
the mapped files themselves, deleted ones too (proc_pid_map_files(5)).
"""

import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from kernel_delay.errors import NoInputError, UnavailableError, hint, similar_names
from kernel_delay.formatting import encodable
from kernel_delay.host.address_space import read_in_time
from kernel_delay.host.file_copies import FileCopies
from kernel_delay.host.file_status import FileStatus, file_status
from kernel_delay.host.preflight import may_not_look_at
from kernel_delay.host.proc_text import DELETED
from kernel_delay.host.stored_files import Root, open_stored
from kernel_delay.host.target import living_thread
from kernel_delay.probes.usdt import UsdtProbes, read_usdt_probes
from kernel_delay.symbols.bounds import HELD_BYTES, MAX_OBJECTS
from kernel_delay.symbols.functions import Functions
from kernel_delay.symbols.mappings import Mapping, read_mappings

DEEPEST_ROOT = 64
"""In how many folders above its file, from ours on, a process's own root is looked for."""


class ProbedObject(Struct, frozen=True):
    """A file that can have probes.

    `name` is its path as its process knows it, `path` the one to open here.
    `root` and `path_in_root` are where it was when the process mapped it, by
    which separate debug files are looked for; another file may be there by now.
    A trigger names a library, but not the executable.
    """

    name: str
    path: str
    root: str
    path_in_root: str
    is_library: bool

    def uprobe_trigger(self, place: str) -> str:
        """Write the trigger for `place`, a function or an offset, in this object."""
        return f"up:{os.path.basename(self.name)}:{place}" if self.is_library else f"up:{place}"

    def open(self) -> BinaryIO:
        """Open the file for reading; OSError where it can't be, or is no file with content."""
        return os.fdopen(open_stored(self.path, _copies).fd, "rb")

    def usdt_probes(self) -> UsdtProbes:
        """Read its USDT probes; InputError if it is no ELF file."""
        try:
            with self.open() as file:
                return read_usdt_probes(file, self.name)
        except OSError as error:
            raise NoInputError(f"can't read {self.name}: {error.strerror}") from error

    def functions(self) -> Functions:
        """Read its functions; InputError if it is no ELF file."""
        try:
            with self.open() as file:
                return Functions.read(file.fileno(), self.path_in_root, Path(self.root))
        except OSError as error:
            raise NoInputError(f"can't read {self.name}: {error.strerror}") from error


# One that is late is the last: one process is asked for at a time.
_copies = FileCopies(lambda: HELD_BYTES)


def file_object(path: Path) -> ProbedObject:
    """The object that a file is, whether or not a process has it mapped."""
    if not path.is_file():
        otherwise = f" (a process is --pid {path})" if path.name.isdecimal() else ""
        raise NoInputError(f"there is no file {path}{otherwise}")
    is_library = ".so" in path.suffixes
    return ProbedObject(encodable(path), str(path), "/", os.path.abspath(path), is_library)


def process_objects(pid: int) -> tuple[ProbedObject, ...]:
    """The executable of process `pid`, and then each library of which it has code mapped.

    Raises NoInputError if it has exited, PermissionDeniedError if this user
    may not look at it, UnavailableError if there are more than MAX_OBJECTS.
    """
    # The first thread may have ended, and with it what /proc/PID has.
    process = Path(f"/proc/{living_thread(pid) or pid}")
    try:
        executable, status = _executable(process)
        mappings = read_mappings(process)
    except PermissionError as error:
        raise may_not_look_at(f"the mappings of process {pid}") from error
    except (FileNotFoundError, ProcessLookupError):
        raise NoInputError(f"process {pid} has exited or has no memory of its own") from None
    except TimeoutError:
        raise UnavailableError(
            f"the mappings of process {pid} can't be read: another process or thread has the lock"
            " of its address space; see kernel-delay where"
        ) from None
    files = {(m.device, m.inode): m for m in mappings if m.executable and m.inode}
    if len(files) > MAX_OBJECTS:
        raise UnavailableError(
            f"process {pid} has mapped {len(files)} files as code, and at most {MAX_OBJECTS}"
            " are searched: give one, as in kernel-delay probes FILE"
        )
    libraries = (_library(process, mapping, status) for mapping in files.values())
    return executable, *(library for library in libraries if library is not None)


def find_library(objects: Iterable[ProbedObject], library: str) -> ProbedObject:
    """The object that `library` means: a path, or a name with or without `.so` and version.

    Raises NoInputError, with the closest, if none or several are.
    """
    names = {mapped.name: mapped for mapped in objects}
    if library in names:
        return names[library]
    found = [
        mapped
        for mapped in names.values()
        if (base := os.path.basename(mapped.name)) == library
        or base.startswith((f"{library}.so", f"{library}.", f"{library}-"))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(mapped.name for mapped in found)
        raise NoInputError(f"library {library!r} may be any of {listed}: give its path")
    bases = map(os.path.basename, names)
    likely = hint(similar_names(os.path.basename(library), bases))
    raise NoInputError(f"the process has mapped no library {library!r}{likely}")


def _executable(process: Path) -> tuple[ProbedObject, FileStatus]:
    link = process / "exe"
    target, status = os.readlink(link).removesuffix(DELETED), file_status(str(link))
    return _object(process, str(link), target, status, is_library=False), status


def _library(process: Path, mapping: Mapping, executable: FileStatus) -> ProbedObject | None:
    """The mapped file, if it can be opened; None for the executable and no file, as a device."""
    # map_files needs CAP_CHECKPOINT_RESTORE; the root does not, but may have another file by now.
    path = process / "map_files" / mapping.range
    status: FileStatus | None
    try:
        status = read_in_time(lambda: file_status(str(path)))
    except OSError:
        path = process / "root" / mapping.path.lstrip("/")
        status = _status_in_root(process, mapping.path)
        if status is None or status.inode != mapping.inode:
            return None
    if status == executable or not stat.S_ISREG(status.mode):
        return None
    return _object(process, str(path), mapping.path, status, is_library=True)


def _object(
    process: Path, path: str, name: str, status: FileStatus, *, is_library: bool
) -> ProbedObject:
    path_in_root = _path_in_root(process, name, status)
    return ProbedObject(
        name=encodable(path_in_root),
        path=path,
        root=str(process / "root"),
        path_in_root=path_in_root,
        is_library=is_library,
    )


def _path_in_root(process: Path, name: str, status: FileStatus) -> str:
    """What the process itself calls a file of that status, which the kernel calls `name` to us.

    It is `name` where the file has no name any more. The kernel's name begins
    at our root, or where the file is outside of that, at the mount namespace's;
    the process's own root may be deeper, as in a chroot.
    """
    parts = name.split("/")
    candidates = ("/" + "/".join(parts[first:]) for first in range(1, len(parts)))
    in_root = (
        one for one in islice(candidates, DEEPEST_ROOT) if _status_in_root(process, one) == status
    )
    return next(in_root, name)


def _status_in_root(process: Path, name: str) -> FileStatus | None:
    """The status of what the process has at that path; None if there is none, or it is served."""
    try:
        root = Root(process / "root")
    except OSError:
        return None
    try:
        found = root.find(name)
        try:
            return file_status(f"/proc/self/fd/{found}")
        finally:
            os.close(found)
    except OSError:
        return None
    finally:
        root.close()
