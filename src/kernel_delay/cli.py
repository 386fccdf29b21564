"""argv and the environment → a command; and the one place that turns errors into an exit code."""

import argparse
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, cast

from kernel_delay import commands
from kernel_delay.commands import Command
from kernel_delay.commands.options import arguments, outputs
from kernel_delay.errors import (
    KernelDelayError,
    UnavailableError,
    UsageError,
    cannot_load,
    compiled_parts,
    file_of,
    naming,
    raise_memory,
    shortage,
)
from kernel_delay.formatting import encodable
from kernel_delay.host.signals import signals_end
from kernel_delay.register import COMMANDS, DEFAULT_COMMAND, OVERVIEW
from kernel_delay.reporters import print_message

VARIABLE_PREFIX = "KERNEL_DELAY_"

_ON = ("1", "yes", "true", "on")
_OFF = ("", "0", "no", "false", "off")

# They end a command: whoever sets them for a service has none.
_NEVER = ("--help", "--version")

PROGRAM = "kernel-delay"

# Levels of libbpf's log, as libbpf.start_log() takes them.
NO_LOG = -1
VERIFIER_LOG = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (sys.argv without its first) asks for.

    Returns the exit status: 0, a code of sysexits.h, or 128 + N for an end by
    signal N, as a shell would report it.
    """
    with signals_end():
        status = _main(sys.argv[1:] if argv is None else argv)
        # Behind an error stdout may hold what it has no room for either.
        if _stdout_fails():
            _discard_output()
        return status


def _main(argv: Sequence[str]) -> int:
    _write_stdout_whole()
    _let_every_character_print()
    args = argparse.Namespace(debug=NO_LOG)
    try:
        with compiled_parts():
            status = _run(argv, args)
        _flush()
        return status
    except KernelDelayError as error:
        # What one file could not be opened for is not that file's fault.
        if reason := shortage(error.__cause__ or error.__context__):
            return _fail(reason, os.EX_UNAVAILABLE, args)
        return _fail(str(error), error.exit_code, args)
    except BrokenPipeError:
        _discard_output()
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except ImportError as error:
        return _fail(cannot_load(error), os.EX_UNAVAILABLE, args)
    except MemoryError:
        return _fail(raise_memory(), os.EX_UNAVAILABLE, args)
    except OSError as error:
        if reason := shortage(error):
            return _fail(reason, os.EX_UNAVAILABLE, args)
        where = error.filename or ("standard output" if _stdout_fails() else file_of(error))
        _discard_output()
        line = f"{where or 'input or output'}: {error.strerror or error}"
        return _fail(line, getattr(error, "exit_code", os.EX_IOERR), args)
    except Exception as error:
        if reason := shortage(error):
            return _fail(reason, os.EX_UNAVAILABLE, args)
        line = f"internal error: {type(error).__name__}: {error}; --debug shows where"
        return _fail(line, os.EX_SOFTWARE, args)


def _run(argv: Sequence[str], args: argparse.Namespace) -> int:
    name, rest = _split_command(argv)
    command = commands.load(name or DEFAULT_COMMAND)
    if getattr(command, "RUNS_A_PROGRAM", False) and "--" in rest:
        place = rest.index("--")
        args.program, rest = list(rest[place + 1 :]), rest[:place]
    parser = _parser_of(name, command)
    if getattr(command, "READS_ENVIRONMENT", False):
        rest = [*environment_options(parser, rest, os.environ), *rest]
    parser.parse_args(rest, namespace=args)
    outputs.refuse_removed_folder(args)
    outputs.refuse_same_outputs(args)
    outputs.warn_of_others(args)
    _import_msgspec()
    return command.run(args)


def _import_msgspec() -> None:
    """Import it as where no other package has brought typing_extensions, which takes 9 ms.

    What msgspec takes from that, typing has from Python 3.11 on.
    """
    others = "typing_extensions"
    if others in sys.modules or "msgspec" in sys.modules:
        return
    sys.modules[others] = None  # type: ignore[assignment]
    try:
        # datetime does without it where it can't be loaded, and msgspec crashes then.
        import _datetime  # type: ignore[import-not-found]
        import datetime

        # An import of before may have failed, as memory was short.
        if datetime.datetime is not _datetime.datetime:
            raise ImportError("datetime was loaded without _datetime")
        import msgspec  # noqa: F401
    finally:
        del sys.modules[others]


def parser_of(name: str | None, command: Command) -> argparse.ArgumentParser:
    """What takes the arguments of the command called `name`; None: that where none is given."""
    parser = _parser_of(name, command)
    parser.add_late()
    return parser


def _parser_of(name: str | None, command: Command) -> "_Parser":
    """The same, which adds some options only when they are needed."""
    parser = _Parser(
        prog=PROGRAM if name is None else f"{PROGRAM} {name}",
        description=sentence(COMMANDS[name or DEFAULT_COMMAND]),
        overview=OVERVIEW if name is None else None,
        allow_abbrev=False,  # a new option must not change what an old line means
    )
    _add_early_arguments(parser, command)
    parser.late = getattr(command, "add_late_arguments", None)
    parser.usage = _usage(parser, command)
    return parser


def sentence(summary: str) -> str:
    """Return a command's summary as a sentence."""
    return f"{summary[0].upper()}{summary[1:]}."


def _usage(parser: "_Parser", command: Command) -> str:
    """Return the usage, with the options in one word: they are listed below it."""
    formatter = parser._get_formatter()
    values = [formatter._format_args(each, "") for each in parser._get_positional_actions()]
    program = ["[-- PROGRAM [ARGUMENTS]]"] if getattr(command, "RUNS_A_PROGRAM", False) else []
    command_word = ["[COMMAND]"] if parser.overview else []
    return " ".join((parser.prog, *command_word, "[options]", *values, *program))


def add_arguments(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add the command's own arguments, and those of all commands."""
    _add_early_arguments(parser, command)
    if late := getattr(command, "add_late_arguments", None):
        late(parser)


def _add_early_arguments(parser: argparse.ArgumentParser, command: Command) -> None:
    command.add_arguments(parser)
    parser.add_argument(
        "-D",
        "--debug",
        metavar="LEVEL",
        type=arguments.debug_level,
        nargs="?",
        const=VERIFIER_LOG,
        default=NO_LOG,
        help="print tracebacks and libbpf's log to stderr: 0 warnings, 1 information, 2 all with"
        " the verifier's log (default without LEVEL: 2)",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")


def environment_options(
    parser: argparse.ArgumentParser, given: Sequence[str], environment: Mapping[str, str]
) -> Iterator[str]:
    """Yield the options that the environment sets and the command line, `given`, does not.

    `--max-size` is KERNEL_DELAY_MAX_SIZE. An option without a value is set by 1, yes, true or on.
    Raises UsageError where it is set by anything else than these, or 0, no, false, off or nothing.
    """
    for action in parser._actions:
        long = next((each for each in action.option_strings if each.startswith("--")), None)
        if long is None or long in _NEVER or _is_given(action, given):
            continue
        name = variable(long)
        value = environment.get(name)
        if value is None:
            continue
        if action.nargs != 0:
            if value:
                yield f"{long}={value}"
        elif value.lower() in _ON:
            yield long
        elif value.lower() not in _OFF:
            raise UsageError(f"{name} must be 1 or 0, not {value!r}: {long} has no value")


def variable(option: str) -> str:
    """Return the variable that stands for a long option."""
    return VARIABLE_PREFIX + option.removeprefix("--").upper().replace("-", "_")


def _is_given(action: argparse.Action, given: Sequence[str]) -> bool:
    return any(
        word == option or word.startswith(f"{option}=" if option.startswith("--") else option)
        for option in action.option_strings
        for word in given
    )


def _split_command(argv: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The command's name, None where it is left out, and the arguments after it."""
    if not argv or argv[0].startswith("-"):
        return None, argv
    if argv[0] not in COMMANDS:
        meant = _process_meant(argv[0]) or _likely(argv[:1], COMMANDS)
        raise UsageError(
            f"there is no command {argv[0]!r}{meant}; there are: {', '.join(COMMANDS)}"
        )
    return argv[0], argv[1:]


def _process_meant(word: str) -> str:
    """The option for a process that was given without one, to be put behind it; else nothing."""
    if word.isdecimal():
        return f" (did you mean -p {word}?)"
    from kernel_delay.host.selection import Selection, find_all

    name = encodable(word)
    try:
        find_all(Selection(comm=name))
    except (KernelDelayError, OSError):
        return ""
    return f" (did you mean --comm {shlex.quote(name)}?)"


def _likely(given: Iterable[str], names: Collection[str]) -> str:
    """Which of `names` was probably meant by what was given and is none, to be put behind it."""
    from kernel_delay.errors import similar_names

    closest = [match for word in given for match in similar_names(word, names, count=1)]
    return f" (did you mean {', '.join(closest)}?)" if closest else ""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UsageErrors: one line, exit code EX_USAGE.

    `overview` is the help of a parser whose options are listed elsewhere. `late` adds further
    options, which take long to import.
    """

    def __init__(self, *, overview: str | None, **named: Any) -> None:
        # Each option is formatted once as it is added. To ask how wide the terminal is takes 3 ms.
        formatter = partial(argparse.HelpFormatter, width=sys.maxsize)
        super().__init__(formatter_class=formatter, **named)
        self.overview = overview
        self.late: Callable[[argparse.ArgumentParser], None] | None = None

    def add_late(self) -> None:
        """Add the late options, unless that was done."""
        late, self.late = self.late, None
        if late is not None:
            late(self)

    def format_help(self) -> str:
        self.add_late()
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return self.overview or super().format_help()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options = (word.partition("=")[0] for word in args if word[:1] == "-" != word)
        if any(option not in self._option_string_actions for option in options):
            self.add_late()
        namespace, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown, args)}")
        return namespace

    def _meant(self, unknown: Sequence[str], args: Sequence[str]) -> str:
        """What was probably meant by the unknown ones of `args`, to be put behind it."""
        options = self._option_string_actions
        given = [word.partition("=")[0] for word in unknown if word[:1] == "-" != word]
        if given:
            return _likely(given, options)
        first = unknown[0]
        before = args[args.index(first) - 1] if first in args[1:] else ""
        if self.overview and first in COMMANDS:
            return f" (a command comes before its options: {PROGRAM} {first} …)"
        if before in options and options[before].nargs == 0:
            return f" ({before} takes no value)"
        return _process_meant(first) if "--pid" in options else ""

    def error(self, message: str) -> NoReturn:
        listed = f"{self.prog} {DEFAULT_COMMAND}" if self.overview else self.prog
        raise UsageError(f"{message}; see {listed} --help")

    def print_help(self, file: Any = None) -> None:
        # argparse's own leaves write errors out.
        with naming("standard output"):
            print(self.format_help(), end="", file=file)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        _flush()
        super().exit(status, message)


class _Version(argparse.Action):
    """Prints the version, which a source tree that was not built has not."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        try:
            from kernel_delay.version import VERSION
        except ImportError:
            raise UnavailableError(f"{PROGRAM} is not installed: it has no version") from None
        print(f"{PROGRAM} {VERSION}")
        parser.exit()


def _fail(line: str, status: int, args: argparse.Namespace) -> int:
    if args.debug != NO_LOG:
        import traceback

        traceback.print_exc()
    with suppress(BrokenPipeError):
        print_message(line)
    return status


def _write_stdout_whole() -> None:
    """Put a buffer behind stdout where PYTHONUNBUFFERED=1 has none.

    Python drops what a write(2) that a signal interrupts, or a full disk cuts,
    leaves over; its buffers don't.
    """
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper) or not isinstance(stdout.buffer, io.RawIOBase):
        return
    encoding, is_terminal = stdout.encoding, stdout.isatty()
    buffered = io.BufferedWriter(cast(io.RawIOBase, stdout.detach()))
    sys.stdout = io.TextIOWrapper(buffered, encoding, line_buffering=is_terminal)


def _let_every_character_print() -> None:
    """Escape what stdout's encoding lacks; a name must not end the report."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _flush() -> None:
    """Meet a write error here, where it can be reported, not at the interpreter's exit."""
    if sys.stdout is not None:  # None if the descriptor was closed from the start
        with naming("standard output"):
            sys.stdout.flush()


def _stdout_fails() -> bool:
    """Whether what stdout still holds can't be written, as what was before it could not be."""
    try:
        _flush()
    except OSError:
        return True
    return False


def _discard_output() -> None:
    """Send what stdout still holds nowhere, or the interpreter's exit fails on it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
