"""Options that several monitors have: which flows are meant, and where packets go.

And those of Open vSwitch's scripts that are accepted, and do nothing here, or are others here.
docs/reference/upstream.md lists them all. They are not in --help, which lists what there is to
choose.
"""

import argparse
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernel_delay.commands.options.outputs import own_file
from kernel_delay.errors import OutputError, UsageError
from kernel_delay.reporters import print_message

UFID_ZERO = "00000000-0000-0000-0000-000000000000"


def add_filter(parser: argparse._ActionsContainer) -> Sequence[argparse.Action]:
    """Add the options that say which flows are meant."""
    return [
        parser.add_argument(
            "-l",
            "--filter-flows",
            metavar="FLOW",
            help="only show flows that such packets can hit, written as in ovs-dpctl, with"
            " masks: 'in_port(2),ipv4(src=10.0.0.0/8)'",
        ),
        parser.add_argument(
            "--ufid",
            type=_ufid,
            metavar="UFID",
            help="only show flows whose UFID begins with this",
        ),
    ]


def _ufid(text: str) -> str:
    """How UFIDs begin that are asked for, as events have them."""
    ufid = text.lower().removeprefix("ufid:")
    begins = "".join("0" if sign in string.hexdigits else sign for sign in ufid)
    if not ufid or not UFID_ZERO.startswith(begins):
        raise argparse.ArgumentTypeError(f"must be a UFID or its beginning, not {text!r}")
    return ufid


def add_packets(
    parser: argparse._ActionsContainer, packets: str = "packets"
) -> Sequence[argparse.Action]:
    """Add the options that show packets in the text, and write them to a file."""
    return (
        parser.add_argument(
            "-d",
            "--packet-decode",
            choices=("none", "hex", "decode"),
            default="none",
            help="show packets: as bytes (hex), or by layers with scapy (decode) (default:"
            " %(default)s)",
        ),
        parser.add_argument(
            "-w",
            "--pcap",
            type=own_file,
            metavar="FILE",
            help=f"also write the {packets} to FILE (pcapng), which must not exist yet",
        ),
        parser.add_argument(
            "--overwrite", action="store_true", help="replace FILE of --pcap if it exists"
        ),
    )


def check_pcap(args: argparse.Namespace) -> None:
    """Raise OutputError where a file of packets would be lost, as Open vSwitch's scripts do.

    An empty file and what is no regular file, as a FIFO, holds nothing to lose.
    """
    file: Path | None = args.pcap
    if args.overwrite and file is None:
        raise UsageError("--overwrite replaces a file of packets: add --pcap")
    if file is None or args.overwrite:
        return
    if file.is_file() and file.stat().st_size:
        raise OutputError(f"{file} exists already: name another file, or give --overwrite")


PAHOLE = "neither pahole nor debug information is needed"


def add_needless(
    parser: argparse.ArgumentParser, why: str, *names: str, metavar: str | None = None
) -> None:
    """Add an option that has no effect, as its line says; with an argument if it has a metavar."""

    def say(option: str | None, values: object) -> None:
        print_message(f"{option} has no effect here: {why}")

    _add_hidden(parser, names, say, metavar)


def add_other(parser: argparse.ArgumentParser, instead: str, *names: str) -> None:
    """Add an option with a file that is an error, which says what to use instead."""

    def fail(option: str | None, values: object) -> None:
        file = str(values)
        parser.error(f"{option}: {instead.format(file=file, stem=file.removesuffix('.png'))}")

    _add_hidden(parser, names, fail, "FILE")


_Say = Callable[[str | None, object], None]
"""Says something of an option and its argument."""


def _add_hidden(
    parser: argparse.ArgumentParser, names: Sequence[str], say: _Say, metavar: str | None
) -> None:
    parser.add_argument(
        *names,
        action=_Says,
        nargs=0 if metavar is None else None,
        metavar=metavar,
        say=say,
        dest=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


class _Says(argparse.Action):
    """Sets nothing."""

    def __init__(self, *args: Any, say: _Say, **named: Any) -> None:
        super().__init__(*args, **named)
        self._say = say

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        self._say(option_string, values)
