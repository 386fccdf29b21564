"""Wait chains in rounds: each wait is for work, and a chain is one cause."""

from msgspec.structs import replace

from kernel_delay.analysis.rounds import CAUSES, cause_name
from kernel_delay.analysis.verdict import judge
from kernel_delay.model import ChainPart, ChainThread, Round, Sample, Sleep, WaitChain
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

TID = 27090
SERVER = ChainThread(50, 50, "server")
MS = 1_000_000


def judged(part: ChainPart) -> Sample:
    sleep = Sleep("socket_receive", "recvfrom", (), False, 1, part.ns, part.ns)
    chain = WaitChain(part.ns, (part,))
    thread = replace(timed_thread(TID, "loop"), sleeps=(sleep,), chain=chain)
    sample = bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))
    return judge(replace(sample, round=Round(TID, "loop", 1)))


def test_root_that_sleeps_is_a_finding_in_a_round() -> None:
    found = judged(ChainPart((SERVER,), "blocked", 200 * MS, "clock")).verdict[0]
    assert (found.rule, found.remark) == ("wait_chain", False)
    assert "40 % of the round" in found.text


def test_unknown_root_is_a_finding_in_a_round() -> None:
    part = ChainPart((SERVER,), "unknown", 200 * MS, "epoll", syscall="epoll_wait", gap="lasts")
    sample = judged(part)
    found = sample.verdict[0]
    assert (found.rule, found.remark) == ("wait_chain_end", False)
    assert "had work" not in found.text
    # One cause for counters, of which there are not to be too many.
    assert cause_name(sample) == "wait_chain"
    assert {"wait_chain", "wait_chain_end"} & set(CAUSES) == {"wait_chain"}
