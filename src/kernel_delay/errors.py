"""Failures a user can cause or cure, each one line of text and an exit code.

The codes are those of sysexits.h (see sysexits(3head)); `cli.py` is the one
place that prints the line and exits with the code.
"""

import errno
import io
import os
import re
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Of address space, and of data: getrlimit(2).
_MEMORY_LIMITS = ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d"))

_LEAST_ADDRESS_SPACE = 1 << 30

# elf/dl-load.c and elf/dl-reloc.c of glibc 2.36, which leave out why mmap(2) failed.
_NOT_MAPPED = (
    "failed to map segment from shared object",
    "cannot map zero-fill pages",
    "cannot change memory protections",
)

# Modules/_threadmodule.c of Python 3.11 to 3.14, which leaves out why.
_NO_THREAD = "can't start new thread"

# Python/ceval.c of Python 3.11 to 3.13, where a call finds no memory for its frame.
_NO_FRAME = "error return without exception set"

# The modules that are compiled.
_COMPILED = re.compile(r"kernel_delay\.(\w+\.)*_\w+")


class KernelDelayError(Exception):
    """A failure that the user reads as one line: what is wrong and what to do.

    `exit_code` is the process's exit status, from sysexits.h.
    `what` is what is wrong; `remedy` what to do about it, None where `what` says that too.
    """

    exit_code: int = os.EX_SOFTWARE

    def __init__(self, what: str, remedy: str | None = None) -> None:
        """The line is `what`, and behind a colon the remedy."""
        super().__init__(what if remedy is None else f"{what}: {remedy}")
        self.what = what
        self.remedy = remedy


class UsageError(KernelDelayError):
    """The command line makes no sense.

    An option is unknown or has a wrong value, or several processes match where one is needed.
    """

    exit_code = os.EX_USAGE


class NotExecutedError(KernelDelayError):
    """A command that was to be run can't be. The codes are those of env(1)."""

    def __init__(self, name: str, error: OSError) -> None:
        """That of this name, for this reason."""
        super().__init__(f"can't run {name}: {error.strerror}")
        is_missing = isinstance(error, FileNotFoundError)
        self.exit_code = 127 if is_missing else 126


class InputError(KernelDelayError):
    """An input file is not what it should be.

    A file is no ELF file, no recording or no export; or it was cut or is damaged. What could be
    read before the damage was reported.
    """

    exit_code = os.EX_DATAERR


class NoInputError(KernelDelayError):
    """What should be measured or read does not exist.

    There is no such process, file or probe, the process has exited, or a recording has no samples.
    """

    exit_code = os.EX_NOINPUT


class UnavailableError(KernelDelayError):
    """This kernel or machine cannot do what the command needs.

    The kernel has no BTF, is older than 5.14 or refused a program. Or memory, file descriptors or a
    part of the installation are missing, or the PID is a kernel thread.
    """

    exit_code = os.EX_UNAVAILABLE


class OutputError(KernelDelayError):
    """An output file cannot be opened."""

    exit_code = os.EX_CANTCREAT


class WriteFailedError(OutputError):
    """Writing to an output failed, as on a full disk."""

    exit_code = os.EX_IOERR


class PermissionDeniedError(KernelDelayError):
    """The user lacks a right.

    A capability is missing, or the kernel refuses BPF.
    """

    exit_code = os.EX_NOPERM


class TimeoutExpiredError(KernelDelayError):
    """A trigger was not hit within `--timeout`."""

    exit_code = os.EX_TEMPFAIL


def cannot_write(output: str, error: OSError) -> OutputError:
    """The error for an output that can't be opened, or written where the disk is full."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    kind = WriteFailedError if is_full else OutputError
    return kind(f"can't write {output}: {error.strerror or error}")


def shortage(error: BaseException | None) -> str | None:
    """What an error says if `error` is of a limit of this process, or of too little memory.

    Else None.
    """
    if isinstance(error, MemoryError) or (
        str(error) == _NO_FRAME and isinstance(error, SystemError)
    ):
        return raise_memory()
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return (
            "too few threads: raise `ulimit -u`, or the limit of this cgroup (pids.max), or free"
            " some memory"
        )
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return raise_descriptors()
    if error.errno == errno.EFBIG and soft_limit(resource.RLIMIT_FSIZE) is not None:
        return "the limit on the size of files is too low: raise `ulimit -f`"
    return raise_memory() if error.errno == errno.ENOMEM else None


def file_of(error: OSError) -> str | None:
    """The file that an error of read(2) or write(2) is of, by the function that called it.

    Python's files leave it out. None where that function has none, or several.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return None
    values = traceback.tb_frame.f_locals.values()
    names = {getattr(each, "name", None) for each in values if isinstance(each, io.IOBase)}
    name = names.pop() if len(names) == 1 else None
    return os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else None


def shortage_named(text: str) -> str | None:
    """The same, of what a library has put into words by strerror(3)."""
    if os.strerror(errno.EMFILE) in text or os.strerror(errno.ENFILE) in text:
        return raise_descriptors()
    return raise_memory() if os.strerror(errno.ENOMEM) in text else None


def raise_descriptors() -> str:
    """What an error says of that, and what to do."""
    limit = soft_limit(resource.RLIMIT_NOFILE)
    now = "" if limit is None else f", which is {limit} now"
    return f"too few file descriptors: raise `ulimit -n`{now}"


def is_memory_limited() -> bool:
    """Whether this process may have only so much address space, or data."""
    return any(soft_limit(kind) is not None for kind, _ in _MEMORY_LIMITS)


def raise_memory() -> str:
    """What an error says where there was no memory."""
    for kind, option in _MEMORY_LIMITS:
        if (limit := soft_limit(kind)) is not None:
            now = f"which is {limit // 1024} (KiB) now"
            return f"too little memory: raise `ulimit {option}`, {now}"
    return "too little memory: free some, or raise the memory limit of this cgroup"


def require_address_space(library: str) -> None:
    """Raise UnavailableError where `ulimit -v` leaves less than 1 GiB to a library that aborts.

    OpenBLAS and DuckDB end the process, with a crash or with words of their own: OpenBLAS 0.3 with
    300,000 KiB, DuckDB 2.0 with 200,000; with 800,000 the latter has no memory for a small query.
    """
    limit = soft_limit(resource.RLIMIT_AS)
    if limit is not None and limit < _LEAST_ADDRESS_SPACE:
        raise UnavailableError(f"{raise_memory()}: {library} needs {_LEAST_ADDRESS_SPACE // 1024}")


def cannot_load(error: BaseException) -> str:
    """What an error says of a module or a library that can't be loaded."""
    # A library is mapped whole, and what dlopen(3) says of too little memory has many words.
    if not isinstance(error, ModuleNotFoundError) and is_memory_limited():
        return raise_memory()
    text = str(error)
    if short := shortage_named(text):
        return short
    if any(each in text for each in _NOT_MAPPED):
        return (
            f"a part can't be loaded ({error}): free some memory, or let its folder be mapped"
            " (noexec, SELinux)"
        )
    return f"a part can't be loaded ({error}): install kernel-delay again, with what it needs"


def soft_limit(kind: int) -> int | None:
    """This process's limit, one of resource.RLIMIT_…; None where there is none, or it is hidden."""
    try:
        soft, _ = resource.getrlimit(kind)
    except OSError:  # a seccomp filter
        return None
    return None if soft == resource.RLIM_INFINITY else soft


@contextmanager
def naming(output: str) -> Iterator[None]:
    """Have an error of writing within say which output it was, where it does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = output
        raise


def is_compiled() -> bool:
    """Whether what each measuring command takes was compiled here."""
    from importlib.machinery import EXTENSION_SUFFIXES

    library = os.path.join(os.path.dirname(__file__), "loader", "_libbpf")
    return any(os.path.exists(library + suffix) for suffix in EXTENSION_SUFFIXES)


@contextmanager
def compiled_parts() -> Iterator[None]:
    """Raise UnavailableError where what is done within takes what was not compiled here."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not _COMPILED.fullmatch(error.name or ""):
            raise
        if is_compiled():
            raise UnavailableError(
                f"a part is missing ({error.name})", "install kernel-delay again"
            ) from error
        raise UnavailableError(
            "nothing of kernel-delay was compiled here: it reads recordings (report, compare), but"
            " cannot measure"
        ) from error


def not_installed(what: str, package: str) -> UnavailableError:
    """Return the error of a Python package that is missing, with the pip that installs it here.

    Args:
        what: What needs it.
        package: Its name, as pip has it.
    """
    return UnavailableError(
        f"{what} needs Python's package {package}, which is not installed",
        f"{sys.executable} -m pip install {package}",
    )


CANDIDATES = 64
"""difflib takes 0.2 ms a name: it orders only this many, those with most letter pairs in common."""


def similar_names(name: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Find up to `count` of `names` that are most like `name`, the best first; none if unlike."""
    import difflib
    import heapq

    pairs = {name[i : i + 2] for i in range(len(name) - 1)} or {name}

    def likeness(other: str) -> float:
        return sum(pair in other for pair in pairs) / (len(name) + len(other))

    candidates = heapq.nlargest(CANDIDATES, names, key=likeness)
    return tuple(difflib.get_close_matches(name, candidates, count))


def hint(names: Iterable[str]) -> str:
    """Say `names` at the end of an error's line; nothing if there are none."""
    listed = ", ".join(names)
    return f"; closest: {listed}" if listed else ""
