"""What the running kernel's BPF has, found by trying: libbpf's feature probes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from kernel_delay.libbpf._libbpf import ffi, lib
from kernel_delay.libbpf.errors import bpf_error

MapType = Literal["ARRAY", "RINGBUF", "TASK_STORAGE"]

MAP_TYPES: Mapping[MapType, int] = MappingProxyType(
    {
        "ARRAY": lib.BPF_MAP_TYPE_ARRAY,
        "RINGBUF": lib.BPF_MAP_TYPE_RINGBUF,
        "TASK_STORAGE": lib.BPF_MAP_TYPE_TASK_STORAGE,
    }
)


def per_cpu_distance(start: str, variable: str) -> int | None:
    """Return how many bytes one of the kernel's per-CPU variables is behind another, on every CPU.

    None where the kernel has not both, or its BTF does not tell.
    """
    distance = lib.per_cpu_distance(start.encode(), variable.encode())
    return None if distance == -(1 << 63) else distance


def has_map_type(name: MapType) -> bool:
    """Whether a map of BPF_MAP_TYPE_`name` can be made, by this user."""
    result = lib.libbpf_probe_bpf_map_type(MAP_TYPES[name], ffi.NULL)
    if result < 0:
        raise bpf_error(f"map type {name}", -result)
    return bool(result)
