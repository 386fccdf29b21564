"""Memory that it shares is swapped out, as its cgroup's limit leaves no room for it."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes.swapped import swapped
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with swapped(mmap.MAP_SHARED) as staged:
        yield staged
