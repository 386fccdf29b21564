"""UPCALL STATISTICS as text: the lines that kernel_delay.py of Open vSwitch 3.5 prints."""

from msgspec.structs import replace

from kernel_delay.model import Lost, UpcallCount, UpcallStats
from kernel_delay.reporters import text
from kernel_delay.reporters.text import upcall_lines
from tests.unit.samples import bare_sample

TITLE = "\n\n# UPCALL STATISTICS (TOTAL [CPU_ID: N_UPCALLS_PER_CPU, ...]):"
SENT = UpcallStats(0, None, 12, (UpcallCount(0, 5), UpcallCount(3, 7)))
REFUSED = UpcallStats(11, "EAGAIN", 3, (UpcallCount(3, 3),))
ODD = UpcallStats(517, None, 1, (UpcallCount(1, 1),))


def test_without_upcalls_there_is_no_section() -> None:
    assert "UPCALL" not in text.render(bare_sample())
    assert "UPCALL" not in text.render(replace(bare_sample(), upcalls=()))


def test_where_all_were_sent_the_total_is_enough() -> None:
    sample = replace(bare_sample(), upcalls=(SENT,))
    assert list(upcall_lines(sample)) == [TITLE, "  Total upcalls       : 12 [0: 5, 3: 7]"]
    assert f"{TITLE}\n  Total upcalls" in text.render(sample)


def test_failed_ones_are_reported_by_their_error() -> None:
    sample = replace(bare_sample(), upcalls=(SENT, REFUSED, ODD))
    assert list(upcall_lines(sample)) == [
        TITLE,
        "  Total upcalls       : 16 [0: 5, 1: 1, 3: 10]",
        "  Successfull upcalls : 12 [0: 5, 3: 7]",
        "  Failed upcalls      : 4 [1: 1, 3: 3]",
        "     11, EAGAIN       : 3 [3: 3]",
        "    517, unknown      : 1 [1: 1]",
    ]


def test_upcalls_that_were_not_counted_are_a_warning() -> None:
    sample = replace(bare_sample(), lost=Lost(upcalls=2))
    assert "WARNING: no room to count 2 upcalls" in text.render(sample)
