"""A capture: programs attached to a process, window after window, a Sample each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kernel_delay.capture.plan import Plan, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.session_options import Request, SessionOptions
from kernel_delay.host.target import ProcessTarget, Targets
from kernel_delay.loader.waiting import watch
from kernel_delay.model import Sample, SkippedWindow

if TYPE_CHECKING:
    from kernel_delay.capture.sampling import Sampling
    from kernel_delay.capture.syscall_events.event_store import Progress

__all__ = ["Session", "SessionOptions"]


class Session:
    """Measures one process, or several. Used as a context manager, it detaches at the end."""

    _sampling: "Sampling"

    def __init__(
        self,
        target: ProcessTarget | Targets,
        plan: WindowPlan,
        options: SessionOptions,
        notify: Callable[[str], None] = lambda text: None,
        progress: "Progress" = lambda done, total: None,
    ) -> None:
        """Prepare; entering the session loads and attaches.

        `notify` is called with what is waited for, when that takes a while, and
        `progress` while the stacks of events are named.
        """
        targets = Targets((target,)) if isinstance(target, ProcessTarget) else target
        self._request = Request(targets, plan, options, notify, progress)
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Load and attach the programs.

        Raises PermissionDeniedError or UnavailableError when the kernel
        refuses, and NoInputError when the process is gone.
        """
        with ExitStack() as failing:
            failing.callback(self._closing.close)
            targets, options = self._request.targets, self._request.options
            pid, *others = targets.pids
            waiter = watch(pid, *others)
            self._closing.callback(waiter.close)
            events = options.events
            if events and events.stack_mode != "none":
                # It starts while the programs are loaded.
                from kernel_delay.symbols import start_parsers

                start_parsers()
            programs = Programs(
                (pid, *others),
                Plan(
                    self._request.plan,
                    events,
                    options.accounting,
                    timeline=options.timeline is not None,
                    waker_stacks=options.waker_stacks,
                    chains=options.chains,
                ),
                children=targets.children,
                meanwhile=self._import_sampling,
            )
            self._closing.enter_context(programs)
            from kernel_delay.capture.sampling import Sampling

            self._sampling = Sampling(self._request, programs, waiter, self._closing)
            # Until now a signal ends the tool, and from now on a window.
            self._closing.enter_context(waiter)
            failing.pop_all()
        return self

    def _import_sampling(self) -> None:
        """Import what is needed once the programs are loaded, while the kernel verifies them."""
        import kernel_delay.capture.sampling

        if self._request.options.packet_losses:
            import kernel_delay.openvswitch.losses  # noqa: F401

    def __exit__(self, *_: object) -> None:
        """Detach and unload."""
        self._closing.close()

    def samples(self) -> Iterator[Sample]:
        """Measure as windows() does, and leave out those that are skipped."""
        return (window for window in self.windows() if isinstance(window, Sample))

    def windows(self) -> Iterator[Sample | SkippedWindow]:
        """Measure the plan's windows; yield the Sample of each when it is over.

        Of several processes there is one of each, in the order of their PIDs. A window that is
        too short to be one of the plan's is yielded as skipped. SIGINT, SIGTERM, SIGHUP and
        the exit of all processes that were asked for end the open window: it is yielded, and is the
        last one. A signal that comes while a Sample is made, or used, leaves less than a second for
        that, unless there is a start trigger.
        """
        return self._sampling.windows()
