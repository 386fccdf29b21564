"""It waits in Redis for what one pushes that sleeps, while another client asks for more."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import ask_redis, redis
from tests.verdicts.staging import running
from tests.verdicts.truth import Staged, cause

CHATS_EVERY_MS = 20
PUSHES_EVERY_MS = 100


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        redis() as (_, path),
        running(ask_redis, path, "INCR counter", CHATS_EVERY_MS, name="chatter") as other,
        running(ask_redis, path, "LPUSH jobs job", PUSHES_EVERY_MS, name="producer") as root,
        running(ask_redis, path, "BLPOP jobs 0", name="client") as process,
    ):
        truth = cause(
            "wait_chain",
            names=(root.pid, "on a timer"),
            also=("wait_chain_end", "wait_socket_receive"),
            innocent=(other.pid,),
        )
        yield Staged(process.pid, truth, options=("--chains",))
