"""A worker of nginx waits for a thread of an application, and that for a table."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.truth import Staged
from tests.verdicts.web import request_pending, truth


@contextmanager
def stage() -> Iterator[Staged]:
    with request_pending(threads=True) as web:
        yield Staged(web.worker, truth(web), options=("--chains",))
