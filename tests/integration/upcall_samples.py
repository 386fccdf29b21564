"""Captures of an Open vSwitch in this process, with its upcalls counted, while a test works."""

import threading
from collections.abc import Callable

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample
from kernel_delay.monitors.upcalls.counters import open_counters
from lab.instance import Instance
from tests.integration.capture.in_process import interrupting

LONG_NS = 200 * 10**9


def samples_while(
    ovs: Instance, work: Callable[[], None], windows: int = 1, *, upcalls: bool = True
) -> list[Sample]:
    """Capture in windows that are over when the work is, or before it begins."""
    length_ns = LONG_NS if windows == 1 else LONG_NS // 200
    plan = WindowPlan(sample_time_ns=length_ns, count=windows if windows == 1 else 10_000)
    options = SessionOptions(open_upcall_counters=open_counters if upcalls else None)
    with (
        interrupting(work) as worker,
        Session(find_target(ovs.pid), plan, options) as session,
    ):
        timer = threading.Timer(0.5, worker.start)
        timer.start()
        taken = list(session.samples())
        timer.join()
        worker.join()
    assert taken[-1].window.ended_by == "interrupt"
    return taken
