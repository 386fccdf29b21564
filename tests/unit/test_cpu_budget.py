"""How much of a CPU, and of memory, a watch may take."""

from kernel_delay.capture.rounds.budget import CpuBudget, MemoryBudget, resident_bytes
from kernel_delay.formatting import NS_PER_S


class Machine:
    """A clock, and what was used of a CPU."""

    def __init__(self) -> None:
        self.now_ns = self.used_ns = 5 * NS_PER_S

    def run(self, budget: CpuBudget, seconds: int, share: float) -> list[bool]:
        """Let time go by, and ask ten times a second."""
        found = []
        for _ in range(10 * seconds):
            self.now_ns += NS_PER_S // 10
            self.used_ns += int(share * NS_PER_S / 10)
            found.append(budget.is_exceeded())
        return found


def budget_of(machine: Machine, share: float) -> CpuBudget:
    return CpuBudget(share, lambda: machine.now_ns, lambda: machine.used_ns)


def test_half_a_minute_above_the_share_exceeds_the_budget() -> None:
    machine = Machine()
    budget = budget_of(machine, 0.01)
    assert not any(machine.run(budget, 100, 0.009))
    found = machine.run(budget, 60, 0.011)
    assert not any(found[:100])
    assert found[-1]


def test_a_moment_of_work_is_not() -> None:
    machine = Machine()
    budget = budget_of(machine, 0.1)
    assert not any(machine.run(budget, 29, 0.9))
    budget.restart()
    assert not any(machine.run(budget, 2, 0.9) + machine.run(budget, 60, 0.01))


def test_after_it_was_exceeded_it_begins_anew() -> None:
    machine = Machine()
    budget = budget_of(machine, 0.01)
    assert machine.run(budget, 40, 0.5)[-1]
    budget.restart()
    assert not any(machine.run(budget, 29, 0.5))
    assert machine.run(budget, 2, 0.5)[-1]


def test_memory_is_in_excess_until_it_is_given_up() -> None:
    used = 99
    budget = MemoryBudget(100, lambda: used)
    assert budget.excess() is None
    used = 101
    assert budget.excess() == 101
    assert budget.excess() == 101
    budget.give_up()
    assert budget.excess() is None


def test_what_is_resident_grows_with_what_is_held() -> None:
    before = resident_bytes()
    held = bytearray(b"x" * (64 << 20))
    assert resident_bytes() - before > 60 << 20
    assert held
