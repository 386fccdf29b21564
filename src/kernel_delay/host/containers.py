"""Which container a process is in: by the path of its cgroup, as the runtimes form it.

    docker       /docker/ID, /system.slice/docker-ID.scope
    podman       /machine.slice/libpod-ID.scope, …/libpod-ID.scope/container
    CRI-O        /kubepods.slice/kubepods-burstable-podUID.slice/crio-ID.scope
    containerd   …/cri-containerd-ID.scope, /kubepods/burstable/podUID/ID
    LXC          /lxc.payload.NAME, /lxc/NAME

A path says nothing where the process's cgroup namespace is the tool's own. A user names the cgroups
below their user@UID.service: rootless podman's are containers, and nothing else there is one.
"""

import re
from pathlib import Path

from kernel_delay.host.container_names import with_names
from kernel_delay.host.proc_text import lines_of, read_text
from kernel_delay.model import Container

PROC = Path("/proc")

# An ID has 64 hex digits; Kubernetes' UIDs are UUIDs, in which systemd's driver has _ for -.
_ID = r"[0-9a-f]{64}"
_SCOPE = re.compile(rf"(?P<word>docker|libpod|crio|cri-containerd)-(?P<id>{_ID})(?:\.scope)?")
_DOCKER = re.compile(rf"docker/(?P<id>{_ID})")
_LXC = re.compile(r"(?:^|/)lxc(?:\.payload\.|/)(?P<id>[^/]+)")
_POD = re.compile(
    r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)"
)
_BARE = re.compile(rf"/(?P<id>{_ID})(?:/|$)")

# systemd gives the cgroups below to the user: https://systemd.io/CGROUP_DELEGATION/
_USERS_TREE = re.compile(r"(?:^|/)user@\d+\.service/")
_ROOTLESS = "libpod"

_ROOT = "/"
# The hierarchies that systemd and the runtimes put a process in; v2 is named "".
_TELLING = ("", "name=systemd", "memory", "pids", "cpu")


def cgroup_of(pid: int) -> tuple[str | None, Container | None]:
    """Return the path of the cgroup of process `pid`, and its container; None where not known.

    Of several hierarchies it is the first one whose path names a container, or else that is not
    the root.
    """
    try:
        text = read_text(PROC / str(pid) / "cgroup")
    except OSError:
        return None, None
    return container_of(text)


def named_cgroup_of(pid: int) -> tuple[str | None, Container | None]:
    """Return the same, the container with its names."""
    path, container = cgroup_of(pid)
    if container is None or is_in_users_tree(path):
        return path, container
    return path, with_names(container)


def is_in_users_tree(path: str | None) -> bool:
    """Whether a user named that cgroup: its name, and an ID in it, may be those of another."""
    return path is not None and _USERS_TREE.search(path) is not None


def container_of(memberships: str) -> tuple[str | None, Container | None]:
    """The same, of the text of a /proc/PID/cgroup; see cgroups(7)."""
    paths = _paths(memberships)
    for path in paths:
        container = _container(path)
        if container is not None:
            return path, container
    return (paths[0] if paths else None), None


def _paths(memberships: str) -> list[str]:
    found: dict[str, str] = {}
    for line in lines_of(memberships):
        controllers, _, path = line.partition(":")[2].partition(":")
        for controller in controllers.split(","):
            found[controller] = path
    ordered = [found.pop(name) for name in _TELLING if name in found]
    return [path for path in (*ordered, *found.values()) if path not in ("", _ROOT)]


def _container(path: str) -> Container | None:
    if users := _USERS_TREE.search(path):
        scope = _SCOPE.search(path, users.end())
        if scope and scope["word"] == _ROOTLESS:
            return Container(_ROOTLESS, scope["id"], None)
        return None
    pod = _POD.search(path)
    uid = pod["uid"].replace("_", "-") if pod else None
    if scope := _SCOPE.search(path):
        return Container(scope["word"].removeprefix("cri-"), scope["id"], uid)
    if docker := _DOCKER.search(path):
        return Container("docker", docker["id"], uid)
    if pod:
        bare = _BARE.search(path, pod.end() - 1)
        return Container(None, bare["id"] if bare else None, uid)
    if lxc := _LXC.search(path):
        return Container("lxc", lxc["id"], None)
    return None
