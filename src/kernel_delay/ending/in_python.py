"""What `ending` takes from C, where that was not compiled: a signal does what it does in Python."""


class _Lib:
    END_AT_ONCE = END_SOON = END_NOT = 0

    def ending_take(self) -> None:
        """Leave the handlers as they are."""

    def ending_give(self) -> None:
        """Leave the handlers as they are."""

    def ending_set(self, how: int) -> int:
        """Return how a signal ends the tool, which stays so."""
        return how

    def ending_wake(self, fd: int) -> None:
        """Wake nobody: nothing waits for signals."""

    def ending_noted(self) -> int:
        """Return 0: none is noted, as each ends the tool."""
        return 0

    def ending_farewell(self, fd: int, text: bytes) -> None:
        """Write nothing: nothing is drawn that would have to be taken away."""


lib = _Lib()
