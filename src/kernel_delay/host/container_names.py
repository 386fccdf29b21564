"""What a container and its pod are called: by the files that runtimes and the kubelet keep.

    containerd   /run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json
    CRI-O        /run/containers/storage/overlay-containers/ID/userdata/config.json
    podman       /var/lib/containers/storage/overlay-containers/containers.json
    docker       /var/lib/docker/containers/ID/config.v2.json
    kubelet      /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log,
                 /var/log/pods/NAMESPACE_POD_UID/

No server is asked. They are looked for in this process's root, and in that of process 1 where
the tool is in a container itself.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from kernel_delay.model import Container

ROOTS = (Path("/"), Path("/proc/1/root"))

NODE_VARIABLE = "NODE_NAME"

MOST_BYTES = 16 << 20

_TASKS = ("run/containerd", "run/k3s/containerd")
_TASK = "io.containerd.runtime.v2.task"
_STORAGE = ("run/containers/storage", "var/lib/containers/storage")
_STORED = ("containers.json", "volatile-containers.json")

# Of a container's config.json: what containerd's CRI plugin writes, and what CRI-O and dockershim.
_CONTAINER_KEYS = ("io.kubernetes.cri.container-name", "io.kubernetes.container.name")
_POD_KEYS = ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name")
_NAMESPACE_KEYS = ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace")

# What the CRI calls the container that has nothing but the pod's namespaces.
_SANDBOX = "POD"


class _Names(Struct, frozen=True):
    """What is found in one place; None for what it does not say."""

    container: str | None = None
    pod: str | None = None
    namespace: str | None = None


def with_names(container: Container, roots: tuple[Path, ...] = ROOTS) -> Container:
    """Return the container with its name, and its pod's and that one's namespace, if found."""
    for root in roots:
        for names in _found(root, container):
            container = structs.replace(
                container,
                name=container.name or names.container,
                pod_name=container.pod_name or names.pod,
                pod_namespace=container.pod_namespace or names.namespace,
            )
            if container.name and (container.pod_name or not container.pod):
                return container
    return container


def node_name() -> str | None:
    """Return what Kubernetes calls this machine: what the pod's manifest puts into NODE_NAME."""
    return os.environ.get(NODE_VARIABLE) or None


def _found(root: Path, container: Container) -> Iterator[_Names]:
    if container.runtime == "lxc":
        yield _Names(container=container.id)
        return
    if container.id is not None:
        yield from _of_bundles(root, container.id)
        yield from _of_docker(root, container.id)
        yield from _of_storage(root, container.id)
        yield from _of_logs(root, container.id)
    if container.pod is not None:
        yield from _of_pods(root, container.pod)


def _of_bundles(root: Path, id_: str) -> Iterator[_Names]:
    """By the annotations in the OCI configurations that the runtimes make."""
    files = [
        *(file for folder in _TASKS for file in _glob(root / folder / _TASK, f"*/{id_}")),
        *(root / folder / "overlay-containers" / id_ / "userdata" for folder in _STORAGE),
    ]
    for folder in files:
        config = _json(folder / "config.json")
        if isinstance(config, dict):
            yield _annotated(config.get("annotations"))


def _of_docker(root: Path, id_: str) -> Iterator[_Names]:
    config = _json(root / "var/lib/docker/containers" / id_ / "config.v2.json")
    if not isinstance(config, dict):
        return
    inner = config.get("Config")
    yield _annotated(inner.get("Labels") if isinstance(inner, dict) else None)
    name = config.get("Name")
    if isinstance(name, str):
        yield _Names(container=name.removeprefix("/") or None)


def _of_storage(root: Path, id_: str) -> Iterator[_Names]:
    """By the list of containers that podman and CRI-O keep."""
    for folder in _STORAGE:
        for file in _STORED:
            stored = _json(root / folder / "overlay-containers" / file)
            for each in stored if isinstance(stored, list) else ():
                if isinstance(each, dict) and each.get("id") == id_:
                    names = each.get("names")
                    first = names[0] if isinstance(names, list) and names else None
                    yield _Names(container=first if isinstance(first, str) else None)


def _of_logs(root: Path, id_: str) -> Iterator[_Names]:
    for link in _glob(root / "var/log/containers", f"*-{id_}.log"):
        parts = link.name.removesuffix(f"-{id_}.log").split("_")
        # None of the three can have an underscore: they are names of DNS (RFC 1123).
        if len(parts) == 3:
            pod, namespace, name = parts
            yield _Names(name, pod, namespace)


def _of_pods(root: Path, uid: str) -> Iterator[_Names]:
    for folder in _glob(root / "var/log/pods", f"*_*_{uid}"):
        namespace, pod, _ = folder.name.split("_", 2)
        yield _Names(None, pod, namespace)


def _annotated(annotations: Any) -> _Names:
    if not isinstance(annotations, dict):
        return _Names()
    name = _first(annotations, _CONTAINER_KEYS)
    return _Names(
        None if name == _SANDBOX else name,
        _first(annotations, _POD_KEYS),
        _first(annotations, _NAMESPACE_KEYS),
    )


def _first(annotations: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    values = (annotations.get(key) for key in keys)
    return next((value for value in values if isinstance(value, str) and value), None)


def _json(path: Path) -> Any:
    """What is in the file; None where there is none, or no JSON."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES))
    except (OSError, msgspec.DecodeError):
        return None


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
