"""Finding the process, on real processes."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.host.proc_text import read_lines
from kernel_delay.host.target import children_of, find_descendants, find_in_file, find_target
from tests.workload import HANGS_S, wait_until

PF_KTHREAD = 0x0020_0000


@pytest.fixture
def other_thread() -> Iterator[int]:
    """The id of a second thread of this process."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert thread.native_id is not None
    yield thread.native_id
    done.set()
    thread.join()


def test_own_process_is_found_with_its_name_and_program() -> None:
    target = find_target(os.getpid())
    assert target.pid == os.getpid()
    assert target.comm == Path("/proc/self/comm").read_text().strip()
    assert target.exe == os.path.realpath("/proc/self/exe")
    assert target.note is None


def test_thread_is_taken_as_its_process_and_said_so(other_thread: int) -> None:
    target = find_target(other_thread)
    assert target.pid == os.getpid()
    assert target.note == (
        f"{other_thread} is a thread of process {os.getpid()}: measuring process {os.getpid()}"
    )


def test_descendants_are_children_and_theirs() -> None:
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 600 & wait' & wait"]) as shell:

        def names() -> list[str]:
            return [each.comm for each in find_descendants((shell.pid,))]

        # One that is forked has its parent's name until it executes its program.
        wait_until(lambda: names() == ["sh", "sleep"], "its children")
        child, grandchild = find_descendants((shell.pid,))
        # Whoever is asked for is not found again.
        assert find_descendants((shell.pid, child.pid)) == (grandchild,)
        os.kill(grandchild.pid, signal.SIGKILL)
    assert find_descendants((shell.pid,)) == ()


def test_pid_that_was_collected_is_no_process() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(NoInputError, match=f"no process {process.pid}"):
        find_target(process.pid)


@pytest.mark.parametrize("kind", ["FIFO", "device", "link to device", "large file"])
def test_pid_file_cannot_hang_or_fill_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "link to device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    code = (
        "import resource, pathlib; from kernel_delay.host.target import find_in_file;"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        f"assert find_in_file(pathlib.Path({str(path)!r})) is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANGS_S)


def test_pid_file_may_be_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "pid", tmp_path / "link"
    path.write_text(f"{os.getpid()}\n")
    link.symlink_to(path)
    target = find_in_file(link)
    assert target is not None
    assert target.pid == os.getpid()


@pytest.mark.parametrize("behind", ["", "\n/var/lib/postgresql/15/main\n1700000000\n5432\n"])
def test_pid_file_begins_with_the_pid(tmp_path: Path, behind: str) -> None:
    path = tmp_path / "postmaster.pid"
    path.write_text(f"{os.getpid()}{behind}")
    target = find_in_file(path)
    assert target is not None
    assert target.pid == os.getpid()


@pytest.mark.parametrize("text", ["", "\n", "none\n", "-5\n"])
def test_pid_file_without_a_pid_names_no_process(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pid"
    path.write_text(text)
    assert find_in_file(path) is None


def test_zombie_has_exited() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(NoInputError, match=f"process {process.pid} has exited"):
            find_target(process.pid)
    finally:
        process.wait()


def test_process_without_its_first_thread_still_lives() -> None:
    # Exits the calling thread alone, which glibc's exit() would not.
    sys_exit = {"x86_64": 60, "aarch64": 93}.get(platform.machine())
    if sys_exit is None:
        pytest.skip(f"the number of exit(2) on {platform.machine()} is not known here")
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        f"ctypes.CDLL(None).syscall({sys_exit}, 0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(lambda: state(process.pid) == "Z", "the first thread's exit")
        assert find_target(process.pid).pid == process.pid
    finally:
        process.kill()
        process.wait()


def test_kernel_thread_is_refused() -> None:
    pid = next((p for p in pids() if flags(p) & PF_KTHREAD), None)
    if pid is None:
        pytest.skip("no kernel thread can be seen from this PID namespace")
    with pytest.raises(UnavailableError, match=f"{pid} is the kernel thread"):
        find_target(pid)


def test_name_with_brackets_is_not_taken_for_a_state(tmp_path: Path) -> None:
    program = tmp_path / "x) Z 2 (y"
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([program, "60"])
    try:
        # execve(2) closes the pipe that Popen waits for before it sets the name.
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text() == "x) Z 2 (y\n", "its name")
        assert find_target(process.pid).comm == "x) Z 2 (y"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", ["ovs-vswitchd", "ovs-vswitchd-dpdk"])
def test_without_pid_the_one_vswitchd_is_found(
    name: str, among_processes: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script = (
        "from kernel_delay.host.target import find_target; import msgspec\n"
        "print(msgspec.json.encode(find_target(None)).decode())"
    )
    result = among_processes([name, "ovs-vswitchd2", "sleep"], "-c", script)
    assert result.returncode == 0, result.stderr
    target = json.loads(result.stdout)
    assert target["comm"] == name[:15]
    assert target["exe"].endswith(f"/{name}")


def pids() -> list[int]:
    """The processes that can be seen."""
    return [int(p) for p in os.listdir("/proc") if p.isdecimal()]


def stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on, empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """The state's letter."""
    return (stat(pid) or [""])[0]


def flags(pid: int) -> int:
    """The PF_ flags."""
    return int((stat(pid) or ["0"] * 7)[6])


def test_a_name_cannot_forge_lines_of_a_status() -> None:
    """A carriage return stays one in /proc/PID/status, and Python takes it for a line's end."""
    script = (
        "import os, sys; open('/proc/self/comm', 'wb').write(b'a\\rTgid:\\t1\\v')\n"
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert b"Name:\ta\rTgid:\t1\v\n" in Path(f"/proc/{process.pid}/status").read_bytes()
        assert find_target(process.pid).pid == process.pid
        lines = read_lines(Path(f"/proc/{process.pid}/status"))
        assert sum(line.startswith("Tgid:") for line in lines) == 1
        process.communicate()


@pytest.mark.parametrize("are_listed", [True, False])
def test_children_are_found_whether_the_kernel_lists_them(
    monkeypatch: pytest.MonkeyPatch, are_listed: bool
) -> None:
    """CONFIG_PROC_CHILDREN is not everywhere."""
    read_text = Path.read_text

    def read_others(path: Path) -> str:
        if path.name == "children":
            raise FileNotFoundError(path)
        return read_text(path)

    if not are_listed:
        monkeypatch.setattr(Path, "read_text", read_others)
        monkeypatch.setattr(Path, "exists", lambda path: path.name != "children")
    command = ["sh", "-c", "sleep 60 & echo $!; sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as shell:
        try:
            assert shell.stdout is not None
            started = [int(shell.stdout.readline()) for _ in range(2)]
            assert sorted(children_of(shell.pid)) == sorted(started)
            assert children_of(started[0]) == []
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    assert children_of(shell.pid) == []
