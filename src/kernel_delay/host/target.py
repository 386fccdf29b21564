"""Which process is to be measured: /proc only."""

import os
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from msgspec import Struct

from kernel_delay.errors import NoInputError, UnavailableError, UsageError
from kernel_delay.formatting import title_in
from kernel_delay.host.address_space import read_in_time
from kernel_delay.host.kernel_names import OVS_VSWITCHD
from kernel_delay.host.proc_text import read_bytes

PROC = Path("/proc")

# From itself and from its parent, as fs/proc/base.c has it of each folder.
_LINKS_OF_A_FOLDER = 2

# include/linux/sched.h (6.18): a kernel thread, in the flags of /proc/PID/stat.
PF_KTHREAD = 0x0020_0000

# include/linux/proc_ns.h (6.18), PROC_PID_INIT_INO: the first PID namespace's inode.
PROC_PID_INIT_INO = 0xEFFF_FFFC

KVM_MACHINE = "anon_inode:kvm-vm"

# TASK_COMM_LEN without the zero (include/linux/sched.h): the kernel keeps no more of a name.
LONGEST_COMM = 15

LONGEST_PID = 32

PidNamespace = Literal["first", "inner", "foreign"]


class ProcessTarget(Struct, frozen=True):
    """A process that can be measured.

    `pid` and `comm` are the process's (the thread group leader's), `exe` the
    path of its program or None where that can't be read. `note` is what the
    user should know of how this process was chosen, one line, or None.
    `command_line` is that of a process that has yet to be executed.
    """

    pid: int
    comm: str
    exe: str | None
    note: str | None = None
    command_line: tuple[str, ...] | None = None


class Targets(Struct, frozen=True):
    """Processes that are measured together, one at least; with `children` all they fork too."""

    processes: tuple[ProcessTarget, ...]
    children: bool = False

    @property
    def pids(self) -> tuple[int, ...]:
        """Theirs."""
        return tuple(target.pid for target in self.processes)

    @property
    def are_several(self) -> bool:
        """Whether they may be more than one."""
        return self.children or len(self.processes) > 1


class Stat(Struct, frozen=True):
    """The fields of /proc/PID/stat that are needed here; see proc_pid_stat(5).

    `started` is in clock ticks since boot.
    """

    state: str
    parent: int
    flags: int
    started: int


def find_target(pid: int | None) -> ProcessTarget:
    """The process that `pid` is or belongs to; without one, the only ovs-vswitchd.

    Raises NoInputError where there is no such process or it has exited,
    UsageError where several are named ovs-vswitchd, UnavailableError for a
    kernel thread, or where /proc is of another PID namespace.
    """
    check_namespace()
    if pid is None:
        pid = _only_ovs_vswitchd()
    try:
        return examine(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise NoInputError(f"there is no process {pid}{namespace_hint()}") from None


def check_namespace() -> None:
    """Raise UnavailableError where /proc is of another PID namespace: no PID means anything."""
    if pid_namespace() == "foreign":
        raise UnavailableError(
            "/proc is of another PID namespace than kernel-delay: mount its own,"
            " or start the container with --pid=host"
        )


def find_child(pid: int) -> ProcessTarget | None:
    """The process `pid`, if it is there: it may end at any time."""
    try:
        return examine(pid)
    except (OSError, NoInputError, UnavailableError):
        return None


def find_in_file(path: Path) -> ProcessTarget | None:
    """The process whose PID is in that file; None where there is no such file or process.

    The PID is the first word: PostgreSQL's postmaster.pid has more. Others may exchange the file:
    only a regular one is opened that no process supplies, and LONGEST_PID bytes are read.
    """
    # Only `watch` is given such a file.
    from kernel_delay.host.stored_files import Root

    try:
        root = Root(Path("/"))
        try:
            fd = root.find(os.path.abspath(path))
        finally:
            root.close()
        try:
            if not S_ISREG(os.fstat(fd).st_mode):
                return None
            text = read_bytes(f"{PROC}/self/fd/{fd}", LONGEST_PID)
        finally:
            os.close(fd)
        return examine(int(text.split()[0]))
    except (OSError, ValueError, IndexError, NoInputError):
        return None


def pid_namespace() -> PidNamespace:
    """Whose processes /proc shows: of the first namespace, of an inner one, of a foreign one.

    A foreign one is not this process's: no PID means there what it means here.
    """
    # Another namespace's /proc calls this process by another number, or does not know it.
    try:
        if int(os.readlink(PROC / "self")) != os.getpid():
            return "foreign"
        inode = os.stat(PROC / "self/ns/pid").st_ino
    except OSError:
        return "foreign"
    return "first" if inode == PROC_PID_INIT_INO else "inner"


def living_thread(pid: int) -> int | None:
    """The id of a thread of process `pid` that still runs, the first while that does; or None.

    The first may end by itself (pthread_exit(3) in main). Then its /proc/PID
    has no maps, exe, root and namespaces any more, and perf_event_open(2)
    takes it for gone. /proc/TID of each other thread has them all; below
    /proc/PID/task map_files is missing.
    """
    if _lives(pid):
        return pid
    return next(filter(_lives, sorted(_numbers_in(PROC / str(pid) / "task"))), None)


def _lives(tid: int) -> bool:
    try:
        return _is_alive(read_stat(tid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is_alive(stat: Stat) -> bool:
    return stat.state not in "ZX"


def thread_count(pid: int) -> int:
    """How many threads process `pid` has; 0 when it is gone.

    They are among the links of a folder (fs/proc/base.c:proc_task_getattr(), 5.14 to 6.18): to
    list 10,000 takes 20 ms.
    """
    try:
        return os.stat(PROC / str(pid) / "task").st_nlink - _LINKS_OF_A_FOLDER
    except (FileNotFoundError, ProcessLookupError):
        return 0


def has_virtual_machines(pid: int) -> bool:
    """Whether process `pid` has one of KVM's open (virt/kvm/kvm_main.c, 5.14 to 6.18).

    False also where its files may not be looked at.
    """
    files = PROC / str(pid) / "fd"
    try:
        return any(os.readlink(file) == KVM_MACHINE for file in files.iterdir())
    except OSError:
        return False


def examine(pid: int) -> ProcessTarget:
    """The process that `pid` is or belongs to.

    Raises FileNotFoundError or ProcessLookupError where there is none, NoInputError for one that
    has exited, UnavailableError for a kernel thread.
    """
    stat = read_stat(pid)
    if stat.flags & PF_KTHREAD:
        name = read_comm(PROC / str(pid))
        raise UnavailableError(f"{pid} is the kernel thread {name}; only processes can be measured")
    process = _thread_group(pid)
    thread = living_thread(process)
    if thread is None:
        raise NoInputError(f"process {process} has exited; its parent has yet to collect it")
    note = None
    if process != pid:
        note = f"{pid} is a thread of process {process}: measuring process {process}"
    return ProcessTarget(process, read_comm(PROC / str(process)), _exe(thread), note)


def identity(pid: int) -> tuple[int, int | None]:
    """Return `pid` and when that process started: another may get the PID. None: it is gone."""
    try:
        return pid, read_stat(pid).started
    except (FileNotFoundError, ProcessLookupError):
        return pid, None


def process_ids(known: Container[int] = ()) -> Iterator[int]:
    """The processes that live and have a program, without those `known`, which are not read."""
    for pid in _numbers_in(PROC):
        if pid in known:
            continue
        try:
            stat = read_stat(pid)
            if not stat.flags & PF_KTHREAD and (_is_alive(stat) or living_thread(pid) is not None):
                yield pid
        except (FileNotFoundError, ProcessLookupError):
            continue


def children_of(pid: int) -> list[int]:
    """Return the children of a process that are there.

    /proc/PID/task/TID/children, CONFIG_PROC_CHILDREN: those that this thread forked.
    """
    found: list[int] = []
    tasks = PROC / str(pid) / "task"
    with suppress(OSError):
        for tid in os.listdir(tasks):
            words = (tasks / tid / "children").read_text().split()
            found += map(int, words)
        return found
    is_listed = (PROC / "thread-self" / "children").exists()
    # Where it is not, each process has its parent.
    return found if is_listed else _children_by_parent().get(pid, [])


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid in process_ids():
        with suppress(FileNotFoundError, ProcessLookupError):
            children.setdefault(read_stat(pid).parent, []).append(pid)
    return children


def find_descendants(pids: Iterable[int]) -> tuple[ProcessTarget, ...]:
    """Return the children of processes that are there, and theirs, by their PIDs."""
    children = _children_by_parent()
    asked, found = set(pids), set[int]()
    waiting = [*asked]
    while waiting:
        new = set(children.get(waiting.pop(), ())) - asked - found
        found |= new
        waiting += new
    return tuple(filter(None, map(find_child, sorted(found))))


def name_of(pid: int) -> str:
    """What process `pid` is called. Raises FileNotFoundError or ProcessLookupError."""
    return read_comm(PROC / str(pid))


def command_line(pid: int, most_bytes: int) -> tuple[str, ...]:
    """The arguments of process `pid`, or the title that it gave itself; none if it is gone.

    Nor are there any if others have the lock of its address space.

    See proc_pid_cmdline(5); `most_bytes` are read.
    """
    raw = _cmdline(pid, most_bytes)
    if not raw and (thread := living_thread(pid)) not in (None, pid):
        raw = _cmdline(thread, most_bytes)
    # A program that writes its title there leaves the rest empty (setproctitle).
    raw = raw.rstrip(b"\0")
    return tuple(map(_text, raw.split(b"\0"))) if raw else ()


def _cmdline(tid: int, most_bytes: int) -> bytes:
    try:
        return read_in_time(lambda: read_bytes(f"{PROC}/{tid}/cmdline", most_bytes))
    except OSError:
        return b""


# Titles are shorter: setproctitle(3) has what room the arguments had.
_TITLE_BYTES = 256


def title_of(pid: int) -> str | None:
    """Return the title that process `pid` gave itself; None if it has none, or is gone."""
    return title_in(command_line(pid, _TITLE_BYTES))


def _only_ovs_vswitchd() -> int:
    name, pids = OVS_VSWITCHD[0], sorted(_ovs_vswitchds())
    if not pids:
        raise NoInputError(
            f"no process is named {name}{namespace_hint()}; say which to measure with --pid"
        )
    if len(pids) > 1:
        listed = ", ".join(map(str, pids))
        raise UsageError(
            f"{len(pids)} processes are named {name}, PIDs {listed}; say which with --pid"
        )
    return pids[0]


def _ovs_vswitchds() -> Iterator[int]:
    """Processes called so that live.

    The parent that `ovs-vswitchd --monitor` keeps to restart it is not among
    them: it renames itself to "monitor" (lib/daemon-unix.c, OVS 3.1).
    """
    for pid in _numbers_in(PROC):
        try:
            if read_comm(PROC / str(pid)) in OVS_VSWITCHD and living_thread(pid) is not None:
                yield pid
        except (FileNotFoundError, ProcessLookupError):
            continue


def _thread_group(tid: int) -> int:
    for line in (PROC / str(tid) / "status").read_bytes().split(b"\n"):
        if line.startswith(b"Tgid:"):
            return int(line.split()[1])
    raise ProcessLookupError(tid)


def read_stat(pid: int) -> Stat:
    """Return these fields. Raises FileNotFoundError or ProcessLookupError."""
    # The name, in brackets, may itself hold brackets and spaces.
    after_name = read_bytes(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()
    parent, flags, started = (int(after_name[place]) for place in (1, 6, 19))
    return Stat(after_name[0].decode(), parent, flags, started)


def read_comm(directory: Path) -> str:
    """Return the name of the process, or thread, of that directory of /proc; OSError if gone."""
    return _text((directory / "comm").read_bytes().removesuffix(b"\n"))


def _exe(pid: int) -> str | None:
    try:
        return _text(os.readlink(os.fsencode(PROC / str(pid) / "exe")))
    except OSError:  # not ours to read, or no file (a process about to exit)
        return None


def _text(raw: bytes) -> str:
    """Bytes that need not be UTF-8 as text that can be encoded again."""
    return raw.decode(errors="backslashreplace")


def _numbers_in(directory: Path) -> Iterator[int]:
    """The PIDs or thread ids that `directory` has entries for; none if it is gone."""
    try:
        with os.scandir(directory) as entries:
            yield from (int(entry.name) for entry in entries if entry.name.isdecimal())
    except (FileNotFoundError, ProcessLookupError):
        return


def namespace_hint() -> str:
    """What to add to "no such process" where only a part of the machine's are seen."""
    if pid_namespace() == "first":
        return ""
    return " in this PID namespace (start the container with --pid=host to see all)"
