"""What is said where memory, a limit or a part of the installation is missing."""

import errno
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel_delay import cli, commands, errors
from kernel_delay.libbpf import BpfError, BpfObject, start_log
from kernel_delay.loader import objects
from kernel_delay.loader.objects import not_opened
from tests.recordings import record_samples
from tests.unit.event_samples import WITH_EVENTS

# seccomp(2), linux/filter.h: prlimit64(2) gives EPERM.
NUMBER = {"x86_64": 302, "aarch64": 261}.get(platform.machine())
WITHOUT_PRLIMIT = """
import ctypes, struct
def line(code, yes, no, value): return struct.pack("=HBBI", code, yes, no, value)
lines = (line(0x20, 0, 0, 0), line(0x15, 0, 1, {number}), line(0x06, 0, 0, 0x50001),
    line(0x06, 0, 0, 0x7FFF0000))
text = ctypes.create_string_buffer(b"".join(lines), 32)
program = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
from kernel_delay.capture.syscall_events.stacks import _allow_many_files
from kernel_delay.errors import raise_descriptors, raise_memory
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, filter
_allow_many_files()
print(raise_descriptors(), raise_memory(), sep="\\n")
"""


def reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> tuple[int, str]:
    """What a command that fails so ends with."""

    def run(args: object) -> int:
        raise error

    failing = SimpleNamespace(run=run, add_arguments=lambda parser: None)
    monkeypatch.setattr(commands, "load", lambda name: failing)
    status = cli.main(["report"])
    (line,) = capsys.readouterr().err.splitlines()
    return status, line


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "no memory")])
def test_too_little_memory_is_no_internal_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    status, line = reported(capsys, monkeypatch, error)
    assert status == os.EX_UNAVAILABLE
    assert line.startswith("kernel-delay: too little memory: ")


def test_library_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, line = reported(capsys, monkeypatch, ImportError("libx.so.1: cannot open"))
    assert (status, line) == (
        os.EX_UNAVAILABLE,
        "kernel-delay: a part can't be loaded (libx.so.1: cannot open):"
        " install kernel-delay again, with what it needs",
    )


@pytest.mark.parametrize("module", ["argparse", "zstandard"])
def test_import_that_fails_is_one_line(tmp_path: Path, module: str) -> None:
    """At once, as the command line is read, and where a command needs it."""
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / f"{module}.py").write_text("raise ImportError('libx.so.1: cannot open')")
    done = subprocess.run(
        [sys.executable, "-m", "kernel_delay", "report", recording],
        env={**os.environ, "PYTHONPATH": str(broken)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == os.EX_UNAVAILABLE
    (line,) = done.stderr.splitlines()
    assert "libx.so.1: cannot open" in line


WITHOUT_DATETIME = """
import sys
sys.modules["_datetime"] = None
from kernel_delay.cli import main
sys.exit(main(["report", sys.argv[1]]))
"""


def test_datetime_without_its_c_part_crashes_nothing(tmp_path: Path) -> None:
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    command = [sys.executable, "-c", WITHOUT_DATETIME, str(recording)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == os.EX_UNAVAILABLE
    (line,) = done.stderr.splitlines()
    assert "_datetime" in line


UNNAMED = """
import posix
def fail(*args): raise OSError(28, "no space")
posix.write = fail
import kernel_delay.entry
"""


def test_task_that_cannot_be_named_ends_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", UNNAMED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_line_that_nobody_reads_leaves_the_exit_code() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kernel_delay", "report", "--none"]
    done = subprocess.run(command, stderr=writing)
    os.close(writing)
    assert done.returncode == os.EX_USAGE


def test_limits_that_may_not_be_asked_for_end_nothing() -> None:
    if NUMBER is None:
        pytest.skip("the number of prlimit64(2) is not known here")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PRLIMIT.format(number=NUMBER)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    descriptors, memory = done.stdout.splitlines()
    assert descriptors == "too few file descriptors: raise `ulimit -n`"
    assert memory.startswith("too little memory: free some")


def test_file_that_is_no_bpf_object_has_libbpfs_words(tmp_path: Path) -> None:
    start_log(-1)
    (tmp_path / "a.bpf.o").write_bytes(b"no ELF file")
    with pytest.raises(BpfError) as caught:
        BpfObject(tmp_path / "a.bpf.o")
    assert "Unknown error" not in str(caught.value)
    error = not_opened(caught.value)
    assert error.what.startswith("opening a.bpf.o: ")
    assert error.remedy == "install kernel-delay again"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({resource.RLIMIT_AS: 30 << 20}, "too little memory: raise `ulimit -v`"),
        ({resource.RLIMIT_DATA: 30 << 20}, "too little memory: raise `ulimit -d`"),
        ({}, "this kernel refuses"),
    ],
)
@pytest.mark.parametrize("log", objects.NO_TYPES)
def test_types_that_find_no_room_are_no_refusal(
    monkeypatch: pytest.MonkeyPatch, limits: dict[int, int], said: str, log: str
) -> None:
    """libbpf says ESRCH where the address space has no room for the kernel's types."""
    monkeypatch.setattr(objects, "take_log", lambda: f"libbpf: {log}: -3\n")
    monkeypatch.setattr(objects, "soft_limit", limits.get)
    monkeypatch.setattr(errors, "soft_limit", limits.get)
    error = BpfError(errno.ESRCH, "No such process", "reading the kernel's types")
    assert objects.refusal(error).what.startswith(said)


def test_limit_on_files_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's types are in a file of memory."""
    error = BpfError(errno.EFBIG, "File too large", "loading capture.bpf.o")
    monkeypatch.setattr(errors, "soft_limit", {resource.RLIMIT_FSIZE: 1024}.get)
    assert "raise `ulimit -f`" in objects.refusal(error).what


@pytest.mark.parametrize("command", ["export", "fleet"])
def test_libraries_that_abort_without_memory_are_not_loaded(tmp_path: Path, command: str) -> None:
    """Their own words, or a crash, would be all that is seen."""
    record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    ours = [sys.executable, "-m", "kernel_delay"]
    commands_of = {
        "export": [*ours, "export", "a.kdr", "--parquet", "another"],
        "fleet": [*ours, "fleet", "node"],
    }
    exporting = [*ours, "export", "a.kdr", "--parquet", "node"]
    subprocess.run(exporting, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["prlimit", f"--as={800_000 << 10}", *commands_of[command]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == os.EX_UNAVAILABLE
    (line,) = done.stderr.splitlines()
    assert line.startswith("kernel-delay: too little memory: raise `ulimit -v`, which is 800000 ")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_shortage_behind_an_error_is_what_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    error = errors.cannot_write("'page.html'", cause := OSError(number, os.strerror(number)))
    error.__cause__ = cause
    status, line = reported(capsys, monkeypatch, error)
    assert status == os.EX_UNAVAILABLE
    assert line.startswith("kernel-delay: too ")
