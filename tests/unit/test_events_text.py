"""The table of syscall events: the manual's layout, whatever the names."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.model import Lost
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from tests.unit.event_samples import EVENTS, WITH_EVENTS, renamed
from tests.unit.samples import bare_sample

GOLDEN = Path(__file__).parent / "golden" / "events.txt"


ONE_BY_ONE = Layout(events=True)


def test_table_is_the_golden_text() -> None:
    without = text.render(WITH_EVENTS)
    assert text.render(WITH_EVENTS, ONE_BY_ONE) == without + GOLDEN.read_text()


def test_no_events_are_headings_alone() -> None:
    none = structs.replace(WITH_EVENTS, syscall_events=())
    headings = "".join(GOLDEN.read_text().splitlines(keepends=True)[:5])
    assert text.render(none, ONE_BY_ONE) == text.render(none) + headings


@given(name=st.text(), old=st.sampled_from(["revalidator14", "main", "do_syscall_64"]))
def test_no_name_forges_a_line(name: str, old: str) -> None:
    report = text.render(renamed(WITH_EVENTS, old, name), ONE_BY_ONE)
    assert len(report.split("\n")) == len(text.render(WITH_EVENTS, ONE_BY_ONE).split("\n"))
    assert report.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("lost", "remark"),
    [
        (Lost(events=7), "# WARNING: no room for 7 events in the buffer"),
        (Lost(shorter_events=8), "# WARNING: the longest events are here; 8 shorter ones"),
        (Lost(shorter_events=1), "# WARNING: the longest events are here; 1 shorter one is not"),
        (Lost(stacks=9), "# WARNING: no room for the stacks of 9 events."),
        (Lost(stacks=1), "# WARNING: no room for the stacks of 1 event."),
        (
            Lost(truncated_stacks=6, cut_stacks=6),
            "# WARNING: the user stacks of 6 events are not whole: the copies ended before",
        ),
        (
            Lost(truncated_stacks=6),
            "# WARNING: the user stacks of 6 events are not whole: parts of them could not be read",
        ),
        (Lost(failed_unwinds=5), "# WARNING: the user stacks of 5 events are not whole: there"),
    ],
)
def test_each_loss_is_reported_after_the_table(lost: Lost, remark: str) -> None:
    report = text.render(structs.replace(WITH_EVENTS, lost=lost), ONE_BY_ONE)
    table, blank, line = report.rsplit("\n", 3)[:3]
    assert (table + "\n").endswith(GOLDEN.read_text())
    assert blank == ""
    assert line.startswith(remark)


def test_chunks_are_whole_lines_and_few_at_a_time() -> None:
    many = structs.replace(WITH_EVENTS, syscall_events=EVENTS * 1000)
    chunks = list(text.chunks(many, ONE_BY_ONE))
    assert all(chunk.endswith("\n") for chunk in chunks)
    assert max(map(len, chunks)) < 1000
    assert "".join(chunks) == text.render(many, ONE_BY_ONE)
    assert list(text.chunks(bare_sample())) == text.render(bare_sample()).splitlines(keepends=True)
