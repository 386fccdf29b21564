"""It waits in Redis for what nobody pushes, while another client asks for something else."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import ask_redis, redis
from tests.verdicts.staging import running
from tests.verdicts.truth import Staged, cause

# Redis ends a blocking pop behind the first request after so long.
POP_S = 0.2
EVERY_MS = 20


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        redis() as (server, path),
        running(ask_redis, path, "INCR counter", EVERY_MS, name="chatter") as other,
        running(ask_redis, path, f"BLPOP jobs {POP_S}", name="client") as process,
    ):
        truth = cause(
            "wait_chain_end",
            names=(server.pid,),
            also=("wait_socket_receive",),
            innocent=(other.pid,),
        )
        yield Staged(process.pid, truth, options=("--chains",))
