"""BPF objects, their programs, and links."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kernel_delay.host._files import lib as files
from kernel_delay.loader._libbpf import ffi, lib
from kernel_delay.loader.base import BpfError, Owned, bpf_error, strings
from kernel_delay.loader.maps import Map

if TYPE_CHECKING:
    from kernel_delay.loader._libbpf import BpfLinkPointer, BpfProgramPointer


EVERY_PROCESS = -1

NO_FILE = -1


class Link:
    """A program's attachment, until close()."""

    def __init__(self, handle: "BpfLinkPointer", file: int | None = None) -> None:
        """Made by Program.attach(). `file` is a descriptor that is closed with it."""
        self._link = Owned(handle, lib.bpf_link__destroy)
        self._file = file

    @property
    def fd(self) -> int:
        """The link's file descriptor, which close() closes."""
        return lib.bpf_link__fd(self._link.handle)

    def close(self) -> None:
        """Detach the program."""
        self._link.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _link(handle: "BpfLinkPointer", what: str, file: int | None = None) -> Link:
    if handle == ffi.NULL:
        error = bpf_error(what)
        if file is not None:
            os.close(file)
        raise error
    return Link(handle, file)


def _find_file(path: str) -> tuple[int, bytes]:
    """Find a file for a uprobe: a descriptor, and a path that leads to it as long as that is open.

    What `path` leads to may be exchanged meanwhile. The kernel reads the file, so none is taken
    that a process supplies. Raises BpfError.
    """
    # Few captures have uprobes.
    from kernel_delay.host.stored_files import find_stored

    try:
        file = find_stored(path)
    except OSError as error:
        raise BpfError(error.errno, error.strerror, f"opening {path}") from error
    # Others look for who has a uprobe there: not by /proc/self.
    return file, f"/proc/{os.getpid()}/fd/{file}".encode()


class Program:
    """One program of an object."""

    def __init__(self, handle: "BpfProgramPointer") -> None:
        """Made by BpfObject.programs() and BpfObject.program()."""
        self._handle = handle
        self.name = ffi.string(lib.bpf_program__name(handle)).decode()

    @property
    def autoload(self) -> bool:
        """Whether loading the object loads this program."""
        return lib.bpf_program__autoload(self._handle)

    @autoload.setter
    def autoload(self, autoload: bool) -> None:
        lib.bpf_program__set_autoload(self._handle, autoload)

    @property
    def fd(self) -> int:
        """Its descriptor, once the object is loaded."""
        return lib.bpf_program__fd(self._handle)

    def keep_log(self, level: int, size: int) -> Callable[[], str]:
        """Have the kernel's verifier write its log of this program when the object is loaded.

        Args:
            level: What it writes: BPF_LOG_LEVEL2, BPF_LOG_STATS (include/linux/bpf_verifier.h).
            size: The room for it, in bytes. Before 6.4 a log that does not fit refuses the program.

        Returns:
            What returns the log, while the object is open.
        """
        log = ffi.new("char[]", size)
        lib.bpf_program__set_log_buf(self._handle, log, size)
        lib.bpf_program__set_log_level(self._handle, level)
        return lambda: ffi.string(log).decode(errors="replace")

    def attach(self) -> Link:
        """Attach to what the program's section names."""
        return _link(lib.bpf_program__attach(self._handle), f"attaching {self.name}")

    def attach_uprobe(
        self, pid: int, path: str, offset: int, *, is_return: bool, semaphore_offset: int
    ) -> Link:
        """Attach to a place in a file, for the process `pid` only.

        `semaphore_offset` is the file offset of a USDT probe's semaphore, 0
        for none. With `is_return` the place is a function's first instruction.
        """
        options = ffi.new("struct bpf_uprobe_opts *")
        options.sz = ffi.sizeof("struct bpf_uprobe_opts")
        options.retprobe = is_return
        options.ref_ctr_offset = semaphore_offset
        file, place = _find_file(path)
        link = lib.bpf_program__attach_uprobe_opts(self._handle, pid, place, offset, options)
        return _link(link, f"attaching {self.name} to {path}+{offset:#x}", file)

    def attach_usdt(self, pid: int, path: str, provider: str, name: str) -> Link:
        """Attach to all places of a USDT probe in a file, for `pid` only or for EVERY_PROCESS.

        The program reads the probe's arguments with libbpf's bpf_usdt_arg().
        """
        file, place = _find_file(path)
        link = lib.bpf_program__attach_usdt(
            self._handle, pid, place, provider.encode(), name.encode(), ffi.NULL
        )
        return _link(link, f"attaching {self.name} to {path}", file)

    def attach_kprobe(self, function: str, offset: int, *, is_return: bool) -> Link:
        """Attach to a place in a kernel function, or to its return."""
        options = ffi.new("struct bpf_kprobe_opts *")
        options.sz = ffi.sizeof("struct bpf_kprobe_opts")
        options.retprobe = is_return
        options.offset = offset
        link = lib.bpf_program__attach_kprobe_opts(self._handle, function.encode(), options)
        return _link(link, f"attaching {self.name} to {function}")

    def attach_functions(self, functions: Sequence[str]) -> Link:
        """Attach to the entries of these functions of the kernel, all or none."""
        link = lib.attach_functions(self._handle, strings(functions), len(functions))
        return _link(link, f"attaching {self.name} to {len(functions)} functions")

    def attach_raw_tracepoint(self, name: str) -> Link:
        """Attach to the kernel's tracepoint of that name, for its bare arguments."""
        link = lib.bpf_program__attach_raw_tracepoint(self._handle, name.encode())
        return _link(link, f"attaching {self.name} to {name}")

    def attach_tracepoint(self, tracepoint_id: int) -> Link:
        """Attach to the kernel's tracepoint that tracefs gives that id."""
        fd = lib.open_tracepoint(tracepoint_id)
        return self._attach_perf_event(fd, f"tracepoint {tracepoint_id}")

    def attach_task_clock(self, tid: int, frequency: int) -> Link:
        """Run it `frequency` times in a second that thread `tid` is on a CPU, in that thread."""
        fd = lib.open_task_clock(tid, frequency)
        return self._attach_perf_event(fd, f"the clock of thread {tid}")

    def _attach_perf_event(self, fd: int, what: str) -> Link:
        if fd < 0:
            raise bpf_error(f"opening {what}")
        link = lib.bpf_program__attach_perf_event(self._handle, fd)
        if link == ffi.NULL:
            errno = ffi.errno
            os.close(fd)
            raise bpf_error(f"attaching {self.name} to {what}", errno)
        return Link(link)

    def iterate(self, over: "Map | None" = None) -> bytes:
        """Run an iterator program over all that it iterates, and return what it wrote.

        One that is made for maps' elements iterates those of `over`.
        """
        if over is None:
            link = self.attach()
        else:
            handle = lib.attach_map_iterator(self._handle, over.fd)
            link = _link(handle, f"attaching {self.name}")
        try:
            fd = lib.bpf_iter_create(link.fd)
            if fd < 0:
                raise bpf_error(f"iterating {self.name}", -fd)
            with open(fd, "rb", buffering=0) as output:
                return output.readall()
        finally:
            link.close()

    def recursion_misses(self) -> int:
        """How often the program could not run since it was already running on that CPU.

        struct bpf_prog_info in include/uapi/linux/bpf.h; always 0 before 5.12.
        """
        info = ffi.new("struct bpf_prog_info *")
        length = ffi.new("uint32_t *", ffi.sizeof("struct bpf_prog_info"))
        result = lib.bpf_obj_get_info_by_fd(self.fd, info, length)
        if result:
            raise bpf_error(f"{self.name}: information by descriptor {self.fd}", -result)
        return info.recursion_misses


class BpfObject:
    """A BPF object file. Used as a context manager, it is closed at the end."""

    def __init__(self, path: Path, *, built_in: bool = False) -> None:
        """Open and read the file; nothing is in the kernel yet.

        A type that the kernel lacks is looked for in its modules, which takes time, and
        CAP_SYS_ADMIN (kernel/bpf/syscall.c:bpf_obj_get_next_id(), 5.14 to 6.18; libbpf does
        without it from 1.2 on). With `built_in` it is not: then all types are found in less time.
        """
        self._types = Owned(os.memfd_create("types") if built_in else NO_FILE, _close)
        handle = lib.open_object(os.fsencode(path), self._types.handle)
        if handle == ffi.NULL:
            self._types.close()
            raise bpf_error(f"opening {path.name}")
        self._object = Owned(handle, lib.bpf_object__close)
        self._name = path.name

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def map(self, name: str) -> Map:
        """Return the map of that name."""
        handle = lib.bpf_object__find_map_by_name(self._object.handle, name.encode())
        if handle == ffi.NULL:
            raise bpf_error(f"map {name}")
        return Map(handle, name)

    def program(self, name: str) -> Program:
        """Return the program of that name."""
        handle = lib.bpf_object__find_program_by_name(self._object.handle, name.encode())
        if handle == ffi.NULL:
            raise bpf_error(f"program {name}")
        return Program(handle)

    def programs(self) -> Iterator[Program]:
        """Yield all programs."""
        handle = lib.bpf_object__next_program(self._object.handle, ffi.NULL)
        while handle != ffi.NULL:
            yield Program(handle)
            handle = lib.bpf_object__next_program(self._object.handle, handle)

    def load(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Create the maps and load the programs, in a thread; `meanwhile` is called beside it."""
        loading = ffi.new("struct loading *")
        files.use_one_arena()
        lib.begin_loading(loading, self._object.handle, self._types.handle)
        try:
            meanwhile()
        finally:
            result = lib.end_loading(loading)
        if result:
            raise bpf_error(f"loading {self._name}", -result)

    def close(self) -> None:
        """Release everything; links are closed apart and earlier."""
        self._object.close()
        self._types.close()


def _close(fd: int) -> None:
    if fd != NO_FILE:
        os.close(fd)
