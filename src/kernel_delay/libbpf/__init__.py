"""A thin binding of libbpf: objects, their maps and programs, and links."""

from kernel_delay.libbpf.object import BpfError, BpfObject, Link, Map, Program, start_log, take_log

__all__ = ["BpfError", "BpfObject", "Link", "Map", "Program", "start_log", "take_log"]
