"""The page in a browser: read, sorted, zoomed and searched, by mouse and keyboard, off the net.

What it looked like is kept in build/pages/.
"""

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from playwright.sync_api import (
    Browser,
    Locator,
    Page,
)

from kernel_delay.analysis.round_comparison import compare_rounds
from kernel_delay.analysis.round_figures import RoundFigures
from kernel_delay.analysis.rounds import main_cause
from kernel_delay.commands.log.causes import Usage
from kernel_delay.commands.log.files import find
from kernel_delay.commands.log.page import render as render_log
from kernel_delay.commands.log.survey import survey
from kernel_delay.model import (
    ChainPart,
    ChainThread,
    Coverage,
    MeasuringCommand,
    Sample,
    Stopwatch,
)
from kernel_delay.reporters.comparison_sides import RecordedRounds, Side
from kernel_delay.reporters.page.comparison import render as render_comparison
from kernel_delay.reporters.page.flame_graph import FlameGraph
from kernel_delay.reporters.page.fleet import MOST_NAMED
from kernel_delay.reporters.page.fleet import render as render_fleet
from kernel_delay.reporters.page.slices import SHOWN_SLICES, Timeline
from kernel_delay.reporters.rounds import way_of
from tests.recordings import header
from tests.unit.fleet_samples import survey_of
from tests.unit.monitor_recordings import LOST
from tests.unit.page_samples import (
    EVENT_LOOP,
    HOSTILE,
    hostile_sample,
    later,
    sample_with_events,
    series_of,
)
from tests.unit.pages import (
    DRAWN,
    NARROW_WIDTH,
    PHONE_WIDTH,
    WIDTH,
    Monitored,
    Open,
    comparison_page,
    names,
    overflow,
    page_of,
)
from tests.unit.samples import bare_sample, timed_thread
from tests.unit.test_log_iterations import IDLE, with_table
from tests.unit.test_logs import of_usage, vlog, write
from tests.unit.test_round_comparison import round_of
from tests.unit.test_verdict_wait_chain import MS, SERVER, waiting
from tests.unit.timeline_samples import WITH_TIMELINE, many_slices

pytestmark = pytest.mark.long


def test_verdict_comes_first_then_threads_by_lost_time(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(sample_with_events(2000)))
    assert page.locator("main > *").first.get_attribute("id") == "verdict"
    texts = page.locator(".findings .text").all_inner_texts()
    assert texts[0].replace("\xa0", " ").startswith("worker0 (100) could run but had no CPU")
    assert names(page)[:3] == ["worker19", "worker18", "worker17"]
    assert page.locator("tr.more-threads").inner_text() == "40 threads slept throughout"
    page.screenshot(path=pictures / "light.png", full_page=True)


@pytest.mark.parametrize(
    ("rule", "said"), [("wait_pipe", "is not known"), ("user_work", "No cause of a delay")]
)
def test_the_page_acquits_nobody_who_waited(open_page: Open, rule: str, said: str) -> None:
    sample = sample_with_events(20)
    remark = replace(sample.verdict[0], rule=rule, remark=True)
    page = open_page(page_of(replace(sample, verdict=(remark,))))
    assert said in page.locator("#verdict > .all-well").inner_text()


def test_the_page_acquits_nobody_whose_time_is_unknown(open_page: Open) -> None:
    thread = timed_thread(5, "main", unaccounted=500)
    known, unknown = bare_sample(timed_thread(5, "main", user=500)), bare_sample(thread)
    said = "is not known: 100 % of the window is unaccounted for main (5)"
    for samples, where in (((unknown,), ""), ((known, later(unknown, 10**9)), ", in sample 2")):
        page = open_page(page_of(*samples))
        shown = page.locator("#verdict > .all-well").inner_text()
        assert shown == f"Whether anything kept a thread from its work {said}{where}."


def test_threads_are_sorted_by_any_column_and_back(open_page: Open) -> None:
    page = open_page(page_of(sample_with_events(10)))
    page.locator("button[data-key=name]").click()
    assert names(page)[:3] == ["worker0", "worker1", "worker2"]
    assert page.locator("th.c-name").first.get_attribute("aria-sort") == "ascending"
    page.locator("button[data-key=name]").click()
    assert names(page)[:2] == ["worker19", "worker18"]
    page.locator("button[data-key=blocked]").click()
    assert names(page)[0] == "worker0"
    page.get_by_role("button", name="40 threads slept throughout").click()
    assert names(page)[0] == "idle0"


def test_thread_is_found_and_opened_by_keyboard_alone(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(sample_with_events(10)))
    page.keyboard.press("/")
    page.keyboard.type("worker1")
    assert len(names(page)) == 11
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    details = page.locator("tr.details")
    assert page.evaluate("document.activeElement.textContent") == "worker18"
    assert page.get_by_role("button", name="worker18").get_attribute("aria-expanded") == "true"
    assert page.locator("tr[aria-expanded]").count() == 0
    titles = details.locator("h3").all_inner_texts()
    for title in ("System calls", "Where its time went", "Who had the CPU", "Where it slept"):
        assert any(each.startswith(title) for each in titles), title
    assert "79.00" in details.inner_text()
    page.screenshot(path=pictures / "thread.png", full_page=True)
    page.keyboard.press("Escape")
    assert details.count() == 0


def frames(page: Page) -> Locator:
    return page.locator(".flame g")


def test_the_flame_graph_is_zoomed_and_searched(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(sample_with_events(5000)))
    graph = page.locator("#flame")
    assert graph.locator("text", has_text="Time in calls").count() == 1
    whole = frames(page).count()
    worker = frames(page).filter(has=page.locator("title", has_text=re.compile("^worker7:")))
    worker.click()
    width = worker.locator("rect").get_attribute("width")
    assert float(width or 0) > 0.95 * graph.locator(".flame").evaluate("e => e.clientWidth")
    assert frames(page).filter(has_text=re.compile("^worker8:")).count() == 0
    graph.get_by_label("Search functions").fill("inner_0_13")
    assert re.match(r"\d+ found, in .*, \d+\.\d %", graph.locator(".tools .note").inner_text())
    assert graph.locator("g.found").count() > 0
    graph.screenshot(path=pictures / "flame-graph.png")
    graph.get_by_role("button", name="Reset zoom").click()
    assert frames(page).count() == whole


def test_flame_graph_separates_on_cpu_from_off_cpu_time(open_page: Open) -> None:
    sample = sample_with_events(5000)
    page = open_page(page_of(sample))
    graph, shown = page.locator("#flame"), {}
    for name in ("Time in calls", "Time in calls, on CPU", "Time in calls, off CPU"):
        graph.get_by_label("What the widths are").select_option(label=name)
        title = graph.locator(".flame g title").first.text_content() or ""
        reported = re.match(rf"{name}: ([\d.]+) (m?)s", title)
        assert reported is not None
        shown[name] = float(reported[1]) / (1000 if reported[2] else 1)
    made = [event for event in sample.syscall_events or () if event.name != "poll"]
    known = sum(event.exit_ns - event.entry_ns for event in made if event.off_cpu_ns is not None)
    all_s, on_s, off_s = shown.values()
    assert all_s == pytest.approx(
        sum(each.exit_ns - each.entry_ns for each in made) / 1e9, rel=0.01
    )
    assert on_s == pytest.approx(known / 2e9, rel=0.01)
    assert off_s == pytest.approx(known / 2e9, rel=0.01)
    assert "it is not known how much" in graph.locator(".status").inner_text()


def test_the_flame_graph_is_walked_with_the_keyboard(open_page: Open) -> None:
    page = open_page(page_of(sample_with_events(5000)))
    graph = page.locator("#flame")
    graph.locator(".flame").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    zoomed = graph.locator("g.cursor title").text_content()
    assert graph.locator(".status").inner_text() == zoomed
    assert zoomed is not None
    assert zoomed.startswith("worker")
    assert graph.locator("g.above").count() == 1
    page.keyboard.press("Escape")
    assert graph.locator("g.above").count() == 0


def test_account_flame_graph_separates_on_cpu_from_off_cpu(open_page: Open) -> None:
    page = open_page(page_of(sample_with_events(0)))
    graph = page.locator("#flame")
    assert graph.get_by_label("What the widths are").locator("option").all_inner_texts() == [
        "All time on a CPU",
        "All time off the CPUs",
    ]
    # 20 threads with 27 ms each: in the calls' 6 ms are some of the interrupts' 2.
    root = graph.locator(".flame g title").first
    assert (root.text_content() or "").startswith("All time on a CPU: 540.0 ms")
    graph.get_by_label("What the widths are").select_option(label="All time off the CPUs")
    graph.get_by_label("Thread").select_option(label="worker3 (103)")
    assert (root.text_content() or "").startswith("All time off the CPUs: 473.0 ms")
    titles = graph.locator(".flame g title").all_text_contents()
    assert any(title.startswith("poll_schedule_timeout (kernel): 1.000 ms") for title in titles)


def test_flame_graph_offers_no_view_without_time(open_page: Open) -> None:
    page = open_page(page_of(bare_sample(timed_thread(27090, "main"))))
    options = page.locator("#flame").get_by_label("What the widths are").locator("option")
    assert options.all_inner_texts() == ["All time off the CPUs"]


def zoomed(page: Page, block: str) -> tuple[float, float, float]:
    """Zoom by keys, and by the mouse; return the left, the width and the top of the whole."""
    area = page.locator(f"{block} .calls")
    status = page.locator(f"{block} .status")
    assert status.inner_text() == "0 s to 500.0 ms of 500.0 ms"
    area.focus()
    page.keyboard.press("+")
    assert status.inner_text() == "125.0 ms to 375.0 ms of 500.0 ms"
    page.keyboard.press("0")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    left, width, row = box["x"], box["width"], box["y"] + 30
    page.mouse.move(left + width / 4, row)
    page.mouse.down()
    page.mouse.move(left + width / 2, row)
    page.mouse.up()
    shown = re.fullmatch(r"(\S+) ms to (\S+) ms of 500.0 ms", status.inner_text())
    assert shown is not None
    assert [round(float(each)) for each in shown.groups()] == [125, 250]
    return left, width, box["y"]


@pytest.mark.parametrize("count", [1, 100, 100_000])
def test_the_timeline_of_any_many_events_is_zoomed(
    open_page: Open, pictures: Path, count: int
) -> None:
    page = open_page(page_of(sample_with_events(count)))
    left, _, top = zoomed(page, "#timeline")
    page.locator("#timeline").screenshot(path=pictures / f"timeline-{count}.png")
    page.keyboard.press("0")
    page.mouse.click(left + 1, top + 30)
    assert page.locator("#timeline .picked dt").first.inner_text() == "Call"
    assert page.locator("#timeline .stack li").count() == 12


@pytest.mark.parametrize("count", [100, 100_000])
def test_a_timeline_of_everything_is_zoomed(open_page: Open, pictures: Path, count: int) -> None:
    page = open_page(page_of(many_slices(count)))
    assert page.locator("#slices .rows div").count() == 20
    legend = page.locator("#slices .legend li").all_inner_texts()
    assert {"futex", "running", "blocked", "ready, no CPU", "interrupts"} <= set(legend)
    left, width, top = zoomed(page, "#slices")
    page.locator("#slices").screenshot(path=pictures / f"slices-{count}.png")
    page.mouse.click(left + width / 2, top + 24 + 24)
    facts = page.locator("#slices .picked dl").inner_text()
    assert "What" in facts
    assert "Thread" in facts


def test_the_slices_of_a_thread_are_under_the_pointer(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(WITH_TIMELINE))
    area = page.locator("#slices .calls")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    # Rows are of those that were busy longest first: of the 1 ms the PMD ran, or waited, 800 us.
    assert page.locator("#slices .rows div").first.inner_text().startswith("pmd-c01")
    handler = box["y"] + 24 + 38
    picked = page.locator("#slices .picked")
    for share, height, words in (
        (0.07, 8, "futex"),
        (0.3, 24, "blocked: futex"),
        (0.7, 24, "runnable: woken"),
        (0.9, 24, "running"),
        (0.025, 32, "soft IRQ: net rx"),
        (0.925, 8, "page fault"),
    ):
        page.mouse.click(box["x"] + share * box["width"], handler + height)
        assert words in picked.inner_text()
    page.locator("#slices").screenshot(path=pictures / "slices.png")


def test_of_very_many_slices_the_shortest_are_left_out() -> None:
    contents = Timeline()
    contents.add(many_slices(500_000), 0)
    shown = contents.page()
    assert shown is not None
    assert len(shown.slices.since_ns) == SHOWN_SLICES
    assert shown.slices.left_out > 200_000
    assert shown.slices.since_ns == sorted(shown.slices.since_ns)


@pytest.mark.parametrize(
    ("sample", "drawn"), [(sample_with_events, "#timeline"), (many_slices, "#slices")]
)
def test_100_000_events_open_within_two_cpu_seconds(
    open_page: Open, sample: Callable[[int], Sample], drawn: str
) -> None:
    """The page's own time on a CPU, which other load does not lengthen as it does the clock's."""
    page = open_page(page_of())
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def thread_s() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return {each["name"]: float(each["value"]) for each in metrics}["TaskDuration"]

    file = Path(page.url.removeprefix("file://"))
    with file.open("w") as written:
        written.writelines(page_of(sample(100_000)))
    before_s = thread_s()
    page.reload()
    page.locator("html[data-ready]").wait_for(state="attached")
    page.locator(f"{drawn} .calls").wait_for()
    assert 0.01 < thread_s() - before_s < 2


def test_samples_are_shown_over_time_and_one_by_one(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(*series_of(12)))
    assert page.locator("#series canvas").count() == 1
    assert page.locator(".sample").count() == 12
    page.locator("tr.thread").first.click()
    assert "6.000" in page.locator("tr.details tfoot").inner_text()
    page.get_by_role("button", name="Show sample 3", exact=True).click()
    assert "500.0" in page.locator("tr.details tfoot").inner_text()
    assert page.get_by_label("Sample", exact=True).input_value() == "2"
    page.get_by_label("What is drawn").select_option(label="blocked")
    assert "idle0 900" in page.locator(".u-legend").inner_text()
    page.screenshot(path=pictures / "samples.png", full_page=True)


PLOTS = """
let real;
window.plots = [];
Object.defineProperty(window, "uPlot", {
  get: () => real,
  set: (made) => {
    real = new Proxy(made, {
      construct(target, given) {
        const plot = new target(...given);
        window.plots.push(plot);
        return plot;
      },
    });
  },
});
"""
"""Notes what uPlot draws."""


def plots(page: Page) -> list[list[list[float | None]]]:
    """The values of each plot of a page, which is loaded once more: times, and then its lines'."""
    again = page.context.new_page()
    again.add_init_script(PLOTS)
    again.goto(page.url)
    again.locator("html[data-ready]").wait_for(state="attached")
    again.evaluate(DRAWN)
    found = again.evaluate("window.plots.map((plot) => plot.data)")
    again.close()
    assert isinstance(found, list)
    return found


def test_no_line_is_drawn_where_nothing_was_measured(open_page: Open) -> None:
    samples = [later(sample_with_events(10), number * 10_000_000_000) for number in range(3)]
    *_, (times, *lines) = plots(open_page(page_of(*samples)))
    assert times == [0, 0.5, 5.25, 10, 10.5, 15.25, 20, 20.5]
    assert lines
    for line in lines:
        gaps = [time for time, value in zip(times, line, strict=True) if value is None]
        assert gaps == [times[2], times[5]]


def test_windows_that_follow_each_other_have_one_line(open_page: Open) -> None:
    samples = [later(sample_with_events(10), number * 501_000_000) for number in range(4)]
    *_, (times, *lines) = plots(open_page(page_of(*samples)))
    assert len(times) == 8
    assert lines
    assert all(value is not None for line in lines for value in line)


def test_hostile_names_are_shown_and_do_nothing(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(hostile_sample()))
    for thread in range(3):
        page.locator("tr.thread").nth(2 * thread).click()
    assert page.title().startswith("</script><script>document.title='owned'</script>")
    assert "\\u202egnp.exe\\u2066" in names(page)
    assert page.evaluate("document.querySelectorAll('[onmouseover]').length") == 0
    assert "${title} {0} %s \\u003c" in page.locator("#slices .legend li").all_inner_texts()
    graph = page.locator("#flame")
    graph.get_by_label("Search functions").fill("(((*+?[")
    assert graph.locator("g.found").count() > 0
    page.screenshot(path=pictures / "hostile-names.png", full_page=True)


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("dark", WIDTH, "dark"),
        ("narrow", NARROW_WIDTH, "light"),
        ("phone", PHONE_WIDTH, "light"),
    ],
)
def test_it_is_readable_dark_and_narrow(
    open_page: Open, pictures: Path, name: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = open_page(page_of(*series_of(3)), width, scheme)
    page.locator("tr.thread").first.click()
    assert overflow(page) <= 0
    # Nor does a thread that is open push columns out of sight.
    ready = page.locator("tr.thread .c-ready").first.bounding_box()
    assert ready is not None
    assert ready["x"] + ready["width"] <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    page.screenshot(path=pictures / f"{name}.png", full_page=True)


def test_its_colours_are_switched(open_page: Open) -> None:
    page = open_page(page_of(sample_with_events(10)))
    page.get_by_label("Colours", exact=True).select_option(label="Dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"


def test_on_paper_it_is_light_and_without_buttons(open_page: Open, pictures: Path) -> None:
    page = open_page(page_of(*series_of(3)), scheme="dark")
    page.locator("tr.thread").first.click()
    page.pdf(path=pictures / "paper.pdf", format="A4")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("button", name="Print").is_visible()
    page.set_viewport_size({"width": 720, "height": 1000})
    page.screenshot(path=pictures / "paper.png", full_page=True)
    assert (pictures / "paper.pdf").read_bytes().startswith(b"%PDF")


def test_a_flame_graph_alone_is_a_page(open_page: Open, pictures: Path) -> None:
    graph = FlameGraph()
    graph.add(sample_with_events(5000))
    page = open_page(graph.html())
    assert page.locator("h1").inner_text() == "ovs-vswitchd (27090)"
    frames(page).nth(1).click()
    assert page.locator("g.above").count() == 1
    page.screenshot(path=pictures / "flame-graph-alone.png", full_page=True)


def test_polls_are_a_choice_of_the_flame_graph(open_page: Open) -> None:
    graph = FlameGraph()
    graph.add(EVENT_LOOP)
    page = open_page(graph.html())
    shown = frames(page).all_text_contents()
    assert any("fdatasync" in text for text in shown)
    assert not any("epoll_wait" in text for text in shown)
    assert "1 polls, of 9.800 s, are left out" in page.locator(".status").inner_text()
    page.get_by_label("What the widths are").select_option(label="Time in calls and polls")
    assert any("epoll_wait" in text for text in frames(page).all_text_contents())


def test_a_flame_graph_in_svg_is_a_picture(
    browser: Browser, tmp_path: Path, pictures: Path
) -> None:
    graph = FlameGraph()
    graph.add(sample_with_events(5000))
    (tmp_path / "graph.svg").write_text("".join(graph.svg()))
    page = browser.new_page(viewport={"width": 1220, "height": 420})
    page.goto(f"file://{tmp_path}/graph.svg")
    assert page.evaluate("document.documentElement.tagName") == "svg"
    assert page.locator("rect.thread").count() == 20
    page.screenshot(path=pictures / "flame-graph-svg.png")
    page.close()


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("light", WIDTH, "light"),
        ("dark", WIDTH, "dark"),
        ("phone", PHONE_WIDTH, "light"),
    ],
)
def test_a_comparison_says_first_what_changed(
    open_page: Open, pictures: Path, name: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = open_page(comparison_page(15_000), width, scheme)
    assert page.locator("main > *").first.get_attribute("id") == "changes"
    named = page.locator("#changes li")
    assert named.locator(".kind b").all_inner_texts() == ["write.mean"] * 2
    assert "2 of " in page.locator("#changes").inner_text()
    note = page.locator("#changes .change .note").first.inner_text()
    assert re.fullmatch(
        r"the change is from \S+ to \S+ %, and of \S+ % of these threads. time", note
    )
    # Of the recordings what differs is marked, and figures that changed are shown alone.
    differing = page.locator("#sides .differs th").all_inner_texts()
    assert differing == ["Recording", "Kernel"]
    assert page.locator("#figures tr.figure").count() == 2
    assert overflow(page) <= 0
    change = page.locator("#figures .c-difference").first.bounding_box()
    assert change is not None
    assert change["x"] + change["width"] <= width
    page.screenshot(path=pictures / f"comparison-{name}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("write_ns", "judged", "sign"), [(15_000, "worse", "▲ worse"), (6_000, "better", "▼ better")]
)
def test_a_comparison_says_what_is_worse_or_better(
    open_page: Open,
    write_ns: float,
    judged: str,
    sign: str,
    scheme: Literal["light", "dark"],
) -> None:
    page = open_page(comparison_page(write_ns), PHONE_WIDTH, scheme)
    named = page.locator("#changes li").filter(has_text="write.mean").first
    assert named.locator(".judged").inner_text() == sign
    row = page.locator("#figures tr.figure").filter(has_text="write.mean").first
    assert row.locator(".c-kind").inner_text() == sign
    colour = "e => getComputedStyle(e).color"
    ink = page.locator("body").evaluate(colour)
    assert named.locator(".share b").evaluate(colour) != ink
    assert row.locator(".c-difference").evaluate(colour) != ink
    others = {"worse", "better"} - {judged}
    assert page.locator("".join(f".figure.{other}" for other in others)).count() == 0
    assert f"{sign}: 2" in page.locator(".judgement").inner_text()


def test_a_rate_that_changed_is_neither_worse_nor_better(open_page: Open) -> None:
    page = open_page(comparison_page(15_000))
    page.get_by_label("Which figures").select_option(label="All figures")
    for name in ("write.rate", "user", "blocked"):
        rows = page.locator("#figures tr.figure", has=page.get_by_text(name, exact=True))
        assert rows.count() > 0
        assert rows.and_(page.locator(".worse, .better")).count() == 0


def test_the_figures_of_a_comparison_are_filtered_and_sorted(
    open_page: Open, pictures: Path
) -> None:
    page = open_page(comparison_page(15_000))
    rows = page.locator("#figures tr.figure")
    page.get_by_label("Which figures").select_option(label="All figures")
    assert rows.count() > 20
    page.keyboard.press("/")
    page.keyboard.type("handler* write")
    shown = rows.locator(".c-name").all_inner_texts()
    assert sorted(shown) == ["write.mean", "write.p99", "write.rate"]
    page.locator("button[data-key=matters]").click()
    assert rows.locator(".c-name").first.inner_text() == "write.mean"
    assert page.locator("th.c-matters").get_attribute("aria-sort") == "descending"
    # The interval is drawn right of the band in which it counts as no change.
    band, line = rows.first.locator(".band"), rows.first.locator(".interval")
    right = float(band.get_attribute("x") or 0) + float(band.get_attribute("width") or 0)
    assert float(line.get_attribute("x1") or 0) > right
    page.locator("#figures").screenshot(path=pictures / "comparison-figures.png")


def test_a_comparison_without_a_change_says_so_on_paper(open_page: Open, pictures: Path) -> None:
    page = open_page(comparison_page(10_000), scheme="dark")
    assert page.locator("#changes .all-well").inner_text() == "Nothing, beyond chance."
    assert page.locator("#figures tr.figure").count() > 20
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.set_viewport_size({"width": 720, "height": 1000})
    assert overflow(page) <= 0
    page.screenshot(path=pictures / "comparison-paper.png", full_page=True)


def test_comparison_of_few_rounds_claims_nothing(open_page: Open) -> None:
    sides = []
    for name, ms in (("before", 60), ("after", 120)):
        made, figures = round_of(user=40, blocked=ms), RoundFigures()
        figures.add(made)
        ns = made.window.duration_ns
        known = RecordedRounds(ns, ns, 0, 1, way_of(made), main_cause(made))
        sides.append((Side(name, header("watch"), 1, ns, known), figures))
    (before, before_figures), (after, after_figures) = sides
    comparison = compare_rounds(before_figures, after_figures)
    page = open_page(render_comparison(before, after, comparison))
    assert page.locator("#changes .all-well").count() == 0
    assert "Nothing is claimed" in page.locator("#changes").inner_text()
    assert page.locator("#sides tbody th").all_inner_texts()[1] == "Rounds"
    assert page.locator("#figures tr.figure .c-name").first.inner_text() == "round.mean"


def test_hostile_names_in_a_comparison_do_nothing(open_page: Open) -> None:
    page = open_page(comparison_page(15_000, lambda name: HOSTILE[0] + HOSTILE[3] + name))
    assert page.title().startswith("</script><script>document.title='owned'</script>")
    names = page.locator("#figures .name").all_inner_texts()
    assert names[0].startswith("</script><script>document.title='owned'</script>\\u202egnp.exe")


@pytest.mark.parametrize("width", [WIDTH, PHONE_WIDTH])
def test_log_page_shows_each_round(
    open_page: Open, pictures: Path, tmp_path: Path, width: int
) -> None:
    lines = [vlog(-1, 1, "bridge", "<b>\x1b[2J"), *of_usage(Usage(2000, 1, 1), "<i>", number=2)]
    log = write(tmp_path / "ovs-vswitchd.log", lines)
    found = find([str(log)])
    page = open_page(render_log(survey(found.logs, (), datetime.UTC)), width)
    row = page.locator("#rounds tbody tr").first.inner_text()
    assert "<i>" in row
    assert "<b>\\x1b[2J" in row
    assert overflow(page) <= 0
    page.screenshot(path=pictures / f"log-{width}.png", full_page=True)


@pytest.mark.parametrize("width", [WIDTH, 400])
def test_coverage_counters_are_those_of_the_chosen_sample(
    open_page: Open, pictures: Path, width: int
) -> None:
    def counted(count: int) -> Coverage:
        counters = {"util_xalloc": count, "<i>rev_reconfigure_of_a_long_name": 17}
        return Coverage(2 * 10**9, counters, (Stopwatch("ovnnb_db_run", 2, 85_500_000),))

    one = replace(sample_with_events(10), coverage=counted(500_868))
    page = open_page(page_of(one, later(replace(one, coverage=counted(30)), 5)), width)
    rows = page.locator("#coverage tbody tr")
    assert rows.all_inner_texts() == [
        "util_xalloc\t500,898\t125,224.5",
        "<i>rev_reconfigure_of_a_long_name\t34\t8.5",
    ]
    assert "ovnnb_db_run\t4\t85.5" in page.locator("#stopwatches tbody tr").inner_text()
    assert overflow(page) <= 0
    page.screenshot(path=pictures / f"coverage-{width}.png", full_page=True)
    page.get_by_label("Sample", exact=True).select_option("1")
    assert rows.first.inner_text() == "util_xalloc\t30\t15.0"
    pressed = page.locator(".samples button[aria-pressed=true]")
    assert pressed.all_inner_texts() == [page.get_by_label("Show sample 2").inner_text()]


@pytest.mark.parametrize("width", [WIDTH, 400])
def test_log_page_sums_up_iterations(
    open_page: Open, pictures: Path, tmp_path: Path, width: int
) -> None:
    lines = with_table(0, 500, 103_000, (267_800_000, 0, 0, 0), [IDLE])
    found = find([str(write(tmp_path / "ovs-vswitchd.log", lines))])
    page = open_page(render_log(survey(found.logs, (), datetime.UTC)), width)
    row = page.locator("#iterations tbody tr").inner_text()
    assert row.startswith("ovs-vswitchd pmd-c01/id:6\tExcessive total cycles\t1\t1\t103.0 ms")
    assert overflow(page) <= 0
    page.screenshot(path=pictures / f"log-iterations-{width}.png", full_page=True)


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("light", WIDTH, "light"), ("dark", WIDTH, "dark"), ("phone", PHONE_WIDTH, "light")],
)
def test_a_fleet_says_first_who_differs(
    open_page: Open, pictures: Path, name: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = open_page(render_fleet(survey_of(120)), width, scheme)
    assert page.locator("main > *").first.get_attribute("id") == "named"
    named = page.locator("#named li")
    assert named.count() == MOST_NAMED
    assert "node-0" in named.first.inner_text()
    assert "90.0 %" in named.first.locator(".share").inner_text()
    assert "since 03-14 14:00 UTC" in named.first.inner_text()
    assert page.locator("#peers .found").inner_text() == "7 of 7; 2 more are left out"
    assert overflow(page) <= 0
    page.screenshot(path=pictures / f"fleet-{name}.png", full_page=True)


def test_the_rows_of_a_fleet_are_filtered_and_sorted(open_page: Open) -> None:
    page = open_page(render_fleet(survey_of(120)))
    rows = page.locator("#outliers tr.figure")
    assert rows.count() == 100
    page.get_by_role("button", name="20 more").click()
    assert rows.count() == 120
    page.keyboard.press("/")
    page.keyboard.type("node-11 wait_disk")
    nodes = rows.locator("td:first-child").all_inner_texts()
    assert nodes == ["node-111", "node-114", "node-117"]
    page.locator("#outliers [data-place='4']").click()
    page.locator("#outliers [data-place='4']").click()
    assert rows.first.locator("td").first.inner_text() == "node-117"
    assert page.locator("#outliers th[aria-sort=ascending]").inner_text() == "SHARE"


def test_a_fleet_in_which_nobody_differs_says_so(open_page: Open) -> None:
    page = open_page(render_fleet(survey_of(0)))
    expected = "No node's threads lose much more than the fleet's median."
    assert page.locator("#named .all-well").inner_text() == expected
    assert page.locator("#outliers").count() == 0


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\ud800" not in name])
def test_names_in_a_fleet_are_text(open_page: Open, name: str) -> None:
    braces = name.replace("{", "{{").replace("}", "}}")
    page = open_page(render_fleet(survey_of(2, f"{braces}{{}}", name)))
    assert page.title().startswith("A fleet of 500 nodes")
    assert page.locator("#outliers tr.figure").count() == 2


COLOURS = """canvas => {
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(all.data.buffer)).size;
}"""


@pytest.mark.parametrize("command", LOST)
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("light", WIDTH, "light"), ("dark", WIDTH, "dark"), ("phone", PHONE_WIDTH, "light")],
)
def test_monitor_page_has_charts_a_summary_and_tables(
    open_page: Open,
    pictures: Path,
    monitor_page: Monitored,
    command: MeasuringCommand,
    name: str,
    width: int,
    scheme: Literal["light", "dark"],
) -> None:
    page = open_page(monitor_page(command, 300), width, scheme)
    charts = page.locator("section:has(.plot)")
    charts.locator("canvas").nth(1).wait_for()
    assert charts.locator("canvas").count() == charts.count() == 2
    # Something is drawn.
    assert min(each.evaluate(COLOURS) for each in charts.locator("canvas").all()) > 3
    assert page.locator("#summary pre").inner_text().strip()
    assert page.locator("tr.figure").count() > 20
    assert overflow(page) <= 0
    page.screenshot(path=pictures / f"{command}-{name}.png", full_page=True)


def test_the_rows_of_a_monitor_are_filtered(open_page: Open, monitor_page: Monitored) -> None:
    page = open_page(monitor_page("flows", 300))
    page.keyboard.press("/")
    page.keyboard.type("00000007- delete")
    rows = page.locator("#last tr.figure td:nth-child(2)").all_inner_texts()
    assert [row[:8] for row in rows] == ["00000007"]


@pytest.mark.parametrize("command", LOST)
def test_hostile_names_in_a_monitor_do_nothing(
    open_page: Open, monitor_page: Monitored, command: MeasuringCommand
) -> None:
    page = open_page(monitor_page(command, 10, HOSTILE[0] + HOSTILE[2]))
    assert page.title().startswith("</script><script>document.title='owned'</script>")
    assert page.evaluate("document.querySelectorAll('[onmouseover]').length") == 0
    assert page.locator(".u-legend script").count() == 0


def test_chain_is_drawn_from_the_wait_to_its_root(open_page: Open) -> None:
    root = ChainThread(60, 60, "root")
    parts = (
        ChainPart((SERVER, root), "throttled", 300 * MS, cgroup="/batch"),
        ChainPart((SERVER, root), "running", 100 * MS),
        ChainPart((SERVER,), "running", 50 * MS),
    )
    page = open_page(page_of(bare_sample(waiting(*parts))))
    heading = page.locator("#chains h3").inner_text()
    assert heading.startswith("client (27090) waited 450.0 ms")
    drawn = page.locator("#chains .chain")
    assert drawn.locator("span").all_inner_texts() == [
        *("client (27090)", "server (50)", "root (60)", "throttled: /batch"),
        *("running", "running"),
    ]
    throttled, *_ = (each.bounding_box() for each in drawn.locator(".root").all())
    whole = drawn.bounding_box()
    assert throttled is not None
    assert whole is not None
    assert throttled["width"] == pytest.approx(whole["width"] * 300 / 450, rel=0.02)


def test_chains_are_of_the_sample_that_is_shown(open_page: Open) -> None:
    chain = waiting(ChainPart((SERVER,), "running", 50 * MS))
    page = open_page(page_of(bare_sample(chain), later(bare_sample(), 600 * MS)))
    chains = page.locator("#chains")
    assert chains.is_visible()
    page.get_by_label("Sample", exact=True).select_option(index=2)
    assert not chains.is_visible()
    page.get_by_label("Sample", exact=True).select_option(index=1)
    assert chains.is_visible()


@pytest.mark.parametrize("width", [WIDTH, PHONE_WIDTH])
def test_chains_of_several_roots_fit_and_are_listed(open_page: Open, width: int) -> None:
    """However little of the time the last one has."""
    roots = [ChainThread(60 + each, 60 + each, f"database-{each}") for each in range(9)]
    parts = tuple(
        ChainPart((SERVER, root), "runnable", (300 * MS) >> 2 * place)
        for place, root in enumerate(roots)
    )
    threads = [replace(waiting(*parts), tid=100 + each, name=f"w{each}") for each in range(8)]
    page = open_page(page_of(bare_sample(*threads)), width)
    assert overflow(page) <= 0
    assert page.locator("#chains h3").count() == 6
    page.get_by_text("2 more threads").click()
    page.locator("#chains h3").nth(7).wait_for()
    first = page.locator("#chains .chain").first
    whole = first.bounding_box()
    assert whole is not None
    for box in (each.bounding_box() for each in first.locator(".root").all()):
        assert box is not None
        assert box["x"] + box["width"] <= whole["x"] + whole["width"] + 1
    assert page.locator("#chains .chain-parts").first.locator("li").count() == 6
    page.locator("#chains details").first.click()
    page.get_by_text("server (50) → database-8 (68)").first.wait_for()
