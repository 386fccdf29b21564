"""`kernel-delay log` and suspicious iterations of PMD threads: sums, causes, what to run next."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.log import iterations
from kernel_delay.commands.log.findings import findings
from tests.unit.test_logs import read, vlog, write

PMD = "pmd_perf(pmd-c01/id:6)"
EXCESSIVE = "Excessive total cycles"
HEADING = (
    "   iter                cycles       packets      cycles/pkt   pkts/batch   vhost qlen"
    "   upcalls      cycles/upcall"
)
# cycles, packets, upcalls, cycles an upcall: of 1 µs with 2,600 of them.
IDLE = (1716, 0, 0, 0)
BUSY = (20_800, 8, 0, 0)
Row = tuple[int, int, int, int]


def suspicious(
    second: float, number: int, us: int, module: str = PMD, reason: str = EXCESSIVE
) -> str:
    text = f"Suspicious iteration ({reason}): iter={number} duration={us} us"
    return vlog(second, number, module, text)


def table(second: float, rows: dict[int, Row], module: str = PMD) -> list[str]:
    """As lib/dpif-netdev-perf.c:pmd_perf_format_iteration_history() writes it, newest row first."""
    lines = [vlog(second, 1, module, "Neighborhood of suspicious iteration:"), HEADING]
    for number, (cycles, packets, upcalls, each) in sorted(rows.items(), reverse=True):
        per_packet = cycles // packets if packets else 0
        lines.append(
            f"   {number:<17}   {cycles:<11}  {packets:<11}  {per_packet:<11}  {1:<11}"
            f"  {0:<11}  {upcalls:<11}  {each:<11}"
        )
    return [*lines, ""]


def with_table(second: float, number: int, us: int, row: Row, usual: Sequence[Row]) -> list[str]:
    around = {number + place: each for place, each in enumerate(usual, 1)}
    return [suspicious(second, number, us), *table(second, {number: row, **around})]


@pytest.mark.parametrize(
    ("row", "usual", "cause"),
    [
        # The thread was stopped for 103 ms.
        ((267_800_000, 0, 0, 0), [IDLE, IDLE], "neither"),
        ((427_206, 1, 1, 369_330), [IDLE], "upcalls"),
        ((26_000_000, 32, 0, 0), [BUSY, IDLE], "neither"),
        ((83_200, 32, 0, 0), [BUSY, IDLE], "packets"),
        ((26_000_000, 32, 0, 0), [IDLE], "unknown"),
        ((26_000_000, 32, 1, 12_000_000), [BUSY], "neither"),
    ],
)
def test_cause_is_what_took_half(row: Row, usual: list[Row], cause: str, tmp_path: Path) -> None:
    us = row[0] // 2600
    (group,) = read(
        write(tmp_path / "ovs-vswitchd.log", with_table(0, 500, us, row, usual))
    ).iterations
    assert group.causes == {cause: 1}
    longest = group.longest
    assert (longest.length_us, longest.cycles, longest.packets) == (us, row[0], row[1])


def test_threads_and_reasons_are_apart(tmp_path: Path) -> None:
    lines = [
        suspicious(0, 5, 300),
        suspicious(1, 9, 500),
        suspicious(2, 9, 40, reason="Vhost RX queue full"),
        suspicious(3, 9, 600, "pmd_perf(pmd-c02/id:7)"),
    ]
    found = read(write(tmp_path / "ovs-vswitchd.log", lines)).iterations
    assert [(each.thread, each.iterations, each.length_us) for each in found] == [
        ("pmd-c01/id:6", 2, 800),
        ("pmd-c02/id:7", 1, 600),
        ("pmd-c01/id:6", 1, 40),
    ]
    assert [each.reason for each in found] == [EXCESSIVE, EXCESSIVE, "Vhost RX queue full"]
    assert all(each.causes == {"unknown": each.iterations} for each in found)


def test_one_table_may_be_of_several_iterations(tmp_path: Path) -> None:
    """`pmd-perf-log-set on -e` has the table of the first go on to that of the last."""
    slow = (26_000_000, 0, 0, 0)
    lines = [suspicious(0, 5, 10_000), suspicious(0, 8, 10_000)]
    lines += table(0, {5: slow, 6: BUSY, 7: BUSY, 8: slow})
    (group,) = read(write(tmp_path / "ovs-vswitchd.log", lines)).iterations
    assert (group.iterations, group.causes) == (2, {"neither": 2})


def test_rows_may_be_lines_of_syslog(tmp_path: Path) -> None:
    lines = with_table(0, 500, 5000, (13_000_000, 0, 0, 0), [IDLE])
    head = "Feb  3 04:05:00 node1 ovs-vswitchd[12]: "
    syslog = [head + (f"ovs{line[24:]}" if "|" in line else line) for line in lines if line]
    (group,) = read(write(tmp_path / "messages", syslog)).iterations
    assert (group.program, group.causes) == ("ovs-vswitchd", {"neither": 1})


def test_iteration_in_a_journal_too_counts_once(tmp_path: Path) -> None:
    line = suspicious(0, 5, 300)
    write(tmp_path / "ovs-vswitchd.log", [line])
    write(tmp_path / "messages", [f"Feb  3 04:05:00 node1 ovs-vswitchd[1]: ovs{line[24:]}"])
    result = read(tmp_path)
    assert result.duplicates == 1
    assert sum(each.iterations for each in result.iterations) == 1


@pytest.mark.parametrize(
    ("lines", "said", "next_"),
    [
        (
            with_table(0, 500, 103_000, (267_800_000, 0, 0, 0), [IDLE]),
            "Packets and upcalls explain less than half of it:",
            "kernel-delay watch --comm ovs-vswitchd --pmd-gap 1ms",
        ),
        (
            [suspicious(0, 5, 300), suspicious(0, 9, 400)],
            "The log does not say what all of them did.",
            "kernel-delay watch --comm ovs-vswitchd --pmd-gap 150us",
        ),
        (
            with_table(0, 500, 164, (427_206, 1, 1, 369_330), [IDLE]),
            "Upcalls took most of it.",
            "kernel-delay --comm ovs-vswitchd --sample-time 10",
        ),
    ],
)
def test_verdict_says_what_to_measure_next(
    lines: list[str], said: str, next_: str, tmp_path: Path
) -> None:
    (found,) = findings(read(write(tmp_path / "ovs-vswitchd.log", lines)))
    assert said in found.text
    assert found.next == (next_,)


def test_report_and_page_sum_them_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(
        tmp_path / "ovs-vswitchd.log",
        with_table(0, 500, 103_000, (267_800_000, 0, 0, 0), [IDLE]),
    )
    page = tmp_path / "page.html"
    assert main(["log", str(log), "--html", str(page)]) == os.EX_OK
    out = capsys.readouterr().out
    assert "no unreasonably long poll interval; 1 suspicious iteration of PMD threads." in out
    assert "ovs-vswitchd pmd-c01/id:6  Excessive total cycles           1" in out
    assert "103.0 ms  267,800,000" in out
    assert "Suspicious iterations of PMD threads" in page.read_text()
    assert main(["log", str(log), "--json"]) == os.EX_OK
    (group,) = json.loads(capsys.readouterr().out)["survey"]["iterations"]
    assert (group["length_us"], group["causes"]) == (103_000, {"neither": 1})


def test_what_waits_for_its_table_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iterations, "MOST_PENDING", 3)
    monkeypatch.setattr(iterations, "MOST_THREADS", 2)
    monkeypatch.setattr(iterations, "MOST_GROUPS", 2)
    lines = [
        suspicious(second, second, 100, f"pmd_perf(pmd-c{second % 5:02}/id:6)")
        for second in range(50)
    ]
    found = read(write(tmp_path / "ovs-vswitchd.log", lines)).iterations
    assert sum(each.iterations for each in found) == 50
    assert len(found) == 3
