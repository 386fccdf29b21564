"""It reads a file of a FUSE file system, whose server takes its time."""

import ctypes
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

ANSWERS_AFTER_S = 0.02

# include/uapi/linux/fuse.h, protocol 7.31
LOOKUP, FORGET, GETATTR, OPEN, READ, INIT = 1, 2, 3, 14, 15, 26
HEADER, FOPEN_DIRECT_IO = 40, 1
ROOT, FILE = 1, 2
DIRECTORY_MODE, FILE_MODE = 0o40755, 0o100444


def attributes(node: int) -> bytes:
    """A struct fuse_attr."""
    mode = DIRECTORY_MODE if node == ROOT else FILE_MODE
    return struct.pack("<6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(operation: int, node: int) -> bytes:
    """What the kernel asked for."""
    if operation == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 4096, 0, 1, 1, 4096, 1, 1, 0, *[0] * 8)
    if operation == LOOKUP:
        return struct.pack("<4Q2I", FILE, 1, 3600, 3600, 0, 0) + attributes(FILE)
    if operation == GETATTR:
        return struct.pack("<Q2I", 3600, 0, 0) + attributes(node)
    if operation == OPEN:
        return struct.pack("<Q2I", 0, FOPEN_DIRECT_IO, 0)
    time.sleep(ANSWERS_AFTER_S)
    return b"x"


def server(folder: str) -> None:
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"verdict", folder.encode(), b"fuse", 0, options):
        tell(refused=f"no FUSE here: {os.strerror(ctypes.get_errno())}")
        return
    tell()
    while True:
        request = os.read(fuse, 1 << 17)
        _, operation, unique, node = struct.unpack_from("<2I2Q", request)
        if operation == FORGET:
            continue
        known = (INIT, LOOKUP, GETATTR, OPEN, READ)
        content = answer(operation, node) if operation in known else b""
        error = 0 if operation in known else -38  # ENOSYS
        os.write(fuse, struct.pack("<IiQ", 16 + len(content), error, unique) + content)


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    tell()
    while True:
        os.pread(file, 1, 0)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        try:
            with (
                running(server, folder, name="server") as other,
                running(victim, f"{folder}/file") as process,
            ):
                yield Staged(process.pid, cause("wait_fuse", names=(other.pid,)))
        finally:
            ctypes.CDLL(None).umount2(folder.encode(), 2)
