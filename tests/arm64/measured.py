"""`make test-arm64`: what kernel-delay measures in its image for arm64, on an arm64 kernel."""

import os
import shutil
import subprocess
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from kernel_delay.model import StackFrame
from tests import commands
from tests.arm64 import guest
from tests.image.container import content, manifest
from tests.integration.symbols.call_chains import TO_MAIN, short_name
from tests.needs import needed
from tests.workload import FLAGS, SOURCES

CHAINS = [chain for chain in TO_MAIN if chain != "generated"]  # x86-64's own code

# Of within.py's POLLING.
COMPUTED_NS = 500_000_000
# The thread's own clock begins with a context switch, our run with its tracepoint: where the CPU
# is emulated some 0.1 ms later, a dozen times and more.
SLACK = 0.05

WITHIN = Path(__file__).with_name("within.py")
LIMIT_S = 3600.0

# As call_chains.FLAGS has them; and return addresses are signed.
CHAIN_FLAGS = ("-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-mbranch-protection=pac-ret")


def cross_compile(program: Path, *sources: str, flags: tuple[str, ...] = ()) -> None:
    compiler = needed("aarch64-linux-gnu-gcc")
    files = [str(SOURCES / source) for source in sources]
    subprocess.run([compiler, *FLAGS, *flags, *files, "-o", program], check=True)


def unpack_image(root: Path) -> None:
    """The files of the image that `make image` has made for arm64."""
    if "KERNEL_DELAY_DIST" not in os.environ:
        pytest.fail("where is the image? `make test-arm64` makes it", pytrace=False)
    images = Path(os.environ["KERNEL_DELAY_DIST"]).glob("kernel-delay-*-arm64.oci.tar")
    with tarfile.open(max(images, key=lambda file: file.stat().st_mtime)) as archive:
        for layer in manifest(archive)["layers"]:
            files = content(archive, "blobs/" + layer["digest"].replace(":", "/"))
            subprocess.run(["tar", "--extract", "--gzip"], cwd=root, input=files, check=True)


@pytest.fixture(scope="module")
def recording(root_user: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording made on this machine, of this process."""
    file = tmp_path_factory.mktemp("recording") / "elsewhere.kdr"
    done = commands.run("--pid", os.getpid(), "-s", "0", "-o", file)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module", params=guest.KERNELS)
def suite(request: pytest.FixtureRequest) -> str:
    """The suite that the guest's kernel is of."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def results(
    suite: str, recording: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the guest told, by name."""
    folder = tmp_path_factory.mktemp("arm64")
    root = folder / "root"
    root.mkdir()
    unpack_image(root)
    own = root / "guest"
    own.mkdir()
    shutil.copy(WITHIN, own)
    shutil.copy(recording, own)
    cross_compile(own / "counted_calls", "counted_calls.c")
    cross_compile(own / "call_chain", "call_chain.c", "call_chain_library.c", flags=CHAIN_FLAGS)
    try:
        first_process = ["/usr/bin/python3", f"/guest/{WITHIN.name}"]
        kernel = guest.KERNELS[suite]
        return guest.run(kernel, root, first_process, folder / "console", LIMIT_S)
    finally:
        shutil.rmtree(root)


def only_sample(results: dict[str, Any], name: str) -> dict[str, Any]:
    """The sample of that name, if it is the only one, and its accounts are whole."""
    (sample,) = results[name]
    assert_whole(sample)
    found: dict[str, Any] = sample
    return found


def assert_whole(sample: dict[str, Any]) -> None:
    for thread in sample["threads"]:
        assert sum(thread["time"].values()) == sample["window"]["duration_ns"]


def user_stacks(sample: dict[str, Any]) -> list[list[StackFrame]]:
    """That of each event."""
    stacks = [sample["stacks"][event["user_stack"]] for event in sample["syscall_events"]]
    return convert(stacks, list[list[StackFrame]])


def counts(thread: dict[str, Any]) -> dict[str, int]:
    """How often it made each call."""
    return {call["name"]: call["count"] for call in thread["syscalls"]}


def test_all_that_is_needed_is_there(results: dict[str, Any]) -> None:
    assert results["kernel"].endswith(" aarch64")
    check = results["check"]
    assert check["status"] == 0, check["stdout"]
    assert "A capture can run." in check["stdout"]


def test_recording_of_another_machine_gives_the_same_report(
    results: dict[str, Any], recording: Path
) -> None:
    assert results["elsewhere"]["stdout"] == commands.run("report", "--json", recording).stdout


def test_each_call_is_counted(results: dict[str, Any]) -> None:
    """As many as counted_calls.c makes."""
    threads = only_sample(results, "counted")["threads"]
    by_name = {thread["name"]: counts(thread) for thread in threads}
    for number in range(3):
        calls = by_name[f"worker {number}"]
        assert (calls["getppid"], calls["getuid"]) == (200, 100)
    assert by_name["counted_calls"]["getgid"] == 50


def frames_of(sample: dict[str, Any]) -> list[StackFrame]:
    """The stack of its only event, which ends where the thread began."""
    lost = sample["lost"]
    assert (lost["stacks"], lost["truncated_stacks"], lost["failed_unwinds"]) == (0, 0, 0)
    (frames,) = user_stacks(sample)
    return frames


@pytest.mark.parametrize("chain", CHAINS)
def test_each_frame_to_the_start_is_exact(results: dict[str, Any], chain: str) -> None:
    frames = frames_of(results[chain])
    expected = TO_MAIN[chain]
    assert [short_name(frame) for frame in frames[: len(expected)]] == expected
    *libc, start = frames[len(expected) :]
    assert libc
    assert all("libc.so" in (frame.object or "") for frame in libc)
    assert start.name == "_start"


def test_a_thread_ends_in_its_clone(results: dict[str, Any]) -> None:
    frames = frames_of(results["thread"])
    expected = ["stop_here", *["recurse"] * 6, "recursion", "thread_main"]
    assert [frame.name for frame in frames[:-2]] == expected
    assert all("libc.so" in (frame.object or "") for frame in frames[-2:])


def test_page_faults_are_seen_where_the_kernel_has_fentry(
    suite: str, results: dict[str, Any]
) -> None:
    """Which takes direct calls from ftrace: on arm64 from 6.4 on."""
    sample = only_sample(results, "counted")
    faults = [thread["page_faults"] for thread in sample["threads"]]
    if suite == "bookworm":
        assert set(faults) == {None}
    else:
        assert sum(each["count"] for each in faults) > 0


def test_a_running_python_is_measured(results: dict[str, Any]) -> None:
    """It makes a hundred calls between two sleeps; a window may begin and end anywhere there."""
    sample = only_sample(results, "calling")
    (thread,) = sample["threads"]
    calls = counts(thread)
    assert calls["clock_nanosleep"] > 5
    assert abs(calls["getppid"] - 100 * calls["clock_nanosleep"]) <= 100
    for frames in user_stacks(sample):
        names = [frame.name for frame in frames]
        assert (names[0], names[-1]) == ("clock_nanosleep", "_start")
        assert "_PyEval_EvalFrameDefault" in names


def test_each_long_round_reports_where_its_time_went(results: dict[str, Any]) -> None:
    """One of ten computes for half a second. A poll is a round where the host takes its CPU."""
    numbers = [sample["round"]["number"] for sample in results["watch"]]
    assert len(numbers) > 1
    assert all(10 <= later - earlier < 20 for earlier, later in pairwise(numbers))
    for sample in results["watch"]:
        assert_whole(sample)
        (time,) = (
            thread["time"]
            for thread in sample["threads"]
            if thread["tid"] == sample["round"]["tid"]
        )
        on_cpu_ns = sum(time.values()) - time["ready_ns"] - time["blocked_ns"]
        assert on_cpu_ns >= COMPUTED_NS * (1 - SLACK)


def test_stacks_in_the_vdso_are_unwound_to_the_start(results: dict[str, Any]) -> None:
    """That asks the kernel for the time of a thread, which POLLING does all the time."""
    stacks = [
        sample["stacks"][sampled["user_stack"]]
        for sample in results["watch"]
        for sampled in sample["round"]["profile"]
    ]
    in_vdso = [frames for frames in stacks if frames[0]["object"] == "[vdso]"]
    assert in_vdso
    assert {frames[-1]["name"] for frames in in_vdso} == {"_start"}
