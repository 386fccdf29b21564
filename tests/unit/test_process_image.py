"""The image of a process: which thread's directory of /proc is read."""

import os
from pathlib import Path

import pytest

from kernel_delay.symbols import process_image


def test_first_thread_is_read_before_lower_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: ["9", "4000", "7"])
    monkeypatch.setattr(process_image, "has_mappings", lambda _: True)
    read = list(process_image._with_memory(4000))
    assert read == [Path("/proc/4000"), Path("/proc/7"), Path("/proc/9")]
