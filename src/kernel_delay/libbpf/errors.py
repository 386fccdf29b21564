"""What libbpf and the kernel refuse."""

from kernel_delay.libbpf._libbpf import ffi, lib

TEXT_BYTES = 128


class BpfError(OSError):
    """The kernel or libbpf refused; `errno` and `strerror` say how, `filename` what was asked."""

    filename: str


def bpf_error(what: str, errno: int | None = None) -> BpfError:
    """Return the error of the call just made, or the one given, about `what`."""
    number = ffi.errno if errno is None else errno
    # libbpf has errors of its own from 4000 on: enum libbpf_errno.
    text = ffi.new("char[]", TEXT_BYTES)
    lib.libbpf_strerror(number, text, TEXT_BYTES)
    return BpfError(number, ffi.string(text).decode(), what)
