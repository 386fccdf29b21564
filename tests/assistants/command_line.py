"""python -m tests.assistants.command_line FOLDER ARGUMENT …: `kernel-delay report` and `--help`.

For an assistant without the server and the skill. The command runs in FOLDER. What it prints is
printed, and is appended to a transcript.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.assistants import transcripts
from tests.commands import KERNEL_DELAY


def main(words: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="tests.assistants.command_line", description=__doc__)
    parser.add_argument("--transcript", type=Path, metavar="FILE")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    args = parser.parse_args(words)
    if args.arguments[:1] not in (["report"], ["--help"]):
        parser.error("only `report` and `--help` may be run")
    done = subprocess.run(
        [*KERNEL_DELAY, *args.arguments], cwd=args.folder, capture_output=True, text=True
    )
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    path = args.transcript or transcripts.default_path(args.folder, "command-line")
    transcripts.append(path, " ".join(args.arguments), done.stdout + done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
