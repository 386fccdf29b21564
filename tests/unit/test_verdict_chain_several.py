"""The verdict on a wait chain with several roots: each of those that took most is named."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.rounds import CAUSES
from kernel_delay.analysis.verdict import judge
from kernel_delay.model import ChainPart, ChainThread, Finding, SyscallStats
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, window
from tests.unit.test_verdict_wait_chain import CLIENT, MS, children, waiting

SUM = ChainThread(0, 0, "sha256sum")
HEAD = ChainThread(0, 0, "head")
SERVER = ChainThread(50, 50, "server")


def judged(*parts: ChainPart, forks: int = 0) -> tuple[Finding, ...]:
    """What is said of a thread that waited so for children, of which it made so many."""
    calls = (SyscallStats(56, "clone", forks, 5, 5),) if forks else ()
    thread = replace(waiting(*parts), sleeps=(children(5),), syscalls=calls)
    return judge(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))).verdict


def test_each_root_is_named_with_what_it_did() -> None:
    found, *_ = judged(
        ChainPart((SUM,), "running", 160 * MS),
        ChainPart((HEAD, SUM), "runnable", 70 * MS),
        ChainPart((HEAD,), "running", 220 * MS),
        ChainPart((SERVER,), "blocked", 30 * MS, "clock"),
        ChainPart((), "unknown", 20 * MS),
        forks=5,
    )
    assert (found.rule, found.remark) == ("wait_chain_several", False)
    assert found.sentence == (
        "the main thread client (27090) waited for sha256sum and head in wait4 for 450.0 ms."
    )
    assert found.details == (
        "For 230.0 ms it waited for several processes named sha256sum: they were on a CPU for"
        " 160.0 ms.",
        "For 220.0 ms it waited for several processes named head: they were on a CPU all the time.",
    )
    assert found.advice == f"To see what they do: kernel-delay -p {CLIENT} --children"
    assert found.evidence["roots"] == 2


def test_one_process_is_to_be_looked_at() -> None:
    found, *_ = judged(
        ChainPart((SERVER,), "running", 200 * MS),
        ChainPart((SUM,), "running", 190 * MS),
        ChainPart((), "unknown", 110 * MS),
    )
    assert found.advice == "To see what it does: kernel-delay -p 50"
    assert found.remark


def test_root_that_is_not_known_is_named_by_its_time_too() -> None:
    found, *_ = judged(
        ChainPart((HEAD,), "unknown", 240 * MS, gap="interrupt"),
        ChainPart((SUM,), "running", 200 * MS),
        ChainPart((), "unknown", 60 * MS),
        forks=5,
    )
    assert "waited for head and sha256sum in wait4" in found.sentence
    waited = "For 240.0 ms it waited for several processes named head"
    assert found.details[0] == f"{waited}; the root of that wait is not known."
    # What that did is not known: it may have had nothing to do.
    assert found.remark


def test_root_with_half_of_the_waits_may_be_known_for_less() -> None:
    found, *_ = judged(
        ChainPart((HEAD,), "running", 240 * MS),
        ChainPart((HEAD,), "unknown", 30 * MS, gap="lasts"),
        ChainPart((SUM,), "running", 100 * MS),
        ChainPart((), "unknown", 130 * MS),
        forks=5,
    )
    assert found.rule == "wait_chain_several"
    assert "waited for head and sha256sum in wait4 for 370.0 ms" in found.sentence


@pytest.mark.parametrize(
    "parts",
    [
        # One has half of it, or both together less, or there is nobody else.
        [ChainPart((SUM,), "running", 260 * MS), ChainPart((HEAD,), "running", 240 * MS)],
        [ChainPart((SUM,), "running", 100 * MS), ChainPart((HEAD,), "running", 100 * MS)],
        [ChainPart((SUM,), "running", 240 * MS)],
        # It is not known what any of them did.
        [ChainPart((each,), "unknown", 240 * MS, gap="lasts") for each in (SUM, HEAD)],
        # Other rules have the process's own threads.
        [ChainPart((ChainThread(n, CLIENT, "own"),), "running", 240 * MS) for n in (3, 4)],
    ],
)
def test_fewer_roots_or_less_of_the_waits_are_no_such_finding(parts: list[ChainPart]) -> None:
    left_ns = 500 * MS - sum(part.ns for part in parts)
    found = judged(*parts, ChainPart((), "unknown", left_ns))
    assert all(each.rule != "wait_chain_several" for each in found)


def test_several_roots_are_the_same_cause_of_a_round() -> None:
    assert {"wait_chain", "wait_chain_several"} & set(CAUSES) == {"wait_chain"}
