"""Processes by name: real ones in real cgroups, with the files that runtimes write."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from kernel_delay.errors import NoInputError, UsageError
from kernel_delay.host import selection as selection_module
from kernel_delay.host.container_names import with_names
from kernel_delay.host.containers import container_of
from kernel_delay.host.selection import Selection, find_all, find_one
from kernel_delay.model import Container
from tests.cgroups import writable_hierarchy
from tests.workload import wait_until

ID = "0123456789abcdef" * 4
OTHER_ID = "f" * 64
UID = "12345678-9abc-def0-1234-56789abcdef0"

Start = Callable[[str], int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """What starts a process of that name that sleeps, and returns its PID."""
    processes = []

    def start_one(name: str) -> int:
        program = tmp_path / name
        if not program.exists():
            shutil.copy("/bin/sleep", program)
        process = subprocess.Popen([program, "600"])
        processes.append(process)
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == name[:15], f"{name} to run")
        return process.pid

    yield start_one
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def cgroup() -> Iterator[Callable[[str], Path]]:
    """What makes a cgroup of that path below a hierarchy that can be written."""
    root = writable_hierarchy()
    made: list[Path] = []

    def make(path: str) -> Path:
        folder = root
        for part in path.strip("/").split("/"):
            folder /= part
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        return folder

    yield make
    for folder in reversed(made):
        for pid in (folder / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(pid)
        folder.rmdir()


def annotate(path: Path, annotations: dict[str, str]) -> None:
    """Write the configuration of a bundle."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(
        json.dumps({"ociVersion": "1.0.2", "annotations": annotations})
    )


def containerd_files(root: Path) -> None:
    """What containerd's CRI plugin leaves."""
    annotate(
        root / f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}",
        {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "web",
            "io.kubernetes.cri.sandbox-name": "shop-0",
            "io.kubernetes.cri.sandbox-namespace": "prod",
        },
    )


def crio_files(root: Path) -> None:
    """What CRI-O leaves."""
    annotate(
        root / f"run/containers/storage/overlay-containers/{ID}/userdata",
        {
            "io.kubernetes.container.name": "web",
            "io.kubernetes.pod.name": "shop-0",
            "io.kubernetes.pod.namespace": "prod",
        },
    )


def docker_files(root: Path) -> None:
    """What docker leaves of a container that the kubelet had it make."""
    folder = root / f"var/lib/docker/containers/{ID}"
    folder.mkdir(parents=True)
    labels = {
        "io.kubernetes.container.name": "web",
        "io.kubernetes.pod.name": "shop-0",
        "io.kubernetes.pod.namespace": "prod",
    }
    (folder / "config.v2.json").write_text(
        json.dumps({"ID": ID, "Name": "/k8s_web_shop-0", "Config": {"Labels": labels}})
    )


def kubelet_files(root: Path) -> None:
    """What the kubelet leaves, whatever the runtime."""
    logs = root / "var/log/containers"
    logs.mkdir(parents=True)
    (logs / f"shop-0_prod_web-{ID}.log").symlink_to("/var/log/pods/elsewhere")
    (root / f"var/log/pods/prod_shop-0_{UID}/web").mkdir(parents=True)


@pytest.mark.parametrize("files", [containerd_files, crio_files, docker_files, kubelet_files])
def test_container_of_a_pod_has_its_names(files: Callable[[Path], None], tmp_path: Path) -> None:
    files(tmp_path)
    found = with_names(Container(None, ID, UID), (tmp_path,))
    assert (found.name, found.pod_name, found.pod_namespace) == ("web", "shop-0", "prod")


def test_sandbox_has_its_pod_and_no_name(tmp_path: Path) -> None:
    kubelet_files(tmp_path)
    found = with_names(Container(None, OTHER_ID, UID), (tmp_path,))
    assert (found.name, found.pod_name, found.pod_namespace) == (None, "shop-0", "prod")


def test_podmans_container_has_the_name_of_its_list(tmp_path: Path) -> None:
    folder = tmp_path / "var/lib/containers/storage/overlay-containers"
    folder.mkdir(parents=True)
    stored = [{"id": OTHER_ID, "names": ["db"]}, {"id": ID, "names": ["web"]}]
    (folder / "containers.json").write_text(json.dumps(stored))
    assert with_names(Container("libpod", ID, None), (tmp_path,)).name == "web"


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", '{"annotations": 7}', "\xff"])
def test_what_is_no_configuration_names_nothing(content: str, tmp_path: Path) -> None:
    folder = tmp_path / f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(content.encode("latin-1"))
    container = Container("containerd", ID, UID)
    assert with_names(container, (tmp_path,)) == container


def test_comm_means_all_of_that_name_and_no_other(start: Start) -> None:
    pids = sorted([start("kd-selected"), start("kd-selected")])
    start("kd-selected2")
    assert [target.pid for target in find_all(Selection(comm="kd-selected"))] == pids


def test_what_takes_one_lists_those_that_are_meant(start: Start) -> None:
    first, second = sorted([start("kd-selected"), start("kd-selected")])
    with pytest.raises(UsageError) as error:
        find_one(Selection(comm="kd-selected"))
    assert str(error.value) == (
        "--comm kd-selected selects 2 processes:"
        f" {first} (kd-selected), {second} (kd-selected); this command measures one:"
        " say which with --pid"
    )


def test_what_takes_one_takes_no_second_pid(start: Start) -> None:
    first, second = sorted([start("kd-selected"), start("kd-selected")])
    with pytest.raises(UsageError, match=f"--pid {second} --pid {first} selects 2 processes"):
        find_one(Selection((second, first)))
    assert find_one(Selection((first, first))).pid == first


def test_name_is_cut_as_the_kernel_cuts_it(start: Start) -> None:
    pid = start("kd-a-name-of-more-than-15")
    assert find_one(Selection(comm="kd-a-name-of-more-than-15")).pid == pid


def test_no_process_of_a_name_is_said(start: Start) -> None:
    with pytest.raises(NoInputError, match="no process matches --comm kd-not-there"):
        find_all(Selection(comm="kd-not-there"))


def test_cgroup_means_what_is_in_it_or_below(start: Start, cgroup: Callable[[str], Path]) -> None:
    inside, below, beside = start("kd-inside"), start("kd-below"), start("kd-beside")
    for pid, path in ((inside, "kd-a"), (below, "kd-a/kd-b"), (beside, "kd-ab")):
        (cgroup(path) / "cgroup.procs").write_text(str(pid))
    wanted = sorted([inside, below])
    for path in ("/kd-a", "kd-a/", os.fspath(cgroup("kd-a"))):
        assert [target.pid for target in find_all(Selection(cgroup=path))] == wanted


@pytest.mark.parametrize("path", ["/", "..", "../..", "kd-a/..", "a/../.."])
def test_all_processes_are_no_cgroup(path: str) -> None:
    with pytest.raises(UsageError, match="every process is in the root"):
        find_all(Selection(cgroup=path))


def test_unit_selects_its_processes_by_its_systemctl_name(
    start: Start, cgroup: Callable[[str], Path]
) -> None:
    service, of_other = start("kd-service"), start("kd-other")
    (cgroup("kd.slice/kd-a.service") / "cgroup.procs").write_text(str(service))
    (cgroup("kd.slice/kd-a@1.service") / "cgroup.procs").write_text(str(of_other))
    for unit in ("kd-a", "kd-a.service"):
        assert [target.pid for target in find_all(Selection(unit=unit))] == [service]
    both = sorted([service, of_other])
    assert [target.pid for target in find_all(Selection(unit="kd.slice"))] == both
    with pytest.raises(NoInputError, match=r"no process matches --unit kd$"):
        find_all(Selection(unit="kd"))


USER = "user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("path", "units"),
    [
        (f"/{USER}/cron.service", ["user.slice", "user-1000.slice", "user@1000.service"]),
        (f"/{USER}/user@1001.service", ["user.slice", "user-1000.slice", "user@1000.service"]),
        (f"/{USER}/app.slice/cron.service", ["user.slice", "user-1000.slice", "user@1000.service"]),
        ("/../../system.slice/cron.service", ["system.slice", "cron.service"]),
        ("/system.slice/cron.service/a.service", ["system.slice", "cron.service"]),
        ("/init.scope", ["init.scope"]),
        ("/", []),
    ],
)
def test_units_of_a_delegated_tree_are_no_units(path: str, units: list[str]) -> None:
    assert selection_module._units_of(path) == units


def test_executable_is_one_of_several_of_a_name(start: Start) -> None:
    pid = start("kd-program")
    exe = os.readlink(f"/proc/{pid}/exe")
    for path in (exe, f"{exe} (deleted)"):
        found = find_all(Selection(comm="kd-program", exe=path))
        assert [target.pid for target in found] == [pid]
    with pytest.raises(NoInputError, match=r"no process matches --comm kd-program \(/bin/none\)$"):
        find_all(Selection(comm="kd-program", exe="/bin/none"))


def test_service_of_a_process_is_that_of_its_cgroup(
    start: Start, cgroup: Callable[[str], Path]
) -> None:
    pid = start("kd-service")
    (cgroup("kd.slice/kd-b.service/below") / "cgroup.procs").write_text(str(pid))
    assert selection_module.service_of(pid) == "kd-b.service"
    (cgroup("kd.slice/kd-b.scope") / "cgroup.procs").write_text(str(pid))
    assert selection_module.service_of(pid) is None
    assert selection_module.service_of(2**22 + 1) is None


def test_unit_is_no_cgroup_that_a_user_named(start: Start, cgroup: Callable[[str], Path]) -> None:
    service, forged = start("kd-service"), start("kd-forged")
    (cgroup("kd.slice/kd-a.service") / "cgroup.procs").write_text(str(service))
    (cgroup("kd.slice/user@1000.service/kd-a.service") / "cgroup.procs").write_text(str(forged))
    assert [target.pid for target in find_all(Selection(unit="kd-a"))] == [service]
    assert [target.pid for target in find_all(Selection(unit="user@1000"))] == [forged]


@pytest.mark.parametrize(
    "name",
    [
        f"app.slice/docker-{ID}.scope",
        f"app.slice/crio-{ID}.scope",
        f"cri-containerd-{ID}.scope",
        f"docker/{ID}",
        f"kubepods/pod{UID}/{ID}",
        f"kubepods/pod{UID}/docker-{ID}.scope",
        "lxc.payload.web",
    ],
)
def test_containers_of_the_system_are_not_below_a_user(name: str) -> None:
    path = f"/{USER}/{name}"
    assert container_of(f"0::{path}\n") == (path, None)


def test_rootless_podmans_containers_are_known() -> None:
    path = f"/{USER}/user.slice/libpod-{ID}.scope/container"
    assert container_of(f"0::{path}\n") == (path, Container("libpod", ID, None))
    path = f"/{USER}/kubepods/pod{UID}/libpod-{ID}.scope"
    assert container_of(f"0::{path}\n") == (path, Container("libpod", ID, None))


def test_container_of_a_user_takes_no_place_of_anothers(
    start: Start, cgroup: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        selection_module, "with_names", lambda container: structs.replace(container, name="web")
    )
    system, forged, rootless = start("kd-system"), start("kd-forged"), start("kd-rootless")
    for pid, path in (
        (system, f"kd.slice/libpod-{ID}.scope"),
        (forged, f"kd.slice/user@1000.service/libpod-{ID[:12]}{OTHER_ID[12:]}.scope"),
        (rootless, f"kd.slice/user@1000.service/libpod-{OTHER_ID}.scope"),
    ):
        (cgroup(path) / "cgroup.procs").write_text(str(pid))
    for name in ("web", ID, ID[:12]):
        assert [target.pid for target in find_all(Selection(container=name))] == [system]
    assert [target.pid for target in find_all(Selection(container=OTHER_ID))] == [rootless]


def test_root_of_all_cgroups_means_no_choice() -> None:
    with pytest.raises(UsageError, match="every process is in the root"):
        find_all(Selection(cgroup="/"))


@pytest.fixture
def pod(
    start: Start,
    cgroup: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[int, int]:
    """A pod of a container and its sandbox, with containerd's and the kubelet's files."""
    container, sandbox = start("kd-container"), start("kd-pause")
    for pid, id_ in ((container, ID), (sandbox, OTHER_ID)):
        folder = cgroup(f"kubepods/burstable/pod{UID}/{id_}")
        (folder / "cgroup.procs").write_text(str(pid))
    root = tmp_path / "root"
    containerd_files(root)
    kubelet_files(root)
    monkeypatch.setattr(selection_module, "with_names", partial(with_names, roots=(root,)))
    return container, sandbox


def test_pod_means_all_of_its_processes(pod: tuple[int, int]) -> None:
    assert [target.pid for target in find_all(Selection(pod="prod/shop-0"))] == sorted(pod)
    assert find_one(Selection(pod="prod/shop-0", container="web")).pid == pod[0]
    assert find_one(Selection(pod="prod/shop-0", comm="kd-pause")).pid == pod[1]


def test_container_is_meant_by_its_name_or_its_id(pod: tuple[int, int]) -> None:
    for name in ("web", ID, ID[:12]):
        assert find_one(Selection(container=name)).pid == pod[0]
    for name in ("we", ID[:11]):
        with pytest.raises(NoInputError, match=f"no process matches --container {name}"):
            find_one(Selection(container=name))


def test_other_pod_is_not_there(pod: tuple[int, int]) -> None:
    with pytest.raises(NoInputError, match=r"matches --pod test/shop-0$"):
        find_all(Selection(pod="test/shop-0"))
