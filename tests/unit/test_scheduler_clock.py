"""What the comparison with schedstat lets pass, of a thread that ran half a second."""

from tests.integration.capture.scheduler_clock import Account, Lag, disagreements
from tests.integration.capture.workload import SchedStat

MS = 1_000_000

EXPECTED = SchedStat(run_ns=500 * MS, ready_ns=500 * MS, runs=8)
LAG = Lag(between_ns=200_000, stopped_ns=0, switches=16)
RIGHT = Account(run_ns=500 * MS, ready_ns=500 * MS, unaccounted_ns=0)
A_TENTH_MOVED = Account(run_ns=450 * MS, ready_ns=550 * MS, unaccounted_ns=0)


def test_a_tenth_in_the_other_state_is_seen() -> None:
    assert disagreements(RIGHT, EXPECTED, LAG) == []
    assert len(disagreements(A_TENTH_MOVED, EXPECTED, LAG)) == 2


def test_a_stall_of_the_clock_lets_as_much_pass() -> None:
    """81 ms between the clock's reading and the tracepoint, as an emulated guest had."""
    stalled = LAG._replace(between_ns=81 * MS)
    moved = Account(run_ns=581 * MS, ready_ns=419 * MS, unaccounted_ns=0)
    assert len(disagreements(moved, EXPECTED, LAG)) == 2
    assert disagreements(moved, EXPECTED, stalled) == []


def test_time_left_out_by_schedstat_is_cpu_time() -> None:
    interrupted = LAG._replace(stopped_ns=50 * MS)
    account = RIGHT._replace(run_ns=550 * MS)
    assert disagreements(account, EXPECTED, interrupted) == []
    assert len(disagreements(RIGHT, EXPECTED, interrupted)) == 1


def test_what_a_missed_switch_left_out_may_be_missing() -> None:
    lacking = Account(run_ns=450 * MS, ready_ns=500 * MS, unaccounted_ns=50 * MS)
    assert disagreements(lacking, EXPECTED, LAG) == []
    more = Account(run_ns=550 * MS, ready_ns=500 * MS, unaccounted_ns=50 * MS)
    assert len(disagreements(more, EXPECTED, LAG)) == 1
