"""What shells complete and `man` shows: of every command, all that its --help shows."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay import commands
from kernel_delay.cli import parser_of
from kernel_delay.commands import COMMANDS
from tests.needs import needed

# It is not installed.
SCRIPT = Path(__file__).parents[2] / "src" / "kernel_delay" / "shell_build.py"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the build writes."""
    folder = tmp_path_factory.mktemp("share")
    subprocess.run([sys.executable, SCRIPT, "--write", folder, "1.2.3"], check=True)
    return folder


def options(name: str) -> list[str]:
    """A command's long options, by its parser."""
    parser = parser_of(name, commands.load(name))
    return [word for action in parser._actions for word in action.option_strings if "--" in word]


def test_the_files_are_those_that_are_listed(files: Path) -> None:
    listed = subprocess.run(
        [sys.executable, SCRIPT, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert sorted(listed) == sorted(path.name for path in files.iterdir())
    assert {f"kernel-delay-{name}.1" for name in COMMANDS} < set(listed)


def test_they_need_nothing_that_is_compiled_or_only_needed_to_run() -> None:
    loaded = (
        "import runpy, sys; sys.argv = ['', '--list']\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
        "print([m for m in ('msgspec', 'rich', 'cffi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def completed(files: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
        "function=$(complete -p kernel-delay | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        "$function; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    file = str(files / "kernel-delay.bash")
    command = ["bash", "-c", script, "bash", file, "kernel-delay", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_options_and_their_values(files: Path) -> None:
    assert completed(files, "upcall-") == ["upcall-cost", "upcall-monitor"]
    assert set(completed(files, "--s")) == {each for each in options("capture") if "--s" in each}
    assert completed(files, "report", "--sum") == ["--summary"]
    assert completed(files, "capture", "--stack-mode", "d") == ["dwarf"]
    for name in COMMANDS:
        assert set(completed(files, name, "--")) == set(options(name))


def test_bash_completes_files_where_one_is_asked_for(files: Path, tmp_path: Path) -> None:
    (tmp_path / "one.kdr").touch()
    assert completed(files, "report", f"{tmp_path}/o") == [f"{tmp_path}/one.kdr"]
    assert completed(files, "-o", f"{tmp_path}/o") == [f"{tmp_path}/one.kdr"]


def test_fish_completes_commands_and_options(files: Path) -> None:
    def of_fish(line: str) -> list[str]:
        script = f"source {files}/kernel-delay.fish; complete --do-complete '{line}'"
        done = subprocess.run(
            [needed("fish"), "--no-config", "-c", script], capture_output=True, text=True
        )
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert of_fish("kernel-delay upcall-") == ["upcall-cost", "upcall-monitor"]
    assert of_fish("kernel-delay report --sum") == ["--summary"]


def test_zsh_takes_its_file_for_the_command(files: Path) -> None:
    file = files / "_kernel-delay"
    script = f"fpath=({files} $fpath); autoload -U compinit; compinit -u -D"
    script += "; print $_comps[kernel-delay]; autoload +X _kernel-delay"
    zsh = [needed("zsh"), "-f"]
    done = subprocess.run([*zsh, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("_kernel-delay\n", "")
    assert subprocess.run([*zsh, "-n", file]).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_each_command_has_all_options(files: Path, name: str) -> None:
    page = files / f"kernel-delay-{name}.1"
    # Plain text, and each warning told.
    groff = [needed("groff"), "-man", "-Tutf8", "-P-cbu", "-ww", str(page)]
    done = subprocess.run(groff, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    assert "kernel-delay 1.2.3" in text
    assert f"kernel-delay-{name} - {' '.join(COMMANDS[name].split()[:3])}" in text
    for option in options(name):
        assert option in text


def test_what_troff_would_take_for_its_own_is_text() -> None:
    roff = runpy.run_path(str(SCRIPT))["_roff"]
    assert roff(".so x\n'\\fB--a") == "\\&.so x\n\\&'\\efB\\-\\-a"
