"""`kernel-delay mcp`: recordings for assistants, by the Model Context Protocol."""

import argparse
import os

from kernel_delay.commands.options import arguments
from kernel_delay.errors import UnavailableError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What may be read."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=arguments.folder,
        metavar="DIR",
        help="a folder with recordings or exports: nothing outside of these is read",
    )


def run(args: argparse.Namespace) -> int:
    """Answer a client on standard input and output until it closes them."""
    try:
        from kernel_delay.mcp import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UnavailableError(
            "mcp needs Python's package mcp: pip install 'kernel-delay[mcp]'"
        ) from None
    serve(args.folders)
    return os.EX_OK
