"""The JSON Schema of a Sample; `python -m kernel_delay.model.schema` prints it.

What it prints is docs/sample.schema.json.
"""

import inspect
from typing import Any

import msgspec

from kernel_delay.model import Sample


def sample_schema() -> str:
    """The JSON Schema (2020-12) of one line of a recording, as indented JSON."""
    (reference,), definitions = msgspec.json.schema_components([Sample])
    for definition in definitions.values():
        _unindent_description(definition)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kernel-delay sample",
        **reference,
        "$defs": definitions,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _unindent_description(definition: dict[str, Any]) -> None:
    # Python strips the indentation of docstrings itself only from 3.13 on.
    definition["description"] = inspect.cleandoc(definition["description"])


if __name__ == "__main__":
    print(sample_schema(), end="")
