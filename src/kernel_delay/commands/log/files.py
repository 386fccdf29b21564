"""Which files are read, in which order, and their lines: bounded, also of compressed files."""

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import Struct, field

from kernel_delay.formatting import encodable

LONGEST_LINE = 16 * 1024
"""Bytes of a line that are read; the rest of the line is skipped."""

MOST_FILES = 100_000
DEEPEST = 40
"""Levels of folders, and files in them, that are looked through."""

# gzip and xz make a log ten to fifty times smaller. What expands more is no log.
MOST_EXPANSION = 300
EXPANSION_ALLOWED = 64 << 20
_BLOCK_BYTES = 512  # of st_blocks: stat(3type)

# `xz -9` takes 65 MiB to expand what it made.
MOST_XZ_MEMORY = 128 << 20
_XZ_PART = 1 << 16

STDIN = "-"

# What a log is called in a folder: as vlog, rsyslog, journalctl, sos and must-gather name them.
_LOG = re.compile(r"\.log\b|^(?:messages|syslog|daemon|journal|journalctl)(?:[._-]|$)")

# logrotate: NAME.1, NAME.2.gz; with dateext NAME-20231213; a kubelet: 0.log.20231213-030830.gz.
_NUMBERED = re.compile(r"(.+)\.(\d{1,6})")
_DATED = re.compile(r"(.+?)[-.](\d{8}(?:[-_T]?\d{2,10})?)")

# Of must-gather: what ran before the container was restarted.
_PREVIOUS, _CURRENT = "previous.log", "current.log"

_COMPRESSED = (".gz", ".xz", ".bz2")

_DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)


class LogFiles(Struct, frozen=True):
    """A log and what was rotated away of it, the oldest first.

    Attributes:
        name: The path of the newest file. A byte that is not UTF-8 is `\\xNN`.
        paths: The files.
        listed: Those that were found in a folder, as regular files.
    """

    name: str
    paths: tuple[Path, ...]
    listed: frozenset[Path] = frozenset()


class Found(Struct):
    """What there is to read, and a line for each file or folder that can't be."""

    logs: list[LogFiles] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def find(names: Sequence[str]) -> Found:
    """Return the logs of the files and folders named; symbolic links in folders are not followed.

    Args:
        names: paths, or `-` for the standard input.
    """
    found = Found()
    paths: list[Path] = []
    listed: set[Path] = set()
    for name in names:
        path = Path(name)
        if name == STDIN:
            found.logs.append(LogFiles(STDIN, (path,)))
        elif path.is_dir():
            below = list(_logs_below(path, found))
            paths += below
            listed.update(below)
            if not below:
                found.left_out.append(
                    f"{encodable(name)} has no file that is called as logs are: name the files"
                )
        else:
            paths.append(path)
            listed.discard(path)
    found.logs += in_order(list(dict.fromkeys(paths)), listed)
    return found


def in_order(paths: Sequence[Path], listed: Container[Path] = ()) -> list[LogFiles]:
    """Return the logs that the files are of, each from its oldest file to its newest.

    Args:
        paths: the files.
        listed: those of them that were found in a folder.
    """
    logs: dict[Path, list[tuple[tuple[int, int, str], Path]]] = {}
    for path in paths:
        base, age = _base_and_age(path)
        logs.setdefault(base, []).append((age, path))
    return [
        LogFiles(
            encodable(base),
            tuple(path for _, path in sorted(files)),
            frozenset(path for _, path in files if path in listed),
        )
        for base, files in logs.items()
    ]


def _base_and_age(path: Path) -> tuple[Path, tuple[int, int, str]]:
    """The path of the newest file of a log, and what sorts its files, the oldest first."""
    name = path.name
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    if name == _PREVIOUS:
        return path.with_name(_CURRENT), (0, 0, "")
    if match := _DATED.fullmatch(name):
        return path.with_name(match[1]), (0, 0, match[2])
    if match := _NUMBERED.fullmatch(name):
        return path.with_name(match[1]), (1, -int(match[2]), "")
    return path.with_name(name), (2, 0, name)


def _logs_below(folder: Path, found: Found) -> Iterator[Path]:
    waiting = [(folder, 0)]
    seen = 0
    while waiting:
        current, depth = waiting.pop()
        try:
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except OSError as error:
            found.left_out.append(f"can't read {encodable(current)}: {error.strerror}")
            continue
        for entry in entries:
            seen += 1
            if seen > MOST_FILES:
                found.left_out.append(
                    f"{encodable(folder)} has more than {MOST_FILES:,} entries:"
                    " others were not read"
                )
                return
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    waiting.append((Path(entry.path), depth + 1))
            elif entry.is_file(follow_symlinks=False) and _LOG.search(entry.name):
                yield Path(entry.path)


class Reader:
    """Reads the lines of files, and counts what it could not read."""

    def __init__(self) -> None:
        """Start before the first file."""
        self.cut_lines = 0
        self.read_bytes = 0
        self.left_out: list[str] = []

    def lines(self, path: Path, is_listed: bool = False) -> Iterator[bytes]:
        """Yield the lines of a file without their ends, as far as it can be read.

        Args:
            path: the file.
            is_listed: whether a folder had it as a regular file, which it must still be.
        """
        try:
            with _open(path, is_listed) as raw:
                yield from self._lines(path, raw)
        except _DAMAGE as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.left_out.append(f"can't read {encodable(path)}: {why}")

    def _lines(self, path: Path, raw: BinaryIO) -> Iterator[bytes]:
        file = _decompressed(path, raw)
        most = _most_bytes(raw, file is not raw)
        read = 0
        while line := file.readline(LONGEST_LINE):
            read += len(line)
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                self.cut_lines += 1
                read += _skip_rest(file, None if most is None else most - read)
            if most is not None and read > most:
                what = "is sparse: it " if file is raw else ""
                self.left_out.append(
                    f"{encodable(path)} {what}expands {MOST_EXPANSION}-fold, which no log does"
                )
                break
            yield line.rstrip(b"\r\n")
        self.read_bytes += read


def _skip_rest(file: BinaryIO, most: int | None) -> int:
    """Read on to the end of a line, or until more than `most` bytes were skipped."""
    skipped = 0
    while rest := file.readline(LONGEST_LINE):
        skipped += len(rest)
        if rest.endswith(b"\n") or (most is not None and skipped > most):
            break
    return skipped


def _most_bytes(raw: BinaryIO, is_compressed: bool) -> int | None:
    """How much of the text of a file is read; None: all of it, as it is on the disk."""
    found = os.fstat(raw.fileno())
    if is_compressed:
        return max(EXPANSION_ALLOWED, found.st_size * MOST_EXPANSION)
    if not stat.S_ISREG(found.st_mode) or not _has_hole(raw.fileno(), found.st_size):
        return None
    return max(EXPANSION_ALLOWED, found.st_blocks * _BLOCK_BYTES * MOST_EXPANSION)


def _has_hole(fd: int, size: int) -> bool:
    """Whether a file of that size is sparse; a file system that does not know says it is not."""
    try:
        at = os.lseek(fd, 0, os.SEEK_CUR)
        hole = os.lseek(fd, 0, os.SEEK_HOLE)
        os.lseek(fd, at, os.SEEK_SET)
    except OSError:
        return False
    return hole < size


def _open(path: Path, is_listed: bool) -> BinaryIO:
    if os.fspath(path) == STDIN:
        return open(0, "rb", closefd=False)
    # What a folder had may be a link meanwhile, or a FIFO, which to open would wait for a writer.
    flags = os.O_NONBLOCK | os.O_NOFOLLOW if is_listed else 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        mode = os.fstat(fd).st_mode
        if is_listed and not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no longer a file")
        # The one line of /dev/zero never ends.
        if stat.S_ISCHR(mode) and not os.isatty(fd):
            raise OSError(errno.EINVAL, "it is a device, and no log")
    except OSError:
        os.close(fd)
        raise
    return open(fd, "rb")


class _XzText(io.RawIOBase):
    """The text of an .xz file, stream by stream: lzma.LZMAFile has no limit of memory."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._stream = _xz_stream()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            part = b""
            if self._stream.eof:
                # Between streams there may be zeros: https://tukaani.org/xz/xz-file-format.txt
                part = self._stream.unused_data.lstrip(b"\0")
                while not part:
                    read = self._raw.read(_XZ_PART)
                    if not read:
                        return 0
                    part = read.lstrip(b"\0")
                self._stream = _xz_stream()
            elif self._stream.needs_input:
                part = self._raw.read(_XZ_PART)
                if not part:
                    raise EOFError("the file ends before its text does")
            text = self._stream.decompress(part, len(buffer))
            if text:
                buffer[: len(text)] = text
                return len(text)


def _xz_stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=MOST_XZ_MEMORY)


def _decompressed(path: Path, raw: BinaryIO) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if path.suffix == ".xz":
        return cast(BinaryIO, io.BufferedReader(_XzText(raw)))
    if path.suffix == ".bz2":
        return cast(BinaryIO, bz2.BZ2File(raw))
    return raw
