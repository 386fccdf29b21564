"""Functions of stripped programs, by debug files that a real debuginfod serves."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from kernel_delay.errors import NoInputError
from kernel_delay.openvswitch.functions import MAIN_LOOP
from kernel_delay.probes.objects import file_object
from kernel_delay.probes.user import UPROBE_PMU
from kernel_delay.symbols import debug_files
from kernel_delay.symbols.debug_files import DEBUGINFOD_FIND, DEBUGINFOD_URLS
from kernel_delay.symbols.functions import Functions
from lab.binaries import Binaries
from tests import commands
from tests.debian import library_path, unpacked
from tests.integration.probes.test_resolve import assert_fires, user_probes
from tests.integration.probes.usdt_workload import Start, Workload
from tests.workload import LASTS_S, wait_until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes are for root only"),
    pytest.mark.skipif(not UPROBE_PMU.exists(), reason="this kernel has no uprobes"),
]

FILES = 2


def serves(port: int) -> bool:
    """Whether it has read all files: debuginfod(8) counts them by its metrics."""
    try:
        with urlopen(f"http://localhost:{port}/metrics") as answer:
            metrics = answer.read().decode()
    except URLError:
        return False
    return f'\nscanned_files_total{{source="file"}} {FILES}\n' in metrics


@pytest.fixture(autouse=True)
def nothing_asked_yet() -> None:
    """As in a new process."""
    debug_files._fetch.cache_clear()


@pytest.fixture(scope="module")
def packages() -> Path:
    return unpacked("debuginfod")


@pytest.fixture(scope="module")
def server(
    packages: Path,
    workload: Workload,
    usdt_binaries: Binaries,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The address of a server that has the debug files of two programs."""
    folder = tmp_path_factory.mktemp("served")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    for file in (workload.executable, usdt_binaries.ovs_vswitchd):
        debug = folder / f"{file.name}.debug"
        subprocess.run(["objcopy", "--only-keep-debug", file, debug], check=True)
    program = packages / "usr/bin/debuginfod"
    environment = {**os.environ, **library_path(packages)}
    with subprocess.Popen(
        [program, "-d", ":memory:", "-p", str(port), "-F", folder],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: serves(port), "debuginfod to have read the files")
            yield f"http://localhost:{port}/"
        finally:
            process.terminate()


@pytest.fixture
def client(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Debian's debuginfod-find in $PATH, and the cache that it keeps."""
    program, cache = tmp_path / "bin" / DEBUGINFOD_FIND, tmp_path / "cache"
    program.parent.mkdir()
    (libraries,) = library_path(packages).values()
    run = f"LD_LIBRARY_PATH={libraries} exec {packages / 'usr/bin/debuginfod-find'}"
    program.write_text(f'#!/bin/sh\n{run} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(cache))
    return cache


def test_functions_are_those_of_the_debug_file(
    server: str,
    client: Path,
    workload: Workload,
    stripped_workload: Workload,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stripped, whole = start(stripped_workload.executable), start(workload.executable)
    # Nobody is asked otherwise.
    monkeypatch.delenv(DEBUGINFOD_URLS, raising=False)
    with pytest.raises(NoInputError, match="is stripped: install"):
        user_probes("up:usdt_work", stripped)
    assert not client.exists()
    monkeypatch.setenv(DEBUGINFOD_URLS, server)
    (found,) = user_probes("up:usdt_work", stripped)
    (expected,) = user_probes("up:usdt_work", whole)
    assert found.file_offset == expected.file_offset
    assert_fires(found, stripped)
    assert [each.name for each in client.rglob("debuginfo")] == ["debuginfo"]


def test_monitors_find_the_functions_of_open_vswitch(
    server: str,
    client: Path,
    usdt_binaries: Binaries,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stripped = tmp_path / "ovs-vswitchd"
    subprocess.run(["strip", "-o", stripped, usdt_binaries.ovs_vswitchd], check=True)
    lacking = NoInputError("no probe")
    with pytest.raises(NoInputError):
        MAIN_LOOP.find_functions([file_object(stripped)], lacking, is_netdev=True)
    monkeypatch.setenv(DEBUGINFOD_URLS, server)
    found = MAIN_LOOP.find_functions([file_object(stripped)], lacking, is_netdev=True)
    whole = [file_object(usdt_binaries.ovs_vswitchd)]
    expected = MAIN_LOOP.find_functions(whole, lacking, is_netdev=True)
    offsets = {program: probe.file_offset for program, probe in expected.items()}
    assert {program: probe.file_offset for program, probe in found.items()} == offsets


def test_what_no_server_has_is_said(
    server: str, client: Path, stripped_workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUGINFOD_URLS, server)
    # Only the executable's debug file is there.
    library = str(stripped_workload.library)
    assert Functions.open(library).unfetched == (
        "debuginfod has no debug file (No such file or directory)"
    )
    text = commands.run("probes", library, "--functions", "*").stdout
    assert (
        "libusdt.so is stripped, and debuginfod has no debug file (No such file or directory):"
        " install the package of /usr/lib/debug/.build-id/"
    ) in text


def test_missing_client_is_said(
    stripped_workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(DEBUGINFOD_URLS, "http://localhost:1/")
    unfetched = Functions.open(str(stripped_workload.executable)).unfetched
    assert unfetched is not None
    assert unfetched.startswith("DEBUGINFOD_URLS is set, but debuginfod-find is not installed")


@pytest.mark.parametrize(
    ("script", "unfetched"),
    [
        ("echo {other}", "{other}, which debuginfod fetched, is not its debug file"),
        ("echo /etc/passwd", "/etc/passwd, which debuginfod fetched, is not its debug file"),
        ("true", "debuginfod has no debug file (it does not say why)"),
        ("head -c 100000 /dev/zero", "debuginfod has no debug file (it does not say why)"),
        ("echo a: b >&2; exit 1", "debuginfod has no debug file (b)"),
    ],
)
def test_another_file_is_not_used_and_nobody_is_asked_twice(
    script: str,
    unfetched: str,
    workload: Workload,
    stripped_workload: Workload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, asked = tmp_path / DEBUGINFOD_FIND, tmp_path / "asked"
    other = workload.library
    program.write_text(f"#!/bin/sh\necho >>{asked}\n{script.format(other=other)}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(DEBUGINFOD_URLS, "http://localhost:1/")
    for _ in range(2):
        found = Functions.open(str(stripped_workload.executable))
        assert found.stripped
        assert found.unfetched == unfetched.format(other=other)
    assert asked.read_text() == "\n"


def test_a_child_that_keeps_the_output_is_not_waited_for(
    stripped_workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, child = tmp_path / DEBUGINFOD_FIND, tmp_path / "child"
    program.write_text(f"#!/bin/sh\nsleep {LASTS_S} & echo $! >{child}\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(DEBUGINFOD_URLS, "http://localhost:1/")
    # By then it has its child, also on a busy machine.
    monkeypatch.setattr(debug_files, "FETCH_S", 4)
    found = Functions.open(str(stripped_workload.executable))
    assert found.unfetched == "debuginfod has no debug file (no answer within 4 s)"
    # It goes on: else this fails.
    os.kill(int(child.read_text()), signal.SIGKILL)
