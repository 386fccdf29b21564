"""A directory of recordings: one a round, bounded, and nothing torn in it."""

import datetime
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel_delay.errors import OutputError
from kernel_delay.host.private_file import PartFile
from kernel_delay.model import Round, Sample
from kernel_delay.recording.directory import (
    NO_LIMITS,
    Limits,
    RecordingDirectory,
    recordings_in,
)
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import header, read_all
from tests.unit.samples import START_TIME, bare_sample, bare_thread, window


def sample_at(seconds: int, name: str = "handler4") -> Sample:
    start = START_TIME + datetime.timedelta(seconds=seconds)
    of_round = replace(window("poll", 1_234_567_890), start_time=start)
    sample = bare_sample(bare_thread(31, name), window=of_round)
    return replace(sample, round=Round(31, name, number=7))


def opened(folder: Path, limits: Limits = NO_LIMITS) -> RecordingDirectory:
    return RecordingDirectory(folder, header("watch"), limits)


def test_each_sample_is_a_recording_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    recordings = opened(folder)
    paths = [recordings.add(sample_at(second)) for second in (1, 2)]
    assert sorted(folder.iterdir()) == paths
    assert paths[0].name == "round-20230608T101723.725127Z-handler4-1234.kdr"
    for second, path in enumerate(paths, start=1):
        (read,) = read_all(path)
        assert read == sample_at(second)


@pytest.mark.parametrize("name", ["../../etc/passwd", "pmd-c01/id:6", "a b\n", "ä", ""])
def test_a_threads_name_is_no_path(tmp_path: Path, name: str) -> None:
    path = opened(tmp_path).add(sample_at(1, name))
    assert path.parent == tmp_path
    assert list(tmp_path.iterdir()) == [path]
    # It is known for one of these later on.
    opened(tmp_path, Limits(most_files=1)).add(sample_at(2))
    assert not path.exists()


def test_two_threads_of_a_name_may_begin_at_once(tmp_path: Path) -> None:
    recordings = opened(tmp_path)
    samples = [replace(sample_at(1), round=Round(tid, "worker", number=7)) for tid in (31, 32)]
    paths = [recordings.add(sample) for sample in samples]
    assert [read_all(path) for path in paths] == [[sample] for sample in samples]
    last = opened(tmp_path, Limits(most_files=1)).add(sample_at(2))
    assert list(tmp_path.iterdir()) == [last]


def test_unwritable_folder_is_an_error_at_once() -> None:
    with pytest.raises(OutputError, match="can't write '/proc/round': No such file or directory"):
        opened(Path("/proc"))


def test_the_oldest_go_first(tmp_path: Path) -> None:
    recordings = opened(tmp_path, Limits(most_files=3))
    paths = [recordings.add(sample_at(second)) for second in range(5)]
    assert sorted(tmp_path.iterdir()) == paths[2:]


def test_there_is_no_more_than_so_many_bytes(tmp_path: Path) -> None:
    size = opened(tmp_path).add(sample_at(0)).stat().st_size
    recordings = opened(tmp_path, Limits(most_bytes=int(2.5 * size)))
    paths = [recordings.add(sample_at(second)) for second in range(1, 5)]
    assert sorted(tmp_path.iterdir()) == paths[-2:]


def test_the_newest_stays_however_large(tmp_path: Path) -> None:
    path = opened(tmp_path, Limits(most_bytes=1)).add(sample_at(1))
    assert path.exists()


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    recordings = opened(tmp_path, Limits(oldest_ns=3600 * 10**9))
    old = recordings.add(sample_at(1))
    os.utime(old, (1, 1))
    new = recordings.add(sample_at(2))
    assert list(tmp_path.iterdir()) == [new]


def test_recordings_from_a_clock_set_back_go_first(tmp_path: Path) -> None:
    recordings = opened(tmp_path, Limits(most_files=2))
    later = [recordings.add(sample_at(second)) for second in (3600, 3601)]
    for path in later:
        os.utime(path, (2**33, 2**33))
    new = recordings.add(sample_at(1))
    assert sorted(tmp_path.iterdir()) == [new, later[1]]
    newer = recordings.add(sample_at(2))
    assert sorted(tmp_path.iterdir()) == [new, newer]


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    mine = [tmp_path / name for name in ("mine.kdr", "round-of-golf.kdr", "notes")]
    for path in mine:
        path.write_text("mine")
        os.utime(path, (1, 1))
    recordings = opened(tmp_path, Limits(1, 1, 1))
    for second in range(3):
        recordings.add(sample_at(second))
    assert all(path.exists() for path in mine)


def test_what_a_kill_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "round-20230608T101723.725127Z-handler4-1234.kdr.part"
    left.write_bytes(b"half")
    opened(tmp_path)
    assert not left.exists()


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = opened(tmp_path)

    def no_room(*_: object) -> None:
        raise OutputError("no room")

    monkeypatch.setattr(RecordingWriter, "sample", no_room)
    with pytest.raises(OutputError, match="no room"):
        recordings.add(sample_at(1))
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can't write to"):
        opened(tmp_path / "file" / "folder")


def test_what_is_no_file_is_no_recording(tmp_path: Path) -> None:
    path = opened(tmp_path).add(sample_at(1))
    os.mkfifo(tmp_path / "round-20230608T101799.000000Z-handler4-1.kdr")
    assert recordings_in(tmp_path) == [path]


def test_recording_that_others_remove_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = opened(tmp_path, Limits(most_files=1))
    first = recordings.add(sample_at(1))
    listed = os.scandir

    @contextmanager
    def removed_meanwhile(folder: Path) -> Iterator[list["os.DirEntry[str]"]]:
        with listed(folder) as entries:
            found = list(entries)
        first.unlink()
        yield found

    monkeypatch.setattr(os, "scandir", removed_meanwhile)
    second = recordings.add(sample_at(2))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [second]


def test_what_cannot_be_removed_is_reported_once(tmp_path: Path) -> None:
    reported: list[str] = []
    recordings = RecordingDirectory(
        tmp_path, header("watch"), Limits(most_files=1), report=reported.append
    )
    kept = tmp_path / "round-20200101T000000.000000Z-handler4-1.kdr"
    kept.mkdir()
    for second in range(3):
        last = recordings.add(sample_at(second))
    assert sorted(tmp_path.iterdir()) == [kept, last]
    assert reported == [
        f"can't remove old recordings: '{kept}': Is a directory; going on beyond the limits"
    ]


def test_removed_folder_is_an_error_of_the_next_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    recordings = opened(folder, Limits(most_files=1))
    appear = PartFile.appear

    def and_vanish(part: PartFile) -> None:
        appear(part)
        shutil.rmtree(folder)

    monkeypatch.setattr(PartFile, "appear", and_vanish)
    recordings.add(sample_at(1))
    with pytest.raises(OutputError, match="can't write"):
        recordings.add(sample_at(2))
