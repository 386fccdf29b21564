"""Which object a system call waits for, by its arguments and the memory that they point to."""

import os
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from signal import SIGKILL, SIGSTOP

from msgspec import Struct, structs

from kernel_delay.formatting import NS_PER_MS, NS_PER_S, brief
from kernel_delay.host.kernel_names import EPOLLS, FILE_CALLS, FUTEXES, WRITES, signal_name
from kernel_delay.host.target import PROC, children_of, read_comm
from kernel_delay.model import SleepReason
from kernel_delay.symbols.memory import Read
from kernel_delay.where import OR_A_TIMEOUT, Holder
from kernel_delay.where.files import MOST_NAMED, Descriptor, Files, Found, peers
from kernel_delay.where.mutexes import (
    LOCKED_AND_WAITED_FOR,
    MUTEX_BYTES,
    mutex_owner,
    shares_memory,
)

# Places in struct pt_regs of a call's arguments, as in struct standing_thread. x86-64 and i386:
# arch/x86/include/asm/ptrace.h; arm64: the first registers.
_X86_64 = (14, 13, 12, 7, 9, 8)
_I386 = (5, 11, 12, 13, 14, 4)
_ARM = (0, 1, 2, 3, 4, 5)

# Calls that may wait for the one file whose descriptor is their first argument.
_OF_FILES = frozenset(
    (*FILE_CALLS, "io_uring_enter", "sendfile", "syncfs", "close", "fstat")
)  # fmt: skip
_PATHS = frozenset(
    ("open", "stat", "lstat", "access", "mkdir", "rmdir", "unlink", "chdir", "rename", "truncate",
     "readlink", "chmod", "chown", "execve", "statfs", "umount2")
)  # fmt: skip
_PATHS_AT = frozenset(
    ("openat", "openat2", "newfstatat", "statx", "faccessat", "faccessat2", "mkdirat", "unlinkat",
     "renameat", "renameat2", "readlinkat", "fchmodat", "fchownat", "execveat", "utimensat")
)  # fmt: skip

_LONGEST_PATH = 4096

# Descriptors of a poll whose other ends are looked for.
_MOST_LOOKED_AT = 16
_MOST_POLLED = 1024

# include/uapi/linux/futex.h
_FUTEX_CMD_MASK = 0x7F
_FUTEX_PRIVATE = 0x80
_FUTEX_WAIT = 0
_FUTEX_WAIT_BITSET = 9
_FUTEX_CLOCK_REALTIME = 0x100
_FUTEX_LOCK_PI = (6, 13)
_FUTEX_TID_MASK = 0x3FFFFFFF

_TIMER_ABSTIME = 1
_CLOCKS = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC)

# glibc has a thread's struct pthread, with its TID, at the thread pointer, or right below it
# (sysdeps/*/nptl/tls.h, 2.31 to 2.42). It is half as large as this.
_THREAD_BYTES = 4096

_LONGEST_NS = 100 * 365 * 24 * 3600 * NS_PER_S

_NEVER_AWAITED = (SIGKILL, SIGSTOP)
_ANY_SIGNAL = 60  # glibc keeps two of the other 62 for itself

_P_PID = 1

# Calls that wait until a moment at most: the place of their argument with that, in milliseconds, or
# the address of seconds and of parts of one, so many of which are a second.
_MILLISECONDS = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
_TIMES = {
    "ppoll": (2, NS_PER_S),
    "ppoll_time64": (2, NS_PER_S),
    "pselect6": (4, NS_PER_S),
    "pselect6_time64": (4, NS_PER_S),
    "epoll_pwait2": (3, NS_PER_S),
    "rt_sigtimedwait": (2, NS_PER_S),
    "rt_sigtimedwait_time64": (2, NS_PER_S),
    "select": (4, 1_000_000),
    "_newselect": (4, 1_000_000),
}
_SIGNAL_WAITS = frozenset(("rt_sigtimedwait", "rt_sigtimedwait_time64"))
_OF_ANY_SIGNAL = frozenset(("pause", "rt_sigsuspend"))

# Which calls restart_syscall(2) goes on with after a stop, by a function on the kernel's stack: of
# fs/select.c and kernel/futex/waitwake.c, 5.14 to 6.18. The arguments are still the call's own.
_RESTARTED = {"do_restart_poll": "poll", "futex_wait_restart": "futex"}


class Call(Struct, frozen=True):
    """A system call of a thread: its name, and its arguments."""

    name: str
    arguments: tuple[int, ...]
    compat: bool


class Waited(Struct, frozen=True):
    """What a call waits for, in words, and who has that.

    Attributes:
        words: The words. None: not known, or the descriptors alone.
        holders: Who has it.
        descriptors: What it waits for, behind the words; as many as are looked at.
        more: How many further descriptors it waits for.
        timeout_ns: It waits for no longer than this. None: for as long as it takes, or not known.
        from_now: That is from now on, and not from when it began to wait.
        reason: What a capture would call the wait for the descriptors.
    """

    words: str | None = None
    holders: tuple[Holder, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    more: int = 0
    timeout_ns: int | None = None
    from_now: bool = False
    reason: SleepReason = "poll"


def arguments_of(registers: tuple[int, ...], compat: bool) -> tuple[int, ...]:
    """Return the arguments of a call, by the words of struct pt_regs."""
    on_x86 = _I386 if compat else _X86_64
    places = on_x86 if os.uname().machine == "x86_64" else _ARM
    return tuple(registers[place] for place in places)


class Calls:
    """The calls of the threads of one process."""

    def __init__(
        self,
        pid: int,
        files: Files,
        read: Read,
        names: Mapping[int, tuple[int, str]],
        pointers: Mapping[int, int],
        ahead_ns: int | None,
    ) -> None:
        """Look at their objects.

        `names` and thread `pointers` are the threads', by the ids that they have themselves;
        `ahead_ns` is by how much its CLOCK_MONOTONIC is ahead of ours; None: not known.
        """
        self._pid = pid
        self._files = files
        self._read = read
        self._names = names
        self._pointers = pointers
        self._ahead_ns = ahead_ns

    def waited(self, call: Call) -> Waited:
        """Return what a call waits for; nothing where that is not known."""
        first, second, *_ = call.arguments
        name = call.name
        if name in FUTEXES:
            return self._futex(call)
        if name in EPOLLS:
            fd = _signed(first)
            return self._several(call, self._files.epoll(fd), f"epoll fd {fd}, which watches")
        if name in _OF_FILES:
            writes = name in WRITES or name == "sendfile"
            descriptor = self._files.note(_signed(first), writes=writes)
            # Of files the calls of POSIX queues take these alone.
            reason: SleepReason = "semaphore" if name.startswith("mq_") else "unknown"
            return Waited(descriptors=(descriptor,), reason=reason)
        if name in ("poll", "ppoll", "ppoll_time64"):
            polled = self._polled(first, second)
            # Of an array that can't be read nothing is known.
            return Waited() if polled is None else self._several(call, polled)
        # i386's select() has one argument, the address of the others.
        if name == "select" and call.compat:
            return Waited()
        if name in ("select", "pselect6", "_newselect", "pselect6_time64"):
            return self._several(call, self._selected(call))
        if name in ("wait4", "waitpid", "waitid"):
            return self._children(_signed(second if name == "waitid" else first), call)
        if name == "nanosleep":
            return self._clock(call, time.CLOCK_MONOTONIC, 0, 0)
        if name in ("clock_nanosleep", "clock_nanosleep_time64"):
            return self._clock(call, _signed(first), second, 2)
        if name in _SIGNAL_WAITS:
            return self._signals(call)
        if name in _OF_ANY_SIGNAL:
            return Waited("a signal that has a handler")
        if name in _PATHS:
            return Waited(self._path(first))
        if name in _PATHS_AT:
            return Waited(self._path(second))
        return Waited()

    def _several(self, call: Call, fds: list[int], words: str | None = None) -> Waited:
        timeout_ns = self._timeout_ns(call)
        if not fds:
            words = " ".join(filter(None, (words, "no descriptor")))
            return Waited(words, timeout_ns=timeout_ns)
        looked_at = tuple(map(self._files.note, fds[:_MOST_LOOKED_AT]))
        more = len(fds) - len(looked_at)
        return Waited(words, descriptors=looked_at, more=more, timeout_ns=timeout_ns)

    def _timeout_ns(self, call: Call) -> int | None:
        if call.name in _MILLISECONDS:
            timeout = _signed(call.arguments[_MILLISECONDS[call.name]])
            return timeout * NS_PER_MS if timeout >= 0 else None
        if call.name not in _TIMES:
            return None
        place, parts_per_s = _TIMES[call.name]
        return self._time_ns(call, place, parts_per_s)

    def _time_ns(self, call: Call, place: int, parts_per_s: int = NS_PER_S) -> int | None:
        """The time that an argument of a call points to: seconds, and parts of one."""
        is_short = call.compat and not call.name.endswith("_time64") and call.name != "epoll_pwait2"
        kind = struct.Struct("=ii" if is_short else "=qq")
        content = self._read(call.arguments[place], kind.size)
        if len(content) < kind.size:
            return None
        seconds, parts = kind.unpack(content)
        time_ns = int(seconds * NS_PER_S + parts * NS_PER_S // parts_per_s)
        return time_ns if time_ns <= _LONGEST_NS else None

    def _signals(self, call: Call) -> Waited:
        content = self._read(call.arguments[0], 8)
        blocked = int.from_bytes(content, "little")
        numbers = [number for number in range(1, 65) if blocked >> number - 1 & 1]
        names = [signal_name(number) for number in numbers if number not in _NEVER_AWAITED]
        words = "a signal" if not content else "no signal" if not names else "any signal"
        if len(names) > MOST_NAMED and len(names) < _ANY_SIGNAL:
            names[MOST_NAMED:] = [f"{len(names) - MOST_NAMED} more"]
        if 0 < len(names) < _ANY_SIGNAL:
            words = f"{'one of the signals' if len(names) > 1 else 'the signal'} {', '.join(names)}"
        return Waited(words, timeout_ns=self._timeout_ns(call))

    def _futex(self, call: Call) -> Waited:
        timeout_ns, from_now = self._futex_timeout(call)
        waited = self._futex_object(call)
        return structs.replace(waited, timeout_ns=timeout_ns, from_now=from_now)

    def _futex_object(self, call: Call) -> Waited:
        address, operation, value, *_ = call.arguments
        value &= 0xFFFFFFFF
        command = operation & _FUTEX_CMD_MASK
        if command in _FUTEX_LOCK_PI:
            word = self._read(address, 4)
            owner = struct.unpack("=I", word)[0] & _FUTEX_TID_MASK if len(word) == 4 else 0
            return self._lock(f"the PI mutex at {address:#x}", owner)
        is_private = bool(operation & _FUTEX_PRIVATE)
        waits = command in (_FUTEX_WAIT, _FUTEX_WAIT_BITSET)
        if waits and value == LOCKED_AND_WAITED_FOR:
            content = self._read(address, MUTEX_BYTES)
            owner = mutex_owner(content, compat=call.compat, is_shared=not is_private)
            is_own = owner in self._names
            # After fork(2) the owner of a private one may be a thread of the parent's.
            if is_own if is_private else owner and shares_memory(self._pid, address, owner):
                return self._lock(f"the mutex at {address:#x}", owner)
        # pthread_join(3) waits here, for the kernel to clear the TID as the thread ends
        # (CLONE_CHILD_CLEARTID, clone(2)); it wakes those alone whose wait is not private.
        pointer = self._pointers.get(value, 0)
        if not is_private and pointer and abs(address - pointer) < _THREAD_BYTES:
            thread = Holder("child", *self._names[value])
            return Waited(f"the end of thread {thread.name} ({thread.tid})", (thread,))
        return Waited(f"the futex at {address:#x}")

    def _futex_timeout(self, call: Call) -> tuple[int | None, bool]:
        """How long it waits at most, and whether that is from now on."""
        command = call.arguments[1] & _FUTEX_CMD_MASK
        asked_ns = self._time_ns(call, 3) if call.arguments[3] else None
        if asked_ns is None or command == _FUTEX_WAIT:
            return asked_ns, False
        is_real = call.arguments[1] & _FUTEX_CLOCK_REALTIME or command == _FUTEX_LOCK_PI[0]
        return self._left_ns(
            time.CLOCK_REALTIME if is_real else time.CLOCK_MONOTONIC, asked_ns
        ), True

    def _left_ns(self, clock: int, until_ns: int) -> int | None:
        """How long it is until that time of a clock as the process has it; None: not known."""
        ahead_ns = self._ahead_ns if clock == time.CLOCK_MONOTONIC else 0
        if ahead_ns is None:
            return None
        left_ns = max(0, until_ns - ahead_ns - time.clock_gettime_ns(clock))
        return left_ns if left_ns <= _LONGEST_NS else None

    def _lock(self, words: str, own_tid: int) -> Waited:
        owner = self._names.get(own_tid)
        # The kernel wrote the number, maybe that of another process's thread (a shared PI mutex).
        if owner is None and all(own == tid for own, (tid, _) in self._names.items()):
            with suppress(OSError):
                owner = own_tid, read_comm(PROC / str(own_tid))
        return Waited(words, () if owner is None else (Holder("owner", *owner),))

    def _polled(self, address: int, count: int) -> list[int] | None:
        """The descriptors of an array of struct pollfd; None if it can't be read.

        A negative one is left out: poll(2) ignores it.
        """
        content = self._read(address, 8 * min(count, _MOST_POLLED))
        if count and not content:
            return None
        whole = len(content) // 8 * 8
        return [fd for fd, _, _ in struct.iter_unpack("=ihh", content[:whole]) if fd >= 0]

    def _selected(self, call: Call) -> list[int]:
        """The descriptors in the sets of a select(2)."""
        count, *sets = call.arguments[:4]
        count = min(count, _MOST_POLLED)
        found = 0
        for address in filter(None, sets):
            found |= int.from_bytes(self._read(address, -(-count // 8)), "little")
        return [fd for fd in range(count) if found >> fd & 1]

    def _children(self, pid: int, call: Call) -> Waited:
        if call.name == "waitid" and call.arguments[0] != _P_PID:
            pid = -1
        children = [pid] if pid > 0 else children_of(self._pid)
        named = []
        for child in children:
            try:
                named.append(Holder("child", child, read_comm(PROC / str(child))))
            except OSError:
                continue
        if not named:
            return Waited("a child process")
        words = ", ".join(f"{child.name} ({child.tid})" for child in named[:MOST_NAMED])
        if len(named) > MOST_NAMED:
            words += f" and {len(named) - MOST_NAMED} more"
        return Waited(f"the end of {words}", tuple(named[:MOST_NAMED]))

    def _clock(self, call: Call, clock: int, flags: int, place: int) -> Waited:
        asked_ns = self._time_ns(call, place)
        if asked_ns is None:
            return Waited()
        if not flags & _TIMER_ABSTIME:
            return Waited(f"a sleep of {brief(asked_ns)}")
        if clock not in _CLOCKS:
            return Waited("a moment of a clock")
        left_ns = self._left_ns(clock, asked_ns)
        return Waited("a moment" if left_ns is None else f"a moment {brief(left_ns)} from now")

    def _path(self, address: int) -> str | None:
        text = self._read(address, _LONGEST_PATH).partition(b"\0")[0]
        return text.decode(errors="backslashreplace") or None


def with_files(waited: Waited, files: Files, found: Found) -> Waited:
    """Return what a call waits for with what its descriptors are, and its time-out, in words.

    Where a person keeps the other end from running, that is named first.
    """
    held_first = sorted(waited.descriptors, key=lambda each: not _is_held(each, found))
    named = held_first[:MOST_NAMED]
    listed = [files.words(each, found) for each in named]
    if more := waited.more + len(held_first) - len(named):
        listed.append(f"{more} more")
    words = " ".join(filter(None, (waited.words, ", ".join(listed))))
    if waited.timeout_ns is not None:
        length = brief(waited.timeout_ns)
        until = f"{length} from now" if waited.from_now else f"of {length}"
        words = ", ".join(filter(None, (words, f"{OR_A_TIMEOUT} {until}")))
    at_ends = (holder for each in named for holder in peers(each, found))
    holders = tuple(dict.fromkeys((*waited.holders, *at_ends)))
    return Waited(words or None, holders, timeout_ns=waited.timeout_ns)


def _is_held(descriptor: Descriptor, found: Found) -> bool:
    return any(holder.held for holder in peers(descriptor, found))


def restarted_call(stack: Iterable[str]) -> str | None:
    """Return which call restart_syscall(2) goes on with, by the functions of the kernel's stack.

    None: not known, as of sleeps, whose functions the kernel leaves out of stacks (__sched).
    """
    return next((_RESTARTED[name] for name in stack if name in _RESTARTED), None)


def awaited_futex(call: Call) -> int | None:
    """Return the address of the futex that a 64-bit program waits for; None if it waits for none.

    PI futexes have owners, and are not among these.
    """
    if call.name not in FUTEXES or call.compat:
        return None
    address, operation, *_ = call.arguments
    command = operation & _FUTEX_CMD_MASK
    return address if command in (_FUTEX_WAIT, _FUTEX_WAIT_BITSET) else None


def _signed(argument: int) -> int:
    """An argument that is an int."""
    return (argument & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
