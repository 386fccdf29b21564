"""The cgroups of a process: their CPU quotas, memory limits and freezers; v1 and v2.

The files are those of Documentation/admin-guide/cgroup-v1/{cgroups,freezer-subsystem,memory}.rst,
cgroup-v2.rst and scheduler/sched-bwc.rst (6.18).
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from kernel_delay.host.proc_text import lines_of, read_text

PROC = Path("/proc")

T = TypeVar("T")

NS_PER_US = 1000

# A quota is of a period that is 100 ms unless set otherwise (kernel/sched/fair.c).
DEFAULT_PERIOD_NS = 100_000_000

# PROC_CGROUP_INIT_INO in include/linux/proc_ns.h (5.14 to 6.18): the inode of the initial
# cgroup namespace, the same on every machine.
INITIAL_CGROUP_NAMESPACE_INODE = 0xEFFFFFFB


class CgroupState(Struct, frozen=True):
    """One cgroup: its quota, and what was counted of it since it was made.

    `quota_ns` None: it has none of its own. `used_ns` None: nobody counts that.
    """

    path: str
    quota_ns: int | None
    period_ns: int
    throttled_periods: int
    throttled_ns: int
    used_ns: int | None = None


class MemoryState(Struct, frozen=True):
    """One cgroup's limit of memory, and how often it was reached since it was made.

    Of v2's limits that is memory.high, if it was reached at all, or else memory.max.
    """

    path: str
    limit_bytes: int
    hits: int


class Hierarchy(Struct, frozen=True):
    """A process's cgroups that can limit it: from its own up to the root.

    `freezers` are the files that keep it frozen: freezer.state of v1, cgroup.freeze of v2.
    """

    levels: tuple[CgroupState, ...]
    freezers: tuple[str, ...] = ()
    memory: tuple[MemoryState, ...] = ()


class _Mount(Struct, frozen=True):
    """Where a hierarchy is mounted, and from which of its cgroups on: containers have their own."""

    root: str
    place: Path

    def folder(self, path: str) -> Path | None:
        """The folder of the cgroup of that path; None where it is not below the root."""
        root = self.root.rstrip("/")
        if path != self.root and not path.startswith(root + "/"):
            return None
        return self.place / path[len(root) :].strip("/")


def read_hierarchy(pid: int) -> Hierarchy | None:
    """Return the cgroups of process `pid` as they are now; None where they can't be read."""
    return read_hierarchies((pid,))[pid]


def read_hierarchies(pids: Iterable[int]) -> dict[int, Hierarchy | None]:
    """Return the same of several, which are in the same ones as a rule: those are read once."""
    return _of_each(pids, _hierarchy)


def read_freezers(pids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the files that keep processes frozen now, as in Hierarchy; none if it is not known."""
    found = _of_each(pids, lambda memberships, mounts: tuple(_freezers(memberships, mounts)))
    return {pid: files or () for pid, files in found.items()}


def _of_each(
    pids: Iterable[int], read: Callable[[dict[str, str], dict[str, _Mount]], T]
) -> dict[int, T | None]:
    """What `read` finds of each process's cgroups; None where they can't be read."""
    try:
        mounts = _mounts(read_text(PROC / "self" / "mountinfo"))
    except OSError:
        return dict.fromkeys(pids)
    found: dict[int, T | None] = {}
    known: dict[str, T] = {}
    for pid in pids:
        try:
            text = read_text(f"{PROC}/{pid}/cgroup")
        except OSError:
            found[pid] = None
            continue
        if text not in known:
            known[text] = read(_memberships(text), mounts)
        found[pid] = known[text]
    return found


def _hierarchy(memberships: dict[str, str], mounts: dict[str, _Mount]) -> Hierarchy:
    # v1 counts in another hierarchy what is used, or in the same one.
    counts = {path: folder for folder, path in _upwards("cpuacct", memberships, mounts)}
    levels = tuple(
        state
        for controller in ("cpu", "")
        for folder, path in _upwards(controller, memberships, mounts)
        if (state := _cpu_state(folder, path, counts.get(path))) is not None
    )
    memory = tuple(
        limit
        for controller in ("memory", "")
        for folder, path in _upwards(controller, memberships, mounts)
        if (limit := _memory_state(folder, path)) is not None
    )
    return Hierarchy(levels, tuple(_freezers(memberships, mounts)), memory)


def may_be_frozen(pid: int) -> bool:
    """Return whether the process is in a cgroup that the freezer of version 1 may freeze.

    It can't freeze its root. That of a cgroup namespace may be another one (cgroup_namespaces(7)).
    """
    try:
        memberships = _memberships(read_text(PROC / str(pid) / "cgroup"))
        namespace = (PROC / "self" / "ns" / "cgroup").stat().st_ino
    except OSError:
        return True
    path = memberships.get("freezer")
    return path is not None and (path != "/" or namespace != INITIAL_CGROUP_NAMESPACE_INODE)


def cpu_cgroups(pid: int) -> tuple[tuple[Path, str], ...]:
    """Return the folders and paths of a process's cgroups that CPUs are shared out by.

    From its own up to the root, v1's or else v2's; none where they can't be read.
    """
    try:
        mounts = _mounts(read_text(PROC / "self" / "mountinfo"))
        memberships = _memberships(read_text(PROC / str(pid) / "cgroup"))
    except OSError:
        return ()
    controller = "cpu" if "cpu" in memberships else ""
    return tuple(
        (folder, path)
        for folder, path in _upwards(controller, memberships, mounts)
        if path == "/" or any((folder / name).exists() for name in ("cpu.shares", "cpu.weight"))
    )


def mount_points() -> list[Path]:
    """Return where hierarchies are mounted, those within others first, else as they are listed."""
    try:
        mounts = _mounts(read_text(PROC / "self" / "mountinfo"))
    except OSError:
        return []
    places = dict.fromkeys(mount.place for mount in mounts.values())
    return sorted(places, key=lambda place: -len(place.parts))


def are_mounted() -> bool:
    """Whether any hierarchy of cgroups is mounted here, from its root on."""
    try:
        mounts = _mounts(read_text(PROC / "self" / "mountinfo"))
    except OSError:
        return False
    return any(mount.root == "/" for mount in mounts.values())


def _memberships(text: str) -> dict[str, str]:
    """The path of each v1 controller, and of v2 by the name ""; see cgroups(7)."""
    found: dict[str, str] = {}
    for line in lines_of(text):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _mounts(text: str) -> dict[str, _Mount]:
    """Where each v1 controller is mounted, and v2 by the name ""; see proc_pid_mountinfo(5)."""
    found: dict[str, _Mount] = {}
    for line in lines_of(text):
        if " - cgroup" not in line:  # Those of containers are hundreds.
            continue
        mounted, _, file_system = line.partition(" - ")
        root, place = mounted.split(" ")[3:5]
        mount = _Mount(root, Path(place))
        kind, _, options = file_system.partition(" ")
        if kind == "cgroup2":
            found.setdefault("", mount)
        elif kind == "cgroup":
            for controller in options.split(" ")[-1].split(","):
                found.setdefault(controller, mount)
    return found


def _upwards(
    controller: str, memberships: dict[str, str], mounts: dict[str, _Mount]
) -> Iterator[tuple[Path, str]]:
    """The folders of a process's cgroups from its own up to the root's, with their paths.

    A path that leads out of this cgroup namespace, or of what is mounted, is not to be had.
    """
    path, mount = memberships.get(controller), mounts.get(controller)
    if path is None or mount is None or ".." in path.split("/"):
        return
    while (folder := mount.folder(path)) is not None:
        yield folder, path
        if path in ("/", ""):
            return
        path = path.rpartition("/")[0] or "/"


def _cpu_state(folder: Path, path: str, counts: Path | None) -> CgroupState | None:
    """What the files of one cgroup say, of v1 also those in `counts`; None: it has none of them."""
    statistics = _pairs(folder / "cpu.stat")
    if "nr_throttled" not in statistics:
        return None
    quota_ns, period_ns = _quota(folder)
    throttled_ns = statistics.get("throttled_time", statistics.get("throttled_usec", 0) * NS_PER_US)
    used_ns = None if counts is None else _number(_text(counts / "cpuacct.usage") or "")
    if "usage_usec" in statistics:
        used_ns = statistics["usage_usec"] * NS_PER_US
    periods = statistics["nr_throttled"]
    return CgroupState(path, quota_ns, period_ns, periods, throttled_ns, used_ns)


def _quota(folder: Path) -> tuple[int | None, int]:
    """The quota, None if it has none, and its period."""
    words = (_text(folder / "cpu.max") or "").split()
    if len(words) != 2:
        words = [_text(folder / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
    quota, period = (_number(word) for word in words)
    period_ns = (period or 0) * NS_PER_US or DEFAULT_PERIOD_NS
    if quota is None or quota < 0:
        return None, period_ns
    return quota * NS_PER_US, period_ns


def _memory_state(folder: Path, path: str) -> MemoryState | None:
    """How often a cgroup reached its limit of memory; None if it has none."""
    limit_bytes = _number(_text(folder / "memory.limit_in_bytes") or "")
    if limit_bytes is not None:
        hits = _number(_text(folder / "memory.failcnt") or "")
        return MemoryState(path, limit_bytes, hits) if hits else None
    events = _pairs(folder / "memory.events.local") or _pairs(folder / "memory.events")
    for name in ("high", "max"):
        limit_bytes = _number((_text(folder / f"memory.{name}") or "").strip())
        if limit_bytes is not None and events.get(name):
            return MemoryState(path, limit_bytes, events[name])
    return None


def _freezers(memberships: dict[str, str], mounts: dict[str, _Mount]) -> Iterator[str]:
    """The files by which cgroups of the process are frozen themselves, not by those above them."""
    for controller, asked, state in (
        ("freezer", "freezer.self_freezing", "freezer.state"),
        ("", "cgroup.freeze", "cgroup.freeze"),
    ):
        for folder, _ in _upwards(controller, memberships, mounts):
            if (_text(folder / asked) or "").strip() == "1":
                yield str(folder / state)


def _pairs(file: Path) -> dict[str, int]:
    """The lines `NAME NUMBER` of a file; none if it can't be read."""
    found = {}
    for line in lines_of(_text(file) or ""):
        name, _, value = line.partition(" ")
        number = _number(value)
        if number is not None:
            found[name] = number
    return found


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _text(file: Path) -> str | None:
    try:
        return read_text(file)
    except OSError:
        return None
