"""A thin binding of libbpf: objects, their maps and programs, and links."""

from kernel_delay.libbpf.errors import BpfError
from kernel_delay.libbpf.features import has_map_type, per_cpu_distance
from kernel_delay.libbpf.log import start_log, take_log
from kernel_delay.libbpf.maps import Map, Notices, Records
from kernel_delay.libbpf.object import BpfObject
from kernel_delay.libbpf.programs import EVERY_PROCESS, Link, Program

__all__ = [
    "EVERY_PROCESS",
    "BpfError",
    "BpfObject",
    "Link",
    "Map",
    "Notices",
    "Program",
    "Records",
    "has_map_type",
    "per_cpu_distance",
    "start_log",
    "take_log",
]
