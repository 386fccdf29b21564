"""A FUSE file system with one file: the requests of its server."""

import ctypes
import os
import struct
from typing import NamedTuple

from tests.verdicts.truth import NotHereError

# include/uapi/linux/fuse.h, protocol 7.31
LOOKUP, FORGET, GETATTR, MKDIR, OPEN, READ, INIT = 1, 2, 3, 9, 14, 15, 26
HEADER, FOPEN_DIRECT_IO = 40, 1
ROOT, FILE = 1, 2
DIRECTORY_MODE, FILE_MODE = 0o40755, 0o100444
ENOENT, EEXIST, ENOSYS = 2, 17, 38

# Names are good for long. Attributes expire at once: whoever asks for them waits for the server.
NAMES_S, ATTRIBUTES_S = 3600, 0


class Request(NamedTuple):
    """What the kernel asks for, of which node, by which name."""

    operation: int
    unique: int
    node: int
    name: bytes


def mounted(folder: str, user: int = 0) -> int:
    """Mount it there for that user alone, and return the descriptor that its server reads."""
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id={user},group_id={user}".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"verdict", folder.encode(), b"fuse", 0, options):
        raise NotHereError(f"no FUSE here: {os.strerror(ctypes.get_errno())}")
    return fuse


def unmount(folder: str) -> None:
    ctypes.CDLL(None).umount2(folder.encode(), 2)


def next_request(fuse: int) -> Request:
    """Wait for one that is to be answered."""
    while True:
        data = os.read(fuse, 1 << 17)
        _, operation, unique, node = struct.unpack_from("<2I2Q", data)
        if operation != FORGET:
            return Request(operation, unique, node, data[HEADER:].rstrip(b"\0"))


def reply(fuse: int, request: Request) -> None:
    """Answer."""
    content = _answer(request)
    error = -content if isinstance(content, int) else 0
    data = b"" if isinstance(content, int) else content
    os.write(fuse, struct.pack("<IiQ", 16 + len(data), error, request.unique) + data)


def _attributes(node: int) -> bytes:
    """A struct fuse_attr."""
    mode = DIRECTORY_MODE if node == ROOT else FILE_MODE
    return struct.pack("<6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(request: Request) -> bytes | int:
    """What the kernel asked for, or the number of an error."""
    operation, node = request.operation, request.node
    if operation == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 4096, 0, 1, 1, 4096, 1, 1, 0, *[0] * 8)
    if operation == LOOKUP and request.name == b"file":
        return struct.pack("<4Q2I", FILE, 1, NAMES_S, ATTRIBUTES_S, 0, 0) + _attributes(FILE)
    if operation == GETATTR:
        return struct.pack("<Q2I", ATTRIBUTES_S, 0, 0) + _attributes(node)
    if operation == OPEN:
        return struct.pack("<Q2I", 0, FOPEN_DIRECT_IO, 0)
    if operation == READ:
        return b"x"
    return {LOOKUP: ENOENT, MKDIR: EEXIST}.get(operation, ENOSYS)
