"""Figures of threads to figures of classes, which only grow; and their names and number."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.metrics import Lengths
from kernel_delay.metrics.families import (
    BUILD_INFO,
    FAMILIES,
    ROUND_SECONDS,
    Buckets,
    buckets,
    values,
)
from kernel_delay.metrics.ledger import (
    MOST_CALLS,
    MOST_CLASSES,
    MOST_WAITS,
    Ledger,
    ThreadClasses,
    base_name,
    gains,
)
from kernel_delay.model import CallTotals, ChainPart, Losses, Sleep, SleepReason, WaitChain
from kernel_delay.version import VERSION
from tests.unit.metric_samples import full_snapshot, thread
from tests.unit.samples import bare_sample, bare_thread

PID = 1000


def a_ledger() -> Ledger:
    return Ledger(ThreadClasses(is_open_vswitch=False))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("handler12", "handler"),
        ("pmd-c03/id:12", "pmd"),
        ("urcu3", "urcu"),
        ("GC Thread#0", "GC Thread"),
        ("iou-wrk-4711", "iou-wrk"),
        ("tokio-runtime-w", "tokio-runtime-w"),
        ("4711", "other"),
        ("", "other"),
    ],
)
def test_class_of_a_thread_is_its_name_without_number(name: str, base: str) -> None:
    assert base_name(name) == base


def test_names_that_print_alike_are_one_class() -> None:
    """Two labels of one value would have Prometheus refuse the whole page."""
    assert base_name("a\x1b[2J\x07b") == base_name(r"a\x1b[2J\x07b") == r"a\x1b[2J\x07b"


def test_open_vswitch_has_fixed_classes_and_other() -> None:
    classes = ThreadClasses(is_open_vswitch=True)
    classes.learn(["ct_clean4", "ct_clean5", "handler1"])

    assert classes.of("ovs-vswitchd", is_main=True) == "main"
    names = ["handler1", "revalidator2", "pmd-c01/id:8", "urcu3", "ct_clean4", "ovs-vswitchd"]
    found = [classes.of(name, is_main=False) for name in names]
    assert found == ["handler", "revalidator", "pmd", "urcu", "other", "other"]


def test_only_the_first_thread_is_in_class_main() -> None:
    classes = ThreadClasses(is_open_vswitch=False)
    classes.learn(["main", "main7"])
    assert [classes.of(name, is_main=False) for name in ("main", "main7")] == ["other", "other"]


def test_classes_are_bounded_and_keep_the_most_common() -> None:
    classes = ThreadClasses(is_open_vswitch=False)
    names = [f"rare-{letter}" for letter in "abcdef"]
    classes.learn([*names, *(f"worker{number}" for number in range(50))])
    classes.learn(f"late-{letter}" for letter in "abcdef")

    all_names = [*names, "worker7", *(f"late-{letter}" for letter in "abcdef")]
    found = {classes.of(name, is_main=False) for name in all_names}
    assert "worker" in found
    assert len(found | {"main"}) == MOST_CLASSES
    assert not any(name.startswith("late") for name in found)


def test_a_class_gets_what_its_threads_have_more() -> None:
    ledger = a_ledger()
    ledger.add_living(PID, {1: thread(1, "a1", user_ns=5), 2: thread(2, "a2", user_ns=7)})
    ledger.add_living(PID, {1: thread(1, "a1", user_ns=6), 2: None})

    figures = ledger.classes["a"]
    assert figures.state_ns["user"] == 13
    assert figures.threads == 2


def test_a_thread_takes_nothing_along_when_it_is_renamed() -> None:
    """A program's threads have its own name first; what they did by that remains that class's."""
    ledger = a_ledger()
    ledger.add_living(PID, {1: thread(1, "prog", kernel_ns=5)})
    ledger.add_living(PID, {1: thread(1, "worker1", kernel_ns=9)})

    assert ledger.classes["prog"].state_ns["kernel"] == 5
    assert ledger.classes["worker"].state_ns["kernel"] == 4


def test_threads_that_end_are_in_the_sums_once() -> None:
    ledger = a_ledger()
    ledger.add_living(PID, {1: thread(1, "a1", blocked_ns=5)})
    ledger.add_ended(PID, [thread(1, "a1", blocked_ns=8), thread(2, "a2", blocked_ns=2)])
    ledger.forget_all_but({})
    ledger.add_living(PID, {})

    assert ledger.classes["a"].state_ns["blocked"] == 10
    assert ledger.classes["a"].threads == 0
    assert ledger.losses.missed_ends == 0


def test_thread_that_vanished_is_counted_as_a_missed_end() -> None:
    ledger = a_ledger()
    ledger.add_living(PID, {1: thread(1, "a1", blocked_ns=5)})
    ledger.add_living(PID, {})
    ledger.forget_all_but({})
    ledger.set_losses(Losses(missed_ends=1))
    assert ledger.losses.missed_ends == 1
    assert ledger.classes["a"].state_ns["blocked"] == 5

    ledger.add_living(PID, {3: thread(3, "a3")})
    ledger.end_process(has_exited=True)
    assert ledger.losses.missed_ends == 2


def test_thread_no_longer_watched_is_no_missed_end() -> None:
    ledger = a_ledger()
    ledger.add_living(PID, {1: thread(1, "a1", blocked_ns=5)})
    ledger.end_process(has_exited=False)
    assert ledger.losses.missed_ends == 0
    assert ledger.classes["a"].threads == 0


def test_totals_continue_with_the_next_process() -> None:
    ledger = a_ledger()
    for _ in range(2):
        ledger.add_living(PID, {1: thread(1, "a1", user_ns=5)})
        ledger.add_calls([CallTotals("read", 3, 300)])
        ledger.set_losses(Losses(missed_events=2))
        ledger.add_ended(PID, [thread(1, "a1", user_ns=6)])
        ledger.end_process(has_exited=True)

    assert ledger.classes["a"].state_ns["user"] == 12
    assert (ledger.calls["read"].count, ledger.calls["read"].total_ns) == (6, 600)
    assert ledger.losses == Losses(missed_events=4)


STATES_NS = st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100)), max_size=8)


@given(STATES_NS)
def test_nothing_is_taken_back_and_all_is_given(steps: list[dict[str, int]]) -> None:
    """Whatever turns out to have been of another state, and as long as time goes on."""
    given_ns: dict[str, int] = {}
    whole_ns = 0
    for step in steps:
        now = dict(step)
        whole_ns = max(whole_ns, sum(now.values()))
        now["a"] = now.get("a", 0) + whole_ns - sum(now.values())
        more = gains(given_ns, now)
        assert all(ns >= 0 for ns in more.values())
        for state, ns in more.items():
            given_ns[state] = given_ns.get(state, 0) + ns
        assert sum(given_ns.values()) == whole_ns


def test_calls_have_names_while_there_is_room() -> None:
    ledger = a_ledger()
    large = [CallTotals(f"call{number}", 1, 1000) for number in range(MOST_CALLS - 1)]
    ledger.add_calls([*large, CallTotals("small", 1, 1)])
    assert "small" not in ledger.calls
    assert ledger.calls["other"].total_ns == 1

    ledger.add_calls([*large, CallTotals("small", 3, 5001), CallTotals("late", 1, 5000)])
    assert ledger.calls["small"].total_ns == 5000
    assert "late" not in ledger.calls
    assert ledger.calls["other"].count == 2
    assert {f"call{number}" for number in range(MOST_CALLS - 1)} < ledger.calls.keys()


def test_waits_of_long_rounds_are_by_class_and_reason() -> None:
    ledger = a_ledger()
    slept = Sleep("futex", "futex", (), uninterruptible=False, count=2, ns=70, max_ns=40)
    chain = WaitChain(90, (ChainPart((), "stopped", 60), ChainPart((), "unknown", 30)))
    other = structs.replace(slept, reason="disk", ns=20)
    one = structs.replace(bare_thread(PID, "prog"), sleeps=(slept, other), chain=chain)
    worker = structs.replace(bare_thread(8, "worker3"), sleeps=(slept,), chain=None)
    for each in (one, one, worker):
        ledger.add_round(PID, bare_sample(each))

    assert ledger.waits_ns == {("main", "futex"): 140, ("main", "disk"): 40, ("other", "futex"): 70}
    assert ledger.roots_ns == {"stopped": 120, "unknown": 60}


def test_late_reasons_of_waits_are_one_sum() -> None:
    ledger = a_ledger()
    for reason in get_args(SleepReason):
        slept = Sleep(reason, None, (), uninterruptible=False, count=1, ns=1, max_ns=1)
        ledger.add_round(
            PID, bare_sample(structs.replace(bare_thread(PID, "prog"), sleeps=(slept,)))
        )

    assert len(ledger.waits_ns) == MOST_WAITS + 1
    assert sum(ledger.waits_ns.values()) == len(get_args(SleepReason))
    assert ledger.waits_ns["other", "other"] == len(get_args(SleepReason)) - MOST_WAITS


def test_a_bucket_has_what_is_at_most_its_bound() -> None:
    counts = [0] * 32
    counts[11], counts[12], counts[31] = 1, 2, 4
    found = buckets(ROUND_SECONDS, Lengths(tuple(counts), 3_000_000_000))

    assert found.bounds[0] == 4095e-9
    assert found.counts == (1, 3, 3, 3, 3, 3, 3, 3, 7)
    assert found.sum == 3.0
    assert buckets(ROUND_SECONDS, Lengths((5,), 0)).counts == (5,) * 9


def test_there_are_335_series_and_those_of_losses() -> None:
    found = list(values(full_snapshot()))
    series = sum(
        len(value.value.counts) + 2 if isinstance(value.value, Buckets) else 1 for value in found
    )
    # An ovs-vswitchd has one datapath in the kernel, and one in user space; here one PMD thread.
    assert series <= 335 + 12 + 5
    assert {value.family for value in found} == set(FAMILIES)
    assert len({(value.family, value.labels) for value in found}) == len(found)


def test_build_info_has_the_version_that_was_built() -> None:
    found = [value for value in values(full_snapshot()) if value.family is BUILD_INFO]
    assert [(value.labels, value.value) for value in found] == [((VERSION,), 1)]


def test_names_are_as_prometheus_has_them() -> None:
    for family in FAMILIES:
        assert re.fullmatch(r"kernel_delay_[a-z_]+", family.name)
        assert family.unit == "" or family.name.endswith(f"_{family.unit}")
        assert not family.name.endswith("_total")
        assert (family.kind == "histogram") == bool(family.bounds)
        assert family.help.endswith(".")
