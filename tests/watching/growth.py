"""Whether a process grows: its memory, that of its BPF maps, and its descriptors."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

MIB = 1 << 20

# What the allocator, the page cache of the symbols and histograms that are remembered
# (HISTOGRAMS_REMEMBERED) may do, once it is warm.
GROWTH = 1.05
GROWTH_BYTES = 8 * MIB


class Reading(Struct, frozen=True):
    """What the process has at a time."""

    time_s: float
    resident: int
    maps: int
    descriptors: int


def read(pid: int, time_s: float) -> Reading:
    """What it has now."""
    process = Path(f"/proc/{pid}")
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    maps: dict[str, int] = {}
    descriptors = 0
    for info in (process / "fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:  # it was closed meanwhile
            continue
        descriptors += 1
        # kernel/bpf/syscall.c:bpf_map_show_fdinfo(), 5.14 to 6.18; a map may be open twice.
        fields = dict(re.findall(r"^(memlock|map_id):\s*(\d+)", text, flags=re.MULTILINE))
        if "map_id" in fields:
            maps[fields["map_id"]] = int(fields["memlock"])
    return Reading(time_s, resident, sum(maps.values()), descriptors)


def reading_text(reading: Reading) -> str:
    """A line of it."""
    return (
        f"{reading.time_s:7.0f} s  {reading.resident / MIB:6.1f} MiB resident"
        f"  {reading.maps / MIB:6.1f} MiB of maps  {reading.descriptors:4} descriptors"
    )


def problems(readings: Sequence[Reading], warm_s: float = 0.0) -> list[str]:
    """What grew from a tenth of the time on, and from `warm_s` on."""
    tenth = readings[len(readings) // 10]
    last = readings[-1]
    warm = next((each for each in readings if each.time_s >= max(tenth.time_s, warm_s)), last)
    found = []
    if last.resident > max(GROWTH * warm.resident, warm.resident + GROWTH_BYTES):
        found.append(f"it grew from {warm.resident // MIB} to {last.resident // MIB} MiB")
    if last.maps > warm.maps:
        found.append(f"its maps grew from {warm.maps} to {last.maps} bytes")
    # A thread that is sampled has one, and a file that is written.
    if last.descriptors > warm.descriptors + 2:
        found.append(f"{warm.descriptors} descriptors became {last.descriptors}")
    return found
