"""Outputs where others may have been before, and what is left of one that failed."""

import io
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.errors import OutputError
from kernel_delay.fleet.database import tables_of
from kernel_delay.fleet.export import ParquetFiles
from kernel_delay.fleet.parquet_files import Found
from kernel_delay.fleet.tables import FLEET_TABLES
from kernel_delay.host import private_file
from kernel_delay.host.private_file import PartFile, PrivateFile, WholeFile
from kernel_delay.host.safe_folders import who_may_replace
from kernel_delay.openvswitch.packets import PcapngWriter
from kernel_delay.recording.directory import RecordingDirectory
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import HEADER, record_samples
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.samples import bare_sample, timed_thread
from tests.workload import HANGS_S

NOBODY = 65534

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def whole(path: Path) -> None:
    with WholeFile(path).writing() as file:
        file.write(b"new")


def streamed(path: Path) -> None:
    file = PrivateFile(path)
    file.write(b"new")
    file.close()


OUTPUTS = ["--json", "--folded", "--perfetto", "--html", "--flamegraph", "-w"]
"""Those of `report` are opened as those of all commands."""


def report(tmp_path: Path, option: str, name: str) -> tuple[int, Path]:
    """Write an output of a report."""
    # A folder of a user's, who may have put anything there.
    output = tmp_path / "outputs" / name
    if option == "--json":
        recording = tmp_path / "a.kdr"
        # `report` has no file for JSON: what measures has.
        from contextlib import ExitStack

        from kernel_delay.commands.options.outputs import open_reports
        from kernel_delay.reporters.layout import IN_A_PIPE

        try:
            with ExitStack() as stack:
                for each in open_reports(str(output), None, stack, IN_A_PIPE):
                    each(WITH_EVENTS)
        except OutputError as error:
            return error.exit_code, output
        return 0, output
    if option == "-w":
        try:
            with PcapngWriter(output) as writer:
                writer.write_packet(0, "eth0", b"x" * 60, 60)
        except OutputError as error:
            return error.exit_code, output
        return 0, output
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    return main(["report", str(recording), option, str(output)]), output


@pytest.mark.parametrize("option", OUTPUTS)
def test_output_is_private_and_follows_no_symlink(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    name = "a.svg"
    status, output = report(tmp_path, option, name)
    assert status == 0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == [name]
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    for make in (Path.symlink_to, Path.hardlink_to):
        output.unlink()
        make(output, theirs)
        assert report(tmp_path, option, name)[0] == os.EX_CANTCREAT
        assert theirs.read_text() == "precious"
    output.unlink()
    output.symlink_to(tmp_path / "nothing")
    assert report(tmp_path, option, name)[0] == os.EX_CANTCREAT
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("write", [whole, streamed])
def test_a_file_of_ours_is_written_anew(write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("what was there before")
    path.chmod(0o666)
    write(path)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@NEEDS_ROOT
@pytest.mark.parametrize("write", [whole, streamed])
def test_a_file_of_another_user_is_left_alone(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("theirs")
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(OutputError, match="it belongs to nobody: remove it, or name another"):
        write(path)
    assert path.read_text() == "theirs"
    # It is the file of who called sudo.
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    write(path)
    assert path.read_text() == "new"


@pytest.mark.parametrize("write", [whole, streamed])
def test_a_fifo_that_nobody_reads_holds_nothing_up(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_file, "READER_S", 0.05)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(OutputError, match="nobody reads: start its reader first"):
        write(path)
    assert path.is_fifo()


@pytest.mark.parametrize("write", [whole, streamed])
def test_a_fifo_that_is_read_has_the_output(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_file, "READER_S", HANGS_S)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert read == [b"new"]


@pytest.mark.parametrize("write", [whole, streamed])
def test_devices_and_descriptors_are_written_to(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(Path("/dev/null"))
    with (tmp_path / "file").open("w+b") as file:
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            write(Path(name))
        file.seek(0)
        assert file.read() == b"newnew"
    with pytest.raises(OutputError):
        write(tmp_path)


@pytest.mark.parametrize("write", [whole, streamed])
@pytest.mark.parametrize("digits", [10, 20, 5000])
def test_descriptors_that_none_can_be_are_refused(
    write: Callable[[Path], None], digits: int
) -> None:
    for folder in ("/dev/fd", "/proc/self/fd"):
        with pytest.raises(OutputError):
            write(Path(folder, "9" * digits))


def test_stdout_by_any_name_has_the_json_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    assert main(["report", "--folded", "-", str(recording)]) == 0
    expected = capsys.readouterr().out
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert main(["report", "--folded", name, str(recording)]) == 0
        assert capsys.readouterr().out == expected
        assert main(["report", "--html", name, str(recording)]) == os.EX_USAGE
        assert "must be a file: stdout has the report" in capsys.readouterr().err


def failed(path: Path) -> None:
    """A run that fails before there is anything to write."""
    from contextlib import ExitStack

    from kernel_delay.commands.options.outputs import open_reports
    from kernel_delay.reporters.layout import IN_A_PIPE

    with ExitStack() as stack:
        open_reports(str(path / "json"), str(path / "folded"), stack, IN_A_PIPE)
        stack.enter_context(RecordingWriter(path / "kdr", HEADER))
        stack.enter_context(PcapngWriter(path / "pcapng"))
        WholeFile(path / "html")
        raise KeyError


def test_a_run_that_fails_leaves_no_empty_output(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        failed(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_leaves_outputs_of_before(tmp_path: Path) -> None:
    # Who replaces packets has said so: --overwrite.
    kept = {name: tmp_path / name for name in ("json", "folded", "kdr")}
    for path in kept.values():
        path.write_text("before")
    with pytest.raises(KeyError):
        failed(tmp_path)
    assert {name: path.read_text() for name, path in kept.items()} == dict.fromkeys(kept, "before")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_an_output_without_content_replaces_that_of_before(tmp_path: Path) -> None:
    from contextlib import ExitStack

    from kernel_delay.commands.options.outputs import open_reports
    from kernel_delay.reporters.layout import IN_A_PIPE

    path = tmp_path / "folded"
    path.write_text("before")
    with ExitStack() as stack:
        open_reports(None, str(path), stack, IN_A_PIPE)
    assert path.read_text() == ""


def test_an_output_is_named_by_its_path(tmp_path: Path) -> None:
    """Where an error names it: not by a descriptor."""
    from contextlib import ExitStack

    from kernel_delay.commands.options.outputs import _open

    with ExitStack() as stack:
        assert _open(tmp_path / "json", stack).name == str(tmp_path / "json")


def test_a_report_of_no_sample_leaves_no_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_samples(tmp_path / "whole.kdr", WITH_EVENTS)
    cut = tmp_path / "cut.kdr"
    cut.write_bytes(recording.read_bytes()[:500])
    files = [str(tmp_path / name) for name in ("html", "folded", "perfetto")]
    options = ("--html", files[0], "--folded", files[1], "--perfetto", files[2])
    assert main(["report", str(cut), *options]) == os.EX_DATAERR
    assert "0 samples before that were read" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"whole.kdr", "cut.kdr"}


def test_a_page_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("before")

    def fail() -> None:
        with WholeFile(path).writing() as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.test_private_file import {name}
{name}(Path(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def export(folder: Path, then: Callable[[], None] = lambda: None) -> None:
    with ParquetFiles(folder, HEADER) as files:
        files.add(bare_sample(timed_thread(7, "x")))
        then()
        files.finish()


def page(folder: Path, then: Callable[[], None] = lambda: None) -> None:
    with WholeFile(folder / "page").writing() as file:
        file.write(b"half")
        then()


def rounds(folder: Path, then: Callable[[], None] = lambda: None) -> None:
    directory = RecordingDirectory(folder, HEADER)
    part = PartFile(folder / "round")
    then()
    part.discard()
    assert directory


def query(folder: Path, then: Callable[[], None] = lambda: None) -> None:
    import tempfile

    tempfile.tempdir = str(folder)
    try:
        with tables_of(Found({table: [] for table in FLEET_TABLES}, [])):
            then()
    finally:
        tempfile.tempdir = None


@pytest.mark.parametrize("run", [export, page, rounds, query])
def test_what_a_kill_leaves_behind_the_next_run_removes(
    run: Callable[[Path], None], tmp_path: Path, project: Path
) -> None:
    def left() -> list[Path]:
        return [*tmp_path.rglob(".*"), *tmp_path.glob("kernel-delay-*")]

    program = KILLED.format(name=run.__name__)
    done = subprocess.run([sys.executable, "-c", program, tmp_path, project])
    assert done.returncode == -signal.SIGKILL
    assert left()
    run(tmp_path)
    assert left() == []


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "file")
    private_file.remove_stale_parts(tmp_path)
    with io.FileIO(part.fd, "w", closefd=False) as file:
        file.write(b"whole")
    part.appear()
    assert (tmp_path / "file").read_text() == "whole"


@NEEDS_ROOT
def test_a_folder_of_another_user_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert who_may_replace(tmp_path / "a") is None
    assert who_may_replace(Path("/tmp/a")) is None
    theirs, ours = tmp_path / "theirs", tmp_path / "theirs" / "ours"
    ours.mkdir(parents=True)
    os.chown(theirs, NOBODY, NOBODY)
    assert who_may_replace(ours / "a") == f"{theirs} belongs to nobody"
    (tmp_path / "link").symlink_to(theirs)
    assert who_may_replace(tmp_path / "link" / "a") == f"{theirs} belongs to nobody"
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    assert main(["report", "-q", str(recording), "--html", str(theirs / "a.html")]) != 0
    assert main(["report", str(recording), "--html", str(theirs / "a.html")]) == 0
    who = f"{theirs} belongs to nobody, who can remove or replace {theirs / 'a.html'}"
    assert f"kernel-delay: {who}\n" in capsys.readouterr().err
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    assert who_may_replace(ours / "a") is None
    theirs.chmod(0o777)
    assert who_may_replace(theirs / "a") == f"anyone may write to {theirs}"
    os.chown(theirs, 0, NOBODY)
    theirs.chmod(0o775)
    assert who_may_replace(theirs / "a") == f"group nogroup may write to {theirs}"
    theirs.chmod(0o1775)
    assert who_may_replace(theirs / "a") is None
    theirs.chmod(0o775)
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    assert who_may_replace(theirs / "a") is None


@NEEDS_ROOT
def test_links_in_others_folders_are_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, private = tmp_path / "theirs", tmp_path / "private"
    private.mkdir(mode=0o700)
    (theirs / "no").mkdir(parents=True)
    link = theirs / "link"
    link.symlink_to(private)
    os.chown(theirs, NOBODY, NOBODY)
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    why = f"{link} is a symbolic link, and {theirs} belongs to nobody: name the folder that you"
    for folder in (link, link / "new", theirs / "no" / ".." / "link"):
        for make in (
            lambda: RecordingDirectory(folder, HEADER),  # noqa: B023
            lambda: PrivateFile(folder / "a.kdr"),  # noqa: B023
            lambda: WholeFile(folder / "a.html"),  # noqa: B023
        ):
            with pytest.raises(OutputError, match=re.escape(why)):
                make()
        assert main(["export", "--parquet", str(folder), str(recording)]) == os.EX_CANTCREAT
        assert why in capsys.readouterr().err
    assert list(private.iterdir()) == []


@NEEDS_ROOT
def test_a_folder_that_becomes_a_link_takes_no_more(tmp_path: Path) -> None:
    theirs, private = tmp_path / "theirs", tmp_path / "private"
    private.mkdir(mode=0o700)
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    part = PartFile(theirs / "a")
    RecordingDirectory(theirs / "rounds", HEADER)
    (theirs / "rounds").rmdir()
    (theirs / "rounds").symlink_to(private)
    for path in (theirs / "rounds" / "a", theirs / "rounds" / ".." / "rounds" / "a"):
        with pytest.raises(OutputError, match="is a symbolic link, and"):
            PartFile(path)
    part.appear()
    assert list(private.iterdir()) == []


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("write", "opens"),
    [(streamed, "_open_in"), (whole, "_new_part"), (whole, "_check_replaceable")],
)
def test_a_link_exchanged_for_the_folder_gets_nothing(
    write: Callable[[Path], None], opens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, private = tmp_path / "theirs", tmp_path / "private"
    folder = theirs / "folder"
    folder.mkdir(parents=True)
    os.chown(theirs, NOBODY, NOBODY)
    private.mkdir()
    (private / "a").write_text("theirs")
    real: Callable[..., object] = getattr(private_file, opens)

    def exchange(*where: object) -> object:
        if not folder.is_symlink():
            folder.rename(theirs / "moved")
            folder.symlink_to(private)
        return real(*where)

    monkeypatch.setattr(private_file, opens, exchange)
    with suppress(OutputError):
        write(folder / "a")
    assert folder.is_symlink()
    assert [path.name for path in private.iterdir()] == ["a"]
    assert (private / "a").read_text() == "theirs"


@NEEDS_ROOT
def test_the_root_of_a_process_is_its_own(tmp_path: Path) -> None:
    """What the link in /proc says, "/", is not where it leads."""
    root = tmp_path / "root"
    root.mkdir()
    ready, write = os.pipe()
    child = os.fork()
    if not child:
        os.chroot(root)
        os.write(write, b"x")
        signal.alarm(60)
        signal.pause()
    os.read(ready, 1)
    try:
        streamed(Path(f"/proc/{child}/root/a"))
        whole(Path(f"/proc/{child}/root/b"))
        RecordingDirectory(Path(f"/proc/{child}/root/rounds"), HEADER)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(write)
    assert sorted(path.name for path in root.iterdir()) == ["a", "b", "rounds"]
    streamed(Path(f"/proc/self/root{tmp_path}/c"))
    assert (tmp_path / "c").read_bytes() == b"new"


@NEEDS_ROOT
def test_only_others_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, shared = tmp_path / "target", tmp_path / "shared"
    target.mkdir()
    shared.mkdir()
    shared.chmod(0o1777)
    link = shared / "link"
    link.symlink_to("../target")
    monkeypatch.chdir(shared)
    streamed(Path("link") / "a")
    whole(link / ".." / "target" / "b")
    assert sorted(path.name for path in target.iterdir()) == ["a", "b"]
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(OutputError, match=r"link is a symbolic link, and .*link belongs to nobody"):
        streamed(Path("link") / "a")
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    streamed(Path("link") / "a")
    shared.chmod(0o777)
    with pytest.raises(OutputError, match="anyone may write to"):
        streamed(Path("link") / "a")
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OutputError):
        streamed(loop / "a")


@pytest.mark.parametrize("write", [whole, streamed])
@pytest.mark.parametrize("name", [".", "..", "/", "/tmp"])
def test_a_folder_is_said_to_be_one(write: Callable[[Path], None], name: str) -> None:
    with pytest.raises(OutputError, match="it is a folder: name a file in it"):
        write(Path(name))


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_names_that_no_file_can_have_are_refused(option: str, tmp_path: Path) -> None:
    done = refused_output(option, "a" * 300, tmp_path)
    assert done.returncode == os.EX_CANTCREAT
    assert "File name too long" in done.stderr


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_current_folder_that_was_removed_is_named(option: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    enter = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})"
    done = refused_output(option, "a", tmp_path, enter)
    assert done.returncode == os.EX_CANTCREAT
    assert "the current folder was removed: change to another" in done.stderr


def refused_output(
    option: str, name: str, folder: Path, first: str = ""
) -> subprocess.CompletedProcess[str]:
    """Report to that output in that folder, after `first`."""
    path = record_samples(folder / "a.kdr", WITH_EVENTS)
    script = f"{first}\nimport sys; from kernel_delay.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "report", str(path), option, name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert len(done.stderr.splitlines()) == 1
    return done


@NEEDS_ROOT
def test_a_page_needs_no_list_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "dropbox"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    folder.chmod(0o300)
    script = (
        "import os, sys; from pathlib import Path\n"
        "from kernel_delay.host.private_file import WholeFile\n"
        f"os.setresuid({NOBODY}, {NOBODY}, {NOBODY}); os.chdir('/')\n"
        f"with WholeFile(Path({str(folder / 'page')!r})).writing() as file: file.write(b'whole')"
    )
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o711)
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (folder / "page").read_text() == "whole"
