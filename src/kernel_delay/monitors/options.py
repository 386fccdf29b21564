"""Options that several monitors have: which flows are meant, and where packets go."""

import argparse
import string
from collections.abc import Sequence
from pathlib import Path

from kernel_delay.commands.options.outputs import own_file
from kernel_delay.errors import OutputError, UsageError

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
    decode = _add_packet_decode(parser)
    return [decode, *_add_pcap(parser, packets)]


def _add_pcap(
    parser: argparse._ActionsContainer, packets: str = "packets"
) -> Sequence[argparse.Action]:
    """Add the options for a file of packets."""
    return (
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


def _add_packet_decode(parser: argparse._ActionsContainer) -> argparse.Action:
    """Add the option that shows packets in the text."""
    return parser.add_argument(
        "-d",
        "--packet-decode",
        choices=("none", "hex", "decode"),
        default="none",
        help="show packets: as bytes (hex), or by layers with scapy (decode) (default:"
        " %(default)s)",
    )
