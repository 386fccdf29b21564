"""The USDT workload, built as a packager would: plain, stripped, and for other machines."""

import subprocess
from pathlib import Path

import pytest

from tests.integration.probes.usdt_workload import SDT_HEADERS, Start, Workload, build


@pytest.fixture(scope="session")
def workload() -> Workload:
    return build("plain", "gcc")


@pytest.fixture(scope="session")
def fixed_workload() -> Workload:
    """Not position-independent: file offsets and addresses differ."""
    return build("fixed", "gcc", executable_flags=("-no-pie", "-fno-pie"))


@pytest.fixture(scope="session")
def arm64_workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    # The header is the same for every machine, but packaged for this one.
    headers = tmp_path_factory.mktemp("include")
    (headers / "sys").symlink_to(SDT_HEADERS)
    sdt = ("-idirafter", str(headers))
    return build("arm64", "aarch64-linux-gnu-gcc", *sdt)


@pytest.fixture(scope="session")
def stripped_workload(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    directory = tmp_path_factory.mktemp("stripped")
    for file in workload:
        subprocess.run(["strip", "-o", directory / file.name, file], check=True)
    return Workload(directory / "usdt_target", directory / "libusdt.so")


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Start:
    """Start a process that runs until the test ends; gives its PID once it is ready."""

    def run(program: str | Path, *arguments: str | Path, ready: bool = True) -> int:
        command = [program, *(arguments or ("0",))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        request.addfinalizer(process.wait)
        request.addfinalizer(process.kill)
        assert process.stdout is not None
        request.addfinalizer(process.stdout.close)
        assert not ready or process.stdout.readline() == b"ready\n"
        return process.pid

    return run
