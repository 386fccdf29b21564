"""SIGUSR1: a request to say what is going on."""

import signal
from types import FrameType
from typing import Self


class DumpRequests:
    """Notes SIGUSR1 while it is entered; the signal interrupts nothing."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._requested = False

    def __enter__(self) -> Self:
        """Take the signal over."""
        self._before = signal.signal(signal.SIGUSR1, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signal back."""
        signal.signal(signal.SIGUSR1, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._requested = True

    def take(self) -> bool:
        """Return whether the signal came since the last call."""
        requested, self._requested = self._requested, False
        return requested
