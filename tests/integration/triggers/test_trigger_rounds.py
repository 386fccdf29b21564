"""Rounds from trigger to trigger, against what the measured process itself knows of them."""

import os
import signal
import threading

from msgspec.structs import astuple

from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.rounds.watch import Watch
from kernel_delay.host.target import find_target
from tests.emulation import scaled
from tests.integration.triggers.sessions import trigger
from tests.integration.triggers.targets import Round, StartTarget
from tests.integration.triggers.test_ground_truth import assert_in_bounds, has_exact_counts

COUNT = scaled(1000)
PERIOD_NS = 1_000_000


def test_every_round_is_exact(start_rounds: StartTarget) -> None:
    workload = start_rounds(PERIOD_NS)
    plan = RoundPlan(
        threshold_ns=0,
        start=trigger("u:kd_rounds:start", workload.pid),
        stop=trigger("u:kd_rounds:stop", workload.pid),
        calls=True,
    )
    known: list[Round] = []

    def work() -> None:
        workload.go(COUNT)
        known.extend(workload.rounds())
        os.kill(os.getpid(), signal.SIGINT)

    worker = threading.Thread(target=work)
    with Watch(find_target(workload.pid), plan) as watch:
        worker.start()
        samples = list(watch.rounds())
        totals = watch.totals()
    worker.join()

    assert len(samples) + totals.missed == totals.long == COUNT == len(known)
    if not totals.missed:
        pairs = list(zip(samples, known, strict=True))
        for sample, of_round in pairs:
            assert_in_bounds(sample, of_round)
            (thread,) = sample.threads
            assert thread.time is not None
            assert sum(astuple(thread.time)) == sample.window.duration_ns
        whole = sum(has_exact_counts(sample, workload.pid, each) for sample, each in pairs)
        assert whole + totals.lost.missed_events >= COUNT
