"""results.json, read and written."""

from pathlib import Path

import msgspec

from bench.figures import Results

FILE = Path(__file__).parent / "results.json"


def read_results(file: Path = FILE) -> Results | None:
    """Return what was measured before; None if nothing was."""
    if not file.exists():
        return None
    return msgspec.json.decode(file.read_bytes(), type=Results)


def write_results(results: Results, file: Path = FILE) -> None:
    """Write them, for people too."""
    encoded = msgspec.json.format(msgspec.json.encode(results), indent=1)
    file.write_bytes(encoded + b"\n")
