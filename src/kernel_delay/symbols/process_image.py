"""A process's code as it lies in memory, noted while the process lives.

Everything needed to unwind and name its stacks is held by open files, so it
stays at hand after the process's exit and after a file's replacement.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.host.preflight import may_not_look_at
from kernel_delay.symbols.bounds import MAX_OBJECTS, Bounds
from kernel_delay.symbols.mappings import Mapping, Ranges, code_ranges, has_mappings
from kernel_delay.symbols.object_files import ObjectFile, ObjectOpener
from kernel_delay.symbols.perf_map import PerfMap

MAX_MAPPINGS = 262_144
"""Of code, of all times, the newest: four times what a process may have by default (sysctl(8),
vm.max_map_count)."""

LOCKED = (
    "the process's mappings are not read, and names and stacks may be missing: another process or"
    " thread has the lock of its address space"
)


class ProcessImage:
    """The executable mappings and the object files of a process, of all times they were noted.

    Of two that overlap only the newer is kept: the process unmapped the other.
    `generation` counts the changes. `latest` are all mappings, executable or
    not, when they were noted last. `bounds` counts what was passed over.
    """

    def __init__(self, pid: int) -> None:
        """Note the process `pid`; later notes add what it has mapped since.

        Raises NoInputError when there is no such process and
        PermissionDeniedError when it may not be looked at (ptrace(2), "Ptrace
        access mode checking").
        """
        self.pid = pid
        self.perf_map: PerfMap | None = None
        self.mappings: tuple[Mapping, ...] = ()
        self.objects: tuple[ObjectFile, ...] = ()
        self.latest: tuple[Mapping, ...] = ()
        self.generation = 0
        self.bounds = Bounds()
        if not self.note():
            raise NoInputError(f"process {pid} has exited or has no user memory")

    def note(self) -> bool:
        """Note the mappings and files of now; False when the process has exited."""
        try:
            return any(self._note(process) for process in _with_memory(self.pid))
        except TimeoutError:
            self.bounds.pass_over(LOCKED)
            return True
        except PermissionError as error:
            raise may_not_look_at(f"process {self.pid}") from error
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            raise UnavailableError(
                f"process {self.pid} maps more files than may be open at once: raise `ulimit -n`"
            ) from error

    def _note(self, process: Path) -> bool:
        """Note what a thread has, by its directory such as /proc/123; False if it has ended."""
        try:
            if self.perf_map is None:
                self.perf_map = PerfMap(process, self.bounds)
            with ObjectOpener(process, self.bounds) as opener:
                if not opener.mappings:
                    return False
                self._merge(opener)
                self.latest = opener.mappings
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True

    def _merge(self, opener: ObjectOpener) -> None:
        known = set(self.mappings)
        new = [code for code in opener.mappings if code.executable and code not in known]
        if not new:
            return
        replaced = code_ranges(new)
        self.mappings = (*_outside(self.mappings, replaced), *new)[-MAX_MAPPINGS:]
        objects: dict[tuple[str, int | None], ObjectFile] = {
            (found.code.path, found.bias): found for found in self._close_objects(replaced)
        }
        try:
            for code in new:
                self._open(code, opener, objects)
        finally:
            self.objects = tuple(objects.values())
            self.generation += 1

    def _close_objects(self, replaced: Ranges[Mapping]) -> Iterable[ObjectFile]:
        """Close the objects that are no longer mapped; return the others."""
        kept = []
        for found in self.objects:
            if replaced.overlap(found.code.start, found.code.end):
                self.bounds.held_bytes -= found.copied
                found.close()
            else:
                kept.append(found)
        self.objects = tuple(kept)
        return kept

    def _open(
        self, code: Mapping, opener: ObjectOpener, objects: dict[tuple[str, int | None], ObjectFile]
    ) -> None:
        """Open the object that `code` is mapped from, unless it is among `objects`."""
        if opener.needs_no_opening(code, objects):
            return
        if len(objects) >= MAX_OBJECTS:
            self.bounds.pass_over(
                f"more than {MAX_OBJECTS} files are mapped as code: functions of others"
                " have no names"
            )
            return
        found = opener.open_object(code)
        if found and objects.setdefault((code.path, found.bias), found) is not found:
            self.bounds.held_bytes -= found.copied
            found.close()

    def close(self) -> None:
        """Close all files."""
        for noted in self.objects:
            noted.close()
        self.objects = ()
        if self.perf_map:
            self.perf_map.close()
            self.perf_map = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files."""
        self.close()


def _with_memory(pid: int) -> Iterator[Path]:
    """The /proc directories of the process's threads that have not ended, the first's first."""
    try:
        tids = {int(tid) for tid in os.listdir(f"/proc/{pid}/task")}
    except (FileNotFoundError, ProcessLookupError):
        return
    # Once the numbers have wrapped, a thread that soon ends can have a lower one than the first.
    in_order = sorted(tids, key=lambda tid: (tid != pid, tid))
    yield from (path for tid in in_order if has_mappings(path := Path(f"/proc/{tid}")))


def _outside(mappings: Iterable[Mapping], ranges: Ranges[Mapping]) -> Iterable[Mapping]:
    return (one for one in mappings if not ranges.overlap(one.start, one.end))
