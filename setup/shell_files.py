"""Writes what shells complete and `man` shows, of the options that --help shows; run by meson.

    shell_files.py --list                   the names of the files, a line each
    shell_files.py --write FOLDER VERSION   the files

It is not installed. It imports the commands from the source folder, before anything is
compiled: what they need of extensions when they are imported is not there, and not needed.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).parent.parent / "src"

# For bash, which takes the word and the options of shtab's variables.
FILE_OR_OPTION = """\
_kernel_delay_file_or_option() {
  if [[ $completing_word == -* ]]; then
    compgen -W "${current_option_strings[*]}" -- "$completing_word"
  else
    compgen -f -- "$1"
  fi
}
"""

# What values are called that are files.
FILES = ("FILE", "RECORDING", "OUT", "BEFORE", "AFTER")


def _import_from_source() -> None:
    """Have `kernel_delay` be the one of the sources, whatever is installed."""
    # An editable install would compile the project, which is what goes on.
    sys.meta_path = [each for each in sys.meta_path if type(each).__name__ != "MesonpyMetaFinder"]
    sys.path.insert(0, str(SOURCE))
    signals = ModuleType("kernel_delay.host._signals")
    signals.lib = None  # type: ignore[attr-defined]
    sys.modules["kernel_delay.host._signals"] = signals


def completions() -> dict[str, str]:
    """The files for bash, zsh and fish, by name."""
    import shtab

    from kernel_delay.cli import PROGRAM

    bash = shtab.complete(_whole_parser("bash"), "bash", preamble=FILE_OR_OPTION)
    zsh, fish = (shtab.complete(_whole_parser(shell), shell) for shell in ("zsh", "fish"))
    # It has zsh take no second word for what there may be several of, and look for options of
    # `kernel-delay` itself behind a command.
    zsh = zsh.replace('"(*):', '"*:')
    whole = "_arguments -C -s $_shtab_kernel_delay_options"
    zsh = zsh.replace(whole, whole.replace("-s", '-s -A "-*"'))
    return {f"{PROGRAM}.bash": bash, f"_{PROGRAM}": zsh, f"{PROGRAM}.fish": fish}


def _whole_parser(shell: str) -> argparse.ArgumentParser:
    """One parser of all commands, which the command line itself has no need of."""
    import shtab

    from kernel_delay import commands
    from kernel_delay.cli import PROGRAM, add_arguments
    from kernel_delay.register import COMMANDS, DEFAULT_COMMAND

    whole = argparse.ArgumentParser(prog=PROGRAM)
    add_arguments(whole, commands.load(DEFAULT_COMMAND))
    several = whole.add_subparsers()
    parsers = [whole]
    for name, summary in COMMANDS.items():
        parsers.append(several.add_parser(name, help=summary))
        add_arguments(parsers[-1], commands.load(name))
    for action in (action for parser in parsers for action in parser._actions):
        if action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        if action.nargs == argparse.OPTIONAL and action.option_strings:
            _may_be_alone(action, shell)
    return whole


def _may_be_alone(action: argparse.Action, shell: str) -> None:
    """Have other options follow one that need not have a value: shtab has it need one."""
    if shell == "zsh":
        # A second colon before what the value is called: it may be left out. Where nothing is said
        # of what can be there, zsh would offer nothing at all.
        action.metavar = f":{action.metavar or action.dest}"
        if not hasattr(action, "complete") and action.choices is None:
            action.complete = {"zsh": "()"}  # type: ignore[attr-defined]
    elif shell == "bash" and action.metavar in FILES:
        action.complete = {"bash": "_kernel_delay_file_or_option"}  # type: ignore[attr-defined]


def man_pages(version: str) -> dict[str, str]:
    """The pages, by file name: of `kernel-delay` and of each command."""
    from kernel_delay import commands
    from kernel_delay.cli import PROGRAM, parser_of
    from kernel_delay.register import COMMANDS, DEFAULT_COMMAND

    default = parser_of(None, commands.load(DEFAULT_COMMAND))
    pages = {f"{PROGRAM}.1": _page(default, version, "find what delays a slow process")}
    for name, summary in COMMANDS.items():
        parser = parser_of(name, commands.load(name))
        pages[f"{PROGRAM}-{name}.1"] = _page(parser, version, summary)
    return pages


def _page(parser: argparse.ArgumentParser, version: str, summary: str) -> str:
    """A page in the macros of man(7), with the sections that man-pages(7) asks for."""
    title = parser.prog.replace(" ", "-")
    lines = [
        f'.TH {title.upper()} 1 "" "kernel-delay {version}" "kernel-delay"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(summary)}",
        ".SH SYNOPSIS",
        _roff(" ".join(parser.format_usage().removeprefix("usage: ").split())),
        ".SH DESCRIPTION",
    ]
    overview = getattr(parser, "overview", None)
    if overview:
        lines += [*_as_it_stands(overview), ".SH SEE ALSO", _roff(f"{title}-capture(1)")]
    else:
        lines += [_roff(parser.description or ""), *_options(parser)]
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A section for each group of options that has any."""
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.help is not argparse.SUPPRESS]
        if not actions:
            continue
        yield f".SH {_roff((group.title or 'options').upper())}"
        if group.description:
            yield from _as_it_stands(group.description)
        for action in actions:
            yield ".TP"
            yield f".B {_roff(formatter._format_action_invocation(action))}"
            yield _roff(formatter._expand_help(action) if action.help else "")


def _as_it_stands(text: str) -> Iterator[str]:
    """Lines that troff does not fill."""
    yield from (".nf", *map(_roff, text.splitlines()), ".fi")


def _roff(text: str) -> str:
    """`text` such that troff prints it as it is, without escapes and requests of its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    ascii_only = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    lines = ascii_only.splitlines()
    return "\n".join(f"\\&{line}" if line[:1] in {".", "'"} else line for line in lines)


def main() -> None:
    """Do what the command line asks for."""
    _import_from_source()
    if sys.argv[1] == "--list":
        print("\n".join([*completions(), *man_pages("")]))
        return
    folder, version = Path(sys.argv[2]), sys.argv[3]
    for name, text in {**completions(), **man_pages(version)}.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
