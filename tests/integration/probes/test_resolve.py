"""Triggers resolved against running processes, and the kernel's word that they fire there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.probes import AttachPoint, KernelProbe, UserProbe
from kernel_delay.probes.kernel import KPROBE_PMU, kernel_functions
from kernel_delay.probes.resolve import resolve
from kernel_delay.probes.triggers import parse_trigger
from kernel_delay.probes.user import UPROBE_PMU
from lab.binaries import Binaries
from tests.integration.probes.hit_counter import counted, hits
from tests.integration.probes.usdt_workload import Start, Workload
from tests.workload import wait_until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="uprobes are for root only"),
    pytest.mark.skipif(not UPROBE_PMU.exists(), reason="this kernel has no uprobes"),
]

needs_kprobes = pytest.mark.skipif(not KPROBE_PMU.exists(), reason="this kernel has no kprobes")

TRIGGERS = [
    "u:kd_main:round_start",
    "u:kd_main:shapes",
    "u:kd_main:twice",
    "u:kd_library:with_semaphore",
    "up:usdt_work",
    "up:usdt_work+0x4",
    "ur:usdt_work",
    "up:libusdt.so:usdt_library_work",
    "ur:libusdt:usdt_library_work",
]


def user_probes(trigger: str, pid: int) -> tuple[UserProbe, ...]:
    points = resolve(parse_trigger(trigger), pid)
    return tuple(point for point in points if isinstance(point, UserProbe))


def assert_fires(point: AttachPoint, pid: int) -> None:
    with counted(point, pid) as counter:
        wait_until(lambda: hits(counter) >= 3, f"a hit of {point}")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_it_fires_where_it_resolves_to(workload: Workload, start: Start, trigger: str) -> None:
    pid = start(workload.executable)
    probes = user_probes(trigger, pid)
    assert len(probes) == (2 if "twice" in trigger else 1)
    for probe in probes:
        assert_fires(probe, pid)


def test_the_semaphore_is_the_one_the_code_tests(workload: Workload, start: Start) -> None:
    pid = start(workload.executable)
    (probe,) = user_probes("u:kd_main:shapes", pid)

    def semaphore() -> int:
        symbols = subprocess.check_output(["nm", workload.executable], text=True)
        address = re.search(r"(\w+) \w kd_main_shapes_semaphore", symbols)
        first = Path(f"/proc/{pid}/maps").read_text().partition("-")[0]
        assert address is not None
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(int(first, 16) + int(address[1], 16))
            return int.from_bytes(memory.read(2), "little")

    assert semaphore() == 0
    with counted(probe, pid):
        assert semaphore() == 1
    assert semaphore() == 0


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_in_another_mount_namespace(
    workload: Workload, start: Start, trigger: str, tmp_path: Path
) -> None:
    # The file is on a file system that only the process's namespace has mounted.
    enter = 'mount -t tmpfs none "$1" && cp "$2" "$3" "$1" && exec "$1/usdt_target" 0'
    place = tmp_path / "private"
    place.mkdir()
    pid = start("unshare", "-m", "sh", "-c", enter, "sh", place, *workload)
    assert not any(place.iterdir())
    for probe in user_probes(trigger, pid):
        assert probe.object.startswith(str(place))
        assert_fires(probe, pid)


def test_files_in_a_chroot_have_their_names_inside_it(
    workload: Workload, start: Start, tmp_path: Path
) -> None:
    libraries = re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", *workload], text=True))
    for file in set(libraries) - {str(workload.library)}:
        destination = tmp_path / file.lstrip("/")
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, destination)
    for file in workload:
        shutil.copy(file, tmp_path)
    # $ORIGIN needs /proc.
    pid = start("env", "LD_LIBRARY_PATH=/", "chroot", tmp_path, "/usdt_target", "0")
    for trigger in ("u:kd_main:round_start", "up:usdt_work", "up:/libusdt.so:usdt_library_work"):
        (probe,) = user_probes(trigger, pid)
        assert probe.object in ("/usdt_target", "/libusdt.so")
        assert_fires(probe, pid)


def test_a_file_replaced_since_is_probed_as_it_runs(
    workload: Workload, stripped_workload: Workload, start: Start, tmp_path: Path
) -> None:
    for file in workload:
        shutil.copy(file, tmp_path)
    pid = start(tmp_path / "usdt_target")
    for replace in (Path.unlink, lambda path: shutil.copy(stripped_workload.library, path)):
        replace(tmp_path / "usdt_target")
        for trigger in ("u:kd_main:round_start", "up:usdt_work"):
            (probe,) = user_probes(trigger, pid)
            assert probe.object == str(tmp_path / "usdt_target")
            assert_fires(probe, pid)


def test_stripped(stripped_workload: Workload, workload: Workload, start: Start) -> None:
    stripped, whole = start(stripped_workload.executable), start(workload.executable)
    assert_fires(user_probes("u:kd_main:twice", stripped)[0], stripped)
    with pytest.raises(NoInputError, match=r"is stripped: .*/\w\w/\w+\.debug .*up:0xADDRESS"):
        user_probes("up:usdt_work", stripped)
    (probe,) = user_probes("up:usdt_work", whole)
    (by_offset,) = user_probes(f"up:{probe.file_offset:#x}", stripped)
    assert by_offset.file_offset == probe.file_offset
    assert_fires(by_offset, stripped)


def test_an_offset_in_a_library(workload: Workload, start: Start) -> None:
    pid = start(workload.executable)
    (probe,) = user_probes("up:libusdt:usdt_plain", pid)
    (same,) = user_probes(f"up:{workload.library}:{probe.file_offset:#x}", pid)
    assert same == probe


def test_functions_of_one_name_are_distinguished_by_offset(
    workload: Workload, start: Start
) -> None:
    pid = start(workload.executable)
    with pytest.raises(NoInputError, match="has 2 functions usdt_same_name") as caught:
        user_probes("up:libusdt:usdt_same_name", pid)
    offered = re.findall(r"up:libusdt:0x\w+", str(caught.value))
    assert len({user_probes(trigger, pid)[0].file_offset for trigger in offered}) == 2


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("u:kd_main:round_stat", "no USDT probe .*; closest: u:kd_main:round_start"),
        ("up:usdt_wrk", "usdt_target has no function usdt_wrk; closest: usdt_work"),
        ("up:libusd:f", "mapped no library 'libusd'; closest: libusdt.so"),
        ("up:0x3", "file offset 0x3 of .*usdt_target is not code; its code is at 0x"),
        ("up:0x100000000", "is not code"),
        ("up:usdt_work+0x100000000", "is not code"),
    ],
)
def test_what_does_not_exist(workload: Workload, start: Start, trigger: str, message: str) -> None:
    with pytest.raises(NoInputError, match=message):
        resolve(parse_trigger(trigger), start(workload.executable))


def test_a_process_that_has_exited() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(NoInputError, match=f"process {process.pid} has exited"):
        resolve(parse_trigger("up:main"), process.pid)


def test_an_ovs_without_usdt(start: Start, ovs_binaries: Binaries, tmp_path: Path) -> None:
    # Debian builds it without; it waits for a database that never comes.
    assert b".note.stapsdt" not in ovs_binaries.ovs_vswitchd.resolve().read_bytes()
    control = f"--unixctl={tmp_path}/control"
    command = (ovs_binaries.ovs_vswitchd, f"unix:{tmp_path}/none", control, "--no-chdir")
    pid = start(*command, ready=False)
    with pytest.raises(NoInputError, match="--enable-usdt-probes"):
        resolve(parse_trigger("u:udpif_revalidator:start_dump"), pid)


@pytest.mark.parametrize(
    "trigger", ["t:sched:sched_switch", "t:syscalls:sys_enter_clock_nanosleep"]
)
def test_tracepoints_fire(workload: Workload, start: Start, trigger: str) -> None:
    pid = start(workload.executable)
    (point,) = resolve(parse_trigger(trigger), pid)
    assert_fires(point, pid)


@pytest.mark.skipif(KPROBE_PMU.exists(), reason="this kernel has kprobes")
def test_a_kernel_without_kprobes() -> None:
    with pytest.raises(UnavailableError, match="has no kprobes"):
        resolve(parse_trigger("k:vfs_read"), os.getpid())


@needs_kprobes
@pytest.mark.parametrize("trigger", ["k:vfs_read", "kr:vfs_read"])
def test_kernel_functions_fire(trigger: str) -> None:
    (point,) = resolve(parse_trigger(trigger), os.getpid())
    with counted(point, os.getpid()) as counter, open("/dev/zero", "rb", buffering=0) as zeros:
        for _ in range(100):
            zeros.read(1)
        assert hits(counter) >= 100


@needs_kprobes
def test_kernel_accepts_probeable_functions_and_refuses_the_blacklist() -> None:
    functions = kernel_functions()
    assert functions.blacklist
    probeable = sorted(functions.probeable())
    for function in probeable[:: len(probeable) // 40]:
        with counted(KernelProbe(function), os.getpid()) as counter:
            assert hits(counter) >= 0
    for function in sorted(functions.blacklist & functions.count.keys())[::40]:
        with pytest.raises(UnavailableError, match="blacklist"):
            functions.find(function, 0, is_return=False)
        with pytest.raises(OSError, match=function), counted(KernelProbe(function), os.getpid()):
            pass


@needs_kprobes
def test_a_kernel_function_that_does_not_exist() -> None:
    with pytest.raises(NoInputError, match="closest: k:vfs_read"):
        resolve(parse_trigger("k:vfs_rea"), os.getpid())
