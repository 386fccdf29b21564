"""The cases: a victim whose rounds have a cause, and what removes that."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from msgspec import Struct

from tests.gains import victims
from tests.verdicts.causes.disk_throttled import whole_disk
from tests.verdicts.cgroups import CGROUPS, cgroup, controller, join, unified
from tests.verdicts.files import big_file, fifo
from tests.verdicts.staging import CPU, Process, Role, hog, running

# Of a case that is not about CPUs.
REAL_TIME = ("chrt", "--rr", "1")

# The processes of any other case together, beside whatever else wants the CPUs: the most there is.
MOST_SHARES, MOST_WEIGHT = 262_144, 10_000

# A quota of a quarter of a CPU.
QUOTA_US, PERIOD_US = 25_000, 100_000

# What the victim may read from the disk in a second.
BYTES_PER_S = 1 << 20

Remove = Callable[[], object]


class Running(Struct, frozen=True):
    """A victim that runs, without its cause.

    Attributes:
        pid: The victim.
        lengths: The file that it writes its rounds to.
        apply: Begins the cause, and returns what ends it.
    """

    pid: int
    lengths: Path
    apply: Callable[[], Remove]


class Place(Struct, frozen=True):
    """Where a case runs.

    Attributes:
        stack: Ends what is started.
        folder: Its files.
        group: The cgroup of its processes, with most of the CPUs. None: they are real-time ones.
    """

    stack: ExitStack
    folder: Path
    group: Path | None

    @property
    def switch(self) -> Path:
        """The file that is there for as long as the cause is."""
        return self.folder / "switch"

    def run(
        self,
        role: Role,
        *arguments: object,
        name: str = "other",
        cpu: int | None = None,
        within: tuple[str, ...] = (),
    ) -> Process:
        """Run a program of the case."""
        within = within if self.group is not None else REAL_TIME
        found = self.stack.enter_context(running(role, *arguments, name=name, within=within))
        # Not before: it would take long to start beside those that are there.
        if self.group is not None:
            join(self.group, found.pid)
        if cpu is not None:
            os.sched_setaffinity(found.pid, {cpu})
        return found

    def victim(
        self,
        role: Role,
        *arguments: object,
        within: tuple[str, ...] = (),
    ) -> Process:
        """Run the victim; on one CPU, as another may be faster."""
        lengths = self.folder / "lengths"
        words = (self.switch, lengths, *arguments)
        return self.run(role, *words, name="victim", cpu=CPU, within=within)

    def running(self, victim: Process, apply: Callable[[], Remove] | None = None) -> Running:
        """The case runs: its cause is what the switch does, and what `apply` does."""

        def begin() -> Remove:
            self.switch.touch()
            end = apply() if apply is not None else None

            def remove() -> None:
                if end is not None:
                    end()
                self.switch.unlink()

            return remove

        return Running(victim.pid, self.folder / "lengths", begin)


class Case(Struct, frozen=True):
    """A cause.

    Attributes:
        rules: The rules that may find it.
        begin: Starts it.
        options: Those of `watch`.
        is_triggered: It is captured between two triggers instead.
        on_cpu: It is about CPUs. In any other case no other process may keep these from it.
        is_limit: The verdict can't know what it takes: a miss is known.
    """

    rules: tuple[str, ...]
    begin: Callable[[Place], Running]
    options: tuple[str, ...] = ()
    is_triggered: bool = False
    on_cpu: bool = False
    is_limit: bool = False


@contextmanager
def staged(case: Case) -> Iterator[Running]:
    """A case's victim with its cause."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        _own_group() if case.on_cpu else nullcontext() as group,
        ExitStack() as stack,
    ):
        yield case.begin(Place(stack, Path(folder), group))


@contextmanager
def _own_group() -> Iterator[Path]:
    name = f"gain-{os.getpid()}"
    if (CGROUPS / "cpu").is_dir():
        with cgroup(controller("cpu"), name, cpu__shares=MOST_SHARES) as group:
            yield group
        return
    root = unified()
    (root / "cgroup.subtree_control").write_text("+cpu")
    with cgroup(root, name, cpu__weight=MOST_WEIGHT) as group:
        yield group


def _hogged(within: tuple[str, ...] = (), hogs: int = 1) -> Callable[[Place], Running]:
    def begin(place: Place) -> Running:
        victim = place.victim(victims.computing, within=within)
        return place.running(victim, lambda: _run_hogs(place, hogs))

    return begin


def _run_hogs(place: Place, hogs: int) -> Remove:
    others = [place.run(hog, name="hog", cpu=CPU) for _ in range(hogs)]

    def end() -> None:
        for other in others:
            _end(other)

    return end


def _hogged_in_real_time(place: Place) -> Running:
    victim = place.victim(victims.computing)

    def apply() -> Remove:
        # It is in no cgroup: those of v1 may have no time for such.
        other = place.stack.enter_context(
            running(victims.hog_by_turns, name="hog", cpu=CPU, within=("chrt", "--rr", "1"))
        )
        return lambda: _end(other)

    return place.running(victim, apply)


def _throttled(period_us: int) -> Callable[[Place], Running]:
    def begin(place: Place) -> Running:
        victim = place.victim(victims.computing)
        return place.running(victim, lambda: _limit_cpu(place, period_us))

    return begin


def _limit_cpu(place: Place, period_us: int) -> Remove:
    """Set a quota of a quarter of a CPU; what is returned takes it away."""
    group = place.group
    assert group is not None
    quota_us = period_us * QUOTA_US // PERIOD_US
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota_us} {period_us}")
        return lambda: (group / "cpu.max").write_text(f"max {period_us}")
    (group / "cpu.cfs_period_us").write_text(str(period_us))
    (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    return lambda: (group / "cpu.cfs_quota_us").write_text("-1")


def _stopped(place: Place) -> Running:
    victim = place.victim(victims.computing)
    return place.running(victim, lambda: _stop_by_turns(place, victim))


def _stop_by_turns(place: Place, victim: Process) -> Remove:
    stopper = place.run(victims.stop_by_turns, victim.pid, name="stopper")

    def end() -> None:
        _end(stopper)
        os.kill(victim.pid, signal.SIGCONT)

    return end


def _frozen(place: Place) -> Running:
    freezer = place.stack.enter_context(cgroup(unified(), f"frozen-{os.getpid()}"))
    file = freezer / "cgroup.freeze"
    victim = place.victim(victims.computing)
    place.stack.callback(lambda: file.write_text("0"))
    join(freezer, victim.pid)

    def apply() -> Remove:
        other = place.run(victims.freeze_by_turns, file, name="freezer")

        def end() -> None:
            _end(other)
            file.write_text("0")

        return end

    return place.running(victim, apply)


def _alone(role: Role, *arguments: object) -> Callable[[Place], Running]:
    return lambda place: place.running(place.victim(role, *arguments))


def _with_file(role: Role, size: int = 8 << 20) -> Callable[[Place], Running]:
    def begin(place: Place) -> Running:
        path = place.stack.enter_context(big_file(size))
        return place.running(place.victim(role, path))

    return begin


def _disk_limited(place: Place) -> Running:
    path = place.stack.enter_context(big_file(8 << 20))
    disk = whole_disk(path)
    limit = {"blkio__throttle.read_bps_device": f"{disk} 0"}
    group = place.stack.enter_context(cgroup(controller("blkio"), f"gain-{os.getpid()}", **limit))
    victim = place.victim(victims.reading_directly, path)
    join(group, victim.pid)
    file = group / "blkio.throttle.read_bps_device"

    def apply() -> Remove:
        file.write_text(f"{disk} {BYTES_PER_S}")
        return lambda: file.write_text(f"{disk} 0")

    return place.running(victim, apply)


def _flocked(place: Place) -> Running:
    path = place.folder / "locked"
    path.touch()
    place.run(victims.hold_file, place.switch, path, name="holder")
    return place.running(place.victim(victims.flocking, path))


def _asking_pipe(place: Place) -> Running:
    paths = [place.stack.enter_context(fifo()) for _ in range(2)]
    place.run(victims.serve_pipe, place.switch, *paths, name="server")
    return place.running(place.victim(victims.asking_by_pipe, *paths))


def _asking_ahead(place: Place) -> Running:
    paths = [place.stack.enter_context(fifo()) for _ in range(2)]
    place.run(victims.serve_after_a_while, *paths, name="server")
    return place.running(place.victim(victims.asking_ahead, *paths))


def _writing_pipe(place: Place) -> Running:
    path = place.stack.enter_context(fifo())
    place.run(victims.read_slowly, place.switch, path, name="reader")
    return place.running(place.victim(victims.writing_to_reader, path))


def _asking_socket(place: Place) -> Running:
    path = place.folder / "socket"
    place.run(victims.serve_socket, place.switch, path, name="server")
    return place.running(place.victim(victims.asking_by_socket, path))


def _asking_tcp(place: Place) -> Running:
    server = place.run(victims.serve_tcp, place.switch, name="server")
    return place.running(place.victim(victims.asking_by_tcp, server.reported["port"]))


def _asking_relay(place: Place) -> Running:
    front, back = place.folder / "front", place.folder / "back"
    place.run(victims.serve_relay, place.switch, back, name="server")
    place.run(victims.relay, front, back, name="relay")
    return place.running(place.victim(victims.asking_by_socket, front))


def _hogged_and_asking(place: Place, *, removes_hog: bool) -> Running:
    """A hog, and a server that sleeps; one of them is removed."""
    server = place.run(victims.serve_tcp, place.switch, name="server")
    victim = place.victim(victims.asking_by_tcp, server.reported["port"])
    return _beside_server(place, victim, lambda: _run_hogs(place, 1), removes_other=removes_hog)


def _stopped_and_asking(place: Place, *, removes_stops: bool) -> Running:
    """It is stopped by turns, also while its server works: what overlaps is not gained."""
    server = place.run(victims.serve_tcp, place.switch, name="server")
    victim = place.victim(victims.asking_by_tcp, server.reported["port"])
    return _beside_server(
        place, victim, lambda: _stop_by_turns(place, victim), removes_other=removes_stops
    )


def _throttled_and_asking(place: Place, *, removes_quota: bool) -> Running:
    """Its quota fills up while it waits for the server."""
    server = place.run(victims.serve_tcp, place.switch, name="server")
    victim = place.victim(victims.asking_by_tcp, server.reported["port"])
    return _beside_server(
        place, victim, lambda: _limit_cpu(place, PERIOD_US), removes_other=removes_quota
    )


def _beside_server(
    place: Place, victim: Process, apply: Callable[[], Remove], *, removes_other: bool
) -> Running:
    """Of two causes the other one stays: the slow server is what the switch does."""
    lengths = place.folder / "lengths"
    if removes_other:
        place.switch.touch()
        return Running(victim.pid, lengths, apply)
    place.stack.callback(apply())
    return place.running(victim)


def _end(process: Process) -> None:
    process.process.kill()
    process.process.wait()


ASKS = ("wait_socket_receive",)
DISK = ("wait_disk", "wait_page_cache", "kernel_sleep", "long_call")
FAULTS = ("page_faults", "wait_page_cache", "wait_disk")

CASES: Mapping[str, Case] = {
    "CPU hog": Case(("cpu_contention",), _hogged(), on_cpu=True),
    "three CPU hogs": Case(("cpu_contention",), _hogged(hogs=3), on_cpu=True),
    "CPU hog beside nice 5": Case(("cpu_contention",), _hogged(("nice", "-n", "5")), on_cpu=True),
    "CPU hog SCHED_RR": Case(("cpu_contention",), _hogged_in_real_time, on_cpu=True),
    "CPU quota 100 ms": Case(("throttled",), _throttled(PERIOD_US), on_cpu=True),
    "CPU quota 20 ms": Case(("throttled",), _throttled(PERIOD_US // 5), on_cpu=True),
    "SIGSTOP": Case(("stopped",), _stopped),
    "freezer": Case(("frozen",), _frozen),
    "mutex": Case(("lock",), _alone(victims.locking)),
    "lock without owner": Case(("wait_futex",), _alone(victims.waiting_for_thread)),
    "timer": Case(("wait_clock",), _alone(victims.sleeping)),
    "fdatasync": Case(DISK, _with_file(victims.syncing)),
    "cold file": Case(DISK, _with_file(victims.reading_cold, 64 << 20)),
    "disk quota": Case(DISK, _disk_limited),
    "page faults": Case(("page_faults", "doubtful_user"), _alone(victims.faulting)),
    "page faults from disk": Case(FAULTS, _with_file(victims.faulting_from_disk, 64 << 20)),
    "kernel's work": Case(("kernel_work",), _alone(victims.in_the_kernel)),
    "child": Case(("wait_child", "wait_pipe"), _alone(victims.having_children)),
    "file lock": Case(("wait_file_lock",), _flocked),
    "slow server pipe": Case(("wait_pipe",), _asking_pipe),
    "slow reader pipe": Case(("wait_pipe",), _writing_pipe),
    "busy server Unix socket": Case(ASKS, _asking_socket),
    "slow server TCP": Case(ASKS, _asking_tcp),
    "chain of servers": Case(("wait_chain",), _asking_relay, ("--chains",)),
    "hog of hog + server": Case(
        ("cpu_contention",), lambda p: _hogged_and_asking(p, removes_hog=True), on_cpu=True
    ),
    "server of hog + server": Case(
        ASKS, lambda p: _hogged_and_asking(p, removes_hog=False), on_cpu=True
    ),
    "stops of stops + server": Case(
        ("stopped",), lambda p: _stopped_and_asking(p, removes_stops=True)
    ),
    "server of stops + server": Case(ASKS, lambda p: _stopped_and_asking(p, removes_stops=False)),
    "quota of quota + server": Case(
        ("throttled",), lambda p: _throttled_and_asking(p, removes_quota=True), on_cpu=True
    ),
    "server of quota + server": Case(
        ASKS, lambda p: _throttled_and_asking(p, removes_quota=False), on_cpu=True
    ),
    "timer between triggers": Case(("asleep",), _alone(victims.sleeping), is_triggered=True),
    "mutex between triggers": Case(("lock",), _alone(victims.locking), is_triggered=True),
    "TCP between triggers": Case(ASKS, _asking_tcp, is_triggered=True),
    "sleep before a helper": Case(("wait_clock",), _alone(victims.with_helper, 50)),
    "sleep beside a helper": Case(("wait_clock",), _alone(victims.with_helper, 150)),
    "sleep beside a server": Case(("wait_clock",), _asking_ahead, is_limit=True),
}

PAIRS = (
    ("hog of hog + server", "server of hog + server"),
    ("stops of stops + server", "server of stops + server"),
    ("quota of quota + server", "server of quota + server"),
)
"""Two causes of the same rounds: that which is found to cost more must gain more."""
