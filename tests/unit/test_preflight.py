"""What keeps a capture from working: told from the mask, and met for real."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.host import preflight

ALL = (1 << 41) - 1
SYS_ADMIN, PERFMON, BPF = 1 << 21, 1 << 38, 1 << 39

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
print(preflight.why_refused())
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


def test_process_without_the_capabilities_is_told_which() -> None:
    result = check_under("setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all")
    assert result.returncode == os.EX_NOPERM, result.stderr
    assert result.stdout.startswith("missing CAP_PERFMON and CAP_BPF: run as root")


def test_root_of_a_user_namespace_is_told_so() -> None:
    result = check_under("unshare", "--user", "--map-root-user")
    assert result.returncode == os.EX_NOPERM, result.stderr
    assert "only within a user namespace" in result.stdout


def test_kernel_without_btf_is_told_so() -> None:
    if not preflight.BTF.exists():
        pytest.skip("this kernel has no BTF to be hidden")
    hide = f'mount -t tmpfs none {preflight.BTF.parent} && exec "$@"'
    result = check_under("unshare", "--mount", "sh", "-c", hide, "sh")
    assert result.returncode == os.EX_UNAVAILABLE, result.stderr
    assert "no BTF" in result.stdout
    assert "CONFIG_DEBUG_INFO_BTF=y" in result.stdout


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


def test_refusal_names_lockdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lockdown = tmp_path / "lockdown"
    monkeypatch.setattr(preflight, "LOCKDOWN", lockdown)
    lockdown.write_text("none integrity [confidentiality]\n")
    assert preflight.why_refused().startswith("it is locked down for confidentiality")
    lockdown.write_text("none [integrity] confidentiality\n")
    assert not preflight.why_refused().startswith("it is locked down")
