"""How the scheduler shares a CPU out between two processes: by their cgroups, or by sessions."""

from collections.abc import Iterable
from pathlib import Path

from kernel_delay.host.cgroups import cpu_cgroups
from kernel_delay.model import CpuWeights

PROC = Path("/proc")

# What a task of nice 0 weighs among cgroups: kernel/sched/core.c:sched_prio_to_weight, as
# cpu.shares of v1 has it, and cpu.weight of v2.
TASK_SHARES, TASK_WEIGHT = 1024, 100

# What a session weighs beside others, by its nice value from -20 on: as a task, by the same.
SESSION_SHARES = (
    *(88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916),
    *(9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277),
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)


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
    session, others_session = _autogroup(pid), _autogroup(other)
    if common == "/" and session and others_session and session[0] != others_session[0]:
        return CpuWeights(other, *session, *others_session)
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


def _autogroup(pid: int) -> tuple[str, int] | None:
    """The group of the process's session and what it weighs; None if it has none.

    /proc/PID/autogroup of sched(7), which is `/autogroup-NUMBER nice NICE`.
    """
    try:
        if (PROC / "sys/kernel/sched_autogroup_enabled").read_text().strip() != "1":
            return None
        path, _, nice = (PROC / str(pid) / "autogroup").read_text().split()
        return path, SESSION_SHARES[int(nice) + 20]
    except (OSError, ValueError, IndexError):
        return None
