"""The rule on servers that wait for requests: whoever has not sent one is no cause."""

from collections import Counter

from kernel_delay.analysis.verdict.chain_parts import NAMED_SHARE, activity, idle_ns, idle_parts
from kernel_delay.analysis.verdict.formatting import length, listed, name
from kernel_delay.analysis.verdict.rule import ASLEEP_SHARE, Case, Rule, Statement
from kernel_delay.analysis.verdict.wait_chains import calls_of
from kernel_delay.model import POLL_REASONS, ChainState, ChainThread

# Clients that are named.
MOST_CLIENTS = 3

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
    return Statement(
        f"{name(sample, thread)} waited for requests{calls_of(thread)}",
        "other-process",
        {"clients": len(clients)},
        (f"They come from {listed(named)}.", *held[:1]),
        explains=frozenset(
            (f"wait_{reason}", each.tid)
            for each in (thread, *case.others)
            for reason in (*POLL_REASONS, "socket_receive")
        ),
    )


def _process(thread: ChainThread) -> tuple[str, int]:
    return thread.process or thread.name, thread.pid


IDLE_SERVER = Rule(
    name="idle_server",
    least_share=ASLEEP_SHARE,
    lost_ns=idle_ns,
    say=_say,
    measures="Waits for requests, on connections that the process accepted (`--chains`).",
    limits="Not in a record of `watch`.",
    remark=True,
)
