"""Which version of Open vSwitch a process is of, as its files say."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from kernel_delay.probes.objects import ProbedObject

# What `ovs-vswitchd --version` prints, and with a library of its own what that has
# (lib/util.c and lib/dirs.c, Open vSwitch 2.17 to 4.0).
_VERSION = re.compile(rb"(?:\(Open vSwitch\)|Open vSwitch Library) (\d{1,3})\.(\d{1,3})\.\d{1,3}")

MOST_BYTES = 1 << 30
"""Of a file no more is looked through."""

_CHUNK = 1 << 20
_LONGEST = 64

Version = tuple[int, int]


def find_version(objects: "Iterable[ProbedObject]") -> Version | None:
    """The version's first two numbers, by the first of the files that names one; None if none."""
    for where in objects:
        try:
            with where.open() as file:
                version = read_version(file)
        except OSError:
            continue
        if version is not None:
            return version
    return None


def read_version(file: BinaryIO) -> Version | None:
    """The version that is named in a file's bytes; None if none is."""
    before = b""
    for _ in range(MOST_BYTES // _CHUNK):
        chunk = file.read(_CHUNK)
        found = _VERSION.search(before + chunk)
        if found is not None:
            return int(found[1]), int(found[2])
        if not chunk:
            break
        before = chunk[-_LONGEST:]
    return None
