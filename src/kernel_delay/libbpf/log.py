"""libbpf's log: what it and the kernel's verifier have to say."""

from kernel_delay.libbpf._libbpf import ffi, lib

LOG_SIZE = 64 * 1024


def start_log(shown_level: int) -> None:
    """Keep libbpf's log from now on for take_log(), and print to stderr what is wanted.

    `shown_level` -1 prints nothing, 0 warnings, 1 information, 2 debugging.
    """
    lib.libbpf_log_start(shown_level)


def take_log() -> str:
    """Return what libbpf said since the last call (its warnings and information)."""
    text = ffi.new("char[]", LOG_SIZE)
    length = lib.libbpf_log_take(text, LOG_SIZE)
    return bytes(ffi.buffer(text, length)).decode(errors="replace")
