"""The option to read what Open vSwitch and OVN count themselves."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="ask a process of Open vSwitch or OVN which of its coverage counters moved"
        " (coverage/show), and which stopwatches had samples (stopwatch/show)",
    )
