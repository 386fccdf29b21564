"""Options of Open vSwitch's scripts that are accepted, and do nothing here, or are others here.

docs/reference/upstream.md lists them all. They are not in --help, which lists what there is to
choose.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from kernel_delay.reporters import print_message

PAHOLE = "neither pahole nor debug information is needed"


def add_needless(
    parser: argparse.ArgumentParser, why: str, *names: str, metavar: str | None = None
) -> None:
    """Add an option that has no effect, as its line says; with an argument if it has a metavar."""
    parser.add_argument(
        *names,
        action=_Needless,
        nargs=0 if metavar is None else None,
        metavar=metavar,
        why=why,
        dest=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def add_other(parser: argparse.ArgumentParser, instead: str, *names: str) -> None:
    """Add an option with a file that is an error, which says what to use instead."""
    parser.add_argument(
        *names,
        action=_Other,
        metavar="FILE",
        instead=instead,
        dest=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


class _Needless(argparse.Action):
    """Says on stderr that it has no effect."""

    def __init__(self, *args: Any, why: str, **named: Any) -> None:
        super().__init__(*args, **named)
        self._why = why

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        print_message(f"{option_string} has no effect here: {self._why}")


class _Other(argparse.Action):
    """Says in an error what is there in its place."""

    def __init__(self, *args: Any, instead: str, **named: Any) -> None:
        super().__init__(*args, **named)
        self._instead = instead

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        file = str(values)
        stem = file.removesuffix(".png")
        parser.error(f"{option_string}: {self._instead.format(file=file, stem=stem)}")
