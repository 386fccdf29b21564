"""Which stages are recorded, what the right answer is, and how an answer names the culprit."""

from msgspec import Struct

from tests.assistants import answers as say
from tests.assistants.answers import ITSELF, NOBODY


class Case(Struct, frozen=True):
    """A stage, and the right answer.

    Attributes:
        stage: The name in tests/verdicts.
        causes: The causes that are right.
        story: The cause in words.
        culprits: Names of the stage's processes and threads: each of them is right. Without these
            and without words it is who the stage's own truth names.
        words: Culprits without an ID. `{cgroup}` is the stage's cgroup, `{disk}` the device.
        partly: Names of the processes and threads between the target and the culprit.
    """

    stage: str
    causes: tuple[str, ...]
    story: str
    culprits: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()


RELAYS = ("relay-1", "relay-2", "relay-3")

CASES = (
    Case("causes/cpu_hog", (say.NO_CPU,), "hog uses the only CPU that it may use", ("hog",)),
    Case(
        "causes/cpu_fifo_hog",
        (say.NO_CPU,),
        "hog, with SCHED_FIFO, uses the only CPU that it may use",
        ("hog",),
    ),
    Case(
        "causes/cpu_hogs_and_ticker",
        (say.NO_CPU,),
        "three hogs use its CPU; ticker, which often runs there for 20 us, is innocent",
        ("hog",),
    ),
    Case(
        "causes/cpu_own_threads",
        (say.OWN_CPU,),
        "its own four threads share one CPU",
        words=(ITSELF,),
    ),
    Case(
        "causes/quota", (say.QUOTA,), "its cgroup may use a quarter of a CPU", words=("{cgroup}",)
    ),
    Case(
        "causes/quota_outer",
        (say.QUOTA,),
        "the outer cgroup's CPU quota is used up, by other too; the inner cgroup is innocent",
        ("other",),
        words=("{cgroup}",),
    ),
    Case(
        "causes/stopped",
        (say.SIGNAL,),
        "the staging Python program stops it with SIGSTOP every 200 ms",
    ),
    Case("causes/gdb", (say.TRACER,), "gdb stops it"),
    Case(
        "causes/frozen_v2",
        (say.FROZEN,),
        "its cgroup is frozen half of the time",
        words=("{cgroup}",),
    ),
    Case(
        "causes/mutex_sleep",
        (say.THREAD_LOCK,),
        "owner, a thread of its own, has the mutex and sleeps",
        ("owner",),
    ),
    Case(
        "causes/mutex_chain",
        (say.THREAD_LOCK,),
        "owner has the mutex that middle waits for; middle has the one that it waits for",
        ("owner",),
        partly=("middle",),
    ),
    Case(
        "causes/smaps_reader",
        (say.PROCESS_LOCK,),
        "monitor reads its /proc/PID/smaps, and has the lock of its address space meanwhile",
        ("monitor",),
    ),
    Case(
        "causes/file_lock_flock",
        (say.PROCESS_LOCK,),
        "holder has the flock of its file again and again",
        ("holder",),
    ),
    Case(
        "causes/disk_read_direct",
        (say.DISK,),
        "it reads from the disk, past the page cache",
        words=(ITSELF, "{disk}"),
    ),
    Case(
        "causes/memory_limit_read",
        (say.MEMORY_LIMIT,),
        "the file that it reads again and again does not fit into its cgroup's memory limit",
        words=("{cgroup}",),
    ),
    Case(
        "causes/calls_stat",
        (say.SYSTEM_CALLS,),
        "it looks up a file all the time",
        words=(ITSELF,),
    ),
    Case(
        "causes/udp_flood",
        (say.INTERRUPTS,),
        "flood's packets are received on its CPU, in the soft IRQ net_rx",
        ("flood",),
        words=("net_rx", "net_rx soft irq", "soft irq"),
    ),
    Case("causes/fuse", (say.PEER_SLEEPS, say.PEER_UNKNOWN), "the FUSE server sleeps", ("server",)),
    Case(
        "causes/request_tcp",
        (say.PEER_COMPUTES, say.PEER_UNKNOWN),
        "the server of its TCP connection computes 50 ms for each answer",
        ("server",),
    ),
    Case(
        "causes/request_unix_stopped",
        (say.PEER_STOPPED,),
        "the server of its Unix socket is stopped",
        ("server",),
    ),
    Case(
        "causes/chain_pipe_3_stopped",
        (say.PEER_STOPPED,),
        "it waits for relay-1, that for relay-2, and that for root, which is stopped",
        ("root",),
        partly=RELAYS,
    ),
    Case(
        "causes/chain_unix_3_computes",
        (say.PEER_COMPUTES,),
        "it waits for relay-1, that for relay-2, and that for root, which computes",
        ("root",),
        partly=RELAYS,
    ),
    Case(
        "causes/chain_tcp_2_throttled",
        (say.PEER_THROTTLED,),
        "it waits for relay-1, and that for root, which a CPU quota throttles",
        ("root",),
        words=("{cgroup}",),
        partly=RELAYS,
    ),
    Case(
        "causes/chain_unix_3_runnable",
        (say.PEER_NO_CPU,),
        "it waits for relay-1, that for relay-2, and that for root, whose CPU another one uses",
        # Who uses the CPU has no name of its own.
        ("root", "victim"),
        partly=RELAYS,
    ),
    Case(
        "causes/chain_broker",
        (say.PEER_COMPUTES,),
        "it waits for broker, and that for worker, which computes; chatter is innocent",
        ("worker",),
        partly=("broker",),
    ),
    Case(
        "causes/chain_postgres_stopped",
        (say.PEER_STOPPED, say.PROCESS_LOCK, say.PEER_UNKNOWN),
        "psql waits for its backend, and that for a table's lock of a backend that is stopped",
    ),
    Case("healthy/load", (say.NOTHING,), "it computes a fifth of the time", words=(NOBODY,)),
    Case("healthy/request_server", (say.NOTHING,), "it waits for requests", words=(NOBODY,)),
    Case(
        "healthy/fifo_periodic",
        (say.NOTHING,),
        "a real-time thread computes 50 us each millisecond",
        words=(NOBODY,),
    ),
    Case("healthy/redis_load", (say.NOTHING,), "it waits for requests", words=(NOBODY,)),
)
"""Thirty, of which four are healthy."""
