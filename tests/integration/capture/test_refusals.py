"""Where a kernel or a container says no: one line, an exit code, no traceback."""

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import commands
from tests.integration.capture.captures import StartCapture, calls, thread
from tests.integration.capture.workload import StartWorkload, known_syscall
from tests.workload import compile_workload

GETPPID = known_syscall("getppid")


def refused(*within: str, status: int = os.EX_NOPERM) -> str:
    """Run a capture of this process that can't be; the line it says."""
    result = commands.run("--pid", os.getpid(), "--sample-time", "0.01", within=within)
    assert result.returncode == status
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.usefixtures("measurable")
def test_missing_capabilities_are_named() -> None:
    line = refused("setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon", "--inh-caps=-all")

    assert "missing CAP_PERFMON and CAP_BPF" in line


@pytest.mark.usefixtures("measurable")
def test_cap_bpf_and_cap_perfmon_suffice_for_a_capture() -> None:
    if not has_kernel_function("bpf_local_irq_save"):
        pytest.skip("libbpf 1.1 looks in modules for functions of Linux 6.14")
    within = ("setpriv", "--bounding-set=-all,+bpf,+perfmon", "--inh-caps=-all")
    result = commands.run("--pid", os.getpid(), "--sample-time", "0.01", within=within)
    assert (result.returncode, result.stderr) == (os.EX_OK, "")
    assert "VERDICT" in result.stdout
    checked = commands.run("check", "--pid", os.getpid(), within=within)
    assert checked.stdout.endswith("A capture can run.\n")


def has_kernel_function(name: str) -> bool:
    symbols = Path("/proc/kallsyms").read_text().splitlines()
    return any(line.split()[2] == name for line in symbols)


def missing(*within: str) -> dict[str, tuple[str, str]]:
    """What `check` finds to be missing there: the detail and the remedy of each, by name."""
    found = json.loads(commands.run("check", "--json", within=within).stdout)
    return {
        finding["name"]: (finding["detail"], finding["remedy"])
        for finding in found["machine"] + found["features"]
        if finding["state"] == "no"
    }


@pytest.mark.usefixtures("measurable")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL])
@pytest.mark.parametrize(("call", "name"), [("bpf", "BPF"), ("prog_load", "tp_btf")])
def test_capture_and_check_report_a_seccomp_filter(call: str, name: str, number: int) -> None:
    within = (str(compile_workload("refusing")), call, str(number))
    line = refused(*within)
    detail, remedy = missing(*within)[name]

    reason = "a seccomp filter is set, as in a container"
    assert detail.endswith(reason)
    assert line.endswith(f"{os.strerror(number)}): {reason}: {remedy}")
    assert remedy == "start it with --privileged --pid=host"


@pytest.mark.usefixtures("measurable")
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EINVAL])
def test_triggers_and_check_report_a_seccomp_filter(number: int) -> None:
    within = (str(compile_workload("refusing")), "perf_event_open", str(number))
    trigger = "t:sched:sched_switch"
    window = ("--start-trigger", trigger, "--sample-time", "0.01")
    result = commands.run("--pid", os.getpid(), *window, within=within)
    detail, remedy = missing(*within)["perf events"]

    assert result.returncode == os.EX_NOPERM
    assert result.stderr == (
        f"kernel-delay: the kernel can't put a probe at {trigger} ({os.strerror(number)}):"
        f" {detail}: {remedy}\n"
    )
    assert detail == "a seccomp filter is set, as in a container"


@pytest.mark.usefixtures("measurable")
def test_a_filter_of_perf_events_lets_a_capture_run() -> None:
    within = (str(compile_workload("refusing")), "perf_event_open", str(errno.EPERM))
    result = commands.run("--pid", os.getpid(), "--sample-time", "0.01", within=within)
    checked = commands.run("check", within=within)

    assert result.returncode == os.EX_OK
    assert checked.stdout.endswith("A capture can run.\n")
    assert "uprobes              yes" not in checked.stdout


@pytest.mark.usefixtures("measurable")
def test_in_a_time_namespace_only_that_is_missing() -> None:
    within = ("unshare", "--time", "--monotonic", "100", "--fork")
    if subprocess.run([*within, "true"], capture_output=True).returncode:
        pytest.skip("no time namespace can be made here")
    line = refused(*within, status=os.EX_UNAVAILABLE)
    added = missing(*within)
    here = missing()

    assert added.keys() - here.keys() == {"time namespace"}
    _, remedy = added["time namespace"]
    assert line.endswith(remedy)


@pytest.mark.usefixtures("measurable")
def test_no_pid_is_taken_from_another_namespaces_proc() -> None:
    line = refused("unshare", "--pid", "--fork", status=os.EX_UNAVAILABLE)

    assert "/proc is of another PID namespace" in line


@pytest.mark.usefixtures("measurable")
@pytest.mark.parametrize("limit", [15, 16, 20, 30, 31, 45, 60])
def test_too_few_descriptors_are_reported_as_such(limit: int) -> None:
    """Whatever it is that finds none."""
    limited = f'ulimit -n {limit}; exec "$@"'
    line = refused("sh", "-c", limited, "limited", status=os.EX_UNAVAILABLE)

    assert (
        line == f"kernel-delay: too few file descriptors: raise `ulimit -n`, which is {limit} now"
    )


def test_a_memory_lock_limit_of_nothing_is_no_error(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("calls")
    within = ("prlimit", "--memlock=0:0", "setpriv", "--bounding-set=-sys_resource")

    sample = start_capture(workload.pid, "0.01", within=within).sample()

    assert sample.window.ended_by == "time"


def test_in_a_pid_namespace_threads_have_its_numbers(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here")
    workload = start_workload("calls", f"{GETPPID}=1000", within=namespace)
    inside = ("nsenter", f"--target={workload.pid}", "--pid", "--mount")
    capture = start_capture(1, within=inside)
    capture.wait_until_open()

    workload.ask()
    workload.parked()
    sample = capture.end()

    assert sample.target.pid == 1
    assert calls(thread(sample, 1))[GETPPID] == 1000


def test_process_in_a_pid_namespace_has_its_outer_pid(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    namespace = ("unshare", "--pid", "--fork", "--kill-child")
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here")
    workload = start_workload("calls", f"{GETPPID}=1000", within=namespace)
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    workload.ask()
    workload.parked()
    sample = capture.end()

    assert calls(thread(sample, workload.pid))[GETPPID] == 1000
