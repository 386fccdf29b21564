"""The screen of `kernel-delay top`: what is on it, by size and keys."""

import pytest
from msgspec.structs import replace

from kernel_delay.model import Finding, Target
from kernel_delay.reporters.processes import ONE
from kernel_delay.reporters.top_view import Line, Row, Shown, View, shown
from tests.recordings import HEADER
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread

READY = Finding(
    rule="cpu_contention",
    who="other-process",
    share=0.4,
    tid=8,
    text="worker (8) had no CPU.",
    sentence="worker (8) could run but had no CPU for 200.0 ms.",
)


@pytest.fixture
def window() -> Shown:
    """Of two threads: one that waited for a CPU, one in the kernel."""
    threads = (timed_thread(7, "main", kernel=100), timed_thread(8, "worker", ready=200))
    return shown([bare_sample(*threads, verdict=(READY,))], HEADER)


def texts(lines: list[Line]) -> list[str]:
    return [text for text, _ in lines]


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (20, 5), (1, 1)])
@pytest.mark.parametrize("keys", ["", "\r", "?", "/x"])
def test_screen_has_the_terminals_size(window: Shown, size: tuple[int, int], keys: str) -> None:
    view = View()
    for key in keys:
        view.press(key)
    lines = texts(view.lines(window, *size))
    assert len(lines) == max(size[1], 1)
    assert all(len(line) <= size[0] for line in lines)


def test_worst_thread_is_first_with_its_loss_a_second(window: Shown) -> None:
    rows = [line for line in texts(View().lines(window, 80, 24)) if "|" in line]
    assert [row.split()[:3] for row in rows] == [[">", "8", "400"], ["7", "200", "ms"]]
    assert "RRRRRRR" in rows[0]


def test_verdict_is_below_the_threads(window: Shown) -> None:
    text = "\n".join(texts(View().lines(window, 80, 24)))
    assert "VERDICT 40 %: worker (8) could run but had no CPU for 200.0 ms." in text


def test_wide_screen_has_shares_and_causes_in_the_row(window: Shown) -> None:
    (row,) = [line for line in texts(View().lines(window, 200, 50)) if line.startswith(">")]
    assert " 40.0 " in row
    assert row.endswith(f"| {'worker':40} could run but had no CPU for 200.0 ms.")


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("the main thread worker (8) slept in read.", "slept in read."),
        ("the handler thread worker (8) slept in read.", "slept in read."),
        ("worker (8) and main (7) slept in read.", "worker (8) and main (7) slept in read."),
        ("main (7) kept worker (8) from a lock.", "main (7) kept worker (8) from a lock."),
    ],
)
def test_a_row_leaves_out_the_name_that_it_has(sentence: str, expected: str) -> None:
    finding = replace(READY, sentence=sentence)
    row = Row(timed_thread(8, "worker"), finding, TIMED_WINDOW_NS, ONE)
    assert (row.cause, row.brief_cause) == (sentence, expected)


def test_keys_select_sort_filter_and_expand(window: Shown) -> None:
    view = View()
    view.press("down")
    assert "main" in selected(view, window)
    view.press("\r")
    assert any("TIME ACCOUNTING" in line for line in texts(view.lines(window, 80, 24)))
    view.press("\r")
    view.press("s")
    assert "by READY" in texts(view.lines(window, 80, 24))[0]
    for key in "/mai\r":
        view.press(key)
    assert [
        line for line in texts(view.lines(window, 80, 24)) if "worker" in line and "|" in line
    ] == []
    view.press("\x1b")
    assert any("worker" in line and "|" in line for line in texts(view.lines(window, 80, 24)))


def selected(view: View, window: Shown) -> str:
    (row,) = [line for line, role in view.lines(window, 80, 24) if role == "selected"]
    return row


def test_selected_thread_stays_selected_when_the_order_changes(window: Shown) -> None:
    view = View()
    view.press("down")
    selected(view, window)
    threads = (timed_thread(7, "main", kernel=300), timed_thread(8, "worker", ready=200))
    assert "main" in selected(view, shown([bare_sample(*threads)], HEADER))


def test_keys_that_are_not_of_the_view_are_returned() -> None:
    assert [View().press(key) for key in ("q", "w", "\x1a", "x")] == [
        "quit",
        "record",
        "suspend",
        None,
    ]


def test_before_the_first_window_and_without_threads_there_is_a_screen() -> None:
    assert texts(View().lines(None, 80, 24))[0] == "kernel-delay top: the first window is open"
    assert len(View().lines(shown([bare_sample()], HEADER), 80, 24)) == 24


def test_several_processes_are_counted_and_named() -> None:
    samples = [
        bare_sample(timed_thread(pid, name), target=Target(pid, name, None), processes=2)
        for pid, name in ((7, "redis-server"), (9, "nginx"))
    ]
    lines = texts(View().lines(shown(samples, HEADER, others=3), 80, 24))
    assert "2 of 5 processes, 2 threads" in lines[0]
    assert any(line.endswith("nginx") for line in lines)


def test_names_of_others_draw_nothing_else() -> None:
    window = shown([bare_sample(timed_thread(7, "\x1b[2Jx"))], HEADER)
    assert not any("\x1b" in line for line in texts(View().lines(window, 80, 24)))
