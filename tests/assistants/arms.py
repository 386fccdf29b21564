"""python -m tests.assistants.arms FOLDER: beside the recordings, a folder for each arm of the quiz.

FOLDER/../with and FOLDER/../without have the question, `ask` to read the recordings, and with the
server the skill. An assistant works in one of these folders and writes answers.json there. `ask`
appends to transcript.jsonl.
"""

import argparse
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUESTION = ROOT / "tests/assistants/question.md"
SKILL = ROOT / "deploy/skill/kernel-delay/SKILL.md"

ARMS = {
    "with": ("client", "## With the server and the skill"),
    "without": ("command_line", "## Without"),
}
"""The module that an arm reads the recordings with, and its section of the question."""


def question(heading: str) -> str:
    """Return the question of an arm: what both have, and its own section."""
    both, *sections = QUESTION.read_text().split("\n## ")
    (own,) = (section for section in sections if f"## {section}".startswith(f"{heading}\n"))
    return "\n".join((both, "## How to read them", own.partition("\n")[2]))


def prepare(recordings: Path) -> list[Path]:
    """Make the folders of all arms."""
    made = []
    for arm, (module, heading) in ARMS.items():
        folder = recordings.parent / arm
        folder.mkdir(exist_ok=True)
        (folder / "question.md").write_text(question(heading))
        if arm == "with":
            (folder / "SKILL.md").write_text(SKILL.read_text())
        words = (
            *(sys.executable, "-m", f"tests.assistants.{module}"),
            *("--transcript", str(folder / "transcript.jsonl"), str(recordings)),
        )
        ask = folder / "ask"
        ask.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec {shlex.join(words)} "$@"\n')
        ask.chmod(0o755)
        made.append(folder)
    return made


def main() -> int:
    """Make the folders and print them."""
    parser = argparse.ArgumentParser(prog="tests.assistants.arms", description=__doc__)
    parser.add_argument("recordings", type=Path, metavar="FOLDER")
    for folder in prepare(parser.parse_args().recordings.resolve()):
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
