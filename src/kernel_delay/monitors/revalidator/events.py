"""Rounds of Open vSwitch's revalidators, as a recording has them."""

from collections.abc import Sequence

from msgspec import structs

from kernel_delay.errors import InputError
from kernel_delay.ovs.revalidator import RevalidatorRound
from kernel_delay.recording.records import Events


class RevalidatorRounds(Events, frozen=True, tag="revalidator_rounds"):
    """Rounds of Open vSwitch's revalidators, in the order of their ends.

    Attributes:
        rounds: The rounds.
    """

    rounds: tuple[RevalidatorRound, ...]

    def measured(self) -> Sequence[RevalidatorRound]:
        """The rounds."""
        return self.rounds

    def check(self) -> None:
        """Raise InputError for a round whose times can't be."""
        for found in self.rounds:
            if not (found.previous_stop_ns or 0) <= found.start_ns <= found.stop_ns:
                raise InputError("a round ended before it began")
            time = found.leader_time
            if time is not None and sum(structs.astuple(time)) != found.duration_ns:
                raise InputError("the leader's time is not its round's length")


RECORD = RevalidatorRounds
