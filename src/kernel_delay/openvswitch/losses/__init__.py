"""All counters of losses of a process, read at both boundaries of a window."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kernel_delay.errors import UnavailableError
from kernel_delay.host.kernel_names import OVS_VSWITCHD
from kernel_delay.host.open_files import links
from kernel_delay.host.proc_text import read_text
from kernel_delay.host.target import read_comm
from kernel_delay.model import PacketLosses, PmdStats, Thread
from kernel_delay.openvswitch.losses import tables
from kernel_delay.openvswitch.losses.tables import Conntrack, NetlinkSocket

if TYPE_CHECKING:
    from kernel_delay.openvswitch.losses.datapaths import DatapathCounters, Datapaths
    from kernel_delay.openvswitch.losses.packet_sockets import PacketSocket, PacketSockets
    from kernel_delay.openvswitch.unixctl import Answers, Command, Unixctl


ANSWERS_WITHIN_S = 0.5

UPCALLS = ("upcall/show",)
COVERAGE = ("coverage/show",)
USERSPACE = ("dpctl/show", "-s", "netdev@ovs-netdev")
"""Of the only datapath that ovs-vswitchd makes in user space (lib/dpif-netdev.c)."""

COMMANDS = (UPCALLS, COVERAGE, USERSPACE)

# What a reason for not reading is of.
PACKET_SOCKETS = "drops of packet sockets"
KERNEL_COUNTERS, OWN_COUNTERS = "counters of the kernel's datapath", "counters of ovs-vswitchd"


class LossReading:
    """The counters at one time: what could not be read is None, and `unread` says why."""

    def __init__(self) -> None:
        """Nothing is read."""
        self.read_ns = time.monotonic_ns()
        self.sockets: Mapping[int, NetlinkSocket] | None = None
        self.conntrack: Conntrack | None = None
        self.datapaths: tuple[DatapathCounters, ...] | None = None
        self.packet_sockets: Mapping[int, PacketSocket] | None = None
        self.unread: dict[str, str] = {}


_T = TypeVar("_T")

_PMD = "pmd-c"
"""How the name of a PMD thread begins: lib/dpif-netdev.c:pmd_thread_main()."""


class LossCounters:
    """The counters of a process; of an ovs-vswitchd also those of Open vSwitch."""

    def __init__(self, pid: int, comm: str, *, pmds: bool = False) -> None:
        """Connect to what is asked later; what can't be had is not read, and reported so.

        `pmds`: PMD threads are asked for too, for with_pmds() and pmds().
        """
        self._pid = pid
        self._proc = Path(f"/proc/{pid}")
        self._is_open_vswitch = comm in OVS_VSWITCHD
        self._unread: dict[str, str] = {}
        self._last: LossReading | None = None
        self._datapaths: Datapaths | None = None
        self._packet_sockets: PacketSockets | None = None
        self._unixctl: Unixctl | None = None
        if self._is_open_vswitch:
            self._datapaths = self._opened(KERNEL_COUNTERS, lambda: _datapaths_of(pid))
            self._packet_sockets = self._opened(PACKET_SOCKETS, lambda: _packet_sockets_of(pid))
            self._unixctl = self._opened(OWN_COUNTERS, lambda: _unixctl_of(pid))
        self._asks_pmds = pmds
        self._pmds_since: Answers | None = None
        self.answered: tuple[Answers, Answers] | None = None
        """What Open vSwitch answered around the window that between() was called for last."""
        # Not when a window opens: the answer would wake the main thread within that.
        self._answers = self._unixctl.ask(self._commands()) if self._unixctl else None

    @property
    def asks_coverage(self) -> bool:
        """Whether it asks the process for COVERAGE."""
        return self._unixctl is not None

    def _opened(self, what: str, make: Callable[[], _T]) -> _T | None:
        try:
            return make()
        except (OSError, UnavailableError) as error:
            self._unread[what] = _reason(error)
            return None

    def _commands(self) -> "Sequence[Command]":
        """What it is asked for now: PMD threads come with their first port."""
        if not self._asks_pmds or not any(self._named(_PMD)):
            return COMMANDS
        from kernel_delay.openvswitch.pmds import COMMANDS as OF_PMDS

        return *COMMANDS, *OF_PMDS

    def close(self) -> None:
        """Disconnect."""
        for each in (self._datapaths, self._packet_sockets, self._unixctl):
            if each is not None:
                each.close()

    def read(self) -> LossReading:
        """Read what the kernel has."""
        reading = LossReading()
        reading.unread.update(self._unread)
        text = self._table(reading, "overruns of netlink sockets", "net/netlink")
        reading.sockets = None if text is None else tables.parse_netlink(text)
        if not self._is_open_vswitch:
            return reading
        text = self._table(reading, "counters of conntrack", "net/stat/nf_conntrack")
        reading.conntrack = None if text is None else tables.parse_conntrack(text)
        if self._datapaths is not None:
            try:
                reading.datapaths = self._datapaths.read()
            except OSError as error:
                reading.unread[KERNEL_COUNTERS] = _reason(error)
        if self._packet_sockets is not None and self._has_packet_sockets():
            try:
                reading.packet_sockets = self._packet_sockets.read()
            except OSError as error:
                reading.unread[PACKET_SOCKETS] = _reason(error)
        return reading

    def _has_packet_sockets(self) -> bool:
        """Whether there is one in its namespace: to ask for them can load a module."""
        with suppress(OSError):
            text = read_text(self._proc / "net/packet", tables.MOST_BYTES)
            return len(text.splitlines()) > 1
        return False

    def _table(self, reading: LossReading, what: str, path: str) -> str | None:
        try:
            return read_text(self._proc / path, tables.MOST_BYTES)
        except FileNotFoundError:
            return None  # this kernel, or namespace, has none: nothing is lost there
        except OSError as error:
            reading.unread[what] = _reason(error)
            return None

    def between(self, before: LossReading, after: LossReading) -> PacketLosses:
        """Return what was lost from one reading to the next, which was made just now.

        Open vSwitch is asked now, and had been asked after the window before, or at first.
        """
        from kernel_delay.openvswitch.losses.difference import (
            losses,
            own_losses,
            with_devices,
            with_readers,
        )

        found = losses(before, after, tables.conntrack_limit())
        if self._unixctl is not None and self._answers is not None:
            now = self._unixctl.ask(self._commands())
            if now.problem is None:
                self._unixctl.receive(ANSWERS_WITHIN_S)
            self.answered = self._answers, now
            found = own_losses(found, self._answers, now)
            # What was not answered is a part of the next time.
            if found.asked_ns or not self._answers.texts:
                self._answers = now
        if not (found.sockets or found.port_overruns):
            return found
        own = self._own_inodes()
        if self._packet_sockets is not None:
            found = with_devices(found, own, self._packet_sockets.device)
        return with_readers(found, after, self.handlers(), own) if found.sockets else found

    def with_pmds(self, threads: tuple[Thread, ...]) -> tuple[Thread, ...]:
        """Add what was counted of each PMD thread: what between() was answered."""
        if self.answered is None or not any(each.name.startswith(_PMD) for each in threads):
            return threads
        from kernel_delay.openvswitch.pmds import with_pmds

        return with_pmds(threads, self._eldest(_PMD), *self.answered)

    def pmds(self) -> "Mapping[int, PmdStats]":
        """Return what the PMD thread of each core did since the last call, or the first answer.

        It is what between() was answered just now; nothing if that lacks the PMD threads.
        """
        if self.answered is None or not any(self._named(_PMD)):
            return {}
        from kernel_delay.openvswitch.pmds import PERFORMANCE, pmd_stats

        began, ended = self._pmds_since or self.answered[0], self.answered[1]
        # What was not answered in time is a part of the next time.
        if PERFORMANCE in ended.texts:
            self._pmds_since = ended
        return pmd_stats(began, ended)

    def take(self) -> PacketLosses:
        """Return what was lost since the last call; the first time, nothing yet."""
        before, self._last = self._last, self.read()
        return self.between(before or self._last, self._last)

    def _own_inodes(self) -> set[int]:
        """The inodes of the sockets that the process has open."""
        own = (link for _, link in links(self._pid) if link.startswith("socket:["))
        return {int(link[len("socket:[") : -1]) for link in own}

    def handlers(self) -> Sequence[int]:
        """The handler threads in the order in which they were made."""
        return self._eldest("handler")

    def _eldest(self, prefix: str) -> Sequence[int]:
        """The first thread of each name that begins so, in the order in which they were made.

        A thread that one of them makes has its name at first; glibc's aio_write(3) has such.
        """
        first: dict[str, tuple[int, int]] = {}
        for task, comm in self._named(prefix):
            with suppress(OSError):
                stat = (task / "stat").read_text(errors="replace")
                began = int(stat.rpartition(")")[2].split()[19]), int(task.name)
                first[comm] = min(first.get(comm, began), began)
        return [tid for _, tid in sorted(first.values())]

    def _named(self, prefix: str) -> Iterator[tuple[Path, str]]:
        """The threads of Open vSwitch whose names begin so: their folders and names."""
        tasks, names = self._proc / "task", list[str]()
        with suppress(OSError):
            names = os.listdir(tasks) if self._is_open_vswitch else []
        for name in names:
            with suppress(OSError):
                comm = read_comm(tasks / name)
                if comm.startswith(prefix):
                    yield tasks / name, comm


# Of another process they are not asked, and take a while to import.


def _datapaths_of(pid: int) -> "Datapaths | None":
    from kernel_delay.openvswitch.installed import has_kernel_datapath
    from kernel_delay.openvswitch.losses.datapaths import Datapaths

    return Datapaths(pid) if has_kernel_datapath(pid) else None


def _packet_sockets_of(pid: int) -> "PacketSockets":
    from kernel_delay.openvswitch.losses.packet_sockets import PacketSockets

    return PacketSockets(pid)


def _unixctl_of(pid: int) -> "Unixctl":
    from kernel_delay.openvswitch.unixctl import Unixctl

    return Unixctl(pid)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
