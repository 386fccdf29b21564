"""Separate debug files, by build-id and by debug link, in a container's file system too.

The places are those of GDB's manual, "Debugging Information in Separate Files". Where
$DEBUGINFOD_URLS names servers, elfutils' debuginfod-find(1) asks them: a client of our own would
have to know its rules for servers, time-outs, signatures and what is not there.
"""

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import IO

from msgspec import Struct

from kernel_delay.errors import UnavailableError
from kernel_delay.host.stored_files import Root, StoredFile
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.elf import AltLink, DebugLink, Elf, read_alt_link, read_elf

DEBUG_DIRECTORY = "/usr/lib/debug"

DEBUGINFOD_URLS = "DEBUGINFOD_URLS"
DEBUGINFOD_FIND = "debuginfod-find"

FETCH_S = 60
"""How long servers are waited for. A debug file of 30 MiB takes some seconds."""

# PATH_MAX of include/uapi/linux/limits.h (6.18).
_LONGEST_PATH = 4096

BLOCK = 1 << 20


class DebugFiles(Struct, frozen=True):
    """The open separate debug file of an ELF file, and the one that dwz made for it.

    `copied` is how many bytes of them are copies.
    """

    path: str
    fd: int
    alt_link: AltLink | None
    alt_fd: int | None
    copied: int = 0

    def close(self) -> None:
        """Close both files."""
        os.close(self.fd)
        if self.alt_fd is not None:
            os.close(self.alt_fd)


def find_debug_files(
    elf: Elf, path: str, roots: Sequence[Root], bounds: Bounds
) -> DebugFiles | None:
    """Find and open the debug file of `elf`, which lies at `path`; the first that fits is taken.

    One found by build-id, or that has one, fits when its build-id is the same;
    else its CRC-32 must be the debug link's, for which `bounds` lets it be read.
    """
    for root in roots:
        for candidate in _candidates(elf, path):
            file = root.open(candidate)
            if file is None:
                continue
            bounds.count_copy(file.copied)
            if bounds.may_read(file.fd, candidate) and _fits(file.fd, elf, candidate, bounds):
                alt_link = read_alt_link(file.fd)
                alt = _open_alt(alt_link, candidate, roots, bounds) if alt_link else None
                copied = file.copied + (alt.copied if alt else 0)
                return DebugFiles(candidate, file.fd, alt_link, alt.fd if alt else None, copied)
            os.close(file.fd)
    return None


def may_fetch() -> bool:
    """Whether there are servers to be asked: without them nobody is."""
    return bool(os.environ.get(DEBUGINFOD_URLS, "").strip())


def fetch_debug_files(build_id: bytes, root: Root, bounds: Bounds) -> DebugFiles:
    """Have the debug file of that build-id fetched, and open it below our own root.

    Raises UnavailableError, which says why there is none.
    """
    path, unfetched = _fetch(build_id)
    if not path:
        raise UnavailableError(unfetched)
    file = root.open(path)
    if file is None:
        raise UnavailableError(f"can't open {path}, which debuginfod fetched")
    debug = read_elf(file.fd) if bounds.may_read(file.fd, path) else None
    if debug is None or debug.build_id != build_id:
        os.close(file.fd)
        raise UnavailableError(f"{path}, which debuginfod fetched, is not its debug file")
    return DebugFiles(path, file.fd, None, None, file.copied)


@cache
def _fetch(build_id: bytes) -> tuple[str, str]:
    """Return where debuginfod-find has put it, or "" and why not: asked once for each file."""
    import subprocess

    command = [DEBUGINFOD_FIND, "debuginfo", build_id.hex()]
    try:
        # A pipe would be waited for as long as a child of the program has it.
        with _memory() as output, _memory() as errors:
            status = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=FETCH_S,
                check=False,
            ).returncode
            said, path = _read(errors), _read(output)
    except FileNotFoundError:
        return "", (
            f"{DEBUGINFOD_URLS} is set, but {DEBUGINFOD_FIND} is not installed"
            " (package elfutils-debuginfod-client, of Debian and Ubuntu debuginfod)"
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer within {FETCH_S} s"
        return "", f"debuginfod has no debug file ({reason})"
    if status != 0 or not 0 < len(path) < _LONGEST_PATH:
        # "Server query failed: No such file or directory"
        words = said.decode(errors="backslashreplace")
        reason = words.rpartition(": ")[2] or "it does not say why"
        return "", f"debuginfod has no debug file ({reason})"
    return os.fsdecode(path), ""


def _memory() -> IO[bytes]:
    return open(os.memfd_create(DEBUGINFOD_FIND), "w+b")


def _read(file: IO[bytes]) -> bytes:
    """The end of what was written to it."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _LONGEST_PATH))
    return file.read().strip()


def _candidates(elf: Elf, path: str) -> Iterator[str]:
    if elf.build_id:
        yield by_build_id(elf.build_id)
    if elf.debug_link:
        directory, name = os.path.dirname(path), os.path.basename(elf.debug_link.name)
        if os.path.join(directory, name) != path:
            yield os.path.join(directory, name)
        yield os.path.join(directory, ".debug", name)
        yield os.path.join(DEBUG_DIRECTORY, directory.lstrip("/"), name)


def by_build_id(build_id: bytes) -> str:
    """Where the debug file of that build-id is, as packages have it."""
    digits = build_id.hex()
    return f"{DEBUG_DIRECTORY}/.build-id/{digits[:2]}/{digits[2:]}.debug"


def _fits(fd: int, elf: Elf, path: str, bounds: Bounds) -> bool:
    debug = read_elf(fd)
    if debug is None:
        return False
    if debug.build_id or elf.build_id:
        return debug.build_id == elf.build_id
    return elf.debug_link is not None and _has_crc(fd, elf.debug_link, path, bounds)


def _has_crc(fd: int, link: DebugLink, path: str, bounds: Bounds) -> bool:
    crc, at, size = 0, 0, os.fstat(fd).st_size
    if not bounds.may_check(size):
        bounds.pass_over(f"{path} is not used: it is too large to compare its checksum")
        return False
    while at < size:
        start_ns = time.monotonic_ns()
        block = os.pread(fd, min(BLOCK, size - at), at)
        if not block:
            break
        crc = zlib.crc32(block, crc)
        at += len(block)
        bounds.checked(len(block), start_ns)
        if not bounds.may_check(0):
            bounds.pass_over(f"{path} is not used: comparing its checksum takes too long")
            return False
    return crc == link.crc


def _open_alt(
    link: AltLink, debug_path: str, roots: Sequence[Root], bounds: Bounds
) -> StoredFile | None:
    named = os.path.join(os.path.dirname(debug_path), link.name)
    for root in roots:
        for candidate in (by_build_id(link.build_id), named):
            file = root.open(candidate)
            if file is None:
                continue
            bounds.count_copy(file.copied)
            alt = read_elf(file.fd)  # None, too, for one that is too large
            if alt and alt.build_id == link.build_id:
                return file
            os.close(file.fd)
    return None
