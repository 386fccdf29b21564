"""`kernel-delay check` on the kernel these tests run on, against what that kernel then does."""

import json
import os
from typing import Any

from kernel_delay.commands.check_kernel import OPTIONAL_PARTS
from kernel_delay.host.tracefs import tracefs
from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.needs import in_kernels_types
from tests.workload import sleeping

NEEDED = {"BTF", "BPF", "tp_btf", "task storage", "ring buffer", "programs"}


def check(*wrapper: str) -> commands.Done:
    return commands.run("check", "--json", within=wrapper)


def process_states(pid: int) -> dict[str, str]:
    done = commands.run("check", "--json", "--pid", pid)
    assert done.returncode == os.EX_OK, done.stderr
    return {finding["name"]: finding["state"] for finding in json.loads(done.stdout)["process"]}


def states(done: commands.Done) -> dict[str, str]:
    found: dict[str, Any] = json.loads(done.stdout)
    return {finding["name"]: finding["state"] for finding in found["machine"] + found["features"]}


def test_where_it_says_so_a_capture_runs(root_user: None) -> None:
    done = check()
    capture = commands.run("--pid", os.getpid(), "--sample-time", "0.1")
    runs = capture.returncode == os.EX_OK
    assert (done.returncode == os.EX_OK) == runs, done.stdout
    assert json.loads(done.stdout)["can_capture"] == runs


def test_all_that_is_needed_is_there(root_user: None) -> None:
    found = states(check())
    assert {name for name in NEEDED if found[name] == "yes"} == NEEDED


def test_report_has_a_line_for_each_part_check_misses(root_user: None) -> None:
    found = states(check())
    report = commands.run("--pid", os.getpid(), "--sample-time", "0.01").stdout
    for part in OPTIONAL_PARTS:
        name = part.replace("_", " ")
        assert (f"# This kernel shows no {name}:" in report) == (found[name] == "no"), report


def test_report_says_that_stacks_of_wakers_are_missing(root_user: None) -> None:
    options = ("--pid", os.getpid(), "--sample-time", "0.01", "--wakers", "stacks")
    is_missing = "# This kernel shows no stacks of wakers:" in commands.run(*options).stdout
    assert is_missing == (states(check())["stacks of wakers"] == "no")
    assert is_missing != in_kernels_types("BPF_FUNC_task_pt_regs")


def test_kprobes_are_where_the_kernel_has_their_files(root_user: None) -> None:
    with tracefs() as root:
        exist = (root / "kprobe_events").exists()
    assert (states(check())["kprobes"] == "yes") == exist


def test_check_without_capabilities_names_them_and_what_is_unknown(root_user: None) -> None:
    done = check("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    assert done.returncode == os.EX_UNAVAILABLE
    found = states(done)
    assert found["capabilities"] == "no"
    assert found["BPF"] == "no"
    assert found["programs"] == "unknown"


def test_a_foreign_proc_is_noticed(root_user: None) -> None:
    done = check("unshare", "--pid", "--fork")
    assert done.returncode == os.EX_UNAVAILABLE
    assert states(done)["PID namespace"] == "no"


def test_in_a_container_pids_are_translated(root_user: None) -> None:
    done = check("unshare", "--pid", "--fork", "--mount-proc")
    assert done.returncode == os.EX_OK, done.stdout
    assert states(done)["PID namespace"] == "yes"


def test_an_open_vswitch_with_probes_has_all(root_user: None, usdt_binaries: Binaries) -> None:
    with Instance(usdt_binaries) as instance:
        found = process_states(instance.pid)
    names = ("binary", "symbols", "USDT probes", "main loop", "revalidators")
    # Its datapath is in user space: upcalls of that never pass the kernel.
    assert found == dict.fromkeys(names, "yes") | {"upcalls": "no"}


def test_a_stripped_program_without_probes_is_distinguished(root_user: None) -> None:
    with sleeping() as sleep:
        found = process_states(sleep.pid)
    assert found["binary"] == "yes"
    assert found["USDT probes"] == "no"


def test_a_process_that_is_not_there_is_an_error(root_user: None) -> None:
    done = commands.run("check", "--pid", "4194303")
    assert done.returncode == os.EX_NOINPUT
    assert "no process 4194303" in done.stderr


def test_missing_cap_sys_ptrace_of_root_is_named(root_user: None) -> None:
    within = ("setpriv", "--bounding-set=-sys_ptrace")
    done = commands.run("probes", "--pid", os.getpid(), within=within)
    assert done.returncode == os.EX_NOPERM
    assert "root has no CAP_SYS_PTRACE here" in done.stderr
    assert "run as root:" not in done.stderr
    found = commands.run("check", "--json", "--pid", os.getpid(), within=within)
    (binary,) = json.loads(found.stdout)["process"]
    assert "CAP_SYS_PTRACE" in binary["detail"]
    assert binary["remedy"] is None
