"""The windows of a plan, one after the other: opened or awaited, and ended.

Each generator yields a window when it is over: its epoch, and what ended it.
When something other than the plan did, that was the last one.
"""

from collections.abc import Callable, Iterator

from kernel_delay.capture.plan import TriggerPoints, WindowPlan
from kernel_delay.capture.windows import NEVER_NS, Windows
from kernel_delay.errors import TimeoutExpiredError
from kernel_delay.loader._records import lib
from kernel_delay.loader.maps import Notices
from kernel_delay.loader.waiting import Ended, ReportLeft, Waiter
from kernel_delay.model import EndedBy

Over = tuple[int, EndedBy]

# A wait that takes longer is reported; at once would be noise where hits are frequent.
REPORT_AFTER_NS = 1_000_000_000


def timed_windows(
    plan: WindowPlan, windows: Windows, waiter: Waiter, report_left: ReportLeft | None = None
) -> Iterator[Over]:
    """Windows by the clock. With no interval the next is open when one is yielded.

    Unless that came too late: then what was measured for it is mixed with what is to be
    taken of the one that is over, and it is opened after that.
    """
    epoch = windows.open(plan.sample_time_ns)
    for left in reversed(range(plan.count)):
        ended = waiter.wait_until(windows.boundaries(epoch)[1], report_left)
        if ended != "time" or not left:
            _end(windows, waiter, epoch)
            yield epoch, ended
            return
        opened = None if plan.interval_ns else windows.try_open(plan.sample_time_ns)
        yield epoch, ended
        if plan.interval_ns and waiter.wait_until(lib.monotonic_ns() + plan.interval_ns) != "time":
            return
        epoch = opened or windows.open(plan.sample_time_ns)


class TriggeredWindows:
    """Windows that triggers open and close, in the programs; this waits and follows.

    Those shorter than the plan's shortest are yielded too, though they are
    not among its count. `notify` is called with what is waited for, when that
    takes a while, and with why the wait ended. Iterating raises
    TimeoutExpiredError when a hit did not come in the plan's time.
    """

    def __init__(
        self,
        plan: WindowPlan,
        windows: Windows,
        waiter: Waiter,
        notices: Notices,
        notify: Callable[[str], None],
        report_left: ReportLeft | None = None,
    ) -> None:
        """Follow `windows`; the triggers may be attached already."""
        self._plan = plan
        self._windows = windows
        self._waiter = waiter
        self._notices = notices
        self._notify = notify
        self._report_left = report_left

    def __iter__(self) -> Iterator[Over]:
        """Yield each window when it is over."""
        plan = self._plan
        epoch = done = 0
        while done < plan.count:
            if plan.start is None:
                epoch = self._windows.open(None)
            elif not self._wait_for_start(plan.start, epoch := epoch + 1):
                return
            ended = self._wait_for_stop(epoch)
            start_ns, stop_ns = self._windows.boundaries(epoch)
            done += stop_ns - start_ns >= plan.shortest_ns
            yield epoch, ended
            if ended in ("interrupt", "exit"):
                return
            if plan.stop and ended == "timeout":
                raise self._expired(plan.stop)
            # Threads of other processes may hit a trigger in the kernel for ever.
            exited = self._waiter.exited
            if plan.start is None and (exited or (done < plan.count and not self._pause(stop_ns))):
                return
            if plan.start and self._waiter.interrupted:
                epoch = self._pass_over(epoch)
            elif exited:
                self._windows.open_no_more()

    def _pass_over(self, epoch: int) -> int:
        """Leave out the windows that wait to be reported, but for the newest.

        Windows may come as fast as they are reported, and then nothing else
        looks at what the user wants.
        """
        self._windows.open_no_more()
        last = max(epoch, self._windows.newest - 1)
        if last > epoch:
            self._notify(f"interrupted: {last - epoch} windows that were measured are not reported")
        return last

    def _pause(self, stop_ns: int) -> bool:
        """Wait the plan's interval after a window; False if that was ended."""
        interval_ns = self._plan.interval_ns
        return not interval_ns or self._waiter.wait_until(stop_ns + interval_ns) == "time"

    def _wait_for_start(self, trigger: TriggerPoints, epoch: int) -> bool:
        """Wait until the epoch's window is open; False if that will not be."""
        ended = self._wait_for_hit("start", trigger, lambda: self._windows.newest >= epoch)
        if ended is None:
            return True
        self._windows.open_no_more()
        if self._windows.newest >= epoch:
            return True
        if ended == "time":
            raise self._expired(trigger)
        why = {"interrupt": "interrupted", "exit": "the process exited"}[ended]
        self._notify(f"{why} while waiting for start trigger {trigger.text}")
        return False

    def _wait_for_stop(self, epoch: int) -> EndedBy:
        """Wait until the epoch's window is over, and return what ended it."""
        if self._plan.stop is None:
            ended = self._waiter.wait_until(self._windows.boundaries(epoch)[1], self._report_left)
        else:
            by_else = self._wait_for_hit(
                "stop", self._plan.stop, lambda: self._windows.boundaries(epoch)[1] != NEVER_NS
            )
            if by_else is None:
                return "trigger"
            ended = by_else
        if ended != "time" or self._plan.stop:
            self._windows.open_no_more()
            _end(self._windows, self._waiter, epoch)
        return "timeout" if self._plan.stop and ended == "time" else ended

    def _wait_for_hit(
        self, boundary: str, trigger: TriggerPoints, was_hit: Callable[[], bool]
    ) -> Ended | None:
        """Wait until `was_hit()`: None; or return what ended the wait without it."""
        now_ns = lib.monotonic_ns()
        timeout_ns = self._plan.timeout_ns
        deadline_ns = None if timeout_ns is None else now_ns + timeout_ns
        report_ns = now_ns + REPORT_AFTER_NS
        reported = False
        while not was_hit():
            until_ns = deadline_ns if reported else min(report_ns, deadline_ns or report_ns)
            ended = self._waiter.wait_for_notice(self._notices, until_ns)
            if ended is None or was_hit():
                continue
            if ended != "time" or until_ns == deadline_ns:
                return ended
            self._notify(f"waiting for {boundary} trigger {trigger.text} (Ctrl-C ends)")
            reported = True
        return None

    def _expired(self, trigger: TriggerPoints) -> TimeoutExpiredError:
        seconds = (self._plan.timeout_ns or 0) / 1e9
        return TimeoutExpiredError(
            f"no hit of {trigger.text} within {seconds:g} s: check that its code runs, or give a"
            " longer --timeout"
        )


def _end(windows: Windows, waiter: Waiter, epoch: int) -> None:
    windows.end(epoch)
    waiter.sleep_until(windows.boundaries(epoch)[1])
