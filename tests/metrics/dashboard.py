"""Grafana's dashboard: each query has an answer from a Prometheus; `make test-metrics` runs it.

What Prometheus scrapes has all metrics that there are, and they grow.
"""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs
from prometheus_client import CollectorRegistry, start_http_server

from kernel_delay.metrics import Snapshot
from kernel_delay.metrics.prometheus import SnapshotCollector
from tests.metrics.prometheus import SCRAPE_MS, Prometheus, prometheus
from tests.unit.metric_samples import full_snapshot
from tests.workload import wait_until

PROJECT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads(
    (PROJECT / "deploy" / "grafana" / "kernel-delay.json").read_text()
)
RULES = PROJECT / "deploy" / "prometheus" / "kernel-delay.rules.yml"

SCRAPES = 12
RANGE_S = SCRAPES * SCRAPE_MS // 1000

# What Grafana puts in. `__rate_interval` is four scrapes there too; "All" of a variable is `.*`.
VARIABLES = {
    "__range": f"{RANGE_S}s",
    "__rate_interval": f"{4 * SCRAPE_MS}ms",
    **{
        variable["name"]: variable["allValue"]
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    },
}

LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
PANELS = [
    pytest.param(panel, target, id=f"{panel['title']}, {target['refId']}")
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
LISTS = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]


class Growing:
    """A process whose figures are larger at each scrape."""

    def __init__(self) -> None:
        """Start before the first scrape."""
        self._scrapes = count(1)

    def snapshot(self) -> Snapshot:
        grown = _times(full_snapshot(), next(self._scrapes))
        assert isinstance(grown, Snapshot)
        return grown


def _times(value: object, factor: int) -> object:
    """The value with each number in it multiplied."""
    if isinstance(value, bool) or not isinstance(value, int | tuple | Mapping | Struct):
        return value
    if isinstance(value, int):
        return value * factor
    if isinstance(value, Struct):
        names = value.__struct_fields__
        return structs.replace(
            value, **{name: _times(getattr(value, name), factor) for name in names}
        )
    if isinstance(value, Mapping):
        return {key: _times(each, factor) for key, each in value.items()}
    return tuple(_times(each, factor) for each in value)


@contextmanager
def served() -> Iterator[str]:
    """HOST:PORT of figures that grow."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(Growing().snapshot))
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped the figures often enough for each rate."""
    with served() as target, prometheus(target, RULES, tmp_path_factory.mktemp("tsdb")) as found:

        def has_scraped() -> bool:
            return found.value(f"count_over_time(up[{RANGE_S}s])") >= SCRAPES - 1

        wait_until(has_scraped, "the scrapes")
        yield found


def filled_in(text: str) -> str:
    """A query as Grafana sends it."""
    for name, value in VARIABLES.items():
        text = re.sub(rf"\$\{{{name}\}}|\${name}\b", value, text)
    assert "$" not in text
    return text


@pytest.mark.parametrize(("panel", "target"), PANELS)
def test_each_query_of_the_dashboard_has_an_answer(
    running: Prometheus, panel: dict[str, Any], target: dict[str, Any]
) -> None:
    """As a graph and as a number: values are finite, and the legend's labels are there."""
    expression = filled_in(target["expr"])
    now_s = time.time()
    graph = running.ask(
        "query_range", query=expression, start=str(now_s - 4), end=str(now_s), step="1"
    )["result"]
    number = running.ask("query", query=expression)["result"]
    assert graph
    assert number
    values = [float(value) for series in graph for _, value in series["values"]]
    values += [float(series["value"][1]) for series in number]
    assert all(math.isfinite(value) for value in values), panel["title"]
    assert max(values) > 0
    for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
        assert all(label in series["metric"] for series in graph), label


@pytest.mark.parametrize("variable", LISTS, ids=lambda each: str(each["name"]))
def test_each_variable_of_the_dashboard_has_values(
    running: Prometheus, variable: dict[str, Any]
) -> None:
    found = LABEL_VALUES.fullmatch(filled_in(variable["query"]["query"]))
    assert found is not None
    selector, label = found.groups()
    assert running.ask(f"label/{label}/values", **{"match[]": selector})
