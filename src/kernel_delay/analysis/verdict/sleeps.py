"""Rules on where a thread slept: what nobody wants to wait for, and what may be idleness."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kernel_delay.analysis.verdict.chain_parts import awaited_thread
from kernel_delay.analysis.verdict.formatting import (
    and_others,
    length,
    look_for_whom,
    memory_limit,
    name,
    where_from,
    work_unknown,
)
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE, is_made_to_wait
from kernel_delay.analysis.verdict.lock_chains import SURE_SHARE, known_locks_ns, waker_story
from kernel_delay.analysis.verdict.python_gil import (
    AS_WITH_GIL,
    is_python,
    look_for_holder,
    may_be_turns,
    switches,
)
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.thread_roles import idles_by_design, is_java
from kernel_delay.analysis.verdict.wait_files import MainFile, asked_for, is_kept_by_peer, main_file
from kernel_delay.analysis.verdict.wait_reasons import ADVICE, WAITS, Wait
from kernel_delay.analysis.verdict.wakers import (
    LOCKING_COMMAND,
    MainWaker,
    main_waker,
    timed_out,
    waits_ended_by,
)
from kernel_delay.host.kernel_names import ACCEPTS, OPENS, WRITES
from kernel_delay.model import Sample, Sleep, SleepReason, Thread, Who

# A thread that waits for others half of its time may well have nothing to do.
IDLE_SHARE = 0.5

# Calls that have something to hand over. Who waits in one does not lack work.
HANDING_OVER = frozenset(
    (
        *WRITES,
        *("sendfile", "sendfile64", "send", "connect", "msgsnd", "mq_timedsend_time64"),
    )
)

# Calls that move what is in a pipe into another or elsewhere, and what is elsewhere into a pipe:
# the kernel's functions show which of both is waited for (fs/splice.c, fs/pipe.c, 5.14 to 6.18).
BOTH_WAYS = frozenset(("splice", "vmsplice", "tee"))
WAITS_FOR_ROOM = frozenset(("pipe_wait_writable", "wait_for_space", "opipe_prep"))


def slept_for(thread: Thread, reason: SleepReason) -> list[Sleep]:
    """Return the thread's sleeps of that reason, which kernel_sleep does not look at."""
    return [sleep for sleep in thread.sleeps if sleep.reason == reason and is_made_to_wait(sleep)]


def _is_wanted(sleep: Sleep) -> bool:
    """Whether no thread waits so that has nothing to do."""
    if sleep.syscall in BOTH_WAYS:
        return sleep.reason == "socket_send" or any(
            function.partition(".")[0] in WAITS_FOR_ROOM for function in sleep.stack
        )
    return (
        sleep.syscall in HANDING_OVER
        or sleep.reason in ("socket_connect", "vfork")
        or _opens_fifo(sleep)
    )


def _opens_fifo(sleep: Sleep) -> bool:
    return sleep.reason == "pipe" and sleep.syscall in OPENS


def handing_over_ns(slept: Sequence[Sleep]) -> int:
    """Return how long of that was to hand something over, in ns; who opens a FIFO may be idle."""
    return sum(sleep.ns for sleep in slept if _is_wanted(sleep) and not _opens_fifo(sleep))


def handed_over(sample: Sample, thread: Thread) -> tuple[str, ...] | None:
    """Say to whom the thread waited to hand something over, if that is known.

    None if half of its sleep was for other things: it may have had no work.
    """
    wanted = [sleep for sleep in thread.sleeps if _is_wanted(sleep)]
    if not wanted or 2 * sum(sleep.ns for sleep in wanted) < sum(s.ns for s in thread.sleeps):
        return None
    file = main_file(wanted)
    if file is None:
        return ()
    phrase = file.phrase(sample, wanted[0].reason)
    return (f"It waited for {phrase}.",) if phrase else (*file.details(sample, wanted[0].reason),)


WAIT_LIMITS = "Waits too short to take a stack are not found. A wait that continues has no waker."

_WHEN_ALONE = {
    (False, False): "",
    (True, False): "; only in a record of `watch`",
    (False, True): "; in `capture` only if another process ended most, or it polled one server",
}


def wait_rule(wait: Wait) -> Rule:
    """The rule that finds waits of one kind."""

    def lost_ns(sample: Sample, thread: Thread) -> int:
        slept = slept_for(thread, wait.reason)
        is_main = thread.tid == sample.target.pid or sample.round is not None
        if wait.in_rounds and sample.round is None:
            return 0
        is_by_peers = wait.by_peers and sample.round is None
        if is_by_peers and not (_are_ended_by_a_peer(sample, slept) or _are_on_a_peer(slept)):
            return 0
        if wait.reason == "unknown" and sample.round is None:
            slept = [sleep for sleep in slept if sleep.stack]
        if (
            wait.remark
            and not is_main
            and not any(
                sleep.wakers or _is_wanted(sleep) or is_kept_by_peer(sleep) for sleep in slept
            )
        ):
            # It was not woken within the window: idle, for all that is known.
            return 0
        if wait.remark and idles_by_design(sample, thread):
            # Until there is work for it: io_uring/io-wq.c:io_wq_worker(), io_uring/sqpoll.c, 6.18.
            return 0
        ns = sum(sleep.ns for sleep in slept)
        return ns - known_locks_ns(thread) if wait.reason == "futex" else ns

    def say(case: Case) -> Statement:
        return _say(case, wait)

    return Rule(
        name=f"wait_{wait.reason}",
        least_share=wait.least_share or (IDLE_SHARE if wait.remark else WANTED_SHARE),
        lost_ns=lost_ns,
        say=say,
        measures=wait.phrase + _WHEN_ALONE[wait.in_rounds, wait.by_peers],
        limits=WAIT_LIMITS,
        remark=wait.remark,
        round_share=WANTED_SHARE,
        summed=wait.remark and wait.reason != "futex",
        reason=wait.reason,
        is_clearer=lambda sample, thread: (
            (main_waker(slept := slept_for(thread, wait.reason)) or main_file(slept)) is not None
            and not _is_among_locks(wait, thread)
        ),
    )


def _are_ended_by_a_peer(sample: Sample, slept: list[Sleep]) -> bool:
    """Whether one other process ended most: a server, or a client, that it waits for."""
    waker = main_waker(slept)
    if waker is None or waker.pid in (0, sample.target.pid):
        return False
    return 2 * waker.ns >= sum(sleep.ns for sleep in slept)


def _are_on_a_peer(slept: list[Sleep]) -> bool:
    """Whether nearly all were polls of one file: to a server, or to a stopped or frozen process."""
    file = main_file(slept)
    return file is not None and file.is_sure and (file.file.is_client or file.is_held)


# So much of what a thread slept in futex(2) may be for locks before it matters to the rest.
LOCKS_SHARE = 0.1


def _is_among_locks(wait: Wait, thread: Thread) -> bool:
    """Whether waits for locks of known owners are a part of these, and of who ended them."""
    if wait.reason != "futex":
        return False
    futex_ns = sum(sleep.ns for sleep in slept_for(thread, "futex"))
    return known_locks_ns(thread) > LOCKS_SHARE * futex_ns


def _say(case: Case, wait: Wait) -> Statement:
    sample, thread = case.sample, case.thread
    slept = [sleep for each in (thread, *case.summed) for sleep in slept_for(each, wait.reason)]
    who_waited = name(sample, thread) + and_others(case.summed)
    evidence = {"waits": sum(sleep.count for sleep in slept)}
    file = main_file(slept)
    who, advice = wait.who, wait.advice
    among_locks = _is_among_locks(wait, thread)
    waker = _of_no_lock(case, slept) if among_locks else main_waker(slept)
    is_safepoint = waker is not None and _is_vm_thread(sample, waker)
    details: list[str] = []
    if waker is not None:
        details.append(waker.text(sample))
        evidence["waker_tid"] = waker.tid
        who, advice = _of_waker(sample, wait, waker)
        if wait.reason == "futex" and waker.pid == sample.target.pid:
            details += (
                [AS_WITH_GIL] if is_python(sample) and may_be_turns(case, slept, waker) else []
            )
            details += [_AT_SAFEPOINTS] if is_safepoint else []
            advice = _SAFEPOINT_ADVICE if is_safepoint else where_from(sample, _WHERE_WOKEN)
        # How much of a sum over threads passed at the same time is not known.
        story = () if case.summed else waker_story(sample, waker.tid, waker.ns)
        details += story or (awaited_thread(case) if AS_WITH_GIL in details else ())
    elif wait.by_peers and not case.summed and timed_out(sample, thread, slept):
        on = f" on fd {file.file.fd}" if file is not None and file.is_sure else ""
        details.append(f"Its polls timed out: no event came{on}.")
    elif wait.reason == "futex" and not among_locks:
        details += switches(case, slept) if is_python(sample) else ()
        details += awaited_thread(case)
    if AS_WITH_GIL in details:
        advice = look_for_holder(sample)
    if wait.reason == "file_lock":
        details += _lock_holder(sample, evidence)
    attempts = waits_ended_by(slept, LOCKING_COMMAND) if wait.reason == "child" else 0
    if attempts > 1:
        ended = f"{LOCKING_COMMAND} ended {attempts:,} waits"
        details.append(f"{ended}, maybe after it tried to lock a file.")
        advice = ADVICE["file_lock"]
    longest = max((sleep.max_ns for sleep in slept), default=0)
    if longest and evidence["waits"] > 1 and not among_locks:
        details.append(f"The longest wait took {length(longest)}.")
    details += _of_kernel(sample, wait, slept)
    asked = file.requests(sample, case.thread, evidence["waits"]) if file is not None else None
    if file is not None:
        details += file.details(sample, wait.reason)
        evidence |= file.evidence()
        who, advice = file.blamed(sample, who, advice)
    details += [asked] if asked else []
    if asked is not None and advice is None and sample.round is None and not case.thread.chain:
        advice = _CHAINS
    if advice is None and slept and all(map(_opens_fifo, slept)):
        advice = _OPEN_FIFO
    if file is None and wait.reason in ("socket_receive", "child") and advice is None:
        advice = look_for_whom(sample, thread)
    is_wanted = asked is not None or (file is not None and file.is_held)
    is_wanted = is_wanted or (wait.remark and 2 * handing_over_ns(slept) >= case.lost_ns)
    wanted_ns = sum(sleep.ns for sleep in slept if _is_wanted(sleep))
    is_idleness = wait.remark and sample.round is None and not (is_safepoint or is_wanted)
    if is_idleness and 2 * wanted_ns < case.lost_ns:
        # A wait for the interpreter is one for a lock.
        may_lock = wait.reason == "futex" and AS_WITH_GIL not in details
        *title, unknown = work_unknown(sample, thread, in_futex=wait.reason == "futex")
        details += [*title, unknown] if may_lock or wait.reason != "futex" else title
    claim = f"{who_waited} {_waited(sample, wait, slept, file)}"
    return Statement(claim, who, evidence, tuple(details), advice, is_wanted=is_wanted)


def _lock_holder(sample: Sample, evidence: dict[str, int]) -> Iterator[str]:
    """Who had a file's lock, if it is known; their PID is added to the evidence."""
    around = sample.system_state
    if around is not None and around.lock_holder is not None:
        holder, evidence["holder_pid"] = around.lock_holder
        among = ", among others," if around.lock_shared else ""
        yield f"{holder} ({evidence['holder_pid']}){among} had the lock at the end."


def _of_kernel(sample: Sample, wait: Wait, slept: list[Sleep]) -> Iterator[str]:
    """What else is known of a wait that is the kernel's own."""
    if wait.reason == "kernel_lock":
        yield from asked_for(slept)
    if wait.reason in _OF_MEMORY:
        yield from _memory(sample, slept)


def _memory(sample: Sample, slept: list[Sleep]) -> Iterator[str]:
    """What made it wait for memory, as far as it is known."""
    over_high = _is_mostly_in(slept, _HANDLE_OVER_HIGH)
    out_of_memory = _is_mostly_in(slept, _OOM_SYNCHRONIZE)
    if over_high:
        yield _OVER_HIGH
    if out_of_memory:
        yield _OUT_OF_MEMORY
    yield from memory_limit(sample, seldom_too=over_high or out_of_memory)


def _of_no_lock(case: Case, slept: list[Sleep]) -> MainWaker | None:
    """Who ended most of the futex waits that were for no lock of a known owner, if it is sure.

    Where owners ended as much as was waited for their locks, others ended none of that.
    """
    locks = case.thread.lock_waits
    locks_ns = sum(wait.ns for wait in locks)
    owners = {wait.tid for wait in locks if wait.ns >= (1 - SURE_SHARE) * locks_ns}
    wakers = [waker for sleep in slept for waker in sleep.wakers if waker.tid]
    others = tuple(waker for waker in wakers if waker.tid not in owners)
    others_ns = sum(waker.ns for waker in others)
    by_owners_ns = sum(waker.ns for waker in wakers) - others_ns
    if not others or SURE_SHARE * others_ns > case.lost_ns:
        return None
    waker = main_waker([replace(slept[0], ns=case.lost_ns, wakers=others)])
    is_sure = by_owners_ns >= SURE_SHARE * locks_ns
    return waker if waker and (is_sure or _is_vm_thread(case.sample, waker)) else None


# It lets the others go on when a VM operation is over: src/hotspot/share/runtime/safepoint.cpp.
_AT_SAFEPOINTS = (
    "Such waits are typical of a safepoint of the Java VM (mostly a garbage collection)."
)
_SAFEPOINT_ADVICE = "java -Xlog:safepoint,gc shows how long each took, and why."


def _is_vm_thread(sample: Sample, waker: MainWaker) -> bool:
    return is_java(sample) and waker.pid == sample.target.pid and waker.comm == "VM Thread"


# What takes longer where there is no memory for it.
_OF_MEMORY = frozenset(("disk", "page_cache", "swap", "reclaim"))


# What makes a thread sleep whose cgroup has more: mm/memcontrol.c, 5.14 to 7.2.
_HANDLE_OVER_HIGH = "mem_cgroup_handle_over_high"
_OVER_HIGH = "The kernel made it sleep as its cgroup had more than memory.high allows."

# Where it sleeps until its cgroup has room, as nothing is killed for that: mm/memcontrol-v1.c.
_OOM_SYNCHRONIZE = "mem_cgroup_oom_synchronize"
_OUT_OF_MEMORY = (
    "Its cgroup's limit of memory was reached, and nothing is killed to make room"
    " (memory.oom_control)."
)


def _is_mostly_in(slept: list[Sleep], name: str) -> bool:
    """Whether that function of the kernel is why for most of it, by the kernel's stacks.

    Or what a compiler made of it, as NAME.isra.0.
    """
    within = [
        sleep
        for sleep in slept
        if any(function.partition(".")[0].endswith(name) for function in sleep.stack)
    ]
    ns = sum(sleep.ns for sleep in within)
    return ns > 0 and 2 * ns >= sum(sleep.ns for sleep in slept)


def _waited(sample: Sample, wait: Wait, slept: list[Sleep], file: MainFile | None) -> str:
    calls = sorted({sleep.syscall for sleep in slept if sleep.syscall})
    where = f" in {', '.join(calls[:3])}" if calls and calls != [wait.reason] else ""
    functions: Counter[str] = Counter()
    for sleep in (each for each in slept if each.stack):
        functions[sleep.stack[0]] += sleep.ns
    if wait.reason == "unknown" and functions:
        function, ns = functions.most_common(1)[0]
        most = "most" if 2 * ns >= sum(sleep.ns for sleep in slept) else "longest"
        return f"slept{where}, {most} in the kernel's {function},"
    if wait.reason == "socket_receive" and calls and set(calls).issubset(ACCEPTS):
        return f"waited for somebody to connect to it{where}"
    if slept and all(map(_opens_fifo, slept)):
        return f"waited for somebody to open the other end of a FIFO (named pipe){where}"
    phrase = file.phrase(sample, wait.reason) if file is not None else None
    if wait.reason == "semaphore" and phrase is None:
        phrase = _IN_QUEUES.get(calls[0]) if len(calls) == 1 else None
    return f"waited for {phrase or wait.phrase}{where}"


_IN_QUEUES = {
    "semop": "a System V semaphore",
    "semtimedop": "a System V semaphore",
    "msgrcv": "a message in a System V queue",
    "msgsnd": "room in a System V message queue",
    "mq_timedreceive": "a message in a POSIX queue",
    "mq_timedsend": "room in a POSIX message queue",
}
"""By the call, what the kernel's functions alone do not show."""

_OPEN_FIFO = "kernel-delay where shows its path, while it waits."
_CHAINS = "Option --chains shows what the server did meanwhile, or whom it waited for itself."

# Locks of no known owner: the place where a thread is woken shows which one it is.
_WHERE_WOKEN = "Option --wakers stacks shows where in the program it is woken."


def _of_waker(sample: Sample, wait: Wait, waker: MainWaker) -> tuple[Who, str | None]:
    """Who causes a wait, and what helps, where it is known who ended it."""
    if wait.who == "other-process" and waker.pid == sample.target.pid:
        return "program", wait.advice
    if wait.who == "program" and waker.pid and waker.pid != sample.target.pid:
        return "other-process", wait.by_others
    return wait.who, wait.advice


WAIT_RULES = tuple(wait_rule(wait) for wait in WAITS)
