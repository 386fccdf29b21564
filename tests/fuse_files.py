"""A FUSE file system with files of any content."""

import os
import struct
from collections.abc import Mapping

from tests.verdicts import fuse

ACCESS, STATFS, OPENDIR, RELEASE, FLUSH, STATFS_BYTES = 34, 17, 27, 18, 25, 80


def serve(connection: int, files: Mapping[str, bytes]) -> None:
    """Answer all that is asked of these files. Nothing that was answered is good for long."""
    names = [name.encode() for name in files]
    contents = list(files.values())
    while True:
        request = fuse.next_request(connection)
        node = request.node - fuse.FILE
        if request.operation == fuse.INIT:
            fuse.reply(connection, request)
        elif request.operation == fuse.LOOKUP and request.name in names:
            found = names.index(request.name)
            entry = struct.pack("<4Q2I", fuse.FILE + found, 1, 0, 0, 0, 0)
            _send(connection, request, entry + _attributes(found, names, contents))
        elif request.operation == fuse.GETATTR and node >= 0:
            attributes = _attributes(node, names, contents)
            _send(connection, request, struct.pack("<Q2I", 0, 0, 0) + attributes)
        elif request.operation in (fuse.OPEN, OPENDIR):
            _send(connection, request, struct.pack("<Q2I", 0, 0, 0))
        elif request.operation == fuse.READ:
            _, offset, size = struct.unpack_from("<QQI", request.name.ljust(40, b"\0"))
            _send(connection, request, contents[node][offset : offset + size])
        elif request.operation == STATFS:
            _send(connection, request, bytes(STATFS_BYTES))
        elif request.operation in (ACCESS, RELEASE, FLUSH):
            _send(connection, request, b"")
        else:
            fuse.reply(connection, request)


def _send(connection: int, request: fuse.Request, content: bytes) -> None:
    os.write(connection, struct.pack("<IiQ", 16 + len(content), 0, request.unique) + content)


def _attributes(at: int, names: list[bytes], contents: list[bytes]) -> bytes:
    """A struct fuse_attr of a file that anybody may read and execute, or of a socket."""
    size = len(contents[at])
    mode = 0o140777 if names[at].endswith(b".socket") else 0o100555
    return struct.pack(
        *("<6Q10I", fuse.FILE + at, size, -(-size // 512)),
        *(0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0),
    )
