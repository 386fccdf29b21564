"""What was counted of samples, one after the other, in bounded memory."""

from typing import Generic, Protocol, Self, TypeVar

MOST_BLOCKS = 1024
"""More samples than this are taken together, two by two: the memory is bounded."""


class Mergeable(Protocol):
    """What was counted of one sample, or of several that are taken together."""

    def __init__(self) -> None:
        """Start with nothing."""

    def merge(self, other: Self) -> None:
        """Take what another counted."""


B = TypeVar("B", bound=Mergeable)


class Blocks(Generic[B]):
    """A block for each sample; for two, four and so on where there are too many."""

    def __init__(self, kind: type[B]) -> None:
        """Start before the first sample; `kind` makes an empty block."""
        self.all: list[B] = []
        self._kind = kind
        self._samples_per_block = 1
        self._in_last = 0

    def following(self) -> B:
        """Return the block that the next sample is to be counted in."""
        if len(self.all) == MOST_BLOCKS and self._in_last == self._samples_per_block:
            self._halve()
        if not self.all or self._in_last == self._samples_per_block:
            self.all.append(self._kind())
            self._in_last = 0
        self._in_last += 1
        return self.all[-1]

    def _halve(self) -> None:
        for at in range(0, len(self.all) - 1, 2):
            self.all[at].merge(self.all[at + 1])
        self.all = self.all[::2]
        self._samples_per_block *= 2
        self._in_last = self._samples_per_block
