"""A thin binding of libbpf: objects, their maps and programs, and links."""

from kernel_delay.libbpf.base import BpfError, bpf_error, start_log, take_log
from kernel_delay.libbpf.features import (
    KernelFeatures,
    attached_uprobe,
    has_map_type,
    read_kernel_features,
)
from kernel_delay.libbpf.maps import Map, Notices, Records
from kernel_delay.libbpf.programs import EVERY_PROCESS, BpfObject, Link, Program

__all__ = [
    "EVERY_PROCESS",
    "BpfError",
    "BpfObject",
    "KernelFeatures",
    "Link",
    "Map",
    "Notices",
    "Program",
    "Records",
    "attached_uprobe",
    "bpf_error",
    "has_map_type",
    "read_kernel_features",
    "start_log",
    "take_log",
]
