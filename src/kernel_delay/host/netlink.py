"""Netlink messages, attributes in a row of bytes that can't be trusted, and network namespaces.

The layout is struct nlattr's (include/uapi/linux/netlink.h): a 16-bit length
that counts its own 4-byte header, a 16-bit type whose two top bits are flags,
the payload, and padding to a multiple of 4.
"""

import errno
import os
import struct
from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec import Struct

from kernel_delay.host.target import living_thread

_T = TypeVar("_T")

NLA_HDRLEN = 4
NLA_TYPE_MASK = 0x3FFF

# struct nlmsghdr, and a flag of it.
HEADER = struct.Struct("=IHHII")
NLM_F_REQUEST = 1


def message(kind: int, body: bytes, flags: int = NLM_F_REQUEST, sequence: int = 0) -> bytes:
    """Return a message of that kind to the kernel: struct nlmsghdr and the body."""
    return HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body


def aligned(length: int) -> int:
    """Return where what follows begins: NLA_ALIGN and NLMSG_ALIGN."""
    return (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute, padded."""
    length = NLA_HDRLEN + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(aligned(length) - length)


class Attribute(Struct, frozen=True):
    """One attribute: `length` as its header claims it, the header included.

    `payload` is what is there of the claimed payload; `complete` when that is all.
    """

    length: int
    type: int
    payload: bytes

    @property
    def claimed(self) -> int:
        """Bytes of payload the header claims."""
        return self.length - NLA_HDRLEN

    @property
    def complete(self) -> bool:
        """Whether the whole payload is there."""
        return len(self.payload) == self.claimed


class Attributes(Struct, frozen=True):
    """A walk over attributes: those found, and why it ended early.

    Only the last one can be incomplete. `problem` is None when the bytes are
    attributes from end to end; `rest` holds the bytes behind the last header
    that could be read.
    """

    found: tuple[Attribute, ...]
    rest: bytes
    problem: str | None


def walk(data: bytes, size: int | None = None) -> Attributes:
    """Split `data` into attributes.

    `size` is the row's full length in bytes, of which `data` is the captured
    beginning; None means that `data` is all of it.
    """
    size = len(data) if size is None else max(size, len(data))
    found: list[Attribute] = []
    offset = 0
    while offset < size:
        header = data[offset : offset + NLA_HDRLEN]
        if len(header) < NLA_HDRLEN:
            return Attributes(tuple(found), header, _no_header(len(data), size, len(header)))
        length, kind = struct.unpack("=HH", header)
        if length < NLA_HDRLEN:
            problem = f"nla_len {length} is less than its own header"
            return Attributes(tuple(found), data[offset:], problem)
        one = Attribute(length, kind & NLA_TYPE_MASK, data[offset + NLA_HDRLEN : offset + length])
        found.append(one)
        if length > size - offset:
            problem = f"nla_len {length} goes past the end, {size - offset} bytes are left"
            return Attributes(tuple(found), b"", problem)
        if not one.complete:
            return Attributes(tuple(found), b"", _cut(len(data), size))
        # The last attribute may come without its padding.
        offset += aligned(length)
    return Attributes(tuple(found), b"", None)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the types and payloads of what can be read."""
    return ((one.type, one.payload) for one in walk(data).found)


def _no_header(captured: int, size: int, left: int) -> str:
    if captured < size:
        return _cut(captured, size)
    return f"{left} bytes left over, too few for a header"


def _cut(captured: int, size: int) -> str:
    return f"{captured} of {size} bytes captured"


OWN_NETWORK = "/proc/self/ns/net"


def network_path(pid: int) -> str:
    """Return the path of a process's network namespace, also where its leader has exited."""
    return f"/proc/{living_thread(pid) or pid}/ns/net"


def within_network(pid: int, make: Callable[[], _T]) -> _T:
    """Call `make` in the network namespace of a process. Raises OSError where that is refused."""
    path = network_path(pid)
    if os.path.samestat(os.stat(path), os.stat(OWN_NETWORK)):
        return make()
    import threading

    made: list[_T] = []
    failed: list[OSError] = []

    def run() -> None:
        # Python has os.setns() since 3.12.
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with open(path) as namespace:
                if libc.setns(namespace.fileno(), 0):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            made.append(make())
        except OSError as error:
            failed.append(error)

    # It stays in that namespace, and ends.
    entering = threading.Thread(target=run)
    try:
        entering.start()
    except RuntimeError as error:  # as shortage() of errors.py has it
        raise OSError(errno.EAGAIN, str(error)) from error
    entering.join()
    if failed:
        raise failed[0]
    return made[0]
