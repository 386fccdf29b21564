"""The cache of what tests build."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cache import built


def test_what_others_wait_for_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    at_once = 4
    waiting = threading.Barrier(at_once)
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        # Long enough for the others to look, too: they wait for the lock then.
        threading.Event().wait(0.2)
        (folder / "program").touch()

    def build(_: int) -> bool:
        waiting.wait()
        return (built("program", make, "input") / "program").exists()

    with ThreadPoolExecutor(at_once) as pool:
        assert all(pool.map(build, range(at_once)))
    assert len(made) == 1
