"""What is true of a stage, and what a stage hands out."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct


class Truth(Struct, frozen=True):
    """What a verdict on a staged cause may say.

    `right`: rules that tell the cause; one must be there whose text has all of `names`. `also`:
    rules that are true besides. A finding of any other rule is false, and so is a remark that a
    thread was in its own code, unless `also` has user_work; that the kernel is not to blame may
    only be said if `acquits`. None of `innocent` may be in a text. `pinned` to a busy CPU: where
    another one idled, the right text has "affinity" too.
    """

    right: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    innocent: tuple[str, ...] = ()
    acquits: bool = False
    pinned: bool = False

    @property
    def healthy(self) -> bool:
        """Whether there is no cause: right is to find nothing, or what the kernel counted too."""
        return not self.right


def cause(
    *right: str,
    names: tuple[object, ...] = (),
    also: tuple[str, ...] = (),
    innocent: tuple[object, ...] = (),
    pinned: bool = False,
    acquits: bool = False,
) -> Truth:
    """The truth of a cause. A number among the names is a PID or thread id, as "(123)".

    `acquits`: the program keeps itself waiting, so the kernel is not to blame.
    """
    return Truth(
        right=frozenset(right),
        names=tuple(map(_name, names)),
        also=frozenset(also),
        innocent=tuple(map(_name, innocent)),
        acquits=acquits,
        pinned=pinned,
    )


HEALTHY = Truth(also=frozenset({"user_work"}), acquits=True)


def _name(name: object) -> str:
    return f"({name})" if isinstance(name, int) else str(name)


class Staged(Struct, frozen=True):
    """The process to measure, and what is true of it.

    `quota` is the cgroup whose CPU quota it uses up, if there is one. `options` are of the capture.
    """

    pid: int
    truth: Truth
    quota: Path | None = None
    options: tuple[str, ...] = ()


class NotHereError(Exception):
    """The cause can't be staged on this machine; the message says why."""


Stage = Callable[[], AbstractContextManager[Staged]]
