"""A server without requests is idle, and its client is no cause."""

from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import (
    ChainPart,
    ChainThread,
    Sample,
    Sleep,
    SyscallStats,
    Thread,
    WaitChain,
)
from kernel_delay.reporters import text
from kernel_delay.reporters.accounting_tables import accounting_tables
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window
from tests.unit.test_rounds import sample_of

SERVER = 27090
CLIENT = ChainThread(50, 50, "wrk", process="wrk")
MS = 1_000_000
READS = 5


def serving(*parts: ChainPart, **states: int) -> Thread:
    slept_ns = sum(part.ns for part in parts)
    thread = timed_thread(SERVER, "nginx", blocked=slept_ns // MS, **states)
    sleep = Sleep("epoll", "epoll_wait", (), False, 5, slept_ns, MS)
    reads = SyscallStats(45, "recvfrom", READS, MS, MS, ())
    return replace(thread, sleeps=(sleep,), syscalls=(reads,), chain=WaitChain(slept_ns, parts))


def judged(*parts: ChainPart, **states: int) -> Sample:
    thread = serving(*parts, **states)
    return judge(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))


def test_client_of_an_idle_server_is_no_cause() -> None:
    sample = judged(ChainPart((CLIENT,), "blocked", 450 * MS, "clock", idle=True), user=50)
    (found,) = sample.verdict
    assert found.rule == "idle_server"
    assert found.remark
    assert found.text == (
        "the main thread nginx (27090) waited for requests in epoll_wait for 450.0 ms, 90 % of the"
        " window. Its client is wrk (50)."
    )
    verdict, remark, *_ = text.render_summary(sample).splitlines()[-2:]
    assert verdict == "# VERDICT: nothing kept a thread from its work for long."
    assert remark.startswith("# REMARK: the main thread nginx (27090) waited for requests")


def test_server_that_reads_nothing_may_wait_until_its_clients_read() -> None:
    thread = serving(ChainPart((CLIENT,), "blocked", 450 * MS, "clock", idle=True))
    sample = bare_sample(replace(thread, syscalls=()), window=window(duration_ns=TIMED_WINDOW_NS))
    (found,) = judge(sample).verdict
    assert "the main thread nginx (27090) waited for its clients in epoll_wait" in found.text


def test_stopped_client_of_an_idle_server_is_said_and_no_cause() -> None:
    (found,) = judged(ChainPart((CLIENT,), "stopped", 450 * MS, idle=True)).verdict
    assert found.rule == "idle_server"
    assert "wrk (50) was stopped for 450.0 ms." in found.details


def test_server_that_waits_for_another_server_is_not_idle() -> None:
    database = ChainThread(60, 60, "database")
    sample = judged(
        ChainPart((database,), "stopped", 300 * MS),
        ChainPart((CLIENT,), "blocked", 150 * MS, "clock", idle=True),
    )
    assert sample.verdict[0].rule == "wait_chain"
    assert "idle_server" not in {each.rule for each in sample.verdict}


def test_in_a_round_the_client_is_waited_for() -> None:
    thread = serving(ChainPart((CLIENT,), "stopped", 450 * MS, idle=True))
    sample = bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))
    sample = replace(sample, round=sample_of(thread).round)
    assert "wait_chain" in {each.rule for each in judge(sample).verdict}


def test_table_of_chains_says_once_that_the_client_sent_nothing() -> None:
    """What it did meanwhile is no matter of the server's."""
    thread = serving(
        ChainPart((CLIENT,), "blocked", 300 * MS, "clock", idle=True),
        ChainPart((), "unknown", 100 * MS, "epoll"),
        ChainPart((CLIENT,), "running", 50 * MS, idle=True),
    )
    (table,) = (each for each in accounting_tables(thread) if each.title == "[WAIT CHAINS]")
    shown = [(row[0], row[2], row[-2]) for row in table.rows]
    assert shown == [
        ("wrk", 350 * MS, "it sent no request"),
        ("", 100 * MS, "not known, epoll"),
        ("TOTAL:", 450 * MS, ""),
    ]
