"""`make test-image`: what is in deploy/kubernetes is what Kubernetes and kernel-delay take."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-not-found,import-untyped,unused-ignore]
import pytest
import yaml  # type: ignore[import-not-found,import-untyped,unused-ignore]

from kernel_delay import commands
from kernel_delay.cli import parser_of

# The oldest and the newest that are still asked for, and the package's newest.
VERSIONS = ("1.25", "1.30", "1.34")

# Kinds that others brought, of which Kubernetes publishes no schema.
OTHERS = {"Kustomization", "ServiceMonitor", "SecurityContextConstraints"}

OVERLAYS = ("base", "prometheus", "openshift", "once")

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def folder(project: Path) -> Path:
    return project / "deploy" / "kubernetes"


@pytest.fixture(scope="module")
def manifests(folder: Path) -> dict[str, Manifest]:
    """Each manifest, by its file's name and its kind."""
    return {
        f"{file.relative_to(folder)} {document['kind']}": document
        for file in sorted(folder.rglob("*.yaml"))
        if "helm" not in file.parts  # a chart's files are no manifests: chart.py
        for document in yaml.safe_load_all(file.read_text())
    }


def check(manifest: Manifest, version: str) -> None:
    """Raise ValidationError if it is not what Kubernetes of that version takes, or has more."""
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_is_valid(manifests: dict[str, Manifest], version: str) -> None:
    ours = [manifest for manifest in manifests.values() if manifest["kind"] not in OTHERS]
    assert {"DaemonSet", "Job", "Namespace", "Role", "RoleBinding"} <= {
        manifest["kind"] for manifest in ours
    }
    for manifest in ours:
        check(manifest, version)


def test_what_is_not_valid_is_reported(manifests: dict[str, Manifest]) -> None:
    job = manifests["once/job.yaml Job"]
    with pytest.raises(kubernetes_validate.ValidationError):
        check({**job, "spec": {**job["spec"], "backofLimit": 0}}, VERSIONS[-1])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_of_them_what_is_valid(folder: Path, overlay: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not there, and Debian 12's is too old for these files")
    command = ["kubectl", "kustomize", str(folder / overlay)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = list(yaml.safe_load_all(text))
    assert made
    for manifest in made:
        if manifest["kind"] not in OTHERS:
            check(manifest, VERSIONS[-1])
        if manifest["kind"] in ("Namespace", "SecurityContextConstraints"):
            assert "namespace" not in manifest["metadata"]
        else:
            assert manifest["metadata"]["namespace"] == "kernel-delay"


def pods(manifests: dict[str, Manifest]) -> Iterator[Manifest]:
    for manifest in manifests.values():
        if manifest["kind"] in ("DaemonSet", "Job"):
            yield manifest["spec"]["template"]["spec"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def test_kernel_delay_takes_their_arguments(manifests: dict[str, Manifest]) -> None:
    seen = 0
    for pod in pods(manifests):
        for container in containers(pod):
            if container["args"] == ["ARGUMENTS"]:  # kubectl/job.yaml: those of whoever calls it
                continue
            first, *rest = container["args"]
            name, rest = (None, [first, *rest]) if first.startswith("-") else (first, rest)
            parser_of(name, commands.load(name or "capture")).parse_args(rest)
            seen += 1
    assert seen == 3


def test_their_rights_are_those_of_the_container_command(
    project: Path, manifests: dict[str, Manifest]
) -> None:
    wrapper = (project / "setup" / "kernel-delay-container").read_text()
    rights = set(re.findall(r"--cap-add (\w+)", wrapper))
    assert len(rights) == 4
    for pod in pods(manifests):
        assert pod["hostPID"]
        assert "hostNetwork" not in pod
        assert not pod["automountServiceAccountToken"]
        for container in containers(pod):
            context = container["securityContext"]
            assert set(context["capabilities"]["add"]) == rights
            assert context["capabilities"]["drop"] == ["ALL"]
            assert context["readOnlyRootFilesystem"]
            assert not context["privileged"]
            assert not context["allowPrivilegeEscalation"]
    constraints = manifests["openshift/securitycontextconstraints.yaml SecurityContextConstraints"]
    assert set(constraints["allowedCapabilities"]) == rights
    assert not constraints["allowPrivilegedContainer"]


def test_what_is_mounted_is_there(manifests: dict[str, Manifest]) -> None:
    constraints = manifests["openshift/securitycontextconstraints.yaml SecurityContextConstraints"]
    for pod in pods(manifests):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounted = {
            mount["name"] for container in containers(pod) for mount in container["volumeMounts"]
        }
        assert mounted == volumes.keys()
        kinds = {kind for volume in volumes.values() for kind in volume if kind != "name"}
        assert kinds <= set(constraints["volumes"])


def test_what_it_keeps_to_itself_has_room(manifests: dict[str, Manifest]) -> None:
    """The maps in the kernel, 39 MiB, are the container's memory too."""
    (container,) = manifests["base/daemonset.yaml DaemonSet"]["spec"]["template"]["spec"][
        "containers"
    ]
    (kept,) = re.findall(r"--memory-limit=(\d+)", " ".join(container["args"]))
    limit = container["resources"]["limits"]["memory"]
    assert int(kept) + 39 < int(limit.removesuffix("Mi"))
