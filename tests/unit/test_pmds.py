"""What PMD threads counted, as Open vSwitch 3.1, 3.5 and 4.0 printed it; what is made of it."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.analysis.verdict.thread_roles import spins_by_design
from kernel_delay.model import CpuTaker, PmdStats, RxQueue, Sample, SoftIrqStats, Target, Thread
from kernel_delay.openvswitch import losses as counters_module
from kernel_delay.openvswitch.losses import COMMANDS as OF_LOSSES
from kernel_delay.openvswitch.pmds import (
    COMMANDS,
    MOST_NS,
    PERFORMANCE,
    RX_QUEUES,
    parse_cycles,
    parse_performance,
    parse_rx_queues,
    pmd_stats,
    with_pmds,
)
from kernel_delay.openvswitch.unixctl import Answers, Command
from kernel_delay.recording.redaction import HIDDEN, redacted
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.page.threads import page_thread
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

GOLDEN = Path(__file__).parent / "golden"
MS = 1_000_000

QUEUES = """\
Displaying last 60 seconds pmd usage %
pmd thread numa_id 0 core_id 0:
  isolated : false
  port: dpdk0             queue-id:  0 (enabled)   pmd usage: 35 %
  port: vhost1            queue-id: 12 (disabled)  pmd usage: NOT AVAIL
  overhead:  2 %
pmd thread numa_id 1 core_id 17:
  isolated : true
"""

PMD = PmdStats(
    counted_ns=520 * MS,
    iterations=400_000,
    busy_iterations=100_000,
    packets=3_200_000,
    upcalls=40,
    lost_upcalls=1000,
    sleep_ns=52 * MS,
    busy_share=0.351,
    upcall_ns=40 * 61_000,
    longest_ns=5_703_000,
    rx_queues=(RxQueue("vhost1", 12, False, moved_from_core=7), RxQueue("dpdk0", 0, True, 35)),
)


def readings(version: str) -> tuple[Answers, Answers]:
    """What was answered before and after, in a file: a line for each command that was asked."""
    answers = {"before": Answers(), "after": Answers()}
    for part in (GOLDEN / f"pmds-{version}.txt").read_text().split("$ ")[1:]:
        command, _, answer = part.partition("\n")
        when, method, *arguments = command.split()
        answers[when].texts[f"dpif-netdev/{method}", *arguments] = answer
    return answers["before"], answers["after"]


def pmd(tid: int, core: int = 0, **changes: object) -> Thread:
    return replace(timed_thread(tid, f"pmd-c{core:02}/id:{tid}", user=500), **changes)


def sample_of(*threads: Thread) -> Sample:
    return bare_sample(
        *threads,
        target=Target(147, "ovs-vswitchd", None),
        window=window(duration_ns=TIMED_WINDOW_NS),
    )


@pytest.mark.parametrize("version", ["3.1", "3.5", "4.0"])
def test_packets_and_upcalls_are_those_that_were_sent(version: str) -> None:
    """A packet of each of 20 flows went to each of two queues."""
    found = pmd_stats(*readings(version))
    assert sorted(found) == [0, 1]
    for stats in found.values():
        assert (stats.packets, stats.upcalls, stats.lost_upcalls) == (20, 20, 0)
        assert stats.busy_iterations == 20


def test_iterations_and_cycles_are_exact() -> None:
    before, after = readings("3.1")
    assert parse_performance(before.texts[PERFORMANCE])[0].iterations == 1_003_031
    found = pmd_stats(before, after)[0]
    assert found.iterations == 3_983_484 - 1_003_031
    assert found.counted_ns == (7_692 - 1_248) * MS
    busy = 6_322_238 - 3_350_906
    idle = 19_905_899_701 - 3_188_717_038
    assert found.busy_share == busy / (busy + idle)


def test_upcalls_are_timed_with_pmd_perf_metrics() -> None:
    assert [each.upcall_ns for each in pmd_stats(*readings("3.1")).values()] == [None, None]
    found = pmd_stats(*readings("3.5"))
    assert found[0].upcall_ns == 25 * 35_800 - 5 * 57_200
    assert found[1].upcall_ns == 25 * 36_200 - 5 * 35_100


def test_longest_iteration_is_that_of_the_histogram() -> None:
    """One took more than 16,755,981 cycles, and 24,000,000 at most."""
    assert pmd_stats(*readings("3.1"))[0].longest_ns is None
    before, after = readings("3.5")
    longest_ns = pmd_stats(before, after)[0].longest_ns
    cycles_per_s = 18_789_713_206 / (0.989 * 7.311)
    assert longest_ns == round(16_755_981 / cycles_per_s * 1e9)
    # More than the histogram has a row for.
    shown = re.sub(r"(?m)^   > +0", "   >         1", after.texts[PERFORMANCE], count=1)
    after.texts[PERFORMANCE] = shown
    assert pmd_stats(before, after)[0].longest_ns == round(24_000_000 / cycles_per_s * 1e9)
    # It was switched on meanwhile.
    before.texts[PERFORMANCE] = before.texts[PERFORMANCE].replace("Histograms", "Others")
    assert pmd_stats(before, after)[0].longest_ns is None


def test_length_that_rounding_hides_is_not_known() -> None:
    answers = readings("3.5")
    for each in answers:
        shown = each.texts[PERFORMANCE]
        each.texts[PERFORMANCE] = re.sub(
            r"Upcalls: +(\d+)", lambda found: f"Upcalls: {int(found[1]) + 10**6}", shown
        )
    assert pmd_stats(*answers)[0].upcall_ns is None


def test_without_exact_cycles_the_share_is_not_known() -> None:
    """Since 4.0 pmd-stats-show is pmd-perf-show, and both have the main thread too."""
    found = pmd_stats(*readings("4.0"))
    assert [(each.packets, each.busy_share) for each in found.values()] == [(20, None)] * 2


def test_counters_that_began_anew_say_nothing() -> None:
    before, after = readings("3.1")
    assert pmd_stats(after, before) == {}
    assert pmd_stats(Answers(), after) == {}
    assert pmd_stats(before, Answers("it is stopped")) == {}


def test_a_thread_has_the_counts_of_its_core() -> None:
    others = (timed_thread(147, "ovs-vswitchd"), timed_thread(8, "handler8"))
    found = with_pmds((pmd(5, 1), pmd(6, 0), *others), {5, 6, 8, 147}, *readings("3.5"))
    assert [each.pmd.rx_queues if each.pmd else None for each in found] == [
        (RxQueue("p1", 1, enabled=True), RxQueue("p2", 0, enabled=True)),
        (RxQueue("p1", 0, enabled=True),),
        None,
        None,
    ]


def test_a_thread_that_a_pmd_made_has_no_counts() -> None:
    """It has the same name: glibc's aio_write(3), as Open vSwitch writes its log."""
    made = replace(pmd(7, 1), name="pmd-c01/id:5")
    found = with_pmds((pmd(5, 1), made), {5}, *readings("3.5"))
    assert [each.pmd is not None for each in found] == [True, False]


def test_of_two_datapaths_on_a_core_none_has_counts() -> None:
    found = with_pmds((pmd(5, 1), pmd(7, 1)), {5, 7}, *readings("3.5"))
    assert [each.pmd for each in found] == [None, None]


def test_a_queue_that_moved_names_its_core_before() -> None:
    before, after = readings("3.5")
    queue = "  port: p2                queue-id:  0 (enabled)   pmd usage: NOT AVAIL\n"
    first, _, second = after.texts[RX_QUEUES].replace(queue, "").partition("  overhead")
    after.texts[RX_QUEUES] = f"{first}{queue}  overhead{second}"
    found = pmd_stats(before, after)
    assert found[0].rx_queues == (
        RxQueue("p1", 0, enabled=True),
        RxQueue("p2", 0, enabled=True, moved_from_core=1),
    )
    assert found[1].rx_queues == (RxQueue("p1", 1, enabled=True),)


def test_receive_queues_have_their_last_usage() -> None:
    assert parse_rx_queues(QUEUES) == {
        0: (RxQueue("dpdk0", 0, True, 35), RxQueue("vhost1", 12, enabled=False)),
        17: (),
    }


def test_counts_of_any_size_have_room_in_a_recording() -> None:
    nines = "9" * 18
    shown = (
        f"Measurement duration: {nines[:15]}.999 s\n\npmd thread numa_id 0 core_id 0:\n\n"
        f"  Iterations: {nines}\n  - Sleep time (us): {nines}\n"
        f"  Upcalls: {nines} ( 1.0 %, {nines[:12]}.9 us/upcall)\n"
    )
    counted = parse_performance(shown)[0]
    assert (counted.counted_ns, counted.sleep_ns, counted.upcall_ns) == (MOST_NS,) * 3
    assert counted.upcalls == int(nines)


@given(st.lists(st.sampled_from([*QUEUES.splitlines(), *"pPmM:-0"]) | st.text(max_size=40)))
def test_any_text_is_parsed(lines: list[str]) -> None:
    shown = "\n".join(lines)
    for parse in (parse_performance, parse_cycles, parse_rx_queues):
        parse(shown)


class Asked:
    """In the place of a control socket: what it was asked for."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def ask(self, commands: tuple[Command, ...]) -> Answers:
        self.commands = list(commands)
        return Answers()

    def receive(self, within_s: float) -> None:
        """There is no answer."""

    def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize(
    ("has_pmds", "pmds", "further"), [(True, True, COMMANDS), (False, True, ()), (True, False, ())]
)
def test_only_pmd_threads_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    has_pmds: bool,
    pmds: bool,
    further: tuple[Command, ...],
) -> None:
    asked = Asked()
    monkeypatch.setattr(counters_module, "_unixctl_of", lambda pid: asked)
    monkeypatch.setattr(counters_module, "_datapaths_of", lambda pid: None)
    names = "pmd-c01/id:6" if has_pmds else "handler6"
    monkeypatch.setattr(counters_module, "read_comm", lambda folder: names)
    counters = counters_module.LossCounters(os.getpid(), "ovs-vswitchd", pmds=pmds)
    assert asked.commands == [*OF_LOSSES, *further]
    before = counters.read()
    counters.between(before, counters.read())
    assert asked.commands == [*OF_LOSSES, *further]
    threads = (pmd(6, 1),)
    assert counters.with_pmds(threads) == threads
    counters.close()


def test_report_has_iterations_and_receive_queues() -> None:
    lines = text.render(sample_of(pmd(6, pmd=PMD))).splitlines()
    place = next(at for at, line in enumerate(lines) if "[PMD STATISTICS]" in line)
    assert [line.split() for line in lines[place : place + 14]] == [
        ["[PMD", "STATISTICS]"],
        ["PART", "COUNT", "%", "TOTAL", "ns", "AVERAGE", "ns", "MAX", "ns"],
        ["iterations", "400000", "520,000,000", "1,300", "5,703,000"],
        ["busy", "iterations", "100000", "25.000"],
        ["busy", "cycles", "35.100"],
        ["sleep", "10.000", "52,000,000"],
        ["packets", "received", "3200000"],
        ["upcalls", "40", "0.001", "2,440,000", "61,000"],
        ["lost", "upcalls", "1000", "0.031"],
        [],
        ["[PMD", "RX", "QUEUES]"],
        ["PORT", "QUEUE", "%", "OF", "LAST", "60", "s", "STATE"],
        ["dpdk0", "0", "35", "enabled"],
        ["vhost1", "12", "not", "known", "disabled,", "moved", "from", "core", "7"],
    ]
    assert "PMD" not in text.render(sample_of(timed_thread(8, "handler8", user=500)))


def test_terminal_shows_the_same() -> None:
    shown = text.render(sample_of(pmd(6, pmd=PMD)), Layout(width=80))
    assert "[PMD STATISTICS]" in shown
    assert "dpdk0" in shown


def test_page_has_the_same_facts() -> None:
    facts = dict(page_thread(pmd(6, pmd=PMD)).facts)
    assert facts["iterations"] == "400,000 in 0.520 s"
    assert facts["cycles with packets"] == "35.1 %"
    assert facts["longest iteration"] == "5,703,000 ns or more"
    assert facts["receive queues"] == "vhost1 12, dpdk0 0"


def test_names_of_ports_are_redacted() -> None:
    (thread,) = redacted(sample_of(pmd(6, pmd=PMD))).threads
    assert thread.pmd is not None
    assert {each.port for each in thread.pmd.rx_queues} == {HIDDEN}
    assert thread.pmd.iterations == PMD.iterations


def test_polling_with_packets_is_no_finding() -> None:
    assert judge(sample_of(pmd(6, pmd=PMD))).verdict == ()


def test_thread_that_a_pmd_made_does_not_spin_by_design() -> None:
    """It has its name; glibc makes one to write the log."""
    sample = sample_of(pmd(6), pmd(9))
    made = replace(sample.threads[1], name=sample.threads[0].name)
    sample = replace(sample, threads=(sample.threads[0], made))
    assert spins_by_design(sample, sample.threads[0])
    assert not spins_by_design(sample, made)


def test_open_vswitch_with_dpdk_may_have_a_name_of_its_own() -> None:
    """Debian's file is called ovs-vswitchd-dpdk, which the kernel cuts."""
    sample = sample_of(pmd(6))
    with_dpdk = replace(sample, target=Target(147, "ovs-vswitchd-dp", None))
    assert spins_by_design(with_dpdk, with_dpdk.threads[0])
    other = replace(sample, target=Target(147, "ovs-vswitchd-d2", None))
    assert not spins_by_design(other, other.threads[0])


def test_starved_pmd_names_taker_and_its_iterations() -> None:
    starved = replace(
        timed_thread(6, "pmd-c01/id:6", user=300, ready=200),
        pmd=PMD,
        cpu_taken_by=(CpuTaker(77, "stress", 90, 190 * MS, 77),),
    )
    (finding,) = judge(sample_of(starved)).verdict
    assert (finding.rule, finding.who) == ("cpu_contention", "other-process")
    assert finding.sentence.startswith("the PMD thread pmd-c01/id:6 (6) could run but had no CPU")
    assert finding.details == (
        "Meanwhile stress (77) ran for 95 % of that time.",
        "It received 3,200,000 packets in 400,000 iterations; the longest took 5.7 ms or more.",
    )
    # Of more than the window it is said.
    longer = replace(starved, pmd=replace(PMD, counted_ns=900 * MS, longest_ns=None))
    (finding,) = judge(sample_of(longer)).verdict
    assert finding.details[1:] == (
        "It received 3,200,000 packets in 400,000 iterations.",
        "The counts are of the 900.0 ms around the window.",
    )


def test_interrupted_pmd_names_the_interrupt_and_its_iterations() -> None:
    interrupted = replace(
        timed_thread(6, "pmd-c01/id:6", user=400, soft_irq=100),
        pmd=PMD,
        soft_irqs=(SoftIrqStats(3, "net_rx", 900, 100 * MS, MS),),
    )
    (finding,) = judge(sample_of(interrupted)).verdict
    assert finding.rule == "interrupt_load"
    assert "the PMD thread pmd-c01/id:6 (6)" in finding.sentence
    assert "net_rx" in finding.text
    assert "It received 3,200,000 packets in 400,000 iterations" in finding.text
