"""The version is that of the newest git tag."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version


@pytest.fixture
def tree(project: Path, tmp_path: Path) -> Path:
    """A source tree that no repository knows."""
    (tmp_path / "setup").mkdir()
    shutil.copy(project / "setup" / "version.sh", tmp_path / "setup")
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", tree, *author, *arguments], check=True, capture_output=True)


def commit(tree: Path) -> None:
    git(tree, "commit", "--allow-empty", "--message", "a change")


def version(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(tree / "setup" / "version.sh"), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MESON_DIST_ROOT": str(tree)},
    )
    return done.stdout.strip()


def test_without_a_tag_it_is_the_first(tree: Path) -> None:
    assert version(tree) == "0.1.0"
    git(tree, "init")
    commit(tree)
    assert version(tree) == "0.1.0"


def test_a_tag_is_the_version_and_what_comes_after_it_is_newer(tree: Path) -> None:
    git(tree, "init")
    commit(tree)
    git(tree, "tag", "v1.2.3")
    assert version(tree) == "1.2.3"
    commit(tree)
    commit(tree)
    assert version(tree).startswith("1.2.3.post2+g")
    assert Version("1.2.3") < Version(version(tree)) < Version("1.2.4")


def test_other_tags_are_none(tree: Path) -> None:
    git(tree, "init")
    commit(tree)
    git(tree, "tag", "good")
    assert version(tree) == "0.1.0"


def test_a_packed_tree_keeps_its_version_also_within_another_repository(tree: Path) -> None:
    git(tree, "init")
    commit(tree)
    git(tree, "tag", "v1.2.3")
    assert version(tree, "--pack") == ""
    shutil.rmtree(tree / ".git")
    assert version(tree) == "1.2.3"
    git(tree, "init")
    commit(tree)
    git(tree, "tag", "v9.9.9")
    assert version(tree) == "1.2.3"
