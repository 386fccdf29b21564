"""The USDT workload, built as a packager would: plain, stripped, and for other machines."""

import subprocess
from collections.abc import Callable

import pytest
from usdt_workload import SDT_HEADERS, Workload, build

Start = Callable[[Workload], int]


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return build(tmp_path_factory.mktemp("workload"), "gcc")


@pytest.fixture(scope="session")
def fixed_workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Not position-independent: file offsets and addresses differ."""
    return build(tmp_path_factory.mktemp("fixed"), "gcc", executable_flags=("-no-pie", "-fno-pie"))


@pytest.fixture(scope="session")
def arm64_workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    # The header is the same for every machine, but packaged for this one.
    headers = tmp_path_factory.mktemp("include")
    (headers / "sys").symlink_to(SDT_HEADERS)
    sdt = ("-idirafter", str(headers))
    return build(tmp_path_factory.mktemp("arm64"), "aarch64-linux-gnu-gcc", *sdt)


@pytest.fixture(scope="session")
def stripped_workload(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    directory = tmp_path_factory.mktemp("stripped")
    for file in (workload.executable, workload.library):
        subprocess.run(["strip", "-o", directory / file.name, file], check=True)
    return Workload(directory / "usdt_target", directory / "libusdt.so")


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Start:
    """Start a workload that runs until the test ends; gives its PID."""

    def run(workload: Workload) -> int:
        process = subprocess.Popen([workload.executable, "0"], stdout=subprocess.PIPE)
        request.addfinalizer(process.wait)
        request.addfinalizer(process.kill)
        assert process.stdout is not None
        request.addfinalizer(process.stdout.close)
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    return run
