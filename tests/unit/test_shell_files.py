"""What shells complete and `man` shows: of every command, all that its --help shows."""

import argparse
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay import commands
from kernel_delay.cli import parser_of
from kernel_delay.register import COMMANDS
from tests.needs import needed
from tests.unit.typed_lines import after_tab

# It is not installed.
SCRIPT = Path(__file__).parents[2] / "setup" / "shell_files.py"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the build writes."""
    folder = tmp_path_factory.mktemp("share")
    subprocess.run([sys.executable, SCRIPT, "--write", folder, "1.2.3"], check=True)
    return folder


def options(name: str) -> list[str]:
    """A command's long options, by its parser, but for those that --help leaves out too."""
    actions = parser_of(name, commands.load(name))._actions
    shown = (action for action in actions if action.help != argparse.SUPPRESS)
    return [word for action in shown for word in action.option_strings if "--" in word]


def test_the_files_are_those_that_are_listed(files: Path) -> None:
    listed = subprocess.run(
        [sys.executable, SCRIPT, "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert sorted(listed) == sorted(path.name for path in files.iterdir())
    assert {f"kernel-delay-{name}.1" for name in COMMANDS} < set(listed)


def test_shell_files_need_no_compiled_or_runtime_package() -> None:
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


def test_zsh_takes_its_file_for_the_command(files: Path) -> None:
    file = files / "_kernel-delay"
    script = f"fpath=({files} $fpath); autoload -U compinit; compinit -u -D"
    script += "; print $_comps[kernel-delay]; autoload +X _kernel-delay"
    zsh = [needed("zsh"), "-f"]
    done = subprocess.run([*zsh, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("_kernel-delay\n", "")
    assert subprocess.run([*zsh, "-n", file]).returncode == 0


# What is typed, and what stands there after TAB: with what is not clear yet, as far as it is.
TYPED = {
    "ca": "capture ",
    "upcall-m": "upcall-monitor ",
    "--sample-i": "--sample-interval ",
    "capture --timel": "capture --timeline ",
    "capture --sample-": "capture --sample-",
    "capture --stack-mode d": "capture --stack-mode dwarf ",
    "report --sum": "report --summary ",
    # Behind options that are `kernel-delay`'s too, and such as need not have a value.
    "revalidator -p 5 --no-uk": "revalidator -p 5 --no-ukey-count ",
    "watch --json --ovs-l": "watch --json --ovs-log ",
    "-s --timel": "-s --timeline ",
    "capture --trigger-delta --timel": "capture --trigger-delta --timeline ",
    # Files: each one, and where an option asks for one.
    "report b": "report before.kdr ",
    "report before.kdr a": "report before.kdr after.kdr ",
    "report before.kdr --perc": "report before.kdr --percentiles ",
    "compare before.kdr a": "compare before.kdr after.kdr ",
    "-o b": "-o before.kdr ",
    "watch --json b": "watch --json before.kdr ",
    "report --html b": "report --html before.kdr ",
    "fleet f": "fleet folder/",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where there are files to complete."""
    (tmp_path / "folder").mkdir()
    for name in ("before.kdr", "after.kdr"):
        (tmp_path / name).touch()
    return tmp_path


def stands(shell: list[str | Path], environment: dict[str, str], folder: Path) -> dict[str, str]:
    """What stands on the shell's line for each that is TYPED."""
    kept = folder / ".kept"
    lines = (f"kernel-delay {line}" for line in TYPED)
    found = after_tab(shell, environment, folder, kept, lines)
    return dict(zip(TYPED, (line.removeprefix("kernel-delay ") for line in found), strict=True))


def test_fish_completes_what_is_typed(files: Path, folder: Path) -> None:
    """By what it would offer, one word a line: what is not clear yet is not asked for."""
    clear = {line: whole.split()[-1] for line, whole in TYPED.items() if whole[-1] in " /"}
    asked = "\n".join(f"complete --do-complete 'kernel-delay {line}'; echo" for line in clear)
    command = [needed("fish"), "--no-config", "-c", f"source {files}/kernel-delay.fish\n{asked}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    offered = [word.split("\t")[0] for word in done.stdout.splitlines()]
    assert offered == [each for whole in clear.values() for each in (whole, "")]


def test_zsh_completes_what_is_typed(files: Path, folder: Path) -> None:
    (folder / ".zshrc").write_text(
        f"fpath=({files} $fpath); autoload -U compinit; compinit -u -D\n"
        f"keep() {{ print -r -- $BUFFER >>{folder}/.kept; BUFFER= }}\n"
        "zle -N keep; bindkey '^T' keep\n"
    )
    zsh: list[str | Path] = [needed("zsh"), "-d", "-i"]
    assert stands(zsh, {"ZDOTDIR": str(folder)}, folder) == TYPED


def test_bash_completes_what_is_typed(files: Path, folder: Path) -> None:
    rc = folder / ".bashrc"
    rc.write_text(
        f"source {files}/kernel-delay.bash\n"
        f"keep() {{ printf '%s\\n' \"$READLINE_LINE\" >>{folder}/.kept; READLINE_LINE=; }}\n"
        "bind -x '\"\\C-t\": keep'\n"
    )
    bash: list[str | Path] = ["bash", "--noprofile", "--rcfile", rc, "-i"]
    assert stands(bash, {}, folder) == TYPED


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
