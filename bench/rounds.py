"""Peers measured in turn, round after round, so that what drifts meets all of them alike."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.figures import Absence, Figure, Values
from bench.peers.peer import Peer, PeerError

UNMEASURED = "unmeasured"
ADDED = ", added"

AnyPeer = TypeVar("AnyPeer", bound=Peer)

Block = Callable[[], Mapping[str, float]]
"""Measures the load for a while, in each of some cases."""


def interleaved(
    peers: Sequence[Peer], rounds: int, pid: int, block: Block, unit: str
) -> tuple[list[Figure], list[Absence]]:
    """Run `block` unmeasured and with each peer attached to `pid`, in turn.

    Each peer's figures come twice: as they are, and `added`, what they are
    above the unmeasured block of the same round.
    """
    values = Values()
    base: dict[str, float] = {}

    def unmeasured() -> None:
        base.update(block())
        for case, value in base.items():
            values.note(case, UNMEASURED, unit, value)

    def measured(peer: Peer) -> None:
        with peer.attached(pid):
            taken = block()
        for case, value in taken.items():
            values.note(case, peer.name, unit, value)
            values.note(added(case), peer.name, unit, value - base[case])

    absent = in_turn(peers, rounds, measured, unmeasured)
    # Those of the rounds before a peer failed are few, and it may have failed in these too.
    without = {each.peer for each in absent}
    return [figure for figure in values.figures() if figure.peer not in without], absent


def in_turn(
    peers: Sequence[AnyPeer],
    rounds: int,
    measure: Callable[[AnyPeer], None],
    begin: Callable[[], None] = lambda: None,
) -> list[Absence]:
    """Call `begin`, then `measure` with each peer, and that round after round.

    A peer that fails once is left out from then on: it is returned as absent.
    """
    absent = [Absence(peer.name, reason) for peer in peers if (reason := peer.lacking())]
    running = [peer for peer in peers if not peer.lacking()]
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        begin()
        for peer in list(running):
            try:
                measure(peer)
            except PeerError as error:
                absent.append(Absence(peer.name, str(error)))
                running.remove(peer)
    return absent


def added(case: str) -> str:
    """Return the name of the case with what is above the unmeasured block."""
    return case + ADDED


def progress(text: str) -> None:
    """Say on stderr where the run is."""
    print(f"bench:   {text}", file=sys.stderr, flush=True)
