"""What is said where memory, a limit or a part of the installation is missing."""

import errno
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_delay import cli, commands, errors
from kernel_delay.loader import objects
from kernel_delay.loader.base import BpfError, start_log
from kernel_delay.loader.maps import Map
from kernel_delay.loader.objects import not_opened
from kernel_delay.loader.programs import BpfObject
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


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "no memory"),
        SystemError("error return without exception set"),
    ],
)
def test_too_little_memory_is_no_internal_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    status, line = reported(capsys, monkeypatch, error)
    assert status == os.EX_UNAVAILABLE
    assert line.startswith("kernel-delay: too little memory: ")


def test_thread_that_cannot_start_is_no_internal_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, line = reported(capsys, monkeypatch, RuntimeError("can't start new thread"))
    assert status == os.EX_UNAVAILABLE
    assert line.startswith("kernel-delay: too few threads: ")


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EINVAL, os.EX_UNAVAILABLE), (errno.EPERM, os.EX_NOPERM)],
)
def test_bpf_call_that_fails_is_no_write_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    error = BpfError(number, os.strerror(number), "reading counters")
    status, line = reported(capsys, monkeypatch, error)
    assert status == code
    assert line == f"kernel-delay: reading counters: {os.strerror(number)}"


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    """read(2) fails with EIO at address 0 of a process."""
    memory = Path("/proc/self/mem")
    with pytest.raises(OSError, match="error") as caught:
        memory.read_bytes()
    assert errors.file_of(caught.value) == str(memory)


WITHOUT_COMMAND_LINE = """
import sys
class Failing:
    def find_spec(self, name, path, target=None):
        if name in {modules}:
            raise {error}
from kernel_delay import __main__ as entry
sys.meta_path.insert(0, Failing())
sys.argv = ["kernel-delay", "check"]
sys.exit(entry.main())
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("OSError(24, 'Too many open files')", "too few file descriptors"),
        ("MemoryError()", "too little memory"),
        ("ImportError('failed to map segment from shared object')", "a part can't be loaded"),
        ("OSError(5, 'Input/output error')", "a part can't be loaded"),
    ],
)
def test_command_line_that_cannot_be_imported_is_one_line(error: str, said: str) -> None:
    command_line, signals = "kernel_delay.cli", "kernel_delay.host._signals"
    for modules in ((command_line,), (signals,), (command_line, "kernel_delay.errors")):
        code = WITHOUT_COMMAND_LINE.format(error=error, modules=modules)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == os.EX_UNAVAILABLE
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"kernel-delay: {said if len(modules) == 1 else 'a part'}")


def test_map_that_cannot_be_mapped_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as unmappable:
        values = {"fd": unmappable.fileno(), "value_size": 8, "max_entries": 1}
        for name, value in values.items():
            monkeypatch.setattr(Map, name, value)
        records: Any = None
        with pytest.raises(BpfError, match="mapping records"):
            Map(records, "records").mmap()


def test_library_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, line = reported(capsys, monkeypatch, ImportError("libx.so.1: cannot open"))
    assert (status, line) == (
        os.EX_UNAVAILABLE,
        "kernel-delay: a part can't be loaded (libx.so.1: cannot open):"
        " install kernel-delay again, with what it needs",
    )


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("cannot open shared object file: Too many open files", "too few file descriptors"),
        ("cannot create shared object descriptor: Cannot allocate memory", "too little memory"),
        ("failed to map segment from shared object", "free some memory"),
        ("cannot map zero-fill pages", "free some memory"),
    ],
)
def test_shortage_of_an_import_blames_no_installation(reason: str, said: str) -> None:
    line = errors.cannot_load(ImportError(f"libx.so.1: {reason}"))
    assert said in line
    assert "install" not in line


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


# The first import of it alone fails.
DATETIME_LATE = """
import sys
sys.modules["_datetime"] = None
sys.modules.pop("datetime", None)
import datetime
del sys.modules["_datetime"]
from kernel_delay.cli import main
sys.exit(main(["report", sys.argv[1]]))
"""


@pytest.mark.parametrize("code", [WITHOUT_DATETIME, DATETIME_LATE])
def test_datetime_without_its_c_part_crashes_nothing(tmp_path: Path, code: str) -> None:
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    command = [sys.executable, "-c", code, str(recording)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == os.EX_UNAVAILABLE
    (line,) = done.stderr.splitlines()
    assert "_datetime" in line


UNNAMED = """
import posix
def fail(*args): raise OSError(28, "no space")
posix.write = fail
import kernel_delay.__main__
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
        ({}, "the kernel's types can't be read"),
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


@pytest.mark.parametrize("number", objects.NOT_WRITTEN)
def test_types_that_are_not_written_blame_no_kernel(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(objects, "take_log", lambda: "")
    error = BpfError(number, os.strerror(number), "loading capture.bpf.o")
    assert objects.refusal(error).what.startswith("no room for the kernel's types (")


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
