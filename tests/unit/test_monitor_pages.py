"""The pages of Open vSwitch's monitors: what is on them, and that it is bounded."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.cli import main
from kernel_delay.model import MeasuringCommand
from kernel_delay.monitors.revalidator.events import FlowCheck, FlowChecks
from kernel_delay.monitors.revalidator.page import RoundsPage
from kernel_delay.reporters.page.charts import MOST_LINES, MOST_SLOTS, OTHERS, Peaks, Rates
from kernel_delay.reporters.page.rows import MOST_ROWS, Largest
from tests.unit.monitor_recordings import LOST, NOTE, record, rounds
from tests.unit.page_samples import HOSTILE
from tests.unit.test_flow_match import WRITTEN
from tests.unit.test_flows import UFID
from tests.unit.test_page import Document, data_of

NS_PER_S = 1_000_000_000


@pytest.fixture(autouse=True)
def own_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """The command changes how these are written."""


def page_of(path: Path, *options: str, status: int = 0) -> Any:
    """The data of the page that is made of a recording."""
    page = path.with_suffix(".html")
    assert main(["report", str(path), "--html", str(page), *options]) == status
    assert page.stat().st_mode & 0o777 == 0o600
    return data_of(Document(page.read_text()))


def line(chart: Any, name: str) -> list[float]:
    (found,) = [each["values"] for each in chart["lines"] if each["name"] == name]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("command", [each for each in LOST if each != "upcall-cost"])
def test_what_was_lost_is_reported_beside_json_too(
    command: MeasuringCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path / "a.kdr", command, 40)
    assert main(["report", "-q", str(path)]) == 0
    said = capsys.readouterr().out
    assert main(["report", "--json", str(path)]) == 0
    reported = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert any("lost" in line or "not counted" in line for line in reported)
    assert all(line in said or line == NOTE for line in reported)


@pytest.mark.parametrize("command", LOST)
def test_it_says_what_the_text_does(
    command: MeasuringCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path / "a.kdr", command, 40)
    data = page_of(path)
    said = capsys.readouterr().out
    assert data["summary"] in said
    assert data["title"] == "ovs-vswitchd (27090)"
    assert any("3" in note for note in data["notes"]) or "[         3]" in data["summary"]
    assert dict(data["about"])["Host"] == "compute-1"
    assert len(data["charts"]) == 2
    assert data["tables"]
    for table in data["tables"]:
        assert {len(row) for row in table["rows"]} == {len(table["headings"])}
    quiet = page_of(path, "-q")
    assert quiet == data


def test_the_longest_passes_are_first_and_charted(tmp_path: Path) -> None:
    data = page_of(record(tmp_path / "a.kdr", "bridge-loop", 5))
    passes, waits = data["charts"]
    assert line(passes, "ovs-vswitchd (411887)") == [1, 2, 3, 4, 5]
    assert line(waits, "ovs-vswitchd (411887)") == [10] * 5
    assert passes["at_ns"][:2] == [0, 12_000_000]
    (table,) = page_of(record(tmp_path / "b.kdr", "bridge-loop", MOST_ROWS + 10))["tables"]
    assert [row[1] for row in table["rows"][:2]] == ["510,000.0", "509,000.0"]
    assert (len(table["rows"]), table["left_out"]) == (MOST_ROWS, 10)


def test_rounds_page_has_lines_and_remarks_per_datapath(tmp_path: Path) -> None:
    data = page_of(record(tmp_path / "a.kdr", "revalidator", 5))
    lengths, flows = data["charts"]
    assert line(lengths, "system@ovs-system") == [4, 5, 6, 7, 8]
    assert line(flows, "system@ovs-system") == [100, 100, 101, 102, 103]
    assert set(line(flows, "system@ovs-system: limit")) == {200_000}
    contents = RoundsPage()
    for found in rounds(2):
        contents.add("dp", found, ["  ! limit cut from 5 to 3", "  ! started late"])
    assert contents.tables()[0].rows[0][-1] == "limit cut from 5 to 3; started late"


def test_slowest_checks_are_a_table() -> None:
    contents = RoundsPage()
    for found, ns in zip(rounds(2), (3_000, 5_000), strict=True):
        check = FlowCheck(7, UFID, ns + 2_000, 2_000, 12, 300, "kept")
        checked = replace(found, checks=FlowChecks(1, check.ns, check.waited_ns, (check,)))
        contents.add("dp", checked, [])
    longest, slowest = contents.tables()
    assert longest.id == "longest"
    assert [row[2:] for row in slowest.rows] == [
        (UFID, "12", "300", "7.0", "2.0", "kept"),
        (UFID, "12", "300", "5.0", "2.0", "kept"),
    ]


def test_flows_are_those_that_were_asked_for(tmp_path: Path) -> None:
    path = record(tmp_path / "a.kdr", "flows", 60)
    data = page_of(path)
    changes, reasons = data["charts"]
    # A change each tenth of a second.
    assert sum(line(changes, "insert")) == sum(line(changes, "delete")) == 30
    assert sum(line(reasons, "flow_idle")) == 10
    assert sum(line(reasons, "purge")) == 20
    (table,) = data["tables"]
    assert [row[2] for row in table["rows"][:2]] == ["insert", "delete"]
    idle = page_of(path, "--reason", "flow_idle")
    assert [each["name"] for each in idle["charts"][0]["lines"]] == ["delete"]
    assert {row[3] for row in idle["tables"][0]["rows"]} == {"flow_idle"}


def test_refused_operations_have_a_table_of_their_own(tmp_path: Path) -> None:
    data = page_of(record(tmp_path / "a.kdr", "datapath-ops", 50))
    rates, lengths = data["charts"]
    assert sum(line(rates, "refused")) == 5
    assert max(value or 0 for value in line(lengths, "flow_set")) == 46
    refused, longest = data["tables"]
    assert {row[3] for row in refused["rows"]} == {"EEXIST"}
    assert longest["rows"][0][4:7] == ["49.0", UFID, WRITTEN]


def test_costs_are_of_each_part_of_the_trip(tmp_path: Path) -> None:
    data = page_of(record(tmp_path / "a.kdr", "upcall-cost", 40))
    names = {each["name"] for each in data["charts"][0]["lines"]}
    assert names == {"kernel to vswitchd", "lookup", "put to execute", "execute to kernel"}
    (table,) = data["tables"]
    totals = [float(row[-1].replace(",", "")) for row in table["rows"]]
    assert totals == sorted(totals, reverse=True)


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    path = record(tmp_path / "a.jsonl", "revalidator", 20)
    path.write_bytes(path.read_bytes()[:-300])
    data = page_of(path, status=65)  # EX_DATAERR
    assert data["notes"][0] == NOTE
    assert "was cut" in data["notes"][-1]


@pytest.mark.parametrize("command", LOST)
@pytest.mark.parametrize("name", [name for name in HOSTILE if "\ud800" not in name])
def test_names_are_text(command: MeasuringCommand, name: str, tmp_path: Path) -> None:
    path = record(tmp_path / "a.kdr", command, 4, name)
    data = page_of(path)
    tags = [tag for tag, _, _ in Document(path.with_suffix(".html").read_text()).texts]
    page_of(record(tmp_path / "b.kdr", command, 4))
    assert tags == [tag for tag, _, _ in Document((tmp_path / "b.html").read_text()).texts]
    texts = [data["title"], *data["notes"], *data["summary"].splitlines()]
    texts += [each["name"] for chart in data["charts"] for each in chart["lines"]]
    texts += [cell for table in data["tables"] for row in table["rows"] for cell in row]
    assert [text for text in texts if not text.isprintable()] == []


TIMES = st.one_of(st.integers(0, 2**45), st.integers(-(10**40), 10**40))


@given(st.lists(st.tuples(st.integers(0, 9), TIMES, TIMES), max_size=40))
def test_any_times_make_a_chart_that_is_bounded(found: list[tuple[int, int, int]]) -> None:
    peaks, rates = Peaks(), Rates()
    for thread, time_ns, value in found:
        peaks.add(f"t{thread}", time_ns, value)
        rates.add(f"t{thread}", time_ns)
    for chart in (peaks.chart("a", "A", "ms"), rates.chart("b", "B")):
        assert len(chart.at_ns) <= MOST_SLOTS
        assert list(chart.at_ns) == sorted(set(chart.at_ns))
        assert len(chart.lines) <= MOST_LINES
        assert {len(each.values) for each in chart.lines} <= {len(chart.at_ns)}
        json.dumps([each.values for each in chart.lines], allow_nan=False)


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=200))
def test_rates_count_all_events_and_peaks_keep_the_largest(times_ns: list[int]) -> None:
    peaks, rates = Peaks(), Rates()
    for time_ns in times_ns:
        peaks.add("line", time_ns, time_ns)
        rates.add("line", time_ns)
    (found,) = peaks.chart("a", "A", "").lines
    assert max(value or 0 for value in found.values) == max(times_ns)
    chart = rates.chart("b", "B")
    (counted,) = chart.lines
    width_ns = chart.at_ns[1] - chart.at_ns[0] if len(chart.at_ns) > 1 else NS_PER_S
    assert sum(value or 0 for value in counted.values) * width_ns / NS_PER_S == pytest.approx(
        len(times_ns)
    )


def test_lines_beyond_the_colours_are_one() -> None:
    rates = Rates()
    for number in range(20):
        rates.add(f"handler{number}", NS_PER_S)
    names = [each.name for each in rates.chart("a", "A").lines]
    assert names == [*(f"handler{number}" for number in range(MOST_LINES - 1)), OTHERS]


@given(st.lists(st.integers(0, 10**6), max_size=3 * MOST_ROWS))
def test_the_largest_are_the_largest(values: list[int]) -> None:
    largest = Largest()
    for value in values:
        largest.add(value, partial(_row, value))
    table = largest.table("a", "A", ("VALUE",), ())
    assert [int(cell) for (cell,) in table.rows] == sorted(values, reverse=True)[:MOST_ROWS]
    assert table.left_out == max(len(values) - MOST_ROWS, 0)


def _row(value: int) -> tuple[str, ...]:
    return (str(value),)
