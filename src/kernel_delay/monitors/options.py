"""Options that several monitors have: which flows are meant, and how packets are shown."""

import argparse
import string
from collections.abc import Sequence

from kernel_delay.commands.options import outputs as output_options

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


def add_packets(
    parser: argparse._ActionsContainer, packets: str = "packets"
) -> Sequence[argparse.Action]:
    """Add the options that show packets in the text, and write them to a file."""
    decode = output_options.add_packet_decode(parser)
    return [decode, *output_options.add_pcap(parser, packets)]


def _ufid(text: str) -> str:
    """How UFIDs begin that are asked for, as events have them."""
    ufid = text.lower().removeprefix("ufid:")
    begins = "".join("0" if sign in string.hexdigits else sign for sign in ufid)
    if not ufid or not UFID_ZERO.startswith(begins):
        raise argparse.ArgumentTypeError(f"must be a UFID or its beginning, not {text!r}")
    return ufid
