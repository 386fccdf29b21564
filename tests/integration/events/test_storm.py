"""A thread that makes system calls as fast as it can: bounds of time and memory, and what is lost.

What a busy machine can change is not asserted: it may keep the drain thread
from a CPU for longer than the buffer lasts, and the report from coming soon.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.emulation import is_emulated
from tests.event_captures import Start

WINDOW_S = 1.0
REPORT_CPU_NS = 1_000_000_000
MIB = 1024  # in KiB

BUFFER_LASTS_NS = 20_000_000
"""At 3 million events a second, of 48 bytes with their headers, 4 MiB last 29 ms."""

BASE_KIB = 60 * MIB
"""The extensions, libbpf with the object's BTF, and the records."""

EVENT_BYTES = 40
RANK_BYTES = 16
SORTING_BYTES = 32


def storm(start: Start, *arguments: str, **options: object) -> Any:
    process = start("storm", *arguments)
    command = [sys.executable, str(Path(__file__).with_name("pipeline.py"))]
    command += [str(process.pid), str(WINDOW_S), json.dumps(options)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    print(found)
    assert found["window_ns"] == WINDOW_S * 1e9
    lost = found["lost"]
    assert found["kept"] + lost["events"] + lost["shorter"] == found["counted"]
    # Of the time that it takes, what depends on the CPU, and not on who else wants it.
    assert is_emulated() or found["cpu_ns"] < REPORT_CPU_NS * (1 + WINDOW_S)
    return found


@pytest.mark.long
def test_without_stacks_nothing_is_dropped_and_memory_is_bounded(start: Start) -> None:
    found = storm(start, stack_mode="none")
    room = min(found["counted"], 1_000_000) * 2  # it doubles as it grows
    assert found["grown_kib"] * 1024 < BASE_KIB * 1024 + room * (EVENT_BYTES + RANK_BYTES) + (
        found["kept"] * SORTING_BYTES
    )
    assert (found["stacks"], found["lost"]["stacks"]) == (0, 0)
    if is_emulated():
        pytest.skip("an emulated CPU stops whenever its emulator waits for a real one")
    # What is dropped came while the drain thread waited for a CPU, or its CPU did.
    waited_ns = found["drainer_waited_ns"] + found["stolen_ns"]
    assert not found["lost"]["events"] or waited_ns > BUFFER_LASTS_NS


def test_only_so_many_are_kept(start: Start) -> None:
    found = storm(start, stack_mode="none", max_events=1000)
    assert found["kept"] == min(1000, found["counted"] - found["lost"]["events"])
    assert found["grown_kib"] < BASE_KIB
    if not found["lost"]["events"]:
        assert found["longest_ns"] == found["max_ns"]


@pytest.mark.long
def test_with_stacks_these_go_first_and_are_counted(start: Start) -> None:
    found = storm(start, "40")
    assert found["with_user_stack"] > 0
    without = found["kept"] - found["with_user_stack"]
    if not found["lost"]["shorter"]:
        assert without == found["lost"]["stacks"]
    room = min(found["counted"], 1_000_000) * 2
    stacks_kib = 128 * MIB + 128 * MIB // 16  # STACKS_SIZE_MAX, and malloc's own
    assert found["grown_kib"] < BASE_KIB + stacks_kib + (
        room * (EVENT_BYTES + RANK_BYTES + SORTING_BYTES) // 1024
    )


def test_only_so_many_stacks_are_kept(start: Start) -> None:
    found = storm(start, "40", "200", max_stacks=5)
    assert found["depths"] - 1 <= 5  # and the kernel's, which have none of these functions
    assert found["with_user_stack"] < found["kept"]
    assert found["kept"] - found["with_user_stack"] == found["lost"]["stacks"]


def test_each_stack_is_there(start: Start) -> None:
    found = storm(start, "40", "200")
    # Each second event is a sleep. Of a busy CPU the thread may not get enough for all depths.
    made = (found["kept"] - found["lost"]["stacks"]) // 2
    assert found["depths"] >= min(40, made) > 0
