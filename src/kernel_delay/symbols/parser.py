"""The processes that parse what a measured process has written: `python -m` runs the first.

That one becomes nobody, gives up all it can, and is forked for each address space. A defect of
libdw, or a file that is made to find one, ends such a fork and costs its names.
"""

import mmap
import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import msgpack, structs

from kernel_delay.host import privileges
from kernel_delay.symbols.address_space import AddressSpace
from kernel_delay.symbols.bounds import ANSWER_S, Bounds
from kernel_delay.symbols.frames import Stack
from kernel_delay.symbols.messages import (
    HEADER,
    RECEIVED_BYTES,
    SHARED_BYTES,
    Code,
    Named,
    Ranges,
    Rows,
    SharedCopy,
    take_request,
)
from kernel_delay.symbols.perf_map import PerfFunctions
from kernel_delay.symbols.unwind_rows import UnwindRows

NOBODY = 65534

MEMORY_BYTES = 1 << 30
"""Beside the files, which libdw maps."""

MAPPED_BYTES = 8 << 30
"""Of files; libelf reads what it may not map."""

CPU_S = 3600
"""Of one process in all."""

# A signal to all of a terminal's processes, or of a unit's, is the tool's to handle.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)

CALLS = (
    *privileges.CALLS_OF_A_FILTER,
    *("recvfrom", "recvmsg", "sendto", "getsockname", "getsockopt", "pread64", "dup"),
    *("fcntl", "setitimer", "setrlimit", "prlimit64", "getpid"),
)
FORKING = ("clone", "clone3", "fork", "set_robust_list", "rseq", "gettid", "getpid", "getppid")
LIMITING = ("seccomp", "prctl")


def main() -> None:
    """Fork for each socket that comes; end with the process at the other end."""
    parent = socket.socket(fileno=os.dup(0))
    _drop_rights(parent)
    while True:
        _, descriptors, _, _ = socket.recv_fds(parent, 1, 2)
        if not descriptors:
            return
        if not os.fork():
            parent.close()
            _parse(socket.socket(fileno=descriptors[0]), descriptors[1])
        for descriptor in descriptors:
            os.close(descriptor)


def _drop_rights(kept: socket.socket) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    kept_fd = kept.fileno()
    os.closerange(3, kept_fd)
    os.closerange(kept_fd + 1, os.sysconf("SC_OPEN_MAX"))
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Where memory runs out this ends first: proc_pid_oom_score_adj(5).
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    # A container's filter may forbid it: Python makes a ValueError of EPERM.
    with suppress(OSError, ValueError):
        _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    _limit(resource.RLIMIT_CORE, 0)
    privileges.become(NOBODY)
    privileges.keep_nothing((*CALLS, *FORKING, *LIMITING))


def _parse(parent: socket.socket, copies: int) -> None:
    """Answer all requests, and end."""
    try:
        shared = mmap.mmap(copies, SHARED_BYTES, prot=mmap.PROT_READ)
        privileges.end_with_parent()
        _limit(resource.RLIMIT_CPU, CPU_S)
        privileges.keep_nothing(CALLS)
        space = _Space(memoryview(shared))
        answers = bytearray()
        while True:
            request, descriptors = take_request(parent)
            # SIGPROF ends it.
            signal.setitimer(signal.ITIMER_PROF, ANSWER_S)
            for answer in getattr(space, request.what)(request.with_what, descriptors):
                content = msgpack.encode((answer, space.bounds.take_remarks()))
                answers += HEADER.pack(len(content), 0) + content
                if len(answers) >= RECEIVED_BYTES:
                    parent.sendall(answers)
                    answers.clear()
                signal.setitimer(signal.ITIMER_PROF, ANSWER_S)
            parent.sendall(answers)
            answers.clear()
    except EOFError:
        os._exit(0)
    finally:
        os._exit(1)


class _Space:
    """The address space of one process; its methods are called as requests are."""

    def __init__(self, copies: memoryview) -> None:
        self._copies = copies
        self.bounds = Bounds()
        self._image: Any = SimpleNamespace(
            generation=0, objects=(), latest=(), perf_map=None, bounds=self.bounds
        )
        self._space: AddressSpace | None = None
        self._sent: dict[UnwindRows, int] = {}
        self._numbered = 0

    def code(self, code: Code, descriptors: list[int]) -> Iterator[None]:
        old = self._image.objects
        self._image.objects = tuple(_received(found, descriptors) for found in code.objects)
        self._image.pid, self._image.mappings = code.pid, code.mappings
        self._image.generation += 1
        if self._image.perf_map is None and code.perf_map is not None:
            self._image.perf_map = PerfFunctions(code.perf_map, self.bounds)
        if self._space is None:
            self._space = AddressSpace(self._image, code.source)
        for found in old:
            found.close()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        sizes = sum(os.fstat(fd).st_size for fd in descriptors)
        _limit(resource.RLIMIT_AS, min(sizes, MAPPED_BYTES) + MEMORY_BYTES, hard)
        yield None

    def perf_map(self, _: None, descriptors: list[int]) -> Iterator[None]:
        self._image.perf_map.read(descriptors[0])
        yield None

    def unwind(self, shared: list[SharedCopy], _: list[int]) -> Iterator[Stack]:
        assert self._space
        used = 0
        for registers, size, base, missing_pages in shared:
            stack = self._copies[used : used + size]
            used += size
            yield self._space.unwind(registers, stack, base, missing_pages)

    def frames(self, stacks: list[Stack], _: list[int]) -> Iterator[Named]:
        assert self._space
        known: dict[tuple[int, bool], int] = {}
        for stack in stacks:
            names = []
            for pc, exact in zip(stack.pcs, stack.exact, strict=True):
                if (pc, exact) not in known:
                    known[pc, exact] = len(known)
                    names.append(list(self._space.symbolise(pc, exact)))
            places = [known[each] for each in zip(stack.pcs, stack.exact, strict=True)]
            yield Named(places, names)

    def large_frames(self, bounds: tuple[int, int], _: list[int]) -> Iterator[object]:
        assert self._space
        yield self._space.large_frames(*bounds)

    def unwind_ranges(self, asked: tuple[int, Any], _: list[int]) -> Iterator[Ranges]:
        assert self._space
        most, self._image.latest = asked
        ranges = self._space.unwind_ranges(most)
        sent, self._sent = self._sent, {}
        new = []
        for rows in (found.rows for found in ranges if found.rows is not None):
            if rows in sent:
                self._sent[rows] = sent[rows]
            elif rows not in self._sent:
                self._numbered += 1
                self._sent[rows] = self._numbered
                new.append(Rows(self._numbered, rows.bias, rows.rows, rows.rules))
        numbered = [
            (found.start, found.end, self._sent[found.rows] if found.rows is not None else None)
            for found in ranges
        ]
        yield Ranges(numbered, new)


def _received(found: Any, descriptors: list[int]) -> Any:
    debug = found.debug
    if debug is not None:
        alt = None if debug.alt_fd is None else descriptors[debug.alt_fd]
        debug = structs.replace(debug, fd=descriptors[debug.fd], alt_fd=alt)
    return structs.replace(found, fd=descriptors[found.fd], debug=debug)


def _limit(kind: int, most: int, hard: int | None = None) -> None:
    """Allow so much at most, or what is allowed already; `hard` stays as it is if it is given."""
    _, allowed = resource.getrlimit(kind)
    if allowed != resource.RLIM_INFINITY:
        most = min(most, allowed)
    resource.setrlimit(kind, (most, most if hard is None else hard))


if __name__ == "__main__":
    main()
