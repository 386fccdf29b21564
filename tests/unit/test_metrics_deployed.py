"""What is in deploy/ for the metrics: Grafana's dashboard, and Prometheus' alerts."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kernel_delay.analysis.rounds import CAUSES
from kernel_delay.metrics.families import FAMILIES
from kernel_delay.metrics.ledger import STATES
from kernel_delay.metrics.prometheus import SnapshotCollector
from tests.unit.metric_samples import full_snapshot

METRIC = re.compile(r"\bkernel_delay_\w+")
LABELS = re.compile(r"\bkernel_delay_\w+\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"([^\"]*)\"")
TARGET_LABELS = {"job", "instance"}
GRID_WIDTH = 24


@pytest.fixture(scope="module")
def dashboard(project: Path) -> dict[str, Any]:
    path = project / "deploy" / "grafana" / "kernel-delay.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def alerts(project: Path) -> Path:
    return project / "deploy" / "prometheus"


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The names of all samples that are exported, and their labels."""
    found: dict[str, set[str]] = {}
    for metric in SnapshotCollector(full_snapshot).collect():
        for sample in metric.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def check_expression(text: str, exported: dict[str, set[str]]) -> None:
    """All that an expression names is there: metrics, their labels, states and causes."""
    names = METRIC.findall(text)
    assert names
    assert set(names) <= exported.keys(), text
    for name, selector in zip(
        re.findall(r"\b(kernel_delay_\w+)\{", text), LABELS.findall(text), strict=True
    ):
        for label, value in LABEL.findall(selector):
            assert label in exported[name] | TARGET_LABELS, (name, label)
            if label == "state" and not value.startswith("$"):
                assert set(value.split("|")) <= STATES.keys(), value
            if label == "cause" and not value.startswith("$"):
                assert set(value.split("|")) <= set(CAUSES), value


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_the_dashboard_asks_for_what_there_is(
    dashboard: dict[str, Any], exported: dict[str, set[str]]
) -> None:
    for text in queries(dashboard):
        check_expression(text, exported)


def test_the_dashboard_shows_every_metric(dashboard: dict[str, Any]) -> None:
    """But for the time of the last read, which is for alerts of one's own."""
    text = " ".join(queries(dashboard))
    missing = {family.exported for family in FAMILIES if family.name not in text}
    assert missing == {"kernel_delay_last_read_timestamp_seconds"}


def test_dashboard_panels_are_complete_and_do_not_overlap(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("stat", "timeseries")
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        place = panel["gridPos"]
        assert 0 <= place["x"] <= place["x"] + place["w"] <= GRID_WIDTH
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


def test_its_variables_are_those_that_it_uses(dashboard: dict[str, Any]) -> None:
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(dashboard)))
    assert used == {variable["name"] for variable in dashboard["templating"]["list"]}


def test_the_alerts_ask_for_what_there_is(alerts: Path, exported: dict[str, set[str]]) -> None:
    text = (alerts / "kernel-delay.rules.yml").read_text()
    expressions = re.findall(r"^ {8}expr:(.*?)^ {8}(?:for|labels):", text, re.MULTILINE | re.DOTALL)
    assert len(expressions) == text.count("- alert:")
    for expression in expressions:
        check_expression(expression, exported)


def test_each_alert_has_a_test(alerts: Path) -> None:
    names = re.findall(r"- alert: (\w+)", (alerts / "kernel-delay.rules.yml").read_text())
    tested = (alerts / "kernel-delay.test.yml").read_text()
    for name in names:
        after = tested.split(f"alertname: {name}\n")[1:]
        assert any(text.lstrip().startswith("exp_alerts:") for text in after), name
