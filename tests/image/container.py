"""`make test-image`: what is in the container image, and what it measures from a container."""

import errno
import json
import os
import resource
import stat
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.debian import bare_root
from tests.faults import tried
from tests.image.seccomp_profile import PROFILE, made, profile

LARGEST = 150_000_000
PATIENCE_S = 60.0

# Shells, compilers, and what installs others.
NOT_THERE = {
    "sh",
    "bash",
    "dash",
    "busybox",
    "perl",
    "cc",
    "gcc",
    "clang",
    "ld",
    "as",
    "apt",
    "dpkg",
}

# The name is not Open vSwitch's: whoever looks for the one ovs-vswitchd does not find it.
START_OVS = """
set -eu
cd /tmp
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote=punix:/tmp/db.sock --no-chdir --pidfile=/tmp/db.pid \
    --unixctl=/tmp/db.ctl --detach conf.db
ovs-vsctl --db=unix:/tmp/db.sock --no-wait init
while sleep 0.05; do ovs-appctl -t /tmp/v.ctl version || :; done >/dev/null 2>&1 &
ln -s "$(readlink -f /usr/sbin/ovs-vswitchd)" ovs-inside
exec ./ovs-inside --pidfile=/tmp/v.pid --unixctl=/tmp/v.ctl unix:/tmp/db.sock
"""


class Image(NamedTuple):
    """The image as a file, its bill of materials, and what it was made of."""

    archive: Path
    materials: Path
    wheel: Path


class Target(NamedTuple):
    """A process to be measured, and the container that it is in."""

    pid: int
    container: str | None


def limits() -> str:
    """Options for limits that are below this user's: to raise them, as podman would, is a right."""
    kinds = (("nofile", resource.RLIMIT_NOFILE, 20_000), ("nproc", resource.RLIMIT_NPROC, 1000))
    options = []
    for name, kind, enough in kinds:
        limit = resource.getrlimit(kind)[1]
        few = enough if limit == resource.RLIM_INFINITY else min(limit, enough)
        options.append(f"--ulimit {name}={few}:{few}")
    return " ".join(options)


@pytest.fixture(scope="module")
def image() -> Image:
    """What `make image` has made."""
    if "KERNEL_DELAY_DIST" not in os.environ:
        pytest.fail("where is the image? `make test-image` makes it", pytrace=False)
    folder = Path(os.environ["KERNEL_DELAY_DIST"])
    archive = max(folder.glob("kernel-delay-*.oci.tar"), key=lambda file: file.stat().st_mtime)
    wheel = max(folder.glob("*.whl"), key=lambda file: file.stat().st_mtime)
    return Image(archive, Path(str(archive).replace(".oci.tar", ".cdx.json")), wheel)


@pytest.fixture(scope="module")
def members(image: Image) -> list[tarfile.TarInfo]:
    """All that its layers have."""
    found = []
    with tarfile.open(image.archive) as archive:
        for layer in manifest(archive)["layers"]:
            blob = archive.extractfile("blobs/" + layer["digest"].replace(":", "/"))
            with tarfile.open(fileobj=blob) as files:
                found += files.getmembers()
    return found


def digest(file: Path) -> str:
    """The digest of the manifest of the image in a file."""
    with tarfile.open(file) as archive:
        return str(json.loads(content(archive, "index.json"))["manifests"][0]["digest"])


def manifest(archive: tarfile.TarFile) -> Any:
    """The image's manifest; see the OCI image format's specification."""
    index = json.loads(content(archive, "index.json"))
    return json.loads(
        content(archive, "blobs/" + index["manifests"][0]["digest"].replace(":", "/"))
    )


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_it_is_small_and_has_labels(image: Image, members: list[tarfile.TarInfo]) -> None:
    assert sum(member.size for member in members) < LARGEST
    with tarfile.open(image.archive) as archive:
        blob = manifest(archive)["config"]["digest"].replace(":", "/")
        config = json.loads(content(archive, f"blobs/{blob}"))
    labels = config["config"]["Labels"]
    assert {"title", "version", "licenses", "revision"} <= {
        label.removeprefix("org.opencontainers.image.") for label in labels
    }


def test_the_same_wheel_makes_the_same_digest(
    project: Path, image: Image, root_user: None, tmp_path: Path
) -> None:
    command = [project / "setup" / "image.sh", image.wheel, tmp_path]
    subprocess.run(command, check=True)
    first, second = (
        digest(folder / image.archive.name) for folder in (image.archive.parent, tmp_path)
    )
    assert first == second


def test_nothing_in_it_builds_or_can_be_written_to(members: list[tarfile.TarInfo]) -> None:
    assert {Path(member.name).name for member in members} & NOT_THERE == set()
    for member in members:
        assert (member.uid, member.gid) == (0, 0), member.name
        if not member.issym():
            assert not member.mode & 0o222, member.name
            assert not member.mode & (stat.S_ISUID | stat.S_ISGID), member.name
    assert len({member.mtime for member in members}) == 1


def test_the_bill_of_materials_is_valid_and_whole(
    image: Image, members: list[tarfile.TarInfo]
) -> None:
    text = image.materials.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    reported = {component["purl"].partition("@")[0] for component in json.loads(text)["components"]}
    names = [member.name for member in members]
    debian = {name.split("/")[3] for name in names if name.endswith("/copyright")}
    assert {f"pkg:deb/debian/{name}" for name in debian} <= reported
    python = {
        Path(name).parent.name.split("-")[0].lower().replace("_", "-")
        for name in names
        if name.endswith(".dist-info/METADATA")
    }
    assert {f"pkg:pypi/{name}" for name in python} <= reported
    bundled = [name for name in names if "/kernel_delay.libs/libbpf-" in name]
    assert bundled
    assert "pkg:deb/debian/libbpf1" in reported


@pytest.fixture(scope="module")
def container(root_user: None) -> Iterator[Target]:
    """An Open vSwitch of Debian 12 that runs in a container of its own."""
    root = bare_root("bookworm", "openvswitch-switch")
    start = ["podman", "run", "--detach", *limits().split(), "--network", "none"]
    start += ["--cap-add", "NET_ADMIN", "--tmpfs", "/tmp:exec", "--rootfs", f"{root}:O"]
    identity = subprocess.run(
        [*start, "sh", "-c", START_OVS], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    try:
        yield Target(started(identity), identity)
    finally:
        subprocess.run(["podman", "rm", "--force", "--time", "0", identity], check=True)


def started(identity: str) -> int:
    """The PID of its first process once that is Open vSwitch."""
    inspect = ["podman", "inspect", "--format", "{{.State.Pid}}", identity]
    pid = int(subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout)
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}/comm").read_text() != "ovs-inside\n":
        assert time.monotonic() < deadline, "Open vSwitch does not start"
        time.sleep(0.1)
    return pid


@pytest.fixture(scope="module")
def host(ovs_binaries: Binaries, root_user: None) -> Iterator[Target]:
    """An Open vSwitch that runs on the machine, and is asked for something now and then."""
    done = threading.Event()
    with Instance(ovs_binaries) as instance:

        def ask() -> None:
            while not done.wait(0.05):
                instance.appctl("version")

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            yield Target(instance.pid, None)
        finally:
            done.set()
            asking.join()


@pytest.fixture(scope="module")
def ovs_binaries() -> Binaries:
    return Binaries.under(Path(os.environ["KERNEL_DELAY_OVS"]))


@pytest.fixture(params=["host", "container"])
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue(request.param)
    return found


def contained(wrapper: Path, *arguments: object, image: Path | None = None) -> commands.Done:
    """Run kernel-delay from its image."""
    environment = {**os.environ, "KERNEL_DELAY_RUN": limits()}
    if image:
        environment["KERNEL_DELAY_IMAGE"] = str(image)
    done = subprocess.run(
        [wrapper, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    return commands.Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def wrapper(project: Path) -> Path:
    return project / "setup" / "kernel-delay-container"


def stacks_of(sample: dict[str, Any]) -> set[tuple[str, ...]]:
    """The stacks in the main thread's polls, as names, or addresses in files."""
    return {
        tuple(
            f"{frame['name'] or frame['offset']} {frame['object']}"
            for frame in sample["stacks"][stack]
        )
        for event in sample["syscall_events"]
        if event["name"] == "poll" and event["tid"] == sample["target"]["pid"]
        for stack in (event["kernel_stack"], event["user_stack"])
        if stack is not None
    }


def test_it_measures_what_it_measures_outside(wrapper: Path, image: Image, target: Target) -> None:
    """The account is whole, and stacks have the frames and names that they have outside."""
    options = ("--pid", target.pid, "-s", "0", "--sample-time", "3", "--json", "-")
    inside = contained(wrapper, *options, image=image.archive)
    assert inside.returncode == 0, inside.stderr
    outside = commands.run(*options)
    samples = [json.loads(done.stdout) for done in (inside, outside)]
    for sample in samples:
        for thread in sample["threads"]:
            assert sum(thread["time"].values()) == sample["window"]["duration_ns"]
    of_inside, of_outside = map(stacks_of, samples)
    assert of_inside & of_outside
    assert any("do_syscall_64 kernel" in stack for stack in of_inside)
    assert any(any("__libc_start_main" in frame for frame in stack) for stack in of_inside)
    assert samples[0]["host"] == samples[1]["host"]
    cgroups = [sample["system_state"]["cgroup"] for sample in samples]
    assert cgroups[0] == cgroups[1]
    if target.container:
        report = contained(wrapper, "--pid", target.pid, "--summary", "--sample-time", "0.1")
        assert f"# Container {target.container[:12]} of libpod" in report.stdout


@pytest.mark.parametrize(
    ("left_out", "replaced", "line"),
    [
        ("--cap-add SYS_ADMIN", "", "CAP_SYS_ADMIN no missing"),
        ("--cap-add SYS_PTRACE", "", "CAP_SYS_PTRACE no missing"),
        ("--cap-add DAC_READ_SEARCH", "", "CAP_DAC_READ_SEARCH no missing"),
        ("--cap-add SYSLOG", "", "CAP_SYSLOG no missing"),
        (
            "--cgroupns host",
            "--cgroupns private",
            "cgroups no this cgroup namespace is not the machine's",
        ),
        ("--pid host", "", "PID namespace yes an inner one; PIDs are translated"),
        (
            "--volume /sys/fs/cgroup:/sys/fs/cgroup:ro",
            "",
            "cgroups no none of the machine's is mounted",
        ),
    ],
)
def test_check_names_what_is_left_out(
    wrapper: Path,
    image: Image,
    root_user: None,
    tmp_path: Path,
    left_out: str,
    replaced: str,
    line: str,
) -> None:
    text = wrapper.read_text()
    assert left_out in text
    without = tmp_path / "without"
    without.write_text(text.replace(left_out, replaced, 1))
    without.chmod(0o755)
    whole, lacking = (
        {" ".join(line.split()) for line in contained(each, "check").stdout.splitlines()}
        for each in (wrapper, without)
    )
    assert line not in whole
    assert line in lacking


def allowed_calls() -> set[str]:
    """What the shipped profile allows."""
    return {
        name
        for rule in json.loads(PROFILE.read_text())["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW"
        for name in rule["names"]
    }


@pytest.mark.parametrize("name", ["capture -s", "watch --chains", "top", "export", "mcp"])
def test_seccomp_profile_allows_what_a_command_calls(
    root_user: None, tmp_path: Path, name: str
) -> None:
    with tried.commands(tmp_path, name) as found:
        (command,) = (each for each in found if each.name == name)
        assert made(command) <= allowed_calls()


def test_seccomp_profile_is_what_is_generated() -> None:
    assert json.loads(PROFILE.read_text()) == profile(allowed_calls())


DENIED = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno(), libc.getppid())
"""


@pytest.mark.parametrize(("filter_", "code"), [("", errno.ENOSYS), ("unconfined", 0)])
def test_seccomp_profile_denies_other_calls(
    wrapper: Path, root_user: None, monkeypatch: pytest.MonkeyPatch, filter_: str, code: int
) -> None:
    monkeypatch.setenv("KERNEL_DELAY_SECCOMP", filter_)
    monkeypatch.setenv("KERNEL_DELAY_RUN", f"{limits()} --entrypoint python3")
    done = subprocess.run([wrapper, "-c", DENIED], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == (["-1", str(code)] if code else ["0", "0"])
