"""setup/kernel-delay-container, with a script in place of the engine."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the command refuses other users")

ENGINE = """#!/bin/sh
echo "$*" >>"$0.calls"
case $1 in load) echo 'Loaded image: of-the-file' ;; esac
"""


def calls(project: Path, folder: Path, image: str | None) -> list[str]:
    """Run it in that folder; what it asked the engine for."""
    engine = folder / "engine"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    environment = {**os.environ, "KERNEL_DELAY_ENGINE": str(engine)}
    if image is not None:
        environment["KERNEL_DELAY_IMAGE"] = image
    command = project / "setup" / "kernel-delay-container"
    subprocess.run([command, "--version"], cwd=folder, env=environment, check=True)
    return Path(f"{engine}.calls").read_text().splitlines()


@pytest.mark.parametrize("image", [None, "localhost/kernel-delay", "localhost/other"])
def test_a_name_is_never_a_file_of_the_folder(
    project: Path, tmp_path: Path, image: str | None
) -> None:
    (tmp_path / "localhost").mkdir()
    for name in ("kernel-delay", "other"):
        (tmp_path / "localhost" / name).write_text("an image of somebody else")
    asked = calls(project, tmp_path, image)
    assert [call.split()[0] for call in asked] == ["image", "run"]
    assert f" {image or 'localhost/kernel-delay'} --version" in asked[-1]


@pytest.mark.parametrize("path", ["./image.tar", "{folder}/image.tar"])
def test_a_path_is_a_file_with_the_image(project: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "image.tar").write_text("an image")
    asked = calls(project, tmp_path, path.format(folder=tmp_path))
    assert asked[0].startswith("load ")
    assert " of-the-file --version" in asked[-1]
