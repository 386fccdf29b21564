"""A `kernel-delay watch` that runs, and the records that it writes."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from kernel_delay.model import Sample
from kernel_delay.recording.reader import IntactRecords, open_recording
from tests.commands import KERNEL_DELAY
from tests.workload import HANGS_S, wait_until


def _all_of(file: IO[bytes]) -> str:
    """What is in a file that the other process writes to: they share the place in it."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


class Watching(NamedTuple):
    """A running `kernel-delay watch`, and what it writes."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    output: IO[bytes]
    errors: IO[bytes]

    def said(self) -> str:
        """What it wrote to stderr so far."""
        return _all_of(self.errors)

    def lines(self) -> list[str]:
        """What it printed so far: a line a record."""
        return _all_of(self.output).splitlines()

    def recordings(self) -> list[Path]:
        return sorted(self.folder.glob("*.kdr"))

    def wait_for_recordings(self, count: int = 1) -> None:
        """Wait until there are so many; fails with what it said where it ends or none comes."""

        def are_there() -> bool:
            assert self.process.poll() is None or len(self.recordings()) >= count, self.said()
            return len(self.recordings()) >= count

        try:
            wait_until(are_there, f"{count} recordings")
        except AssertionError:
            # It answers with what each thread does, and how many rounds that had.
            before = self.said()
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGUSR1)
                wait_until(lambda: self.said() != before or self.process.poll() is not None)
            raise AssertionError(f"{len(self.recordings())} of {count}: {self.said()}") from None

    def end(self, exit_code: int = os.EX_OK) -> str:
        """End it as Ctrl-C does; what it printed."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(HANGS_S) == exit_code
        return _all_of(self.output)


def samples_in(path: Path) -> list[Sample]:
    with open_recording(os.fspath(path)) as recording:
        reading: Any = IntactRecords(recording)
        found = [record for record in reading if isinstance(record, Sample)]
        assert reading.damage is None
        return found


@contextmanager
def watch_of(
    pid: int, folder: Path, *options: str, within: Sequence[str] = ()
) -> Iterator[Watching]:
    """Watch a process until end(); `within` is a command that becomes another."""
    command = [*within, *KERNEL_DELAY, "watch", "--pid", str(pid), "--min-gap", "0", *options]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([*command, "-o", folder], stdout=output, stderr=errors)
        watching = Watching(process, folder, output, errors)

        def is_attached() -> bool:
            assert process.poll() is None, watching.said()
            return "watching" in watching.said()

        try:
            wait_until(is_attached, "the watch")
            yield watching
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
