"""What a process may do no more once it measures: tried by a process of its own."""

import subprocess
import sys

import pytest

from kernel_delay.host.privileges import CAPABILITIES, DENIED_CALLS, USES

HEAD = """
import ctypes, errno, os, socket, subprocess, tempfile, threading
from pathlib import Path
from kernel_delay.host import privileges

libc = ctypes.CDLL(None, use_errno=True)

def status(field, thread="thread-self"):
    text = Path(f"/proc/{thread}/status").read_text()
    return text.partition(f"{field}:")[2].split()[0]

def refused(function, *arguments):
    try:
        function(*arguments)
    except PermissionError as error:
        return error.errno == errno.EPERM
    return False

def bpf(command):
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    libc.syscall(number, ctypes.c_long(command), None, ctypes.c_long(0))
    return ctypes.get_errno()
"""


def tried(code: str, *within: str) -> list[str]:
    """The lines that the code prints in a process of its own, with what stands in HEAD."""
    command = [*within, sys.executable, "-c", HEAD + code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_no_program_is_started_and_no_socket_made() -> None:
    printed = tried(
        "privileges.keep_only(())\n"
        "print(refused(os.execv, '/bin/true', ['true']), refused(socket.socket))\n"
        "print(status('NoNewPrivs'), status('Seccomp'))\n"
    )
    assert printed == ["True True", "1 2"]


def test_what_a_use_takes_stays() -> None:
    (printed,) = tried(
        "privileges.keep_only((privileges.NAMES, privileges.NETWORK))\n"
        "print(subprocess.run(['true']).returncode, socket.socket().fileno() > 2)\n"
    )
    assert printed == "0 True"


@pytest.mark.parametrize("command", [0, 5, 18, 34, 1000, 1 << 32 | 1])
def test_bpf_loads_nothing(command: int) -> None:
    """Maps, programs and types; a later command; and a number of which the kernel reads half."""
    code = f"privileges.keep_only(())\nprint(bpf({command}) == errno.EPERM)\n"
    assert tried(code) == ["True"]


def test_bpf_still_reads_maps(root_user: None) -> None:
    """Without a map it is another error."""
    assert tried("privileges.keep_only(())\nprint(bpf(1) == errno.EINVAL)\n") == ["True"]


def test_following_may_load(root_user: None) -> None:
    code = "privileges.keep_only((privileges.FOLLOW,))\nprint(bpf(5) != errno.EPERM)\n"
    assert tried(code) == ["True"]


def test_only_the_capabilities_of_the_uses_stay(root_user: None) -> None:
    printed = tried(
        "privileges.keep_only((privileges.PROCESS,))\n"
        "print(*(status(field) for field in ('CapEff', 'CapPrm', 'CapInh')))\n"
    )
    kept = sum(
        1 << CAPABILITIES[name] for name in ("CAP_BPF", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH")
    )
    assert printed == [f"{kept:016x} {kept:016x} {0:016x}"]


def test_a_folder_of_another_user_is_still_written_to(root_user: None) -> None:
    printed = tried(
        "folder = Path(tempfile.mkdtemp())\n"
        "os.chown(folder, 65534, 65534)\n"
        "privileges.keep_only((), [folder / 'page.html'])\n"
        "(folder / 'page.html').write_text('')\n"
        "(folder / 'page.html').unlink()\n"
        "print(status('CapEff'))\n"
        "folder.rmdir()\n"
    )
    names = ("CAP_BPF", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
    assert printed == [f"{sum(1 << CAPABILITIES[name] for name in names):016x}"]


def test_sys_admin_stays_where_it_stands_for_others(root_user: None) -> None:
    """As in a container of a runtime that does not know CAP_BPF."""
    alone = ("setpriv", "--bounding-set", "-all,+sys_admin", "--inh-caps", "-all")
    (printed,) = tried("privileges.keep_only(())\nprint(status('CapEff'))\n", *alone)
    assert printed == f"{1 << CAPABILITIES['CAP_SYS_ADMIN']:016x}"


@pytest.mark.parametrize(("level", "more"), [(2, ()), (3, ("CAP_SYS_ADMIN",))])
def test_perf_events_keep_what_they_take(
    root_user: None, level: int, more: tuple[str, ...]
) -> None:
    """Debian's and Ubuntu's kernels have levels at which CAP_PERFMON is not enough."""
    (printed,) = tried(
        f"privileges.perf_event_paranoid = lambda: {level}\n"
        "privileges.keep_only((privileges.PROFILES,))\n"
        "print(status('CapEff'))\n"
    )
    kept = sum(1 << CAPABILITIES[name] for name in ("CAP_BPF", "CAP_PERFMON", *more))
    assert printed == f"{kept:016x}"


def test_threads_are_started_without_capabilities(root_user: None) -> None:
    printed = tried(
        "seen = []\n"
        "thread = threading.Thread(target=lambda: seen.append(status('CapPrm')))\n"
        "privileges.without_capabilities(thread.start)\n"
        "thread.join()\n"
        "print(seen[0], status('CapPrm') > seen[0])\n"
    )
    assert printed == [f"{0:016x} True"]


def test_an_error_of_what_starts_is_raised() -> None:
    (printed,) = tried(
        "def fail():\n"
        "    raise PermissionError(errno.EPERM, None)\n"
        "print(refused(privileges.without_capabilities, fail))\n"
    )
    assert printed == "True"


def test_a_filter_opens_no_file() -> None:
    printed = tried(
        "privileges.keep_nothing()\n"
        "print(refused(os.open, '/', os.O_RDONLY), refused(os.getpgid, 0), refused(os.fork))\n"
    )
    assert printed == ["True True True"]


def test_all_in_the_table_is_known() -> None:
    assert {name for use in USES for name in use.capabilities} == CAPABILITIES.keys()
    assert {name for use in USES for name in use.calls} <= set(DENIED_CALLS)
    assert len(set(DENIED_CALLS)) == len(DENIED_CALLS)
