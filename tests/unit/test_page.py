"""The page of HTML: the data in it, what keeps it closed, and what of others is in it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.analysis.states import STATE_OF, WORKER_PART
from kernel_delay.model import (
    ChainPart,
    ChainThread,
    ClockRelation,
    Container,
    Finding,
    Lost,
    RecordedTarget,
    RecordingHeader,
    Sample,
    Target,
    ThreadTime,
    WaitChain,
)
from kernel_delay.reporters import folded
from kernel_delay.reporters.page import calls, contents, render, script
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.page_samples import (
    CONTENTION,
    HOSTILE,
    hostile_sample,
    sample_with_events,
    series_of,
)
from tests.unit.samples import (
    ACCOUNTED,
    COUNTS,
    EVERYTHING,
    TIMED_WINDOW_NS,
    TIMES,
    bare_sample,
    samples,
)
from tests.unit.timeline_samples import WITH_TIMELINE

HEADER = RecordingHeader(
    format="kernel-delay-recording/1.1",
    tool="1.2.3",
    command="capture",
    arguments=("-p", "27090", "-s"),
    host="node-7",
    kernel="6.12.1",
    machine="x86_64",
    boot_id="b007",
    cpus=8,
    clock=ClockRelation(1, 2),
    target=RecordedTarget(
        27090,
        "ovs-vswitchd",
        "/usr/sbin/ovs-vswitchd",
        ("ovs-vswitchd", "--pidfile=a b"),
        "/system.slice/ovs",
        Container("containerd", "c0ffee", "p0d"),
    ),
)


class Document(HTMLParser):
    """What a browser makes of a page: its elements, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts.append((tag, dict(attrs), ""))
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.texts.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.texts:
            tag, attributes, text = self.texts[-1]
            self.texts[-1] = (tag, attributes, text + data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for name, attributes, text in self.texts if name == tag]


def document(*shown: Sample, header: RecordingHeader | None = None) -> Document:
    return Document("".join(render(header, shown)))


def data_of(page: Document) -> Any:
    (text,) = [text for attributes, text in page.all("script") if attributes.get("id") == "data"]
    return json.loads(text)


def data(*shown: Sample, header: RecordingHeader | None = None) -> Any:
    return data_of(document(*shown, header=header))


def test_parts_of_each_thread_add_up_to_its_account() -> None:
    page = data(ACCOUNTED)
    for thread, shown in zip(ACCOUNTED.threads, page["threads"], strict=True):
        assert isinstance(thread.time, ThreadTime)
        whole = sum(getattr(thread.time, name) for name in ThreadTime.__struct_fields__)
        assert len(shown["time_ns"]) == len(page["parts"])
        assert sum(shown["time_ns"]) == shown["whole_ns"] == whole
    revalidator = dict(zip(page["parts"], page["threads"][0]["time_ns"], strict=True))
    assert revalidator["user"] == 250_000_000
    assert revalidator["kernel, page faults"] == 4_000_000
    assert revalidator["ready, preempted"] == 80_000_000
    assert page["threads"][0]["lost_ns"] == 155_700_000  # 17.7 ms of it waits for a lock


def test_a_call_has_its_split_and_percentiles() -> None:
    (call,) = [call for call in data(ACCOUNTED)["threads"][0]["calls"] if call["name"] == "recvmsg"]
    assert call["split_ns"] == [45_000_000, 5_000_000, 0, 0, 0]
    lengths = call["lengths"]
    assert (lengths["count"], lengths["total_ns"], lengths["max_ns"]) == (7, 50_000_000, 9_000_000)
    p50, p90, p99 = lengths["percentiles_ns"]
    assert 1 << 22 <= p50 <= 1 << 23 <= p90 <= p99 <= 9_000_000


def test_chain_leads_from_the_wait_to_what_its_root_did() -> None:
    ways = (ChainThread(5, 5, "server\x1b"), ChainThread(6, 6, "root"))
    throttled = ChainPart(ways, "throttled", 30, cgroup="/batch")
    # In another call of the root's: the same to who reads it.
    alike = replace(throttled, ns=20, syscall="read")
    chain = WaitChain(70, (throttled, alike, ChainPart((), "unknown", 20)))
    (shown, *_) = data(replace(ACCOUNTED, threads=(replace(ACCOUNTED.threads[0], chain=chain),)))[
        "threads"
    ]
    assert shown["chain"] == [
        {
            "way": ["server\\x1b (5)", "root (6)"],
            "state": "throttled",
            "did": "throttled: /batch",
            "ns": 50,
        },
        {"way": [], "state": "unaccounted", "did": "not known", "ns": 20},
    ]


def test_who_had_the_cpu_sums_up_to_all_waits() -> None:
    takers = data(ACCOUNTED)["threads"][0]["takers"]
    assert [(row["name"], row["about"], row["ns"]) for row in takers] == [
        ("stress\\x1b", "4321 of 4300, FIFO 7", 79_000_000),
        ("idle", "", 5_000_000),
        ("", "others", 2_000_000),
        ("", "unknown", 1_000_000),
    ]


def test_samples_add_up_and_stand_by_themselves() -> None:
    page = data(*series_of(3))
    assert [sample["since_ns"] for sample in page["samples"]] == [0, 600_000_000, 1_200_000_000]
    assert [len(sample["threads"]) for sample in page["samples"]] == [60, 60, 60]
    for total, each in zip(page["threads"], page["samples"][1]["threads"], strict=True):
        assert total["whole_ns"] == 3 * each["whole_ns"]
        assert total["time_ns"] == [3 * ns for ns in each["time_ns"]]


def test_each_rule_is_listed_once_with_its_worst_sample() -> None:
    first, second, third = series_of(3)
    worse = replace(second.verdict[0], share=0.9, tid=105)
    page = data(first, replace(second, verdict=(worse,)), replace(third, verdict=()))
    reported = [
        (each["finding"]["rule"], each["sample"], each["samples"]) for each in page["findings"]
    ]
    assert reported == [("CPU contention", 1, 2), ("user work", 0, 1)]
    assert page["findings"][0]["finding"]["share"] == 0.9


def test_one_sample_has_the_order_of_its_verdict() -> None:
    (sample,) = series_of(1)
    first = replace(sample.verdict[1], share=0.4, remark=True)
    verdict = (first, replace(first, rule="asleep", share=0.9))
    for count, shares in ((1, [0.4, 0.9]), (2, [0.9, 0.4])):
        page = data(*(replace(each, verdict=verdict) for each in series_of(count)))
        assert [each["finding"]["share"] for each in page["findings"]] == shares


def test_rule_is_in_no_more_samples_than_exist() -> None:
    first, second, third = series_of(3)
    two = [
        replace(each, processes=2, target=Target(pid, "worker", None))
        for each in (first, second, third)
        for pid in (100, 200)
    ]
    page = data(*two)
    assert page["samples_measured"] == 3
    assert [each["samples"] for each in page["findings"]] == [3, 3]


def test_processes_have_their_titles_and_one_verdict() -> None:
    titles = ("postgres: checkpointer", "postgres: app shop [local] UPDATE waiting")
    made = [
        replace(
            ACCOUNTED,
            processes=2,
            threads=(replace(ACCOUNTED.threads[0], tid=pid, name="postgres"),),
            target=Target(pid, "postgres", None, command_line=(title,)),
            verdict=(replace(WAIT, tid=pid),),
        )
        for pid, title in zip((7, 8), titles, strict=True)
    ]
    page = data(*made)
    assert [thread["name"] for thread in page["threads"]] == [*titles]
    (found,) = page["findings"]
    assert found["finding"]["text"].startswith("2 processes only waited, for 100 % of the window.")
    # A finding of the rule is no remark of it.
    found = data(replace(made[0], verdict=(replace(WAIT, remark=False), WAIT)))["findings"]
    assert [each["finding"]["remark"] for each in found] == [False, True]


WAIT = Finding("asleep", "program", 1.0, 7, "It slept.", remark=True)


def test_waits_for_unknown_work_are_marked() -> None:
    (sample,) = series_of(1)
    wait = replace(sample.verdict[0], rule="wait_pipe", remark=True)
    page = data(replace(sample, verdict=(wait, sample.verdict[1])))
    assert [each["finding"]["waits"] for each in page["findings"]] == [True, False]


def test_the_advice_is_distinguished_from_the_finding() -> None:
    finding = data(sample_with_events(1))["findings"][0]["finding"]
    assert finding["advice"] == "Give it a CPU."
    assert finding["text"].endswith("42 % of the window.")


def test_advice_is_said_once_for_several_processes() -> None:
    advised = replace(CONTENTION, tid=7)
    made = [
        replace(
            ACCOUNTED,
            processes=2,
            threads=(replace(ACCOUNTED.threads[0], tid=pid),),
            target=Target(pid, "server", None),
            verdict=(replace(advised, tid=pid),),
        )
        for pid in (7, 8)
    ]
    finding = data(*made)["findings"][0]["finding"]
    assert "The same in 1 other process" in finding["text"]
    assert CONTENTION.advice not in finding["text"]
    assert finding["advice"] == CONTENTION.advice


def test_what_was_lost_is_reported_for_all_samples_together() -> None:
    page = data(*(replace(each, lost=Lost(missed_events=2)) for each in series_of(2)))
    assert any(text.startswith("4 kernel events were missed") for text in page["remarks"])


def test_what_the_timeline_had_no_room_for_is_reported() -> None:
    page = data(replace(WITH_TIMELINE, lost=Lost(timeline_states=3)))
    said = [text for text in page["remarks"] if "timeline" in text]
    assert len(said) == 1
    assert said[0].startswith("the timeline had no room for 3 states: its slices do not add up")


def test_samples_without_room_keep_their_account_and_totals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = data(*series_of(3))
    monkeypatch.setattr(contents, "DETAIL_BYTES", 100_000)
    page = data(*series_of(3))
    assert page["samples"][0]["threads"] is not None
    assert page["samples"][2]["threads"] is None
    assert page["samples"][2]["time_ns"] == whole["samples"][2]["time_ns"]
    assert page["threads"] == whole["threads"]


def test_scripts_draw_each_part_as_its_state() -> None:
    parts = script("page").partition("const STATES = {")[2].partition("};")[0]
    drawn = {
        part: state
        for state, names in re.findall(r"^  (\w+): \[(.*)\],$", parts, re.MULTILINE)
        for part in re.findall(r'"([^"]+)"', names)
    }
    assert drawn == {**STATE_OF, WORKER_PART: "kernel"}


def test_a_page_of_any_many_samples_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data(*series_of(40))
    monkeypatch.setattr(contents, "DETAIL_BYTES", 100_000)
    monkeypatch.setattr(contents, "ACCOUNT_BYTES", 10_000)
    page = data(*series_of(40))
    assert 3 < len(page["samples"]) < 40
    assert len(json.dumps(page["samples"])) < 120_000
    assert (page["samples_measured"], page["measured_ns"]) == (40, 40 * TIMED_WINDOW_NS)
    for of_all in ("threads", "findings", "remarks"):
        assert page[of_all] == whole[of_all]


def weights(page: Any) -> dict[str, int]:
    """The page's calls by stack, in the form of folded stacks."""
    shown = page["calls"]
    found: dict[str, int] = {}
    paths = shown["paths"]
    for thread, call, place, ns in zip(
        paths["threads"], paths["calls"], paths["stacks"], paths["ns"], strict=True
    ):
        frames = [shown["frames"][at][0] for at in (shown["stacks"][place] if place >= 0 else ())]
        name = ";".join([shown["threads"][thread][1], *frames, f"{shown['calls'][call]}_[k]"])
        found[name] = found.get(name, 0) + ns
    return found


@pytest.mark.parametrize("sample", [WITH_EVENTS, sample_with_events(5000)], ids=["few", "many"])
def test_the_flame_graph_is_of_the_folded_stacks(sample: Sample) -> None:
    lines = (line.rpartition(" ") for line in folded.render(sample).splitlines())
    plain = {name.replace(" (inlined)", ""): ns for name, ns in weights(data(sample)).items()}
    assert plain == {name: int(ns) for name, _, ns in lines}


def test_off_cpu_and_unknown_time_of_calls_add_up() -> None:
    sample = sample_with_events(5000)
    made = list(sample.syscall_events or ())
    paths = data(sample)["calls"]["paths"]
    assert sum(paths["off_cpu_ns"]) == sum(event.off_cpu_ns or 0 for event in made)
    unknown = (each.exit_ns - each.entry_ns for each in made if each.off_cpu_ns is None)
    assert sum(paths["unknown_ns"]) == sum(unknown)
    assert sum(paths["ns"]) == sum(event.exit_ns - event.entry_ns for event in made)


def test_events_are_in_order_and_their_times_exact() -> None:
    sample = sample_with_events(1000)
    events = data(sample)["calls"]["events"]
    start_ns = sample.window.start_ns
    shown = list(zip(events["since_ns"], events["lengths_ns"], strict=True))
    assert shown == sorted(shown)
    assert sorted(shown) == sorted(
        (each.entry_ns - start_ns, each.exit_ns - each.entry_ns)
        for each in sample.syscall_events or ()
    )


def test_only_longest_events_are_listed_but_all_are_graphed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = data(*series_of(3))
    monkeypatch.setattr(calls, "SHOWN_EVENTS", 40)
    page = data(*series_of(3))
    events = page["calls"]["events"]
    assert len(events["since_ns"]) == 40
    assert events["left_out"] == 260
    longest = sorted(whole["calls"]["events"]["lengths_ns"], reverse=True)[:40]
    assert sorted(events["lengths_ns"], reverse=True) == longest
    assert page["calls"]["paths"] == whole["calls"]["paths"]


def test_timeline_has_the_threads_of_all_processes() -> None:
    first = replace(WITH_TIMELINE, processes=2)
    other = replace(
        first,
        target=replace(first.target, pid=9, comm="nginx"),
        threads=tuple(replace(each, tid=each.tid + 10) for each in first.threads),
        timeline=[replace(each, tid=each.tid + 10) for each in first.timeline or ()],
    )
    shown = data(first, other)
    names = [f"{each.name} of {first.target.comm} ({first.target.pid})" for each in first.threads]
    names += [f"{each.name} of nginx (9)" for each in other.threads]
    assert sorted(name for _, name in shown["timeline"]["threads"]) == sorted(names)
    slices = shown["timeline"]["slices"]
    assert len(slices["threads"]) == 2 * len(first.timeline or ())


def test_head_names_the_process_the_host_and_the_command() -> None:
    assert dict(data(ACCOUNTED, header=HEADER)["about"]) == {
        "Process": "ovs-vswitchd (27090)",
        "Program": "/usr/sbin/ovs-vswitchd",
        "Command line": "ovs-vswitchd '--pidfile=a b'",
        "Container": "containerd, c0ffee, pod p0d",
        "Cgroup": "/system.slice/ovs",
        "Host": "node-7",
        "Kernel": "Linux 6.12.1",
        "Machine": "x86_64, 8 CPUs",
        "Boot": "b007",
        "Measured with": "kernel-delay -p 27090 -s",
        "Version": "kernel-delay 1.2.3",
    }
    assert dict(data(ACCOUNTED)["about"]) == {
        "Process": "ovs-vswitchd (27090)",
        "Program": "/usr/sbin/ovs-vswitchd",
        "Host": "compute-1",
        "Kernel": "Linux 6.1.0-30-amd64",
    }


def test_without_a_sample_it_says_so() -> None:
    page = document()
    assert data_of(page)["samples"] == []
    assert page.all("title")[0][1].startswith("nothing was measured")


def test_page_allows_only_its_own_scripts_and_loads_nothing() -> None:
    page = document(EVERYTHING)
    (policy,) = [
        attributes["content"] or ""
        for attributes, _ in page.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("default-src") == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        run = [text for attributes, text in page.all(tag) if attributes.get("id") != "data"]
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run]
        assert rules.pop(rule) == " ".join(f"'sha256-{each}'" for each in hashes)
    assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    urls = [value for _, name, value in page.attributes if name in ("src", "href", "srcset")]
    assert urls == ["data:,"]
    styles = "".join(text for _, text in page.all("style"))
    assert "url(" not in styles
    assert "@import" not in styles


def names_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [name for each in (*value, *value.values()) for name in names_in(each)]
    return [name for each in value for name in names_in(each)] if isinstance(value, list) else []


def test_hostile_names_change_only_the_data_of_the_page() -> None:
    calm, hostile = document(sample_with_events(1)), document(hostile_sample())
    assert [tag for tag, _, _ in hostile.texts] == [tag for tag, _, _ in calm.texts]
    assert all(name.isprintable() for name in names_in(data_of(hostile)))
    shown = [thread["name"] for thread in data_of(hostile)["threads"]]
    assert shown[0] == HOSTILE[0]
    assert shown[3] == "\\u202egnp.exe\\u2066"


@settings(max_examples=25)
@given(st.lists(samples(COUNTS, TIMES), max_size=2))
def test_any_samples_make_a_page_of_the_same_elements(shown: list[Sample]) -> None:
    page = document(*shown)
    assert [tag for tag, _, _ in page.texts] == [tag for tag, _, _ in document().texts]
    assert all(name.isprintable() for name in names_in(data_of(page)))


def test_it_is_less_than_a_megabyte_without_data() -> None:
    assert len("".join(render(None, [bare_sample()])).encode()) < 1_000_000


@pytest.mark.parametrize("main", ["page", "flamegraph", "comparison", "fleet", "events"])
def test_modules_are_one_script_ordered_by_imports(main: str) -> None:
    text = script(main)
    assert not re.search(r"^\s*(import|export)\b", text, re.MULTILINE)
    declared = re.findall(r"^const (\w+)_js = ", text, re.MULTILINE)
    assert len(declared) == len(set(declared))
    assert declared[-1] == main
    for place, body in enumerate(re.split(r"^const \w+_js = ", text, flags=re.MULTILINE)[1:]):
        used = re.findall(r"^const \{[^}]*\} = (\w+)_js;$", body, re.MULTILINE)
        assert set(used) <= set(declared[:place])


def test_vendored_files_are_listed_with_version_licence_and_checksum(project: Path) -> None:
    vendor = project / "src/kernel_delay/reporters/page/vendor"
    rows = re.findall(
        r"^\| `(\S+)` \| \[[\w-]+\]\(\S+\) \| [\d.]+ \| [\w.-]+, \[\S+\]\((\S+)\)"
        r" \| `(\w{64})` \|$",
        (vendor / "README.md").read_text(),
        re.MULTILINE,
    )
    sums = {name: digest for name, _, digest in rows}
    licences = {licence for _, licence, _ in rows}
    files = {path.name for path in vendor.iterdir()}
    assert files == sums.keys() | licences | {"README.md"}
    for name, digest in sums.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
