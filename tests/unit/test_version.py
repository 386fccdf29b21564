"""The version is that of the newest git tag, and names the commit if it is another."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version


@pytest.fixture
def tree(project: Path, tmp_path: Path) -> Path:
    """A source tree that no repository knows."""
    (tmp_path / "setup").mkdir()
    for name in ("setup/version.sh", "setup/archived-commit.txt", ".gitattributes"):
        shutil.copy(project / name, tmp_path / name)
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", tree, *author, *arguments], check=True, capture_output=True)


def commit(tree: Path) -> str:
    """Commit all files, and return the commit's name as `git log` prints it."""
    git(tree, "add", ".")
    git(tree, "commit", "--allow-empty", "--message", "a change")
    name = subprocess.run(
        ["git", "-C", tree, "log", "-1", "--format=%h"], check=True, capture_output=True, text=True
    )
    return name.stdout.strip()


def version(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(tree / "setup" / "version.sh"), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MESON_DIST_ROOT": str(tree)},
    )
    return done.stdout.strip()


def test_without_a_tag_it_names_the_commit(tree: Path) -> None:
    assert version(tree) == "0.1.0.dev0"
    git(tree, "init")
    commit(tree)
    name = commit(tree)
    assert version(tree) == f"0.1.0.dev2+g{name}"
    assert Version(version(tree)) < Version("0.1.0")


def test_tag_is_the_version_and_later_commits_are_newer(tree: Path) -> None:
    git(tree, "init")
    commit(tree)
    git(tree, "tag", "v1.2.3")
    assert version(tree) == "1.2.3"
    commit(tree)
    name = commit(tree)
    assert version(tree) == f"1.2.3.post2+g{name}"
    assert Version("1.2.3") < Version(version(tree)) < Version("1.2.4")


@pytest.mark.parametrize("tagged", [True, False])
def test_changed_files_are_no_commit(tree: Path, tagged: bool) -> None:
    git(tree, "init")
    name = commit(tree)
    if tagged:
        git(tree, "tag", "v1.2.3")
    (tree / ".gitattributes").write_text("")
    begin = "1.2.3.post0" if tagged else "0.1.0.dev1"
    assert version(tree) == f"{begin}+g{name}.dirty"
    assert str(Version(version(tree))) == version(tree)


def test_git_archive_has_the_version_of_its_commit(tree: Path) -> None:
    git(tree, "init")
    name = commit(tree)
    assert version(archived(tree, "untagged")) == f"0.1.0.dev0+g{name}"
    git(tree, "tag", "v1.2.3")
    assert version(archived(tree, "tagged")) == "1.2.3"
    name = commit(tree)
    assert version(archived(tree, "later")) == f"1.2.3.post1+g{name}"


def archived(tree: Path, name: str) -> Path:
    """What `git archive` packs, unpacked in a folder that git ignores."""
    folder = tree / ".git" / name
    folder.mkdir()
    packed = subprocess.run(
        ["git", "-C", tree, "archive", "HEAD"], check=True, stdout=subprocess.PIPE
    ).stdout
    subprocess.run(["tar", "-xC", folder], input=packed, check=True)
    return folder


def test_other_tags_are_none(tree: Path) -> None:
    git(tree, "init")
    name = commit(tree)
    git(tree, "tag", "good")
    assert version(tree) == f"0.1.0.dev1+g{name}"


def test_packed_tree_keeps_its_version_within_another_repository(tree: Path) -> None:
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


def test_the_command_prints_it_without_python(tmp_path: Path) -> None:
    launcher = shutil.copy(Path(sys.executable).with_name("kernel-delay"), tmp_path)
    done = subprocess.run([launcher, "--version"], env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == os.EX_OK
    name, printed = done.stdout.split()
    assert (name, printed) == ("kernel-delay", str(Version(printed)))


def test_the_command_fails_where_it_cannot_print_it() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [Path(sys.executable).with_name("kernel-delay"), "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == os.EX_IOERR
    assert done.stderr == "kernel-delay: standard output: No space left on device\n"


def test_an_interpreter_beside_it_that_is_none_is_named(tmp_path: Path) -> None:
    launcher = shutil.copy(Path(sys.executable).with_name("kernel-delay"), tmp_path)
    python = tmp_path / "python3"
    python.touch(0o644)
    done = subprocess.run([launcher, "check"], capture_output=True, text=True)
    assert done.returncode == os.EX_UNAVAILABLE
    assert done.stderr == f"kernel-delay: can't start {python}: Permission denied\n"
