"""An output file: for its owner's eyes, and whole up to its last write."""

import os
import stat
from pathlib import Path

from kernel_delay.errors import OutputError


class PrivateFile:
    """An output file of mode 0600 whose writes are whole or an error."""

    def __init__(self, path: Path) -> None:
        """Create or empty `path`; a symbolic link is not followed. Raises OutputError."""
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise self._failed(error.strerror) from error
        try:
            # The file may have been there, with a wider mode. What is no file,
            # a FIFO or a device, is not ours to close to others.
            if stat.S_ISREG(os.fstat(self._fd).st_mode):
                os.fchmod(self._fd, 0o600)
        except OSError as error:
            os.close(self._fd)
            raise self._failed(error.strerror) from error

    def write(self, data: bytes) -> None:
        """Append `data` in one write(2), so that a kill can't leave a part of it.

        Raises OutputError when the kernel takes none of it or, on a full disk,
        only its beginning.
        """
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise self._failed(error.strerror) from error
        if written < len(data):
            raise self._failed(f"only {written} of {len(data)} bytes were taken, is the disk full?")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _failed(self, reason: str | None) -> OutputError:
        return OutputError(f"can't write {os.fspath(self._path)!r}: {reason}")
