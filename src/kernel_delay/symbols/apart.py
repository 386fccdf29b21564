"""An AddressSpace in a process of its own, which may crash or hang: then names are missing.

Libraries in C parse there what the measured process has written, as nobody, without files, network
and capabilities, and with little memory and time: see parser.py. It is a new program, and no fork
of this one, whose memory may hold secrets and whose threads may hold locks.
"""

import fcntl
import mmap
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec import DecodeError, ValidationError, msgpack, structs

from kernel_delay.host.abandonable import wait_until
from kernel_delay.symbols.address_space import (
    LargeFrame,
    Machine,
    executable_ranges,
    machine_of,
    mapped_object,
)
from kernel_delay.symbols.bounds import ANSWER_S, ANSWERS_S
from kernel_delay.symbols.frames import Frame, Stack
from kernel_delay.symbols.mappings import code_ranges
from kernel_delay.symbols.messages import (
    ANSWER_BYTES,
    F_SEAL_FUTURE_WRITE,
    HEADER,
    MOST_INLINED,
    ROWS_BYTES,
    SHARED_BYTES,
    Answers,
    Code,
    Copy,
    LargeFrames,
    Named,
    Ranges,
    Request,
    SharedCopy,
    send_request,
)
from kernel_delay.symbols.object_files import ObjectFile
from kernel_delay.symbols.process_image import ProcessImage
from kernel_delay.symbols.unwind_rows import WORD, CodeRange, UnwindRows

T = TypeVar("T")

NONSENSE = "what finds them has answered nonsense"

_parsers: list[socket.socket] = []


class _LostError(Exception):
    """The process that parses has failed; the text says how."""


def start_parsers() -> None:
    """Start what is forked for each address space, if it does not run.

    While this process may still change its user, the parsers get another one.
    """
    if _parsers and not _is_closed(_parsers[0]):
        return
    _parsers.clear()
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-m", "kernel_delay.symbols.parser"]
    with theirs, suppress(OSError):
        stdin = (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)
        # Whoever waits for it says what is missing, as where it can't import what it needs.
        stderr = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        actions = [stdin, stderr]
        os.posix_spawn(sys.executable, command, {}, file_actions=actions, setsigmask=())
        _parsers.append(ours)


def _is_closed(end: socket.socket) -> bool:
    try:
        return not end.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


class AddressSpaceApart:
    """The code noted in a ProcessImage, as an AddressSpace has it; of many stacks at once.

    Where the other process fails, copied stacks end at their first frame, and frames have no
    function. `image.bounds` has a remark that says so.
    """

    def __init__(self, image: ProcessImage, source: bool = False) -> None:
        """Use `image`, which stays open as long as this; `source` as for an AddressSpace."""
        self._image = image
        self._source = source
        self._generation = -1
        self._rows: dict[int, UnwindRows] = {}
        self._left_s = float(ANSWERS_S)
        self._socket, theirs = socket.socketpair()
        self._answers = Answers(self._socket, self._wait_at_most)
        self._is_lost = False
        start_parsers()
        with theirs:
            try:
                copies, self._copies = _shared_memory()
                try:
                    socket.send_fds(_parsers[0], [b"\0"], [theirs.fileno(), copies])
                finally:
                    os.close(copies)
            except (OSError, IndexError):
                self._lose("what finds them can't be started")

    def close(self) -> None:
        """End the other process."""
        self._socket.close()

    def note(self) -> None:
        """Read the perf map again if it has changed; begin with all of the time for a window."""
        self._left_s = float(ANSWERS_S)
        self._image.bounds.renew()
        changed = self._image.perf_map.open_changed() if self._image.perf_map else None
        if changed is None:
            return
        try:
            self._ask(Request("perf_map", None), type(None), 1, [changed])
        finally:
            os.close(changed)

    def unwind(self, copies: Sequence[Copy]) -> list[Stack]:
        """Find the call chain of each copy of a stack: see AddressSpace.unwind()."""
        found: list[Stack] = []
        while len(found) < len(copies):
            shared = () if self._is_lost else self._share(copies[len(found) :])
            stacks = self._ask(Request("unwind", shared), Stack, len(shared))
            if stacks and any(len(stack.pcs) != len(stack.exact) for stack in stacks):
                self._lose(NONSENSE)
                stacks = None
            if not stacks:
                return [Stack(copy[0][-1:], (True,), "lost") for copy in copies]
            found += stacks
        return found

    def _share(self, copies: Sequence[Copy]) -> list[SharedCopy]:
        """Write as many of the copies as there is room for to where the other process reads."""
        shared: list[SharedCopy] = []
        used = 0
        for registers, stack, base, missing_pages in copies:
            if used + len(stack) > SHARED_BYTES:
                break
            self._copies[used : used + len(stack)] = stack
            used += len(stack)
            shared.append((registers, len(stack), base, missing_pages))
        return shared

    def frames(self, stacks: Sequence[Stack]) -> list[tuple[Frame, ...]]:
        """Name the frames of each, each frame preceded by the functions inlined into it."""
        named = self._ask(Request("frames", list(stacks)), Named, len(stacks))
        names: list[tuple[Frame, ...]] = []
        found: list[tuple[Frame, ...]] = []
        try:
            for stack, answer in zip(stacks, named or (), strict=named is not None):
                names += (tuple(each[:MOST_INLINED]) for each in answer.names)
                places = answer.places[: len(stack.pcs)]
                found.append(tuple(frame for place in places for frame in names[place]))
        except IndexError:
            self._lose(NONSENSE)
            named = None
        return found if named else [self._nameless(stack) for stack in stacks]

    def large_frames(self, smallest: int, most: int) -> list[LargeFrame]:
        """List code whose functions' frames are large: see AddressSpace.large_frames()."""
        found = self._ask(Request("large_frames", (smallest, most)), LargeFrames, 1)
        return sorted(found[0])[:most] if found else []

    def unwind_ranges(self, most: int) -> tuple[CodeRange, ...]:
        """List what is code now and how its callers are found: see AddressSpace.unwind_ranges().

        The kernel bounds what it reads of the rows: they may be anything.
        """
        asked = most, self._image.latest
        found = self._ask(Request("unwind_ranges", asked), Ranges, 1)
        if not found:
            return ()
        if any(len(new.rows) % WORD or len(new.rules) % WORD for new in found[0].rows):
            self._lose(NONSENSE)
            return ()
        known, self._rows = self._rows, {}
        known |= {new.number: UnwindRows(new.bias, new.rows, new.rules) for new in found[0].rows}
        ranges = []
        for start, end, number in found[0].ranges[:most]:
            rows = None if number is None else known.get(number)
            if number is not None and rows is not None:
                self._rows[number] = rows
            if rows is not None or number is None:
                ranges.append(CodeRange(start, end, rows))
        return tuple(ranges)

    def code_ranges(self) -> list[tuple[int, int]]:
        """List the ranges of addresses that code is mapped at, sorted."""
        return executable_ranges(self._image)

    @property
    def machine(self) -> Machine:
        """What the process's code is for: this machine, or 32-bit programs that it can run."""
        return machine_of(self._image)

    def _nameless(self, stack: Stack) -> tuple[Frame, ...]:
        mapped = code_ranges(self._image.mappings)
        return tuple(
            Frame(pc, None, 0, mapped_object(mapped.find(pc if exact else pc - 1)))
            for pc, exact in zip(stack.pcs, stack.exact, strict=True)
        )

    def _ask(
        self, request: Request, kind: type[T], count: int, descriptors: Sequence[int] = ()
    ) -> list[T] | None:
        """Send a request, and return its answers; None if the other process is lost."""
        if self._is_lost:
            return None
        if not count:
            return []
        try:
            if self._generation != self._image.generation:
                self._generation = self._image.generation
                self._exchange(*_code(self._image, self._source), type(None), 1)
            return self._exchange(request, descriptors, kind, count)
        except _LostError as error:
            self._lose(str(error))
            return None

    def _exchange(
        self, request: Request, descriptors: Sequence[int], kind: type[T], count: int
    ) -> list[T]:
        start = time.monotonic()
        self._deadline = start + self._left_s
        try:
            self._wait_at_most()
            send_request(self._socket, request, descriptors)
            answers = []
            for _ in range(count):
                size, _ = HEADER.unpack(self._answers.take(HEADER.size))
                if size > (ROWS_BYTES if kind is Ranges else ANSWER_BYTES):
                    raise DecodeError
                content = self._answers.take(size)
                answer, remarks = msgpack.decode(content, type=tuple[kind, list[str]])  # type: ignore[valid-type]
                answers.append(answer)
                for remark in remarks:
                    self._image.bounds.pass_over(remark)
            return answers
        except (EOFError, OSError) as error:
            # Its own limit is of CPU time, which is no longer.
            if isinstance(error, BlockingIOError) or time.monotonic() - start >= ANSWER_S:
                raise _LostError("finding them took too long") from error
            raise _LostError("what finds them has crashed, or was out of memory") from error
        except (DecodeError, ValidationError, UnicodeDecodeError) as error:
            raise _LostError(NONSENSE) from error
        finally:
            self._left_s -= time.monotonic() - start

    def _wait_at_most(self) -> None:
        wait_until(self._deadline, self._socket, (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO))

    def _lose(self, why: str) -> None:
        self._is_lost = True
        self._socket.close()
        self._image.bounds.pass_over(
            f"functions of process {self._image.pid} have no names, and stacks may end early: {why}"
        )


def _shared_memory() -> tuple[int, mmap.mmap]:
    """Memory that this process alone can write to, and a descriptor for who is to read it.

    Nobody can change its size: it would end who uses what is no longer there.
    """
    descriptor = os.memfd_create("stacks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, SHARED_BYTES)
        memory = mmap.mmap(descriptor, SHARED_BYTES)
        size = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, size | F_SEAL_FUTURE_WRITE)
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC), memory
    finally:
        os.close(descriptor)


def _code(image: ProcessImage, source: bool) -> tuple[Request, list[int]]:
    """What the other process needs of the image."""
    descriptors: list[int] = []

    def place(fd: int) -> int:
        descriptors.append(fd)
        return len(descriptors) - 1

    def placed(found: ObjectFile) -> ObjectFile:
        debug = found.debug
        if debug is not None:
            alt_fd = None if debug.alt_fd is None else place(debug.alt_fd)
            debug = structs.replace(debug, fd=place(debug.fd), alt_fd=alt_fd)
        return structs.replace(found, fd=place(found.fd), debug=debug)

    objects = tuple(map(placed, image.objects))
    perf_map = image.perf_map.path if image.perf_map else None
    code = Code(image.pid, source, image.mappings, objects, perf_map)
    return Request("code", code), descriptors
