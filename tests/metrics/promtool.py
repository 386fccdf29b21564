"""What Prometheus' own tool says of the metrics and the alerts; `make test-metrics` runs it."""

import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kernel_delay.metrics.prometheus import SnapshotCollector
from tests.needs import needed
from tests.unit.metric_samples import full_snapshot


@pytest.mark.parametrize(
    ("what", "name"), [("check", "kernel-delay.rules.yml"), ("test", "kernel-delay.test.yml")]
)
def test_alerts_are_valid_and_pass_their_own_tests(project: Path, what: str, name: str) -> None:
    needed("promtool")
    command = ["promtool", what, "rules", name]
    folder = project / "deploy" / "prometheus"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_has_nothing_to_say_of_the_metrics() -> None:
    needed("promtool")
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(full_snapshot))
    text = generate_latest(registry)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
