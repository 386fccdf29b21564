"""How the scheduler shares a CPU out between two processes: by their cgroups, or by sessions."""

from collections.abc import Iterable
from pathlib import Path

from kernel_delay.host.cgroups import cpu_cgroups
from kernel_delay.model import CpuWeights

PROC = Path("/proc")

# What a task of nice 0 weighs among cgroups: kernel/sched/core.c:sched_prio_to_weight, as
# cpu.shares of v1 has it, and cpu.weight of v2.
TASK_SHARES, TASK_WEIGHT = 1024, 100


def cpu_weights(pid: int, others: Iterable[int]) -> tuple[CpuWeights, ...]:
    """Return how process `pid` shares CPUs with each of others that is not in its own cgroup."""
    own = cpu_cgroups(pid)
    found = (_between(pid, own, other) for other in others if own)
    return tuple(weights for weights in found if weights is not None)


def _between(pid: int, own: tuple[tuple[Path, str], ...], other: int) -> CpuWeights | None:
    theirs = cpu_cgroups(other)
    common = next((path for _, path in own if path in {path for _, path in theirs}), None)
    if common is None:
        return None
    mine, others = _below(own, common), _below(theirs, common)
    if mine is not None or others is not None:
        folder = (mine or others or own[0])[0]
        alone = TASK_SHARES if (folder / "cpu.shares").exists() else TASK_WEIGHT
        return CpuWeights(
            other,
            mine[1] if mine else None,
            _weight(mine[0]) if mine else alone,
            others[1] if others else None,
            _weight(others[0]) if others else alone,
        )
    sessions = _autogroup(pid), _autogroup(other)
    if common == "/" and None not in sessions and sessions[0] != sessions[1]:
        return CpuWeights(other, sessions[0], TASK_SHARES, sessions[1], TASK_SHARES)
    return None


def _below(levels: tuple[tuple[Path, str], ...], common: str) -> tuple[Path, str] | None:
    """The highest cgroup below the common one; None if the process is in that itself."""
    place = [path for _, path in levels].index(common)
    return levels[place - 1] if place else None


def _weight(folder: Path) -> int:
    try:
        if (folder / "cpu.idle").exists() and (folder / "cpu.idle").read_text().strip() == "1":
            return 0
        name = "cpu.shares" if (folder / "cpu.shares").exists() else "cpu.weight"
        return int((folder / name).read_text())
    except (OSError, ValueError):
        return TASK_WEIGHT


def _autogroup(pid: int) -> str | None:
    """The group of the process's session, /proc/PID/autogroup of sched(7); None if it has none."""
    try:
        if (PROC / "sys/kernel/sched_autogroup_enabled").read_text().strip() != "1":
            return None
        return (PROC / str(pid) / "autogroup").read_text().split()[0]
    except (OSError, IndexError):
        return None
