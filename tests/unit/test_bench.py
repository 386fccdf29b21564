"""The bench's figures, tables and targets; docs/reference/performance.md is of its results."""

import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

from bench import page, readme, results, tables
from bench.figures import Absence, Figure, Machine, Measured, Results, quartile_distance, ratio
from bench.measures import packets
from bench.measures.packets import AVERAGE, DELTA, DEVIATION, REFERENCE, figures
from bench.peers.peer import Peer, PeerError
from bench.rounds import UNMEASURED, interleaved
from bench.targets import FLOOR, OURS, REMARKS, TABLES, THEIRS, targets

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1)
MACHINE = Machine("a CPU", 2, "none", 4, "6.1", "Debian")
REWRITE = "run 'sudo make bench' to write it again"


def of_calls(added_ns: dict[str, float]) -> Results:
    case = "traced, 1 thread, added"
    taken = tuple(Figure.of(case, peer, "ns", [ns]) for peer, ns in added_ns.items())
    return Results(MACHINE, {"syscall": Measured("now", "1", taken)})


@given(VALUES)
def test_a_figure_lies_within_its_values(values: list[float]) -> None:
    figure = Figure.of("case", "peer", "ns", values)
    assert min(figure.values) <= figure.median <= max(figure.values)
    assert 0 <= figure.spread <= (max(figure.values) - min(figure.values)) * (1 + 1e-5)


def test_one_value_has_no_spread() -> None:
    assert quartile_distance([3.0]) == 0


def test_the_spread_leaves_outliers_out() -> None:
    assert quartile_distance([1, 2, 3, 4, 1000]) == 2


def test_ratio_is_of_medians_and_absent_without_a_divisor() -> None:
    two = Figure.of("", "", "ns", [1, 2, 900])
    assert ratio(two, Figure.of("", "", "ns", [4])) == 0.5
    assert ratio(two, Figure.of("", "", "ns", [0])) is None
    assert ratio(two, None) is None


def test_table_shows_added_cost_and_blanks_for_unmeasured() -> None:
    base = Figure.of("call", "unmeasured", "ns", [90])
    whole, added = Figure.of("call", "x", "ns", [120]), Figure.of("call, added", "x", "ns", [30])
    other = Figure.of("ping", "unmeasured", "ns", [2800])
    lines = list(tables.of(Measured("now", "1", (base, whole, added, other))))
    assert lines[0] == "|  | call | ping |"
    assert lines[2:] == ["| unmeasured | 90 ns | 2,800 ns |", "| x | +30 ns |  |"]


class FailsLater(Peer):
    """A peer that can be attached once."""

    name = "fails"
    left = 1

    def lacking(self) -> None:
        return None

    @contextmanager
    def attached(self, pid: int) -> Iterator[None]:
        if not self.left:
            raise PeerError("it ended")
        self.left -= 1
        yield


def test_peer_that_failed_on_the_way_has_no_figures() -> None:
    found, absent = interleaved([FailsLater()], 3, 1, lambda: {"call": 90.0}, "ns")
    assert {figure.peer for figure in found} == {UNMEASURED}
    assert absent == [Absence("fails", "it ended")]


def test_targets_are_of_the_ratios() -> None:
    found = of_calls({FLOOR: 50, TABLES: 100, OURS: 130, THEIRS: 200})
    verdicts = {target.about: target.met(found) for target in targets()}
    about = "added to a call, traced, 1 thread:"
    assert verdicts[f"{about} {TABLES} / {THEIRS}"] is False
    assert verdicts[f"{about} {TABLES} / {FLOOR}"] is True
    assert verdicts[f"{about} {OURS} / {THEIRS}"] is False
    assert sum(verdict is not None for verdict in verdicts.values()) == 3


def test_kernel_that_verifies_most_is_the_target() -> None:
    case = "default: all programs"
    taken = tuple(
        Figure.of(case, kernel, "", [count]) for kernel, count in (("old", 20_500), ("new", 19_000))
    )
    found = Results(MACHINE, {"verifier": Measured("now", "1", taken)})
    (target,) = (each for each in targets() if "default, on the kernel" in each.about)
    assert (target.value(found), target.met(found)) == (20_500, False)


def test_remarks_are_of_targets() -> None:
    assert set(REMARKS) <= {target.about for target in targets()}


def test_the_slides_columns() -> None:
    found = {
        (figure.case, figure.peer): figure.median
        for figure in figures({REFERENCE: [100, 102], "slower": [90, 94]})
    }
    assert found[AVERAGE, "slower"] == 92
    assert found[DELTA, REFERENCE] == 0
    assert found[DELTA, "slower"] == round(9 / 101 * 100, 5)
    assert found[DEVIATION, "slower"] == round(statistics.stdev([90, 94]) / 92 * 100, 5)


def test_what_is_added_to_a_packet_is_taken_apart() -> None:
    # 1,000 ns a packet and, attached, so many more.
    added_ns = {packets.EMPTY: 50, packets.CLOCK: 80, packets.OURS: 100}
    added_ns |= {packets.SOFT_IRQS_EMPTY: 30, packets.SOFT_IRQS_CLOCK: 50}
    rates = {packets.REFERENCE: [1e6], packets.PROBES: [1e6]}
    rates |= {peer: [1e9 / (1000 + ns)] for peer, ns in added_ns.items()}
    measured = Measured("now", "1", tuple(figures(rates)))
    (remark,) = packets.Packets().remarks(measured)
    assert "adds 100 ns to a packet. The calls of its programs take 50 ns" in remark
    assert "readings of the clock 30 ns, and their own work 20 ns" in remark
    assert "the calls take 30 ns and the clock 20 ns" in remark
    fewer = measured.figure(packets.FEWER, packets.OURS)
    assert fewer is not None
    assert round(fewer.median, 2) == 9.09


def test_the_page_is_of_the_results() -> None:
    found = results.read_results()
    assert found is not None, REWRITE
    assert page.PAGE.read_text() == page.render(found), REWRITE


def test_readme_quotes_the_page() -> None:
    """README's figures are of the results, and each stands on the page."""
    found = results.read_results()
    assert found is not None, REWRITE
    text = readme.README.read_text()
    assert text == readme.with_figures(text, found), REWRITE
    items = re.findall(r"^- (?:Measuring costs|An event of).*\n(?:  .*\n)*", text, re.MULTILINE)
    assert len(items) == 2
    shown = page.PAGE.read_text()
    for figure in re.findall(r"([\d.,]+)\s+(?:ns|%)", "".join(items)):
        assert re.search(rf"[|+ ]{re.escape(figure)} [±|]", shown), figure


def test_page_marks_each_target_as_met_or_missed() -> None:
    lines = page.PAGE.read_text().splitlines()
    for target in targets():
        (line,) = (line for line in lines if line.startswith(f"| {target.about} |"))
        assert line.endswith(("| met |", "| missed |")), REWRITE


def test_what_a_watch_takes_is_reported_with_its_confidence() -> None:
    watch = packets.WATCHES[0]
    rates = {packets.REFERENCE: [1e6] * 4, packets.PROBES: [1e6] * 4}
    rates[watch] = [0.97e6, 0.98e6, 0.97e6, 0.98e6]
    measured = Measured("now", "4", tuple(figures(rates)))
    (remark,) = packets.Packets().remarks(measured)
    # 2.5 and 3.182 standard errors of 0.2887, by a table of t for 3 degrees of freedom
    assert remark.startswith(
        f"With {watch} attached all the time Open vSwitch forwards 1.6 to 3.4 %"
    )
