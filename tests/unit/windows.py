"""Windows without a kernel: in this process's memory, with a waiter that does not wait."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_delay.capture.windows import Windows
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.maps import Notices
from kernel_delay.loader.waiting import Ended, ReportLeft, Waiter

if TYPE_CHECKING:
    from kernel_delay.loader._records import ControlPointer


def new_control() -> "ControlPointer":
    """The memory that the programs would share, all its places free."""
    control = ffi.new("struct control *")
    lib.free_windows(control, 0)
    return control


def windows_of(
    control: "ControlPointer", on_open: Callable[[int], None] = lambda epoch: None
) -> Windows:
    """Windows in that memory, of which nothing is ever forgotten."""
    return Windows(control, lambda: None, on_open)


class FakeNotices(Notices):
    """No ring buffer."""

    def __init__(self) -> None:
        """Listen to nothing."""


class FakeWaiter(Waiter):
    """Says at once what ended each wait: as in its script, and then that the time did.

    A step of the script is an end, or what happens meanwhile, and then there is a notice.
    """

    def __init__(self, *script: Ended | Callable[[], None]) -> None:
        """Say these, one a wait."""
        self._script = list(script)
        self.waits: list[int | None] = []
        self._interrupted = self._exited = False

    def _next(self, until_ns: int | None) -> Ended | None:
        self.waits.append(until_ns)
        if not self._script:
            return "interrupt" if self._interrupted else "exit" if self._exited else "time"
        step = self._script.pop(0)
        if not callable(step):
            return step
        step()
        return None

    @property
    def interrupted(self) -> bool:
        """Whether that was done."""
        return self._interrupted

    def interrupt(self) -> None:
        """Be interrupted, as by Ctrl-C between two waits."""
        self._interrupted = True

    @property
    def exited(self) -> bool:
        """Whether that was done."""
        return self._exited

    def exit(self) -> None:
        """Have all processes exit between two waits."""
        self._exited = True

    def wait_until(self, until_ns: int, report_left: ReportLeft | None = None) -> Ended:
        """Say the next end."""
        return self._next(until_ns) or "time"

    def wait_for_notice(self, notices: Notices, deadline_ns: int | None) -> Ended | None:
        """Say the next end, or that there was a notice."""
        return self._next(deadline_ns)

    @staticmethod
    def sleep_until(until_ns: int) -> None:
        """Don't."""
