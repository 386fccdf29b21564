"""UPCALL STATISTICS: a capture counts the kernel's upcalls, by their errors and CPUs."""

import os
import signal
from collections.abc import Callable
from errno import EAGAIN
from pathlib import Path

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.monitors.upcalls.counters import open_counters
from kernel_delay.reporters import text
from lab.instance import Instance
from tests.integration import kernel_datapath
from tests.integration.capture.test_watch_metrics import watching
from tests.integration.netlink_sockets import tiny_receive_buffers
from tests.integration.upcall_samples import samples_while
from tests.workload import wait_until

PACKETS = 50

# What a program at a function of the kernel is called by (kernel/trace/ftrace.c): arm64 has it from
# 6.4 on.
DIRECT_CALLS = "register_ftrace_direct\n"


@pytest.fixture(scope="module")
def counted(datapath: Instance) -> Instance:
    """A datapath whose upcalls the kernel lets a program count."""
    if DIRECT_CALLS not in Path("/proc/kallsyms").read_text():
        pytest.skip("this kernel calls no program at its functions (arm64 before Linux 6.4)")
    return datapath


def send_too_much(ovs: Instance, packets: list[bytes]) -> None:
    """More than its sockets have room for, while it takes none."""
    os.kill(ovs.pid, signal.SIGSTOP)
    try:
        with tiny_receive_buffers(ovs.pid):
            kernel_datapath.send(ovs, packets)
    finally:
        os.kill(ovs.pid, signal.SIGCONT)


def test_upcalls_that_are_sent_are_counted(counted: Instance) -> None:
    packets = kernel_datapath.packets(PACKETS, first=40_000)
    (sample,) = samples_while(counted, lambda: kernel_datapath.send(counted, packets))
    assert sample.upcalls is not None
    (sent,) = sample.upcalls
    assert (sent.error, sent.name, sent.count) == (0, None, PACKETS)
    assert sum(cpu.count for cpu in sent.cpus) == PACKETS
    assert {cpu.cpu for cpu in sent.cpus} <= os.sched_getaffinity(0)
    assert sample.lost.upcalls == 0
    report = text.render(sample)
    assert f"  Total upcalls       : {PACKETS} [" in report
    assert "Failed upcalls" not in report


def test_those_that_fail_are_counted_by_their_error(counted: Instance) -> None:
    before = kernel_datapath.lost(counted)
    packets = kernel_datapath.packets(PACKETS, first=41_000)
    (sample,) = samples_while(counted, lambda: send_too_much(counted, packets))
    failed = kernel_datapath.lost(counted) - before
    assert failed > 0
    assert sample.upcalls is not None
    counts = {(stats.error, stats.name): stats.count for stats in sample.upcalls}
    assert counts.pop((EAGAIN, "EAGAIN")) == failed
    assert sum(counts.values()) == PACKETS - failed
    assert f"  Failed upcalls      : {failed} [" in text.render(sample)


def test_metrics_have_both(counted: Instance) -> None:
    sent = kernel_datapath.packets(PACKETS, first=44_000)
    too_many = kernel_datapath.packets(PACKETS, first=45_000)
    all_sent, all_failed = "kernel_delay_upcalls_total", "kernel_delay_failed_upcalls_total"
    with watching(counted.pid, "--no-stacks") as watch:
        before, lost_before = watch.scrape(), kernel_datapath.lost(counted)

        def has_all(packets: int) -> bool:
            # On a slow machine scrapes share figures: a new reading would take too much of a CPU.
            now = watch.scrape()
            return packets == sum(
                now.value(name) - before.value(name) for name in (all_sent, all_failed)
            )

        kernel_datapath.send(counted, sent)
        wait_until(lambda: has_all(PACKETS), "the upcalls")
        after_sent = watch.scrape()
        send_too_much(counted, too_many)
        wait_until(lambda: has_all(2 * PACKETS), "the others")
        after, lost = watch.scrape(), kernel_datapath.lost(counted) - lost_before
    assert after_sent.value(all_sent) - before.value(all_sent) == PACKETS
    assert lost > 0
    assert after.value(all_failed) - before.value(all_failed) == lost
    assert after.value(all_sent) - after_sent.value(all_sent) == PACKETS - lost


def test_no_upcall_is_in_two_consecutive_windows(counted: Instance) -> None:
    packets = kernel_datapath.packets(PACKETS, first=42_000)
    samples = samples_while(counted, lambda: kernel_datapath.send(counted, packets), windows=10_000)
    counts = [stats.count for sample in samples for stats in sample.upcalls or ()]
    # Between two windows is a little time that is in none.
    assert sum(counts) <= PACKETS
    assert sum(counts) > 0
    assert all(sample.upcalls is not None for sample in samples)


def test_they_are_not_counted_if_not_wanted(datapath: Instance) -> None:
    packets = kernel_datapath.packets(1, first=43_000)
    work: Callable[[], None] = lambda: kernel_datapath.send(datapath, packets)  # noqa: E731
    (sample,) = samples_while(datapath, work, upcalls=False)
    assert sample.upcalls is None


def test_without_a_kernel_datapath_there_is_nothing_to_say(ovs: Instance) -> None:
    if kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is loaded")
    reported: list[str] = []
    plan = WindowPlan(sample_time_ns=10**8)
    options = SessionOptions(open_upcall_counters=open_counters)
    with Session(find_target(ovs.pid), plan, options, reported.append) as session:
        (sample,) = session.samples()
    assert sample.upcalls is None
    assert not reported
