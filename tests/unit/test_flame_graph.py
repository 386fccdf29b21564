"""A flame graph alone: its widths are the calls' times, and what is in it is safe."""

import re
from xml.etree import ElementTree

from msgspec.structs import replace

from kernel_delay.model import Sample
from kernel_delay.reporters.page.flame_graph import WIDTH, FlameGraph
from tests.unit.event_samples import EVENTS, WITH_EVENTS
from tests.unit.page_samples import EVENT_LOOP, HOSTILE, hostile_sample, sample_with_events
from tests.unit.samples import bare_sample

SVG = "{http://www.w3.org/2000/svg}"
TITLE = re.compile(r"(.*): ([\d,]+) ns, ([\d.]+) %, ([\d,]+) calls")


def frames(*samples: Sample) -> dict[str, tuple[float, int, int]]:
    """By name: the width, the time and the count of each frame, summed up."""
    found: dict[str, tuple[float, int, int]] = {}
    for group in picture(*samples).iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert rect is not None
        reported = TITLE.fullmatch(title.text or "")
        assert reported is not None
        width, ns, count = found.get(reported[1], (0.0, 0, 0))
        found[reported[1]] = (
            width + float(rect.get("width", "")),
            ns + int(reported[2].replace(",", "")),
            count + int(reported[4].replace(",", "")),
        )
    return found


def picture(*samples: Sample) -> ElementTree.Element:
    graph = FlameGraph()
    for sample in samples:
        graph.add(sample)
    return ElementTree.fromstring("".join(graph.svg()))


def test_each_frame_has_time_and_count_of_its_calls() -> None:
    shown = frames(WITH_EVENTS)
    whole_ns = sum(event.exit_ns - event.entry_ns for event in EVENTS)
    assert shown["all"][1:] == (whole_ns, 3)
    assert shown["3359635"][1:] == (1_000_087_052, 1)
    assert shown["main (ovs-vswitchd (replaced))"][1:] == (1_000_087_052, 1)
    assert shown["9999"][1:] == (1_000_087_052, 1)


def test_widths_are_shares_of_the_whole() -> None:
    shown = frames(sample_with_events(4000))
    whole_ns = shown["all"][1]
    assert len([name for name in shown if name.startswith("worker")]) == 20
    for name, (width, ns, _) in shown.items():
        if name.startswith("worker"):
            assert abs(width - WIDTH * ns / whole_ns) < 1
    assert sum(shown[f"worker{number}"][1] for number in range(20)) == whole_ns


def test_samples_add_up() -> None:
    one, two = frames(WITH_EVENTS), frames(WITH_EVENTS, WITH_EVENTS)
    assert two["all"][1:] == (2 * one["all"][1], 2 * one["all"][2])


def picture_of(graph: FlameGraph) -> str:
    graph.add(EVENT_LOOP)
    return "".join(graph.svg())


def test_polls_are_left_out_and_counted() -> None:
    shown = picture_of(FlameGraph())
    assert "epoll_wait" not in shown
    assert "200,000,000 ns in 1 calls; 1 polls, of 9,800,000,000 ns, are left out<" in shown
    assert "<title>fdatasync: 200,000,000 ns, 100.00 %, 1 calls</title>" in shown


def test_polls_are_there_if_they_are_asked_for() -> None:
    shown = picture_of(FlameGraph(polls=True))
    assert "<title>epoll_wait: 9,800,000,000 ns, 98.00 %, 1 calls</title>" in shown
    assert "left out" not in shown


def test_what_only_polls_is_shown() -> None:
    graph = FlameGraph()
    only = EVENT_LOOP.syscall_events or ()
    graph.add(replace(EVENT_LOOP, syscall_events=only[:1]))
    assert "<title>epoll_wait: 9,800,000,000 ns" in "".join(graph.svg())


def test_hostile_names_are_titles_and_nothing_else() -> None:
    root = picture(hostile_sample())
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "style", "rect", "text", "g", "title")
    }
    titles = {title.text or "" for title in root.iter(f"{SVG}title")}
    assert any(title.startswith(f"{HOSTILE[0]}:") for title in titles)
    assert all(title.isprintable() for title in titles)


def test_no_calls_make_an_empty_picture_and_page() -> None:
    for samples in ((), (bare_sample(),)):
        assert len(list(picture(*samples).iter(f"{SVG}g"))) == 0
    assert '"calls":null' in "".join(FlameGraph().html())
