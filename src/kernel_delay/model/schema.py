"""The JSON Schema of a Sample; `python -m kernel_delay.model.schema` prints it.

It prints docs/reference/sample.schema.json.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.inspect import StructType, Type, type_info

from kernel_delay.model import Sample

_FIELD = re.compile(r"    (\w+): (.*)")


def sample_schema() -> str:
    """The JSON Schema (2020-12) of one line of --json, as indented JSON."""
    return schema_of(Sample, "kernel-delay sample")


def schema_of(
    kind: Any, title: str, values: Mapping[tuple[Any, str], Sequence[str]] = MappingProxyType({})
) -> str:
    """Return the same of any type, or union of types.

    The descriptions are those of the docstrings, with None as null. `values` are all that a
    struct's field can have, where its type does not say so.
    """
    (reference,), definitions = msgspec.json.schema_components([kind])
    for struct in _structs(type_info(kind)):
        for (of, field), known in values.items():
            if of is struct:
                definitions[struct.__name__]["properties"][field] = {"enum": list(known)}
        _describe(definitions[struct.__name__], struct)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **reference,
        "$defs": definitions,
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def field_docs(struct: type) -> Mapping[str, str]:
    """Return what the `Attributes:` of a struct's docstring say, by the name of the field."""
    described: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")
        name = ""
        for line in attributes.splitlines():
            if found := _FIELD.fullmatch(line):
                name, described[found[1]] = found[1], found[2]
            else:
                described[name] += f" {line.strip()}"
    return described


def _describe(definition: dict[str, Any], struct: type) -> None:
    summary, _, _ = inspect.cleandoc(struct.__doc__ or "").partition("\n\nAttributes:\n")
    definition["description"] = _in_json(" ".join(summary.split()))
    described = field_docs(struct)
    for name, value in definition.get("properties", {}).items():
        is_tag = len(value.get("enum", ())) == 1 and name not in described
        value["description"] = "The kind of this object." if is_tag else _in_json(described[name])
    # A struct that is an array in JSON.
    for name, value in zip(described, definition.get("prefixItems", ()), strict=False):
        value |= {"title": name, "description": _in_json(described[name])}


def _in_json(text: str) -> str:
    return re.sub(r"\bNone\b", "null", text)


def _structs(*types: Type) -> Iterator[type]:
    """Return each struct that is in any of the types, once."""
    waiting, seen = list(types), set[type]()
    while waiting:
        found = waiting.pop()
        if isinstance(found, StructType):
            if found.cls in seen:
                continue
            seen.add(found.cls)
            yield found.cls
            waiting += [field.type for field in found.fields]
        for name in ("type", "item_type", "key_type", "value_type"):
            inner = getattr(found, name, None)
            waiting += [inner] if isinstance(inner, Type) else []
        for name in ("types", "item_types"):
            waiting += getattr(found, name, ())


if __name__ == "__main__":
    print(sample_schema(), end="")
