"""A worker of nginx waits for an application, and that for a database's table."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.truth import Staged
from tests.verdicts.web import request_pending, truth


@contextmanager
def stage() -> Iterator[Staged]:
    with request_pending() as web:
        yield Staged(web.worker, truth(web, web.application), options=("--chains",))
