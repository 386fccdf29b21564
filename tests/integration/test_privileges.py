"""What a command may do while it measures, as /proc shows it, and what it still can."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kernel_delay.host.privileges import (
    CAPABILITIES,
    EVENTS,
    FOLLOW,
    NAMES,
    PROCESS,
    PROFILES,
    PROGRAM,
    Use,
)
from kernel_delay.model import StackFrame
from tests.commands import KERNEL_DELAY, run
from tests.watching.watch import Watching, samples_in, watch_of
from tests.workload import Workload, compile_workload, wait_until

NOBODY = 65534
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

# A function of the workload is called so.
MANGLED, PLAIN = "_ZN4deep5sleepEl", "deep::sleep(long)"


@pytest.fixture
def workload(root_user: None) -> Iterator[Workload]:
    workload = Workload([compile_workload("long_work"), 8])
    yield workload
    workload.kill()


def kept(*uses: Use) -> str:
    names = {name for use in (EVENTS, *uses) for name in use.capabilities}
    # Levels of Debian's and Ubuntu's kernels.
    if "CAP_PERFMON" in names and int(PARANOID.read_text()) > 2:
        names.add("CAP_SYS_ADMIN")
    return f"{sum(1 << CAPABILITIES[name] for name in names):016x}"


def status_of(path: Path) -> dict[str, str]:
    fields = (line.partition(":") for line in (path / "status").read_text().splitlines())
    return {name: value.strip() for name, _, value in fields}


def rights_of(pid: int) -> dict[int, tuple[str, str, str]]:
    """The capabilities of each thread, and whether it has no_new_privs and a filter."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        status = status_of(thread)
        assert status["CapPrm"] == status["CapEff"]
        found[int(thread.name)] = status["CapEff"], status["NoNewPrivs"], status["Seccomp"]
    return found


def own_filter() -> str:
    """The mode of the tests' own filters, if they run in a container."""
    return status_of(Path("/proc/self"))["Seccomp"]


def wait_for_rights(process: "subprocess.Popen[bytes]") -> None:
    own = status_of(Path("/proc/self"))

    def are_given_up() -> bool:
        assert process.poll() is None
        # Which go after all else.
        return status_of(Path(f"/proc/{process.pid}"))["CapEff"] != own["CapEff"]

    wait_until(are_given_up, "fewer capabilities")


def rights_once_threads_have_none(pid: int) -> dict[int, tuple[str, str, str]]:
    """The rights of each thread, once those that drain buffers ran: they give up their own."""

    def others() -> set[tuple[str, str, str]]:
        return {rights for tid, rights in rights_of(pid).items() if tid != pid}

    wait_until(lambda: others() <= {(f"{0:016x}", "1", "2")}, "threads without capabilities")
    return rights_of(pid)


@pytest.mark.parametrize(
    ("options", "uses"),
    [
        ((), (PROCESS, NAMES, PROFILES)),
        (("--no-stacks",), (PROCESS,)),
        (("--follow",), (PROCESS, NAMES, PROFILES, FOLLOW)),
    ],
    ids=["stacks", "no stacks", "follow"],
)
def test_watch_keeps_what_it_uses(
    workload: Workload, tmp_path: Path, options: tuple[str, ...], uses: tuple[Use, ...]
) -> None:
    with watch_of(workload.pid, tmp_path / "records", "--timeline", *options) as watching:
        rights = rights_once_threads_have_none(watching.process.pid)
        watching.end()
    main = watching.process.pid
    assert rights.pop(main) == (kept(*uses), "1", "2")
    # Threads that drain buffers.
    assert set(rights.values()) <= {(f"{0:016x}", "1", "2")}


def test_threads_that_serve_metrics_have_no_capability(workload: Workload, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    with watch_of(workload.pid, tmp_path / "records", "--no-stacks", "--metrics", "0") as watching:
        rights = rights_of(watching.process.pid)
        watching.end()
    del rights[watching.process.pid]
    assert set(rights.values()) == {(f"{0:016x}", "1", "2")}


def user_stacks(watching: Watching) -> Iterator[Sequence[StackFrame]]:
    """Those of the calls in all records."""
    for path in watching.recordings():
        for sample in samples_in(path):
            for event in sample.syscall_events or ():
                if event.user_stack is not None:
                    yield sample.stacks[event.user_stack]


def test_watch_names_functions_of_another_users_process(root_user: None, tmp_path: Path) -> None:
    """Its memory and files are for its user's eyes and root's. C++ names are demangled."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "long_work"
        flags = ("-fno-inline", f"-Dsleep_ns={MANGLED}")
        program.write_bytes(compile_workload("long_work", *flags).read_bytes())
        program.chmod(0o500)
        for path in (program, Path(folder)):
            subprocess.run(["chown", str(NOBODY), path], check=True)
        as_nobody = ["setpriv", "--reuid", str(NOBODY), "--clear-groups"]
        workload = Workload([*as_nobody, program, 64])
        try:
            with watch_of(
                workload.pid, tmp_path / "records", "--threshold", "0.005", "--calls"
            ) as watching:
                workload.send()
                wait_until(lambda: any(user_stacks(watching)), "a record with a stack")
                watching.end()
        finally:
            workload.kill()
    stacks = list(user_stacks(watching))
    names = {frame.name for stack in stacks for frame in stack if frame.name}
    assert "main" in names
    # A compiler may add what it made of it.
    assert any(name.startswith(PLAIN) for name in names), names


def test_capture_keeps_what_it_uses(workload: Workload) -> None:
    options = ("--pid", str(workload.pid), "--sample-time", "3600", "--timeline")
    with subprocess.Popen([*KERNEL_DELAY, *options], stdout=subprocess.PIPE) as process:
        wait_for_rights(process)
        rights = rights_once_threads_have_none(process.pid)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    assert process.returncode == 0
    assert rights.pop(process.pid) == (kept(PROCESS), "1", "2")
    assert set(rights.values()) <= {(f"{0:016x}", "1", "2")}
    assert b"VERDICT" in output


WHERE = """
import sys
from pathlib import Path
from kernel_delay.cli import main
from kernel_delay.symbols import ProcessImage

read = ProcessImage.note

def note(image):
    print(Path("/proc/self/status").read_text(), file=sys.stderr)
    return read(image)

ProcessImage.note = note
main()
"""


@pytest.mark.usefixtures("earlier_calls")
def test_where_reads_the_process_with_what_it_uses(workload: Workload) -> None:
    command = [sys.executable, "-c", WHERE, "where", "--pid", str(workload.pid)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    fields = dict(line.split(":\t", 1) for line in done.stderr.splitlines() if ":\t" in line)
    assert fields["CapEff"] == fields["CapPrm"] == kept(PROCESS, NAMES)
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert "main+" in done.stdout


def test_a_program_that_is_run_loses_no_right(root_user: None) -> None:
    done = run("--", "cat", "/proc/self/status")
    assert done.returncode == 0
    assert re.search(r"^NoNewPrivs:\t0$", done.stdout, re.MULTILINE)
    assert re.search(rf"^Seccomp:\t{own_filter()}$", done.stdout, re.MULTILINE)
    own = status_of(Path("/proc/self"))
    assert f"CapEff:\t{own['CapEff']}\n" in done.stdout


def test_a_signal_still_ends_a_program_of_another_user(root_user: None) -> None:
    command = [*KERNEL_DELAY, "--user", "nobody", "--", "sleep", "3600"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for_rights(process)
        assert rights_of(process.pid)[process.pid][0] == kept(PROCESS, PROGRAM)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
