"""Options of a command from the environment, where a service expects them."""

import argparse
from collections.abc import Iterator, Mapping, Sequence

from kernel_delay.errors import UsageError

PREFIX = "KERNEL_DELAY_"

_ON = ("1", "yes", "true", "on")
_OFF = ("", "0", "no", "false", "off")

# They end a command: whoever sets them for a service has none.
_NEVER = ("--help", "--version")


def options(
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
    return PREFIX + option.removeprefix("--").upper().replace("-", "_")


def _is_given(action: argparse.Action, given: Sequence[str]) -> bool:
    return any(
        word == option or word.startswith(f"{option}=" if option.startswith("--") else option)
        for option in action.option_strings
        for word in given
    )
