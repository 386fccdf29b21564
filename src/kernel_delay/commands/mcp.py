"""`kernel-delay mcp`: recordings for assistants, by the Model Context Protocol."""

import argparse
import os

from kernel_delay.commands.options import arguments
from kernel_delay.errors import not_installed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What may be read."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=arguments.path,
        metavar="DIR",
        help="a folder with recordings or exports: nothing outside of these is read",
    )


def run(args: argparse.Namespace) -> int:
    """Answer a client on standard input and output until it closes them."""
    try:
        from kernel_delay.commands.mcp_server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise not_installed("mcp", "mcp") from None
    import warnings

    # What the server had not begun when an error ended it is no second error.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    try:
        serve(args.folders)
    except BaseExceptionGroup as group:
        first = _first_of(group)
        if isinstance(first, OSError) and first.filename is None:
            # What a tool reads is its answer's affair: this is the client's end.
            first.filename = "standard input or output"
        raise first from group
    return os.EX_OK


def _first_of(error: BaseException) -> BaseException:
    """What went wrong first: the server's tasks put it in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
