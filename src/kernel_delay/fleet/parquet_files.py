"""The Parquet files of `export` below some folders: which there are, each once."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from kernel_delay.errors import NoInputError
from kernel_delay.fleet.tables import FLEET_TABLES, FleetTable

_SUFFIX = ".parquet"
_MAGIC = b"PAR1"
# Both of them, and the length of the footer.
_LEAST_BYTES = 12
_PLACE = re.compile(r"day=[^/]*/node=[^/]*/[^/]*")


class Found(Struct):
    """The files of each table; and a line for each file or folder that can't be read."""

    files: dict[FleetTable, list[str]]
    left_out: list[str]


def find(folders: Sequence[Path]) -> Found:
    """Look through the folders. What is exported to two of them is read where there is more of it.

    Raises NoInputError for a folder that is not there, or where there is nothing in any.
    """
    files: dict[FleetTable, dict[str, str]] = {table: {} for table in FLEET_TABLES}
    left_out: list[str] = []

    def unreadable(error: OSError) -> None:
        left_out.append(f"can't read {error.filename!r}: {error.strerror}")

    for folder in folders:
        if not folder.is_dir():
            raise NoInputError(f"there is no folder {os.fspath(folder)!r}")
        for table, of_table in files.items():
            if not (folder / table).is_dir():
                continue
            for path in _files(folder / table, unreadable):
                try:
                    why_not = _why_not(path, folder / table)
                    if why_not is not None:
                        left_out.append(f"{path!r} {why_not}")
                        continue
                    # One name can be encoded in several ways, and was in earlier versions.
                    place = unquote(os.path.relpath(path, folder))
                    known = of_table.setdefault(place, path)
                    # One of them may be of a copy that was cut, and has the other's beginning.
                    if known != path and os.path.getsize(path) > os.path.getsize(known):
                        of_table[place] = path
                except OSError as error:
                    unreadable(error)
    if not any(files.values()) and not left_out:
        names = ", ".join(map(os.fspath, folders))
        raise NoInputError(
            f"no Parquet files in {names!r}: write them with kernel-delay export --parquet DIR"
        )
    return Found({table: sorted(paths.values()) for table, paths in files.items()}, left_out)


def _files(folder: Path, unreadable: Callable[[OSError], None]) -> Iterator[str]:
    for where, _, names in os.walk(folder, onerror=unreadable):
        for name in names:
            if name.endswith(_SUFFIX):
                yield os.path.join(where, name)


def _why_not(path: str, folder: Path) -> str | None:
    """Why a file is none of export's as far as its place, its first and its last bytes show.

    https://parquet.apache.org/docs/file-format/: "PAR1", ..., "PAR1": what was cut lacks the last.
    """
    if not _PLACE.fullmatch(os.path.relpath(path, folder)):
        return "is in no folder day=DAY/node=NAME of its table"
    if not os.path.isfile(path):
        return "is no file"
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC and file.seek(0, os.SEEK_END) >= _LEAST_BYTES:
            file.seek(-len(_MAGIC), os.SEEK_END)
            if file.read(len(_MAGIC)) == _MAGIC:
                return None
    return "was cut, or is no Parquet file"
