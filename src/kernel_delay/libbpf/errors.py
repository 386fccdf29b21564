"""What libbpf and the kernel refuse."""

import os

from kernel_delay.libbpf._libbpf import ffi


class BpfError(OSError):
    """The kernel or libbpf refused; `errno` and `strerror` say how, `filename` what was asked."""

    filename: str


def bpf_error(what: str, errno: int | None = None) -> BpfError:
    """Return the error of the call just made, or the one given, about `what`."""
    number = ffi.errno if errno is None else errno
    return BpfError(number, os.strerror(number), what)
