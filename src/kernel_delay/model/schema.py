"""The JSON Schema of a Sample; `python -m kernel_delay.model.schema` prints it.

What it prints is docs/sample.schema.json.
"""

import inspect
from typing import Any

import msgspec

from kernel_delay.model import Sample


def sample_schema() -> str:
    """The JSON Schema (2020-12) of one line of --json, as indented JSON."""
    return schema_of(Sample, "kernel-delay sample")


def schema_of(kind: Any, title: str) -> str:
    """The same of any type, or union of types."""
    (reference,), definitions = msgspec.json.schema_components([kind])
    for definition in definitions.values():
        _unindent_description(definition)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **reference,
        "$defs": definitions,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _unindent_description(definition: dict[str, Any]) -> None:
    # Python strips the indentation of docstrings itself only from 3.13 on.
    definition["description"] = inspect.cleandoc(definition["description"])


if __name__ == "__main__":
    print(sample_schema(), end="")
