"""Fuzz one parser with Atheris: python_target.py PARSER [libFuzzer's arguments]."""

import sys

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["kernel_delay", "msgspec"]):
    from tests.fuzz.parsers import PARSERS


def main() -> None:
    """Run libFuzzer, which ends the process."""
    parser = PARSERS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, parser)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
