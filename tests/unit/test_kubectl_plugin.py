"""`kubectl kernel-delay`: what it asks of kubectl, in whose place a script answers."""

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.workload import wait_until

# Keeps its arguments and input, and answers as a cluster whose pod runs and ends with STATUS.
KUBECTL = """#!/bin/sh
echo "$*" >>"$KEPT/calls"
case "$1 $*" in
create*) cat >"$KEPT/manifest"; echo job.batch/kernel-delay-x7k2p ;;
get*nodeName*) printf worker-3 ;;
get*phase*) [ ! -e "$KEPT/logged" ] || PHASE=$PHASE_AT_END; printf '%s' "$PHASE" ;;
get*reason*) printf ErrImagePull ;;
get*exitCode*) printf '%s' "$STATUS" ;;
logs*) : >"$KEPT/logged"; echo '# VERDICT: nothing'; exec sleep "$LASTS_S" ;;
esac
"""


class Cluster:
    """One that is played."""

    def __init__(self, folder: Path, plugin: Path) -> None:
        kubectl = folder / "kubectl"
        kubectl.write_text(KUBECTL)
        kubectl.chmod(0o755)
        self.folder = folder
        self.plugin = plugin
        self.environment = {"PATH": f"{folder}:{os.environ['PATH']}", "KEPT": str(folder)}
        self.environment |= {"PHASE": "Running", "STATUS": "0", "LASTS_S": "0"}
        self.environment |= {"PHASE_AT_END": "Running"}

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.plugin, *arguments],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        with self.start(*arguments, **environment) as process:
            output, errors = process.communicate()
        return process.returncode, output, errors

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def manifest(self) -> dict[str, object]:
        """The values of those keys of the Job that the plugin writes."""
        lines = (line.strip() for line in (self.folder / "manifest").read_text().splitlines())
        pairs = (line.partition(": ")[::2] for line in lines)
        return {
            key: json.loads(value) for key, value in pairs if key in ("nodeName", "image", "args")
        }

    def deletions(self) -> int:
        return sum(call.startswith("delete ") for call in self.calls())


@pytest.fixture
def cluster(project: Path, tmp_path: Path) -> Cluster:
    folder = project / "deploy" / "kubernetes" / "kubectl"
    return Cluster(tmp_path, folder / "kubectl-kernel_delay")


IMAGE = ("--image", "registry.example/kernel-delay:1")


def test_it_measures_on_the_node(cluster: Cluster) -> None:
    hostile = 'a"b\\c|&d'
    command = (*IMAGE, "--node", "worker-1", "--", "where", "--comm", hostile)
    status, output, errors = cluster.run(*command)
    assert (status, output, errors) == (0, "# VERDICT: nothing\n", "")
    assert cluster.manifest() == {
        "nodeName": "worker-1",
        "image": "registry.example/kernel-delay:1",
        "args": ["where", "--comm", hostile],
    }
    assert "ARGUMENTS]" not in (cluster.folder / "manifest").read_text()
    assert cluster.deletions() == 1


def test_a_pod_has_its_node_and_is_selected(cluster: Cluster) -> None:
    status, _, _ = cluster.run(*IMAGE, "--pod", "shop/db-0", "--", "watch", "--time", "5")
    assert status == 0
    assert cluster.manifest()["nodeName"] == "worker-3"
    assert cluster.manifest()["args"] == ["watch", "--pod", "shop/db-0", "--time", "5"]
    cluster.run(*IMAGE, "--pod", "db-0")
    assert cluster.manifest()["args"] == ["--pod", "default/db-0"]


def test_the_status_is_passed_on(cluster: Cluster) -> None:
    status, _, _ = cluster.run(*IMAGE, "--node", "worker-1", STATUS="77")
    assert (status, cluster.deletions()) == (77, 1)


def test_an_image_that_cannot_be_had(cluster: Cluster) -> None:
    status, output, errors = cluster.run(*IMAGE, "--node", "worker-1", PHASE="Pending")
    assert (status, output) == (69, "")
    assert errors == "kubectl-kernel_delay: the pod does not start: ErrImagePull\n"
    assert cluster.deletions() == 1


@pytest.mark.parametrize("phase", ["Failed", ""])
def test_a_pod_without_exit_code_ends_it(cluster: Cluster, phase: str) -> None:
    """It was evicted, or deleted, while its log was shown."""
    status, _, errors = cluster.run(*IMAGE, "--node", "worker-1", STATUS="", PHASE_AT_END=phase)
    assert status == 69
    assert errors.startswith("kubectl-kernel_delay: the pod is ")
    assert len(errors.splitlines()) == cluster.deletions() == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_deletes_the_job(cluster: Cluster, number: signal.Signals, status: int) -> None:
    with cluster.start(*IMAGE, "--node", "worker-1", LASTS_S="600") as process:
        wait_until(lambda: any(call.startswith("logs") for call in cluster.calls()), "the log")
        process.send_signal(number)
        process.communicate()
    assert (process.returncode, cluster.deletions()) == (status, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--node", "worker-1"),
        IMAGE,
        (*IMAGE, "--node"),
        (*IMAGE, "--node", "worker-1", "--pod", "shop/db-0"),
        (*IMAGE, "--node", "worker-1", "--summary"),
        (*IMAGE, "--node", "worker-1", "--", "two\nlines"),
    ],
)
def test_wrong_usage_is_one_line(cluster: Cluster, arguments: tuple[str, ...]) -> None:
    status, output, errors = cluster.run(*arguments)
    assert (status, output, len(errors.splitlines())) == (64, "", 1)
    assert cluster.calls() == []


def test_archive_for_krew_has_what_it_takes(project: Path, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    url = "https://example.org/kernel-delay"
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    krew = project / "setup" / "release" / "krew.sh"
    subprocess.run([krew, dist, url, "1.2.3"], env=environment, check=True)
    archive = dist / "kubectl-kernel_delay-1.2.3.tgz"
    manifest = (dist / "kernel-delay.krew.yaml").read_text()
    assert f"sha256: {hashlib.sha256(archive.read_bytes()).hexdigest()}\n" in manifest
    assert f"uri: {url}/releases/download/v1.2.3/{archive.name}\n" in manifest
    store = tmp_path / "store"
    store.mkdir()
    subprocess.run(["tar", "--extract", "--file", archive], cwd=store, check=True)
    assert {path.name for path in store.iterdir()} == {
        "LICENSE",
        "job.yaml",
        "kubectl-kernel_delay",
    }
    # As krew installs it: by a symbolic link.
    plugin = tmp_path / "kubectl-kernel_delay"
    plugin.symlink_to(store / "kubectl-kernel_delay")
    cluster = Cluster(tmp_path, plugin)
    assert cluster.run(*IMAGE, "--node", "worker-1")[0] == 0
    assert cluster.manifest()["nodeName"] == "worker-1"


def test_help_says_what_it_does(cluster: Cluster) -> None:
    status, output, _ = cluster.run("--help")
    assert status == 0
    assert output.startswith("usage: kubectl kernel-delay")
