"""Which processes are meant by a name: their own, their cgroup's, their container's or pod's."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import Struct

from kernel_delay.errors import NoInputError, UsageError
from kernel_delay.host.cgroups import mount_points
from kernel_delay.host.container_names import with_names
from kernel_delay.host.containers import cgroup_of, is_in_users_tree
from kernel_delay.host.proc_text import DELETED, read_lines
from kernel_delay.host.target import (
    LONGEST_COMM,
    PROC,
    ProcessTarget,
    check_namespace,
    examine,
    find_target,
    name_of,
    namespace_hint,
    process_ids,
)
from kernel_delay.model import Container

# As `docker ps` and `podman ps` have it: less of an ID names no container.
SHORTEST_ID = 12

MOST_LISTED = 10

# The kinds of units that have processes, in a cgroup of the unit's name: systemd.unit(5).
_UNITS = (".service", ".scope", ".slice")


class Selection(Struct, frozen=True):
    """Which processes are asked for: those of `pids`, or all for which everything else holds.

    Nothing at all is the one that is named ovs-vswitchd. `cgroup` is the path of a cgroup as
    /proc/PID/cgroup has it, or of its folder: what is below is in it too. `unit` is one of
    systemd's, a service if it does not say of what kind. `pod` is NAMESPACE/NAME; `container` a
    container's name, or the beginning of its ID. `exe` is the path of the executable, which no
    option gives.
    """

    pids: tuple[int, ...] = ()
    comm: str | None = None
    cgroup: str | None = None
    pod: str | None = None
    container: str | None = None
    unit: str | None = None
    exe: str | None = None

    @property
    def is_by_name(self) -> bool:
        """Whether it is more than PIDs, and not nothing."""
        return any((self.comm, self.cgroup, self.unit, self.pod, self.container))

    def __str__(self) -> str:
        """It, as the options say it."""
        options = [f"--pid {pid}" for pid in self.pids]
        for name in ("comm", "cgroup", "unit", "pod", "container"):
            value = getattr(self, name)
            if value is not None:
                options.append(f"--{name} {value}")
        if self.exe is not None:
            options.append(f"({self.exe})")
        return " ".join(options)


def find_one(selection: Selection) -> ProcessTarget:
    """Return the only process that is asked for.

    Raises UsageError for several, and what find_all() raises.
    """
    found = find_all(selection)
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{selection} selects {len(found)} processes: {list_of(found)}; this command measures one:"
        " say which with --pid"
    )


def list_of(found: Sequence[ProcessTarget]) -> str:
    """Name the first of these."""
    listed = ", ".join(f"{target.pid} ({target.comm})" for target in found[:MOST_LISTED])
    return f"{listed}, …" if len(found) > MOST_LISTED else listed


def find_all(
    selection: Selection, report_gone: Callable[[str], None] | None = None
) -> tuple[ProcessTarget, ...]:
    """Return the processes that are asked for, by their PIDs; there is one at least.

    Of several PIDs those that have exited are left out, a line of each to `report_gone`; without
    that all must be there. Raises NoInputError where there is none, and what find_target() raises.
    """
    if not selection.is_by_name:
        pids: tuple[int | None, ...] = selection.pids or (None,)
        if report_gone is None or len(pids) == 1:
            targets = [find_target(pid) for pid in pids]
        else:
            targets = _those_left(selection.pids, report_gone)
    else:
        check_namespace()
        targets = list(_named(selection))
        if not targets:
            raise NoInputError(_nothing_found(selection))
    by_pid = {target.pid: target for target in targets}
    return tuple(by_pid[pid] for pid in sorted(by_pid))


def _those_left(pids: Iterable[int], report_gone: Callable[[str], None]) -> list[ProcessTarget]:
    found, gone = [], []
    for pid in dict.fromkeys(pids):
        try:
            found.append(find_target(pid))
        except NoInputError as error:
            gone.append(str(error))
    if not found:
        raise NoInputError("; ".join(gone))
    for text in gone:
        report_gone(text)
    return found


def _named(selection: Selection) -> Iterator[ProcessTarget]:
    """Yield what all of the selection's names hold for, but for this process itself."""
    tests = _tests(selection)
    for pid in process_ids():
        try:
            if pid == os.getpid() or not all(test(pid) for test in tests):
                continue
            target = examine(pid)
            if selection.exe is None or _program(target.exe) == _program(selection.exe):
                yield target
        except (FileNotFoundError, ProcessLookupError, NoInputError):
            continue


def _program(exe: str | None) -> str | None:
    """The path of an executable, which may have been replaced meanwhile."""
    return exe and exe.removesuffix(DELETED)


def service_of(pid: int) -> str | None:
    """Return the service of systemd that a process is in; None if it is in none, or is gone."""
    try:
        paths = list(_cgroup_paths(pid))
    except OSError:
        return None
    units = (unit for path in paths for unit in _units_of(path))
    return next((unit for unit in units if unit.endswith(".service")), None)


def _tests(selection: Selection) -> list[Callable[[int], bool]]:
    tests: list[Callable[[int], bool]] = []
    if selection.comm is not None:
        comm = selection.comm.encode()[:LONGEST_COMM].decode(errors="ignore")
        tests.append(lambda pid: name_of(pid) == comm)
    if selection.cgroup is not None:
        path = _cgroup_path(selection.cgroup)
        tests.append(lambda pid: _is_in_cgroup(pid, path))
    if selection.unit is not None:
        unit = _unit_name(selection.unit)
        tests.append(lambda pid: any(unit in _units_of(path) for path in _cgroup_paths(pid)))
    if selection.pod is not None or selection.container is not None:
        names = _Names()
        pod, container = selection.pod, selection.container
        tests.append(lambda pid: _is_in(names.of(pid), pod, container))
    return tests


class _Names:
    """The containers of processes, each looked up once."""

    def __init__(self) -> None:
        self._named: dict[Container, Container] = {}
        self._ids: set[str] | None = None

    def of(self, pid: int) -> Container | None:
        path, container = cgroup_of(pid)
        if container is None:
            return None
        if is_in_users_tree(path):
            # Without a name, and without an ID that may mean a container of the system.
            is_forged = (container.id or "")[:SHORTEST_ID] in self._ids_of_system()
            return None if is_forged else container
        if container not in self._named:
            self._named[container] = with_names(container)
        return self._named[container]

    def _ids_of_system(self) -> set[str]:
        """The beginnings of the IDs of containers that no user named."""
        if self._ids is None:
            self._ids = set()
            for pid in process_ids():
                path, container = cgroup_of(pid)
                if container is not None and container.id and not is_in_users_tree(path):
                    self._ids.add(container.id[:SHORTEST_ID])
        return self._ids


def _is_in(container: Container | None, pod: str | None, name: str | None) -> bool:
    if container is None:
        return False
    if pod is not None and f"{container.pod_namespace}/{container.pod_name}" != pod:
        return False
    return name is None or name == container.name or _is_id(name, container.id)


def _is_id(text: str, id_: str | None) -> bool:
    return id_ is not None and (text == id_ or (len(text) >= SHORTEST_ID and id_.startswith(text)))


def _unit_name(text: str) -> str:
    """The unit's full name: as systemctl(1) has it, one without a kind is a service."""
    return text if text.endswith(_UNITS) else f"{text}.service"


def _units_of(path: str) -> list[str]:
    """The units of the system that have a cgroup: its slices, and what is in the last of these.

    Below that the service names the cgroups itself, as a user's user@UID.service does: see
    systemd's src/basic/cgroup-util.c:cg_path_get_unit().
    """
    # Of another cgroup namespace the path may begin with `..`.
    parts = [part for part in path.split("/") if part not in ("", "..")]
    slices = list(takewhile(lambda part: part.endswith(".slice"), parts))
    return parts[: len(slices) + 1]


def _is_in_cgroup(pid: int, path: str) -> bool:
    return any(each == path or each.startswith(f"{path}/") for each in _cgroup_paths(pid))


def _cgroup_paths(pid: int) -> Iterator[str]:
    memberships = read_lines(PROC / str(pid) / "cgroup")
    return (line.partition(":")[2].partition(":")[2] for line in memberships)


def _cgroup_path(text: str) -> str:
    """The path of a cgroup as /proc/PID/cgroup has it. Raises UsageError for none, and for all."""
    path = os.path.normpath("/" + text.lstrip("/"))
    for place in mount_points():
        if path == str(place) or path.startswith(f"{place}/"):
            path = path.removeprefix(str(place))
            break
    if path in ("", "/"):
        raise UsageError(f"--cgroup {text}: every process is in the root; name one below it")
    return path


def _nothing_found(selection: Selection) -> str:
    where = f"no process matches {selection}{namespace_hint()}"
    if selection.pod is None and selection.container is None:
        return where
    names = _Names()
    containers = {container for pid in process_ids() if (container := names.of(pid))}
    if not containers:
        return f"{where}: no process here is in a container, as far as its cgroup's path shows"
    if not any(container.name or container.pod_name for container in containers):
        return (
            f"{where}: none of the {len(containers)} containers here has a name in the runtime's or"
            " the kubelet's files; run where these are (/run, /var/lib, /var/log), or use --cgroup"
        )
    return where
