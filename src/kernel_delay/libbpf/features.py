"""What the running kernel's BPF has, found by trying: libbpf's feature probes."""

from kernel_delay.libbpf._libbpf import ffi, lib
from kernel_delay.libbpf.errors import bpf_error


def has_map_type(name: str) -> bool:
    """Whether a map of BPF_MAP_TYPE_`name` can be made, by this user."""
    result = lib.libbpf_probe_bpf_map_type(getattr(lib, f"BPF_MAP_TYPE_{name}"), ffi.NULL)
    if result < 0:
        raise bpf_error(f"map type {name}", -result)
    return bool(result)
