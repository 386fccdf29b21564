"""The rule on servers that wait for their clients: whoever has not sent a request is no cause."""

from collections import Counter

from kernel_delay.analysis.verdict.chain_parts import NAMED_SHARE, activity, idle_ns, idle_parts
from kernel_delay.analysis.verdict.formatting import length, listed, name
from kernel_delay.analysis.verdict.rule import ASLEEP_SHARE, Case, Rule, Statement
from kernel_delay.analysis.verdict.wait_chains import calls_of
from kernel_delay.model import POLL_REASONS, ChainState, ChainThread, SleepReason, Thread

_REASONS: tuple[SleepReason, ...] = (*POLL_REASONS, "socket_receive")

# Clients that are named.
MOST_CLIENTS = 3

# With which a server gets requests. One that waits until its clients read does not call them.
_READS = frozenset(("read", "readv", "recvfrom", "recvmsg", "recvmmsg", "recv"))

# Of a client that was kept from its work it is said for how long.
_HELD: tuple[ChainState, ...] = ("stopped", "frozen", "throttled")


def _say(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    parts = idle_parts(sample, thread)
    clients: Counter[tuple[str, int]] = Counter()
    for part in parts:
        clients[_process(part.threads[0])] += part.ns
    named = [f"{client} ({pid})" for (client, pid), _ in clients.most_common(MOST_CLIENTS)]
    if len(clients) > MOST_CLIENTS:
        named.append(f"{len(clients) - MOST_CLIENTS:,} others")
    held = [
        f"{client} ({pid}) {activity(part)} for {length(part.ns)}."
        for part in parts
        for client, pid in (_process(part.threads[0]),)
        if len(part.threads) == 1
        and part.state in _HELD
        and part.ns >= NAMED_SHARE * sample.window.duration_ns
    ]
    whose = "Its client is" if len(clients) == 1 else "Its clients are"
    return Statement(
        f"{name(sample, thread)} waited for {_awaited(thread)}{calls_of(thread)}",
        "other-process",
        {"clients": len(clients)},
        (f"{whose} {listed(named)}.", *held[:1]),
        explains=frozenset(
            (f"wait_{reason}", each.tid) for each in (thread, *case.others) for reason in _REASONS
        ),
    )


def _awaited(thread: Thread) -> str:
    """What it got, if it read about as often as it waited."""
    waits = sum(sleep.count for sleep in thread.sleeps if sleep.reason in _REASONS)
    reads = sum(call.count for call in thread.syscalls if call.name in _READS)
    return "requests" if 2 * reads >= waits else "its clients"


def _process(thread: ChainThread) -> tuple[str, int]:
    return thread.process or thread.name, thread.pid


IDLE_SERVER = Rule(
    name="idle_server",
    least_share=ASLEEP_SHARE,
    lost_ns=idle_ns,
    say=_say,
    measures="Waits of a server for its clients (`--chains`).",
    limits="Not in `watch`.",
    remark=True,
)
