"""The link from a debug file to the one that dwz made."""

import os
import shutil
import subprocess
from pathlib import Path

from kernel_delay.host.stored_files import Root
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.debug_files import find_debug_files
from kernel_delay.symbols.elf import AltLink, read_alt_link, read_elf
from tests.needs import needed


def test_the_alt_file_is_found_by_its_build_id(tmp_path: Path) -> None:
    needed("gcc", "objcopy")
    build_ids = {"main": "aa" * 20, "alt": "bb" * 20}
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    for name, build_id in build_ids.items():
        command = ["gcc", str(source), "-o", str(tmp_path / name), f"-Wl,--build-id=0x{build_id}"]
        subprocess.run(command, check=True)
        directory = tmp_path / "usr/lib/debug/.build-id" / build_id[:2]
        directory.mkdir(parents=True)
        shutil.copy(tmp_path / name, directory / f"{build_id[2:]}.debug")
    link = AltLink("../alt", bytes.fromhex(build_ids["alt"]))
    section = tmp_path / "section"
    section.write_bytes(link.name.encode() + b"\0" + link.build_id)
    debug = tmp_path / "usr/lib/debug/.build-id/aa" / f"{'aa' * 19}.debug"
    command = ["objcopy", f"--add-section=.gnu_debugaltlink={section}", str(debug)]
    subprocess.run(command, check=True)

    root = Root(tmp_path)
    with (tmp_path / "main").open("rb") as main:
        assert read_alt_link(main.fileno()) is None
        elf = read_elf(main.fileno())
        assert elf
        found = find_debug_files(elf, "/main", [root], Bounds())
    assert found
    assert found.alt_link == link
    assert found.alt_fd is not None
    alt = read_elf(found.alt_fd)
    assert alt
    assert alt.build_id == link.build_id
    assert os.path.samestat(os.fstat(found.fd), debug.stat())
    found.close()
    root.close()
