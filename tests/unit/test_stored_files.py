"""Files that others have named or mapped: found and opened, and copied where a process has them."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kernel_delay.host import abandonable
from kernel_delay.host import mounts as mounts_module
from kernel_delay.host.file_copies import FileCopies
from kernel_delay.host.mounts import Mounts, _FileSystem
from kernel_delay.host.stored_files import Root, ServedError, find_stored, open_stored
from tests.fuse_files import serve
from tests.fuse_processes import output_of, served
from tests.workload import HANGS_S

CONTENT = b"content" * 400_000
FILES = {"file": CONTENT, "file.log": b"a line\n", "a.socket": b"", "pid": b"1\n"}

# Each of a path, of a process and of its descriptor of that file.
SCRIPTS = {
    "found by its path": """
from kernel_delay.host.stored_files import Root
try: Root(Path("/")).find(path)
except OSError as error: print(error.strerror)
""",
    "found by its descriptor": """
from kernel_delay.host.stored_files import find_stored
try: find_stored(f"/proc/{pid}/fd/{fd}")
except OSError as error: print(error.strerror)
""",
    "opened by its path": """
from kernel_delay.host import mounts as mounts_module
from kernel_delay.host.file_copies import FileCopies
from kernel_delay.host.stored_files import Root
print(Root(Path("/"), FileCopies(lambda: 1 << 20, print)).open(path))
""",
    "opened by its descriptor": """
from kernel_delay.host import mounts as mounts_module
from kernel_delay.host.file_copies import FileCopies
from kernel_delay.host.stored_files import open_stored
try: open_stored(f"/proc/{pid}/fd/{fd}", FileCopies(lambda: 1 << 20, print))
except OSError as error: print(error.strerror)
""",
    "a process's root directory": """
from kernel_delay.host.stored_files import Root
print(Root(Path(f"/proc/{pid}/root")).open(path))
""",
    "the file of a probe": """
from kernel_delay.loader.programs import _find_file
for place in f"/proc/{pid}/fd/{fd}", f"/proc/{pid}/root{path}":
    try: _find_file(place)
    except OSError as error: print(error.strerror)
""",
    "a log": """
from kernel_delay.errors import NoInputError
from kernel_delay.openvswitch.log import OvsLog
try: OvsLog(Path(f"/proc/{pid}/fd/{fd}"), pid)
except NoInputError as error: print(str(error).partition(": ")[2])
""",
    "a PID file": """
from kernel_delay.host.target import find_in_file
print(find_in_file(Path(path)))
""",
    "a control socket": """
from kernel_delay.openvswitch.unixctl import _connected
from kernel_delay.errors import UnavailableError
try: _connected(path, pid)
except UnavailableError as error: print(str(error).partition(": ")[2])
""",
    "the socket of a descriptor": """
from kernel_delay.host.open_files import describe
from kernel_delay.host.file_status import file_status
inode = file_status(f"/proc/{pid}/fd/{socket}").inode
print(describe(pid, pid, socket, inode).kind)
""",
}

REFUSED = "it is on a FUSE file system, whose server may not answer\n"
LATE = "a read took longer than 2 s\n"
SAID = {
    "opened by its path": f"{LATE}None\n",
    "opened by its descriptor": f"{LATE}it is on a FUSE file system, and {LATE}",
    "a process's root directory": "None\n",
    "the file of a probe": 2 * REFUSED,
    "a PID file": "None\n",
    "the socket of a descriptor": "socket\n",
}


class Held(NamedTuple):
    """The folder, who has its files open, and their descriptors; and the server of the files."""

    folder: Path
    client: int
    file: int
    socket: int
    server: int


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    def use(ready: int) -> None:
        file = os.open(tmp_path / "file", os.O_RDONLY)
        socket = os.open(tmp_path / "a.socket", os.O_PATH)
        os.write(ready, bytes([file, socket]))
        while True:
            signal.pause()

    with served(tmp_path, lambda fd: serve(fd, FILES), use) as found:
        file, socket = os.read(found.written, 2)
        yield Held(tmp_path, found.client, file, socket, found.server)


@pytest.mark.parametrize("what", SCRIPTS)
def test_file_whose_server_is_stopped_keeps_nobody(held: Held, what: str) -> None:
    os.kill(held.server, signal.SIGSTOP)
    begin = (
        "import sys; from pathlib import Path\n"
        "path, (pid, fd, socket) = sys.argv[1], map(int, sys.argv[2:])\n"
    )
    words = [sys.executable, "-c", begin + SCRIPTS[what], held.folder / "file"]
    said = output_of(*words, held.client, held.file, held.socket)
    assert said == SAID.get(what, REFUSED)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no CPU answers late."""
    monkeypatch.setattr(abandonable.Asked.__init__, "__defaults__", (HANGS_S,))


@pytest.mark.usefixtures("patient")
def test_file_whose_server_answers_is_copied(held: Held) -> None:
    lost: list[str] = []
    copies = FileCopies(lambda: len(CONTENT), lost.append)
    root = Root(Path("/"), copies)
    path = str(held.folder / "file")
    for file in (root.open(path), open_stored(path, copies)):
        assert file is not None
        assert (file.copied, file.status.size) == (len(CONTENT), len(CONTENT))
        assert os.pread(file.fd, len(CONTENT) + 1, 0) == CONTENT
        assert os.readlink(f"/proc/self/fd/{file.fd}").startswith("/memfd:")
        os.close(file.fd)
    assert root.open(str(held.folder / "none")) is None
    assert lost == []
    with pytest.raises(ServedError):
        root.find(path)
    with pytest.raises(ServedError):
        find_stored(path)
    with pytest.raises(ServedError):
        open_stored(path)
    root.close()


@pytest.mark.usefixtures("patient")
def test_file_that_is_too_large_is_not_copied(held: Held) -> None:
    lost: list[str] = []
    root = Root(Path("/"), FileCopies(lambda: len(CONTENT) - 1, lost.append))
    assert root.open(str(held.folder / "file")) is None
    assert lost == ["they are too large to be copied"]
    root.close()


def test_file_is_found_across_mounts(tmp_path: Path) -> None:
    """Links are followed below the root, as the kernel does without a limit to one mount."""
    (tmp_path / "absolute").symlink_to("/proc/version")
    (tmp_path / "relative").symlink_to(f"../../../../../../../../..{tmp_path}/absolute")
    (tmp_path / "folder").symlink_to("/proc")
    (tmp_path / "circle").symlink_to("/proc/../" + str(tmp_path / "circle"))
    root = Root(Path("/"))
    expected = os.stat("/proc/version").st_ino
    for path in ("proc/version", "/proc/./sys/../version", "/../proc//version", "absolute"):
        found = root.find(path if "/" in path else str(tmp_path / path))
        assert os.fstat(found).st_ino == expected
        os.close(found)
    for path in ("relative", "folder/version"):
        found = root.find(str(tmp_path / path))
        assert os.fstat(found).st_ino == expected
        os.close(found)
    for path in ("circle", "folder/none", "absolute/below"):
        with pytest.raises(OSError, match=r"symbolic links|No such|Not a directory"):
            root.find(str(tmp_path / path))
    root.close()


def test_files_of_the_kernel_alone_are_not_served(tmp_path: Path) -> None:
    mounts = Mounts(Path("/proc/self"))
    memory = os.memfd_create("memory")
    found = [os.open(path, os.O_PATH) for path in ("/", tmp_path, "/proc", "/dev/null")]
    assert not any(map(mounts.is_served, [memory, *found]))
    for fd in (memory, *found):
        os.close(fd)
    mounts.close()


@pytest.mark.parametrize("limit", ["MOST_MOUNTS", "MOST_CPU_S"])
def test_mounts_that_there_is_no_time_for_are_served(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts_module, limit, 0)
    mounts = Mounts(Path("/proc/self"))
    fd = os.open("/proc", os.O_PATH)
    assert mounts.is_served(fd)
    os.close(fd)
    mounts.close()


def test_overlay_of_other_users_is_served_unless_it_is_seen_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A user may have mounted it upon a FUSE file system; a container's is seen here too."""
    fd = os.open(tmp_path, os.O_PATH)
    (number,) = (
        int(line.split()[1])
        for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
        if line.startswith("mnt_id")
    )
    other = _FileSystem(b"0:99", b"overlay")
    tables = {Path("/proc/self"): {}, Path("/proc/1"): {number: other}}
    monkeypatch.setattr(mounts_module, "_table", tables.__getitem__)
    monkeypatch.setattr(mounts_module, "_mount_of_root", lambda: -1)
    for has_other_users, seen, expected in (
        (False, {}, False),
        (True, {}, True),
        (True, {7: other}, False),
        (True, {7: _FileSystem(b"0:98", b"overlay")}, True),
    ):
        tables[Path("/proc/self")] = seen
        monkeypatch.setattr(mounts_module, "_has_other_users", lambda _, has=has_other_users: has)
        mounts = Mounts(Path("/proc/1"))
        assert mounts.is_served(fd) == expected
        mounts.close()
    os.close(fd)
