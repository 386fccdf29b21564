"""What the tool and the processes that parse for it say to each other.

A request is trusted and pickled. An answer may be anything, and has the form of a type.
"""

import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from kernel_delay.symbols.frames import Frame
from kernel_delay.symbols.mappings import Mapping
from kernel_delay.symbols.object_files import ObjectFile

# Of the bytes that follow, and of the descriptors.
HEADER = struct.Struct("<II")

ROWS_BYTES = 128 << 20
"""Of an answer with rows: UNWIND_ROWS take half."""

ANSWER_BYTES = 4 << 20
"""Of another one: the names of 1,024 frames have less than that."""

MOST_INLINED = 256
"""Functions in one frame."""

RECEIVED_BYTES = 256 << 10
"""At once: a socket's buffer has less."""

MOST_DESCRIPTORS = 250
"""In one sendmsg(2): SCM_MAX_FD in include/net/scm.h is 253."""


class Code(Struct, frozen=True):
    """A process's code, as a ProcessImage has it.

    Where an object has a descriptor it has its place among those that come with it.
    """

    pid: int
    source: bool
    mappings: tuple[Mapping, ...]
    objects: tuple[ObjectFile, ...]
    perf_map: str | None


# What the kernel's structs have room for.
Word = Annotated[int, Meta(ge=0)]
HalfWord = Annotated[int, Meta(ge=0, lt=1 << 31)]

LargeFrames = list[tuple[Word, Word, HalfWord, Word]]
"""See LargeFrame."""

Copy = tuple[tuple[int, ...], bytes | memoryview, int, int]
"""Registers, a copy of a stack, its address and its missing pages: see AddressSpace.unwind()."""

SharedCopy = tuple[tuple[int, ...], int, int, int]
"""The same with the bytes of the copy alone: the copies are in shared memory, back to back."""

SHARED_BYTES = 4 << 20
"""Of that memory; a copy has 1 MiB and a page at most."""

# include/uapi/linux/fcntl.h (5.1): who gets the file later can't write to it.
F_SEAL_FUTURE_WRITE = 0x10


class Request(Struct, frozen=True):
    """What is to be done, with what."""

    what: Literal["code", "perf_map", "unwind", "frames", "large_frames", "unwind_ranges"]
    with_what: object


class Rows(Struct, frozen=True):
    """A file's UnwindRows, by a number of its own."""

    number: int
    bias: int
    rows: bytes
    rules: bytes


class Ranges(Struct, frozen=True):
    """CodeRanges: start, end and the number of their rows, and those rows that are new."""

    ranges: list[tuple[Word, Word, int | None]]
    rows: list[Rows]


class Named(Struct, frozen=True):
    """A stack's frames: places among the names of this request so far, and what is new of these."""

    places: list[int]
    names: list[list[Frame]]


def send_request(to: socket.socket, request: Request, descriptors: Sequence[int] = ()) -> None:
    """Send it with open files."""
    content = pickle.dumps(request)
    to.sendall(HEADER.pack(len(content), len(descriptors)))
    for first in range(0, len(descriptors), MOST_DESCRIPTORS):
        socket.send_fds(to, [b"\0"], descriptors[first : first + MOST_DESCRIPTORS])
    to.sendall(content)


def take_request(sent: socket.socket) -> tuple[Request, list[int]]:
    """Wait for the next one and its open files; EOFError when there will be none."""
    size, count = HEADER.unpack(take_bytes(sent, HEADER.size))
    descriptors: list[int] = []
    while len(descriptors) < count:
        descriptors += socket.recv_fds(sent, 1, MOST_DESCRIPTORS)[1]
    request: Request = pickle.loads(take_bytes(sent, size))
    return request, descriptors


class Answers:
    """What a socket brings, read as much at a time as there is."""

    def __init__(self, sent: socket.socket, wait: Callable[[], None]) -> None:
        """Call `wait` before each wait."""
        self._sent, self._wait = sent, wait
        self._content = bytearray()
        self._taken = 0

    def take(self, size: int) -> bytes:
        """Wait for so many bytes; EOFError when there are fewer."""
        missing = self._taken + size - len(self._content)
        if missing > 0:
            del self._content[: self._taken]
            self._taken = 0
        while len(self._content) < self._taken + size:
            self._wait()
            got = self._sent.recv(RECEIVED_BYTES)
            if not got:
                raise EOFError
            self._content += got
        first, self._taken = self._taken, self._taken + size
        return bytes(memoryview(self._content)[first : self._taken])


def take_bytes(sent: socket.socket, size: int) -> bytearray:
    """Wait for so many bytes; EOFError when there are fewer."""
    content = bytearray(size)
    rest = memoryview(content)
    while rest:
        got = sent.recv_into(rest)
        if not got:
            raise EOFError
        rest = rest[got:]
    return content
