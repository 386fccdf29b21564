"""The upcalls of a window as text.

The lines are those of kernel_delay.py in Open vSwitch 3.5, its spelling too,
so that what reads them keeps working.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from kernel_delay.model import Sample, UpcallStats


def upcall_lines(sample: Sample) -> Iterator[str]:
    """The section; nothing where no upcall was counted."""
    if not sample.upcalls:
        return
    failed = [stats for stats in sample.upcalls if stats.error]
    yield "\n\n# UPCALL STATISTICS (TOTAL [CPU_ID: N_UPCALLS_PER_CPU, ...]):"
    yield f"  Total upcalls       : {_counts(sample.upcalls)}"
    if not failed:
        return
    yield f"  Successfull upcalls : {_counts([s for s in sample.upcalls if not s.error])}"
    yield f"  Failed upcalls      : {_counts(failed)}"
    for stats in failed:
        yield f"    {stats.error:3}, {stats.name or 'unknown':13}: {_counts([stats])}"


def _counts(all_stats: Sequence[UpcallStats]) -> str:
    cpus: Counter[int] = Counter()
    for stats in all_stats:
        cpus.update({cpu.cpu: cpu.count for cpu in stats.cpus})
    each = ",".join(f" {cpu}: {count}" for cpu, count in sorted(cpus.items()))
    return f"{cpus.total()} [{each.strip()}]"
