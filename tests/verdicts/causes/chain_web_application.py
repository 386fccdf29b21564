"""A web application waits for a database's table that a stopped session locked."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.truth import Staged
from tests.verdicts.web import request_pending, truth


@contextmanager
def stage() -> Iterator[Staged]:
    with request_pending() as web:
        yield Staged(web.application, truth(web), options=("--chains",))
