"""Failures a user can cause or cure, each one line of text and an exit code.

The codes are those of sysexits.h (see sysexits(3head)); `cli.py` is the one
place that prints the line and exits with the code.
"""

import errno
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager

# The modules that are compiled.
_COMPILED = re.compile(r"kernel_delay\.(\w+\.)*_\w+")


class KernelDelayError(Exception):
    """A failure told to the user in one line: what is wrong and what to do.

    `exit_code` is the process's exit status, from sysexits.h.
    """

    exit_code: int = os.EX_SOFTWARE


class UsageError(KernelDelayError):
    """The command line asks for something that makes no sense."""

    exit_code = os.EX_USAGE


class NotExecutedError(KernelDelayError):
    """A command that was to be run can't be. The codes are those of env(1)."""

    def __init__(self, name: str, error: OSError) -> None:
        """That of this name, for this reason."""
        super().__init__(f"can't run {name}: {error.strerror}")
        is_missing = isinstance(error, FileNotFoundError)
        self.exit_code = 127 if is_missing else 126


class InputError(KernelDelayError):
    """A file given as input is not what it should be."""

    exit_code = os.EX_DATAERR


class NoInputError(KernelDelayError):
    """What is to be measured or read (a process, a file, a probe) is not there."""

    exit_code = os.EX_NOINPUT


class UnavailableError(KernelDelayError):
    """This kernel or machine can't do what the command needs."""

    exit_code = os.EX_UNAVAILABLE


class OutputError(KernelDelayError):
    """An output file can't be written."""

    exit_code = os.EX_CANTCREAT


class PermissionDeniedError(KernelDelayError):
    """The user may not do this: not root, or a capability is missing."""

    exit_code = os.EX_NOPERM


class TimeoutExpiredError(KernelDelayError):
    """What was waited for did not come in time."""

    exit_code = os.EX_TEMPFAIL


def too_few_descriptors(error: OSError) -> bool:
    """Whether this process, or the machine, may open no more files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def raise_descriptors() -> str:
    """What to tell the user of that."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"too few file descriptors: raise `ulimit -n`, which is {soft} now"


@contextmanager
def naming(output: str) -> Iterator[None]:
    """Have an error of writing within say which output it was, where it does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = output
        raise


@contextmanager
def compiled_parts() -> Iterator[None]:
    """Raise UnavailableError where what is done within takes what was not compiled here."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not _COMPILED.fullmatch(error.name or ""):
            raise
        raise UnavailableError(
            "nothing of kernel-delay was compiled here: it can read recordings (report, compare),"
            " and measure nothing"
        ) from error
