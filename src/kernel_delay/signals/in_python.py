"""What `signals` takes from C where that was not compiled: Python handles a signal as ever."""


class _Lib:
    END_AT_ONCE = END_SOON = END_NOT = 0

    def signals_take(self) -> None:
        """Leave the handlers as they are."""

    def signals_give(self) -> None:
        """Leave the handlers as they are."""

    def signals_set(self, how: int) -> int:
        """Return how a signal ends the tool, which stays so."""
        return how

    def signals_wake(self, fd: int) -> None:
        """Wake nobody: nothing waits for signals."""

    def signals_noted(self) -> int:
        """Return 0: none is noted, as each ends the tool."""
        return 0

    def signals_set_shutdown_text(self, fd: int, text: bytes) -> None:
        """Write nothing: nothing is drawn that would have to be taken away."""


lib = _Lib()
