"""A Prometheus of its own, that scrapes one address, and what it answers."""

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.needs import needed
from tests.workload import wait_until

SCRAPE_MS = 1000

CONFIGURATION = """
global: {{scrape_interval: {scrape_ms}ms, scrape_timeout: {scrape_ms}ms, evaluation_interval: 2s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: kernel-delay
    static_configs: [{{targets: ["{target}"]}}]
"""


class Series(NamedTuple):
    """One series: its labels, and its values by the times of the scrapes, in s since 1970."""

    labels: dict[str, str]
    values: dict[float, float]


class Prometheus:
    """A running one."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """What its API says."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
            return json.load(answer)["data"]

    def value(self, expression: str) -> float:
        """What an expression is now; 0 if it is nothing."""
        found = self.ask("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def series(self, selector: str, range_s: int) -> list[Series]:
        """All that was scraped of these in that long."""
        found = self.ask("query", query=f"{selector}[{range_s}s]")["result"]
        return [
            Series(each["metric"], {float(at): float(text) for at, text in each["values"]})
            for each in found
        ]

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire."""
        alerts = self.ask("alerts")["alerts"]
        return [alert["labels"] for alert in alerts if alert["state"] == "firing"]

    def is_ready(self) -> bool:
        try:
            return self.value('up{job="kernel-delay"}') == 1
        except OSError:
            return False


@contextmanager
def prometheus(target: str, rules: Path, folder: Path) -> Iterator[Prometheus]:
    """Start one that scrapes `target`, HOST:PORT, and wait until it has."""
    program = needed("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = folder / "prometheus.yml"
    configuration.write_text(
        CONFIGURATION.format(scrape_ms=SCRAPE_MS, rules=json.dumps(str(rules)), target=target)
    )
    command = [program, f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            running = Prometheus(f"http://127.0.0.1:{port}")
            wait_until(running.is_ready, "Prometheus' first scrape")
            yield running
        finally:
            process.terminate()
            process.wait(60)
