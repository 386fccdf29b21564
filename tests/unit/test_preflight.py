"""What keeps a capture from working: told from the mask, and met for real."""

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from kernel_delay.commands import check_kernel
from kernel_delay.errors import PermissionDeniedError, UnavailableError
from kernel_delay.host import preflight
from kernel_delay.loader import objects
from kernel_delay.loader.base import BpfError

ALL = (1 << 41) - 1
SYS_ADMIN, PERFMON, BPF = 1 << 21, 1 << 38, 1 << 39

HEADER = "=HBBIIIII"

# The exit code and the error as the command line would show them.
CHECK = """
import sys
from kernel_delay.host import preflight
from kernel_delay.errors import KernelDelayError
try:
    preflight.check()
except KernelDelayError as error:
    print(error)
    sys.exit(error.exit_code)
"""

# A filter of one instruction that allows everything: seccomp(2), linux/filter.h.
REFUSED_UNDER_SECCOMP = """
import ctypes, struct
from kernel_delay.host import preflight
allow = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000), 8)
program = ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(allow)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, filter
print(*preflight.why_refused())
"""


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        (0, ("CAP_PERFMON", "CAP_BPF")),
        (ALL, ()),
        (SYS_ADMIN, ()),
        (PERFMON | BPF, ()),
        (ALL & ~SYS_ADMIN & ~BPF, ("CAP_BPF",)),
        (ALL & ~SYS_ADMIN & ~PERFMON, ("CAP_PERFMON",)),
    ],
)
def test_missing_capabilities_are_named(held: int, missing: tuple[str, ...]) -> None:
    assert preflight.missing_capabilities(f"{held:016x}") == missing


def check_under(*wrapper: str) -> subprocess.CompletedProcess[str]:
    """Run the check in a process that `wrapper` (unshare, setpriv) starts."""
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
        pytest.skip(f"{' '.join(wrapper[:2])} does not work here: not root?")
    return subprocess.run([*wrapper, sys.executable, "-c", CHECK], capture_output=True, text=True)


def test_process_without_the_capabilities_reads_which() -> None:
    result = check_under("setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all")
    assert result.returncode == os.EX_NOPERM, result.stderr
    assert result.stdout.startswith("missing CAP_PERFMON and CAP_BPF: run as root")


def test_root_of_a_user_namespace_is_reported_so() -> None:
    result = check_under("unshare", "--user", "--map-root-user")
    assert result.returncode == os.EX_NOPERM, result.stderr
    assert "root of a user namespace" in result.stdout


def test_kernel_without_btf_is_reported_so() -> None:
    if not preflight.BTF.exists():
        pytest.skip("this kernel has no BTF to be hidden")
    hide = f'mount -t tmpfs none {preflight.BTF.parent} && exec "$@"'
    result = check_under("unshare", "--mount", "sh", "-c", hide, "sh")
    assert result.returncode == os.EX_UNAVAILABLE, result.stderr
    assert "no BTF" in result.stdout
    assert "CONFIG_DEBUG_INFO_BTF=y" in result.stdout


def test_time_namespace_of_another_clock_is_refused() -> None:
    if os.geteuid() != 0 or not preflight.BTF.exists():
        pytest.skip("not root, or a kernel without BTF")
    result = check_under("unshare", "--time", "--monotonic", "1000000", "--fork")
    assert result.returncode == os.EX_UNAVAILABLE, result.stderr
    assert "this time namespace shifts CLOCK_MONOTONIC by 1,000,000.000 s" in result.stdout
    # One that shifts other clocks alone is fine.
    result = check_under("unshare", "--time", "--boottime", "1000000", "--fork")
    assert (result.returncode, result.stdout) == (os.EX_OK, ""), result.stderr


@pytest.mark.parametrize(
    ("text", "offset_ns"),
    [
        ("monotonic           0         0\nboottime            7         0\n", 0),
        ("monotonic     1000000         5\nboottime            0         0\n", 10**15 + 5),
        ("monotonic          -1 500000000\nboottime            0         0\n", -(10**9) // 2),
        ("", None),
        (None, 0),
    ],
)
def test_offset_is_read_where_there_is_one(
    tmp_path: Path, text: str | None, offset_ns: int | None
) -> None:
    (tmp_path / "ns").mkdir()
    for name in ("time", "time_for_children"):
        (tmp_path / "ns" / name).symlink_to("time:[4026531834]")
    if text is not None:
        (tmp_path / "timens_offsets").write_text(text)
    assert preflight.monotonic_offset_ns(tmp_path) == offset_ns
    (tmp_path / "ns" / "time").unlink()
    (tmp_path / "ns" / "time").symlink_to("time:[4026532593]")
    assert preflight.monotonic_offset_ns(tmp_path) == (None if text is not None else 0)


def test_machine_that_has_all_passes() -> None:
    if os.geteuid() != 0 or not preflight.BTF.exists():
        pytest.skip("not root, or a kernel without BTF")
    result = check_under("env")
    assert (result.returncode, result.stdout) == (os.EX_OK, ""), result.stderr


def test_refusal_under_seccomp_says_how_to_start_the_container() -> None:
    if preflight.LOCKDOWN.exists() and "[confidentiality]" in preflight.LOCKDOWN.read_text():
        pytest.skip("this kernel is locked down, which is told first")
    result = subprocess.run(
        [sys.executable, "-c", REFUSED_UNDER_SECCOMP], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "seccomp" in result.stdout
    assert "--privileged --pid=host" in result.stdout


@pytest.mark.parametrize(
    ("number", "filtered", "takes", "forbidden"),
    [
        (errno.EPERM, False, True, True),
        (errno.EACCES, False, True, True),
        (errno.EINVAL, False, False, False),
        (errno.EINVAL, True, True, False),
        (errno.EINVAL, True, False, True),
        (errno.ENOSYS, True, False, True),
    ],
)
def test_a_filter_may_answer_with_any_error(
    monkeypatch: pytest.MonkeyPatch, number: int, *, filtered: bool, takes: bool, forbidden: bool
) -> None:
    reason = preflight.Reason("a filter is set", "lift it")
    monkeypatch.setattr(objects, "is_filtered", lambda: filtered)
    monkeypatch.setattr(objects, "why_refused", lambda: reason)
    error = BpfError(number, os.strerror(number), "loading capture.bpf.o")
    assert objects.why_forbidden(error, lambda: takes) == (reason if forbidden else None)
    assert isinstance(objects.refusal(error, lambda: takes), PermissionDeniedError) == forbidden


def test_no_right_is_missing_where_only_fentry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"CapEff": f"{PERFMON | BPF:x}", "Seccomp": "2", "Seccomp_filters": "1"}
    monkeypatch.setattr(preflight, "process_status", fields.__getitem__)
    error = BpfError(errno.EPERM, os.strerror(errno.EPERM), "a program at handle_mm_fault()")
    denied = objects.refusal_at_function(error)
    assert isinstance(denied, PermissionDeniedError)
    assert "programs at tracepoints take the same rights" in denied.what
    assert not any(word in str(denied) for word in ("seccomp", "CAP_SYS_ADMIN"))
    fields["Seccomp"] = "0"
    lacking = BpfError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), "a program at handle_mm_fault()")
    assert isinstance(objects.refusal_at_function(lacking), UnavailableError)


def test_refusal_names_lockdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lockdown = tmp_path / "lockdown"
    monkeypatch.setattr(preflight, "LOCKDOWN", lockdown)
    lockdown.write_text("none integrity [confidentiality]\n")
    assert preflight.why_refused().why == "it is locked down for confidentiality"
    lockdown.write_text("none [integrity] confidentiality\n")
    assert preflight.why_refused().why != "it is locked down for confidentiality"


def test_refusal_names_the_paranoid_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = tmp_path / "perf_event_paranoid"
    monkeypatch.setattr(preflight, "PERF_EVENT_PARANOID", level)
    fields = {"CapEff": f"{PERFMON | BPF:x}", "Seccomp": "0"}
    monkeypatch.setattr(preflight, "process_status", fields.__getitem__)
    level.write_text("4\n")
    assert "kernel.perf_event_paranoid=4" in preflight.why_refused().why
    level.write_text("2\n")
    assert "paranoid" not in preflight.why_refused().why
    level.unlink()
    assert "paranoid" not in preflight.why_refused().why


# What a kernel without a module gives: EINVAL, which is read as nothing, or no file.
@pytest.mark.parametrize(
    ("context", "enforce", "profile", "active"),
    [
        (None, None, None, ()),
        ("unconfined\n", None, "unconfined\n", ()),
        ("docker-default (complain)\n", None, "docker-default (complain)\n", ()),
        (
            "docker-default (enforce)\n",
            None,
            "docker-default (enforce)\n",
            ("AppArmor (profile docker-default)",),
        ),
        ("u:r:container_t:s0\0", "1", None, ("SELinux (context u:r:container_t:s0)",)),
        ("u:r:container_t:s0\0", None, None, ("SELinux (context u:r:container_t:s0)",)),
        ("u:r:container_t:s0\0", "0", None, ()),
    ],
)
def test_refusal_blames_a_security_module_only_if_active(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    context: str | None,
    enforce: str | None,
    profile: str | None,
    active: tuple[str, ...],
) -> None:
    given = {"CONTEXT": context, "SELINUX_ENFORCE": enforce, "APPARMOR_PROFILE": profile}
    for name, text in given.items():
        path = tmp_path / name
        monkeypatch.setattr(preflight, name, path)
        if text is not None:
            path.write_text(text)
    monkeypatch.setattr(preflight, "LOCKDOWN", tmp_path / "lockdown")
    monkeypatch.setattr(preflight, "process_status", {"CapEff": f"{ALL:x}", "Seccomp": "0"}.get)
    assert preflight.active_modules() == active
    for said in (preflight.why_refused().why, str(preflight.may_not_look_at("process 7"))):
        assert all(module in said for module in active)
        assert active or "why is not known" in said
        assert "container" not in said.replace("container_t", "")


def types_with(names: Iterable[str]) -> bytes:
    """Names as BTF has them, after and before others (Documentation/bpf/btf.rst, 5.14)."""
    strings = b"\0".join([b"", b"sk_bpf_storage", *map(str.encode, names), b"rq", b""])
    types = b"\0" * 12
    size = struct.calcsize(HEADER)
    header = struct.pack(HEADER, 0xEB9F, 1, 0, size, 0, len(types), len(types), len(strings))
    return header + types + strings


def test_a_kernel_without_what_bpf_needs_is_one_line(
    root_user: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = tmp_path / "vmlinux"
    monkeypatch.setattr(preflight, "BTF", types)
    types.write_bytes(types_with(name for _, name in preflight.NEEDED_OF_BPF))
    preflight.check()
    # As Debian 11's Linux 5.10 has it: no BPF_FUNC_get_current_task_btf, and no bpf_storage.
    types.write_bytes(types_with(["BPF_MAP_TYPE_RINGBUF"]))
    with pytest.raises(UnavailableError) as error:
        preflight.check()
    assert str(error.value) == (
        "this kernel's BPF has no bpf_get_current_task_btf() and no task storage for tracing"
        " programs: use a kernel of 5.14 or later (RHEL 9, Ubuntu 22.04, Debian 12 and later"
        " have it)"
    )
    assert "\n" not in str(error.value)


def test_the_check_says_the_same_and_loads_no_program(
    measurable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "vmlinux"
    old.write_bytes(types_with(["BPF_MAP_TYPE_RINGBUF", "BPF_FUNC_get_current_task_btf"]))
    monkeypatch.setattr(preflight, "BTF", old)
    monkeypatch.setattr(check_kernel, "Programs", None)
    (found,) = (each for each in check_kernel.kernel_findings(()) if each.name == "programs")
    assert (found.state, found.remedy) == ("no", preflight.NEWER)
    assert found.detail == "this kernel's BPF has no task storage for tracing programs"
