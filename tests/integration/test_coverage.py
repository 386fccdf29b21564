"""Coverage counters of a real Open vSwitch: in captures, and in records of long rounds."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Coverage, Sample
from kernel_delay.openvswitch import coverage as coverage_module
from kernel_delay.openvswitch import losses as losses_module
from lab.binaries import Binaries
from lab.instance import OvsCommandError
from tests.integration.capture.in_process import interrupting
from tests.integration.long_rounds import MAIN, LongRounds, ovs_with_long_rounds
from tests.watching.watch import samples_in, watch_of
from tests.workload import HANGS_S, LASTS_NS

LONG_MS = 1050
BRIDGES = 3
COUNTER = "bridge_reconfigure"


@pytest.fixture(scope="module")
def slow_ovs(root_user: None, ovs_binaries: Binaries) -> Iterator[LongRounds]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ovs_with_long_rounds(ovs_binaries, Path(folder)) as rounds,
    ):
        yield rounds


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread may have to wait for a CPU."""
    monkeypatch.setattr(losses_module, "ANSWERS_WITHIN_S", 60)
    monkeypatch.setattr(coverage_module, "ANSWERS_WITHIN_S", 60)


def count(rounds: LongRounds) -> int:
    """What Open vSwitch itself says; it has no counter that was never hit."""
    try:
        return int(rounds.ovs.appctl("coverage/read-counter", COUNTER))
    except OvsCommandError:
        return 0


def reconfigure(rounds: LongRounds, prefix: str) -> None:
    """Have it counted, and a long round, at whose end the main thread hands its counts over."""
    for number in range(BRIDGES):
        rounds.ovs.add_bridge(f"{prefix}{number}")
    rounds.make(MAIN, "sleep", LONG_MS)
    rounds.settle()


def coverage_of(sample: Sample) -> Coverage:
    assert sample.coverage is not None
    assert sample.coverage.unread is None
    return sample.coverage


def sample_of(
    pid: int, rounds: LongRounds, work: Callable[[], None], *, packet_losses: bool
) -> Sample:
    options = SessionOptions(packet_losses=packet_losses, coverage=True)
    plan = WindowPlan(sample_time_ns=LASTS_NS)
    with interrupting(work) as worker, Session(find_target(pid), plan, options) as session:
        # What was asked for as it began is answered by then.
        rounds.settle()
        worker.start()
        (sample,) = session.samples()
        worker.join()
    return sample


@pytest.mark.parametrize("packet_losses", [True, False])
def test_a_capture_counts_as_open_vswitch_does(slow_ovs: LongRounds, packet_losses: bool) -> None:
    rounds = slow_ovs
    rounds.make(MAIN, "sleep", LONG_MS)
    rounds.settle()
    before = count(rounds)
    sample = sample_of(
        rounds.ovs.pid,
        rounds,
        lambda: reconfigure(rounds, f"brc{int(packet_losses)}"),
        packet_losses=packet_losses,
    )
    assert coverage_of(sample).counters[COUNTER] == count(rounds) - before >= BRIDGES


@pytest.mark.long
def test_a_capture_of_the_database_has_its_counters(slow_ovs: LongRounds) -> None:
    def work() -> None:
        reconfigure(slow_ovs, "brdb")
        # The server hands its counts over when it polls a second or more after the last time.
        slow_ovs.ovs.add_bridge("brdb")

    server = int((slow_ovs.ovs.folder / "ovsdb-server.pid").read_text())
    found = coverage_of(sample_of(server, slow_ovs, work, packet_losses=True))
    assert found.counters["poll_create_node"] > 0
    assert found.stopwatches == ()


def test_records_have_what_moved_since_the_one_before(slow_ovs: LongRounds, tmp_path: Path) -> None:
    rounds = slow_ovs
    rounds.make(MAIN, "sleep", LONG_MS)
    rounds.settle()
    before = count(rounds)
    with watch_of(rounds.ovs.pid, tmp_path / "records", "--coverage") as watching:
        rounds.settle()
        reconfigure(rounds, "brw")
        moved = count(rounds) - before
        deadline = time.monotonic() + HANGS_S
        # Other threads may have long rounds too: a record just before has the counters then.
        while moved_in(watching.recordings()) < moved:
            assert time.monotonic() < deadline
            # In a long round Open vSwitch does not answer whoever makes a record of the last one.
            time.sleep(1)
            rounds.make(MAIN, "sleep", LONG_MS)
        watching.end()
    assert moved_in(watching.recordings()) == moved >= BRIDGES


def moved_in(recordings: Sequence[Path]) -> int:
    """How often it was counted in all records together."""
    samples = (each for path in recordings for each in samples_in(path))
    return sum(each.coverage.counters.get(COUNTER, 0) for each in samples if each.coverage)
