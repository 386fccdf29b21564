"""What an assistant asked and was answered: the score looks for figures there."""

import re
from pathlib import Path

import msgspec

from tests.assistants.answers import Exchange

_RECORDING = re.compile(r"[\w.-]+\.(?:kdr|jsonl)\b")


def append(path: Path, asked: str, answer: str) -> None:
    """Add what was asked, and the answer, to a transcript."""
    recordings = tuple(dict.fromkeys(_RECORDING.findall(asked)))
    with path.open("ab") as file:
        file.write(msgspec.json.encode(Exchange(recordings, asked, answer)) + b"\n")


def default_path(folder: Path, arm: str) -> Path:
    """Where the transcript is if nothing else is given: beside the folder of the recordings."""
    return folder.resolve().parent / f"transcript-{arm}.jsonl"
