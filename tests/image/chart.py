"""`make test-image`: the Helm chart makes what Kustomize makes of deploy/kubernetes."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml  # type: ignore[import-not-found,import-untyped,unused-ignore]

from kernel_delay import commands
from kernel_delay.cli import parser_of
from tests.image.manifests import OTHERS, VERSIONS, Manifest, check

# Of the package helm-binary.
HELM = Path(sysconfig.get_path("scripts")) / "helm"


@pytest.fixture(scope="module")
def folder(project: Path) -> Path:
    return project / "deploy" / "kubernetes"


def made(folder: Path, *values: str, namespace: str = "kernel-delay") -> dict[str, Manifest]:
    """What the chart makes with these values, by kind."""
    chart = folder / "helm" / "kernel-delay"
    options = [word for value in values for word in ("--set", value)]
    command = [str(HELM), "template", "kernel-delay", str(chart), "--namespace", namespace]
    command += options
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    by_kind = {manifest["kind"]: manifest for manifest in found}
    assert len(by_kind) == len(found)
    return by_kind


def kustomized(folder: Path, overlay: str) -> dict[str, Manifest]:
    command = ["kubectl", "kustomize", str(folder / overlay)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(text)}


@pytest.mark.parametrize(
    ("overlay", "values"),
    [
        ("base", ()),
        ("prometheus", ("metrics.serviceMonitor=true",)),
        ("openshift", ("metrics.serviceMonitor=true", "openshift=true")),
    ],
)
def test_its_default_is_what_kustomize_makes(
    folder: Path, overlay: str, values: tuple[str, ...]
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not there, and Debian 12's is too old for these files")
    ours, theirs = made(folder, *values), kustomized(folder, overlay)
    # `helm install --create-namespace` makes it, and the chart's policy is for its own pods.
    del theirs["Namespace"]
    theirs["NetworkPolicy"]["spec"]["podSelector"] = {
        "matchLabels": {"app.kubernetes.io/name": "kernel-delay"}
    }
    for manifest in (*ours.values(), *theirs.values()):
        manifest["metadata"].pop("labels", None)
    assert ours == theirs


def arguments(manifest: Manifest) -> list[str]:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    name, rest = (None, found) if found[0].startswith("-") else (found[0], found[1:])
    parser_of(name, commands.load(name or "capture")).parse_args(rest)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "values",
    [
        (),
        ("metrics.enabled=false", "watch.threshold=200ms", "watch.arguments={--chains}"),
        ("watch.enabled=false", "once.enabled=true", "once.node=worker-1"),
        ("openshift=true", "metrics.serviceMonitor=true", "image.pullSecrets[0].name=registry"),
    ],
)
def test_each_is_valid(folder: Path, values: tuple[str, ...], version: str) -> None:
    for kind, manifest in made(folder, *values, namespace="tools").items():
        if kind not in OTHERS:
            check(manifest, version)
            assert manifest["metadata"]["namespace"] == "tools"
        if kind in ("DaemonSet", "Job"):
            arguments(manifest)


def test_without_metrics_it_takes_no_secrets(folder: Path) -> None:
    found = made(folder, "metrics.enabled=false")
    pod = found["DaemonSet"]["spec"]["template"]["spec"]
    assert not any("secret" in volume for volume in pod["volumes"])
    mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert not any(word.startswith("--metrics") for word in arguments(found["DaemonSet"]))
    assert found["NetworkPolicy"]["spec"]["ingress"] == []
    assert "Service" not in found


def test_values_are_what_is_measured(folder: Path) -> None:
    selection = "select={--comm=redis-server}"
    found = made(folder, selection, "watch.threshold=200ms", "watch.maxCpu=2", "image.tag=1.2.3")
    said = arguments(found["DaemonSet"])
    assert {"--comm=redis-server", "--threshold=200ms", "--max-cpu=2"} <= set(said)
    assert "--comm=ovs-vswitchd" not in said
    (container,) = found["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "localhost/kernel-delay:1.2.3"


def test_one_measurement_needs_a_node(folder: Path) -> None:
    job = made(folder, "once.enabled=true", "once.node=worker-1", "once.arguments={where}")["Job"]
    assert job["spec"]["template"]["spec"]["nodeName"] == "worker-1"
    assert arguments(job) == ["where"]
    with pytest.raises(subprocess.CalledProcessError):
        made(folder, "once.enabled=true")


def test_helm_finds_nothing_wrong(folder: Path) -> None:
    subprocess.run([HELM, "lint", "--strict", folder / "helm" / "kernel-delay"], check=True)
