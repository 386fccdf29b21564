"""Coverage counters and stopwatches, as ovs-vswitchd 4.0 and ovn-northd 23.03 printed them."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.model import Coverage, Round, Sample, Stopwatch
from kernel_delay.openvswitch import coverage as coverage_module
from kernel_delay.openvswitch import unixctl
from kernel_delay.openvswitch.coverage import (
    MOST_COUNTERS,
    CoverageReader,
    coverage_between,
    parse_stopwatches,
)
from kernel_delay.openvswitch.losses import COVERAGE
from kernel_delay.openvswitch.losses.answers import parse_counters
from kernel_delay.openvswitch.unixctl import Answers
from kernel_delay.reporters import text
from kernel_delay.reporters.page.coverage import CoverageTotals, coverage_tables
from tests.unit.samples import bare_sample, bare_thread, window
from tests.workload import HANGS_S

GOLDEN = Path(__file__).parent / "golden"
MS = 1_000_000
S = 1_000 * MS


def answers(process: str) -> tuple[Answers, Answers]:
    """What a process answered before and after, in a file: a line for each command."""
    found = {"before": Answers(), "after": Answers()}
    for part in (GOLDEN / "coverage.txt").read_text().split("$ ")[1:]:
        command, _, answer = part.partition("\n")
        of, when, method = command.split()
        if of == process:
            found[when].texts[(method,)] = answer
    found["after"].asked_ns = found["before"].asked_ns + 5 * S
    return found["before"], found["after"]


def shown(coverage: Coverage, **changes: object) -> str:
    return text.render(replace(bare_sample(coverage=coverage, window=window()), **changes))


def test_counters_that_moved_are_there() -> None:
    found = coverage_between(*answers("ovs-vswitchd"))
    assert found.asked_ns == 5 * S
    assert found.counters["xlate_actions"] == 1_318 - 65
    assert "bridge_reconfigure" not in found.counters
    assert list(found.counters.values()) == sorted(found.counters.values(), reverse=True)
    assert found.stopwatches == ()


def test_stopwatches_are_what_took_long() -> None:
    """1,600 ports on 40 switches came: northd's loop took 792 ms at most."""
    found = coverage_between(*answers("ovn-northd"))
    (loop, *others) = found.stopwatches
    assert loop == Stopwatch("ovn-northd-loop", 23 - 8, 43_583_053, 792 * MS)
    assert Stopwatch("ovnnb_db_run", 2, 24_500_000, 33 * MS) in others
    # None of them took a millisecond: it is no longer than before.
    assert Stopwatch("lflows_igmp", 2, 0, None) in others


def test_stopwatch_that_was_reset_is_missing() -> None:
    after, before = answers("ovn-northd")
    assert coverage_between(before, after).stopwatches == ()
    assert coverage_between(before, before) == Coverage()


def test_units_of_stopwatches_are_read() -> None:
    shown_us = "Statistics for 'a b'\n  Total samples: 1\n  Maximum: 7 usec\n  Minimum: 7 usec\n"
    (found,) = parse_stopwatches(shown_us + "  Short term average: 7.5 usec\n").values()
    assert (found.samples, found.longest_ns, found.average_ns) == (1, 7_000, 7_500)
    assert parse_stopwatches(shown_us) == {}


@given(st.text())
def test_any_text_has_counters_or_none(answer: str) -> None:
    parse_counters(answer)
    parse_stopwatches(answer)
    parse_stopwatches(f"Statistics for '{answer}'\n  Total samples: {answer}\n")


def test_so_many_counters_are_kept_as_have_room() -> None:
    began, ended = Answers(), Answers()
    began.texts[COVERAGE] = ""
    lines = (f"event{number} 0.0/sec   total: {number + 1}" for number in range(1_000))
    ended.texts[COVERAGE] = "\n".join(lines)
    found = coverage_between(began, ended).counters
    assert len(found) == MOST_COUNTERS
    assert list(found)[:2] == ["event999", "event998"]


def test_report_has_the_counters_and_stopwatches() -> None:
    lines = shown(coverage_between(*answers("ovn-northd"))).splitlines()
    assert "# COVERAGE COUNTERS, OF THE 5,000.0 ms BETWEEN TWO ANSWERS:" in lines
    (heading,) = (at for at, line in enumerate(lines) if line.endswith("STOPWATCH"))
    assert lines[heading + 2].split() == ["15", "43.6", "ms", "792.0", "ms", "ovn-northd-loop"]
    (xalloc,) = (line.split() for line in lines if line.endswith("util_xalloc"))
    assert xalloc[0] == "484,545"


def test_report_without_answers_has_a_remark() -> None:
    said = shown(Coverage(unread="it is stopped"))
    assert "# Not read: coverage counters: it is stopped." in said
    assert "BETWEEN TWO ANSWERS" not in said


@pytest.fixture
def server(tmp_path: Path) -> Iterator[socket.socket]:
    """The control socket of this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(os.fspath(tmp_path / "ovs-vswitchd.1.ctl"))
        listening.listen()
        yield listening


def answer(connection: socket.socket, *texts: str) -> None:
    """Answer what was asked."""
    asked = connection.recv(4096).decode()
    decoder = json.JSONDecoder()
    for result in texts:
        request, end = decoder.raw_decode(asked)
        asked = asked[end:]
        connection.send(json.dumps({"id": request["id"], "result": result}).encode())


def of_round(ended_by: str = "poll") -> Sample:
    sample = bare_sample(bare_thread(7, "ovs-vswitchd"), window=window(ended_by))
    return replace(sample, round=Round(7, "ovs-vswitchd", number=3))


def test_reader_asks_once_for_a_round(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "ANSWERS_WITHIN_S", HANGS_S)
    monkeypatch.setattr(unixctl, "TAKEN_WITHIN_S", HANGS_S)
    reader = CoverageReader(os.getpid())
    connection, _ = server.accept()
    answer(connection, "", "txn_success 0.0/sec   total: 3")

    def go_on() -> None:
        answer(connection, "", "txn_success 0.0/sec   total: 10")

    calls = iter([go_on])
    record = reader.with_coverage(of_round(), lambda: next(calls, lambda: None)())
    assert record.coverage is not None
    assert record.coverage.counters == {"txn_success": 7}
    # Another round, just afterwards.
    monkeypatch.setattr(coverage_module, "ASKS_EACH_S", 3600.0)
    assert reader.with_coverage(of_round(), lambda: None).coverage is None
    connection.setblocking(False)
    with pytest.raises(BlockingIOError):
        connection.recv(1)
    reader.close()
    connection.close()


def test_reader_says_why_there_is_no_answer(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage_module, "ANSWERS_WITHIN_S", 0.05)
    monkeypatch.setattr(coverage_module, "ASKS_EACH_S", 0.0)
    monkeypatch.setattr(unixctl, "TAKEN_WITHIN_S", HANGS_S)
    reader = CoverageReader(os.getpid())
    connection, _ = server.accept()
    found = [reader.with_coverage(of_round(), lambda: None).coverage for _ in range(2)]
    assert found == [Coverage(unread="it has not answered before")] * 2
    answer(connection, "", "txn_success 0.0/sec   total: 3")
    assert reader.read() == Coverage(unread="no answer within 0.05 s")
    answer(connection, "", "txn_success 0.0/sec   total: 5")
    # What was not answered in time is a part of the next.
    monkeypatch.setattr(coverage_module, "ANSWERS_WITHIN_S", HANGS_S)
    calls = iter([lambda: answer(connection, "", "txn_success 0.0/sec   total: 9")])
    assert reader.read(lambda: next(calls, lambda: None)()).counters == {"txn_success": 6}
    reader.close()
    connection.close()


def test_process_without_a_control_socket_is_not_asked() -> None:
    reader = CoverageReader(os.getpid())
    assert reader.read() == Coverage(unread="it has no control socket")
    reader.close()


def test_pmd_threads_off_their_cpu_are_no_reason_to_ask(server: socket.socket) -> None:
    reader = CoverageReader(os.getpid())
    assert reader.with_coverage(of_round("switch"), lambda: None).coverage is None
    reader.close()


def test_page_has_tables_of_each_sample_and_of_all() -> None:
    begin = Coverage(2 * S, {"txn_success": 4, "seq_change": 1}, (Stopwatch("loop", 2, 5 * MS),))
    end = Coverage(3 * S, {"seq_change": 9}, (Stopwatch("loop", 1, 7 * MS, 20 * MS),))
    totals = CoverageTotals()
    for each in (begin, Coverage(unread="it is stopped"), None, end):
        totals.add(each)
    counters, stopwatches = totals.tables()
    assert counters.title == "Coverage counters, of 5,000.0 ms"
    assert counters.rows == (("seq_change", "10", "2.0"), ("txn_success", "4", "0.8"))
    assert stopwatches.rows == (("loop", "3", "7.0", "20.0"),)
    (of_sample, _) = coverage_tables(begin)
    assert of_sample.rows[0] == ("txn_success", "4", "2.0")
    assert coverage_tables(None) == coverage_tables(Coverage(unread="it is stopped")) == ()
