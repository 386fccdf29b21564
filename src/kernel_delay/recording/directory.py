"""A directory of recordings, one a Sample: bounded, the oldest go first."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import time_ns

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.errors import NoInputError, cannot_write
from kernel_delay.host.private_file import PartFile, remove_stale_parts
from kernel_delay.host.safe_folders import make_folder
from kernel_delay.model import RecordingHeader, Sample
from kernel_delay.recording.header import relate_clocks
from kernel_delay.recording.writer import RecordingWriter

_OURS = re.compile(r"round-\d{8}T\d{6}\.\d{6}Z-[\w.+-]*-\d+\.kdr")
_NOT_IN_NAMES = re.compile(r"[^\w.+-]", re.ASCII)


class Limits(Struct, frozen=True):
    """How much of the directory's recordings is kept; None: all."""

    most_bytes: int | None = None
    oldest_ns: int | None = None
    most_files: int | None = None


NO_LIMITS = Limits()


class RecordingDirectory:
    """Writes each Sample of a round to a file of its own, and removes the oldest beyond limits."""

    def __init__(
        self,
        folder: Path,
        header: RecordingHeader,
        limits: Limits = NO_LIMITS,
        *,
        redact: bool = False,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Write to `folder`, which is made; OutputError where that can't be.

        What a kill has left half written is removed.

        Args:
            folder: Where the recordings go.
            header: That of each recording but for its clock: recordings differ by when they were
                begun.
            limits: How much of them is kept.
            redact: A RecordingWriter's.
            report: Called once, with why one beyond the limits can't be removed.
        """
        self._report: Callable[[str], None] | None = report
        self._redact = redact
        self._folder = folder
        self._header = header
        self._limits = limits
        try:
            make_folder(folder, 0o700)
            remove_stale_parts(folder)
        except OSError as error:
            raise cannot_write(f"to {folder}", error) from None
        # Whether a file can be made there only a file shows: /proc takes none from anyone.
        PartFile(folder / "round").discard()

    def add(self, sample: Sample) -> Path:
        """Write one; return the file. Raises OutputError, and then there is none."""
        path = self._folder / _name(sample)
        if path.exists():
            # Of two threads of a name that were woken at once neither is to go.
            path = self._folder / _name(sample, with_tid=True)
        part = PartFile(path)
        try:
            header = replace(self._header, clock=relate_clocks())
            with RecordingWriter(part.part, header, redact=self._redact) as writer:
                writer.sample(sample)
                writer.finish("done")
        except BaseException:
            part.discard()
            raise
        part.appear()
        self._prune()
        return path

    def _prune(self) -> None:
        """Remove the oldest until the limits hold; the newest stays.

        Others may remove them at the same time, or forbid it: neither keeps anything from being
        recorded.
        """
        try:
            self._remove_beyond_limits()
        except FileNotFoundError:
            pass  # the folder: the next recording reports it
        except OSError as error:
            report, self._report = self._report, None
            if report is not None:
                name = os.fspath(error.filename)
                report(
                    f"can't remove old recordings: {name!r}: {error.strerror}; going on beyond the"
                    " limits"
                )

    def _remove_beyond_limits(self) -> None:
        limits, size, now_ns = self._limits, 0, time_ns()
        failure: OSError | None = None
        # A file from the future was written before the clock was set back: it counts as the oldest.
        files = sorted(self._files(), key=lambda file: (file[2] <= now_ns, file[0]), reverse=True)
        for index, (name, bytes_, written_ns) in enumerate(files):
            size += bytes_
            too_much = (
                (limits.most_files is not None and index >= limits.most_files)
                or (limits.most_bytes is not None and size > limits.most_bytes)
                or (limits.oldest_ns is not None and now_ns - written_ns > limits.oldest_ns)
            )
            if too_much and index:
                try:
                    (self._folder / name).unlink(missing_ok=True)
                except OSError as error:
                    failure = error
        if failure is not None:
            raise failure

    def _files(self) -> Iterator[tuple[str, int, int]]:
        """Yield of each recording here its name, which begins with its time, size and age."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not _OURS.fullmatch(entry.name):
                    continue
                with suppress(FileNotFoundError):
                    stat = entry.stat(follow_symlinks=False)
                    yield entry.name, stat.st_size, stat.st_mtime_ns


def recordings_in(folder: Path) -> list[Path]:
    """Return the recordings of rounds in a folder, by when these began.

    Raises NoInputError if it can't be read.
    """
    try:
        found = (path for path in folder.iterdir() if _OURS.fullmatch(path.name))
        return sorted(path for path in found if path.is_file())
    except OSError as error:
        raise NoInputError(f"can't read {str(folder)!r}: {error.strerror}") from None


def no_recordings(name: str) -> NoInputError:
    """Return the error for a folder, as the user called it, that has no recordings of rounds."""
    return NoInputError(f"{name!r} has no recordings of rounds: `watch -o` writes them")


def _name(sample: Sample, *, with_tid: bool = False) -> str:
    """What a Sample's file is called: when its round began, whose it is, how long it is in ms."""
    round_, window = sample.round, sample.window
    thread = _NOT_IN_NAMES.sub("_", round_.name if round_ else "")
    if with_tid and round_:
        thread += f"+{round_.tid}"
    ms = window.duration_ns // 1_000_000
    return f"round-{window.start_time:%Y%m%dT%H%M%S.%f}Z-{thread}-{ms}.kdr"
