"""What an event costs where several processes are measured, and others are not."""

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure
from bench.measures import acts
from bench.measures.measure import Measure, Setting
from bench.peers.ours import Ours, OursAmong

MANY = 100


class Several(Measure):
    """The same events with one process that is measured, with two, and with many."""

    name = "several"
    title = "Added where several processes are measured"
    method = (
        "The same as above, for `kernel-delay` with one active process, with one more"
        f" process, and with {MANY - 1} sleeping processes."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run both processes; only one of them acts at a time."""
        program = compiled.program("acts", setting.folder)
        peers = [Ours(), OursAmong(2), OursAmong(MANY)]
        with (
            Acting(program, setting.folder / "traced") as traced,
            Acting(program, setting.folder / "other") as other,
        ):
            return acts.compare(peers, setting.rounds, {"traced": traced, "other": other})
