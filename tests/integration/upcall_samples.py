"""Captures of an Open vSwitch in this process, with its upcalls counted, while a test works."""

from collections.abc import Callable

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample
from kernel_delay.monitors.upcalls.counters import open_counters
from lab.instance import Instance
from tests.integration.capture.in_process import interrupting, once_open
from tests.workload import LASTS_NS


def samples_while(
    ovs: Instance, work: Callable[[], None], windows: int = 1, *, upcalls: bool = True
) -> list[Sample]:
    """Capture in windows that are over when the work is, or before it begins."""
    length_ns = LASTS_NS if windows == 1 else 1_000_000_000
    plan = WindowPlan(sample_time_ns=length_ns, count=windows if windows == 1 else 10_000)
    with interrupting(work) as worker:
        options = SessionOptions(
            open_upcall_counters=open_counters if upcalls else None, on_open=once_open(worker)
        )
        with Session(find_target(ovs.pid), plan, options) as session:
            taken = list(session.samples())
    assert taken[-1].window.ended_by == "interrupt"
    return taken
