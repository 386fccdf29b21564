"""--redact: each field of text is known, and nothing of what is redacted is left."""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel_delay.analysis.verdict import judge
from kernel_delay.cli import main
from kernel_delay.recording.records import recording_schema, union_of_records
from kernel_delay.recording.redaction import (
    HIDDEN,
    KEPT,
    MADE_WHEN_LOOKED_AT,
    NETLINK_HEADERS_BYTES,
    REDACTED,
    Redaction,
    redacted,
)
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import HEADER, record_samples
from tests.unit.verdict_samples import samples_of

SECRET = "ab5ec7e7"
NULL = {"type": "null"}

DEFINITIONS: Mapping[str, Any] = msgspec.json.decode(recording_schema())["$defs"]


def fields_of(name: str) -> Iterator[tuple[str, Any]]:
    definition = DEFINITIONS[name]
    in_order = [(item["title"], item) for item in definition.get("prefixItems", ())]
    for field, value in in_order or definition.get("properties", {}).items():
        yield f"{name}.{field}", value


FIELDS = {field: value for name in DEFINITIONS for field, value in fields_of(name)}


def holds_text(value: Any) -> bool:
    """Whether the field's own value may be any text or bytes, or a list of such."""
    if isinstance(value, list):
        return any(map(holds_text, value))
    if not isinstance(value, dict) or "enum" in value or "const" in value:
        return False
    if value.get("type") == "string":
        return value.get("format") != "date-time"
    return any(holds_text(value.get(key)) for key in ("anyOf", "items", "prefixItems"))


def test_each_field_of_text_is_redacted_or_kept() -> None:
    texts = {field for field, value in FIELDS.items() if holds_text(value)}
    assert len(texts) > 70
    # A verdict has text in it, which is made anew.
    of_verdict = {field for field in texts if field.startswith("Finding.")}
    assert texts - of_verdict - REDACTED.keys() == KEPT


def test_each_address_is_redacted() -> None:
    addresses = {field for field in FIELDS if field.rpartition(".")[2].startswith("address")}
    assert addresses
    assert addresses <= REDACTED.keys()


def test_no_redacted_field_is_kept_or_unknown() -> None:
    assert not KEPT & REDACTED.keys()
    assert REDACTED.keys() <= FIELDS.keys()


@pytest.mark.parametrize("field", sorted(MADE_WHEN_LOOKED_AT))
def test_derived_values_have_nothing_to_redact(field: str) -> None:
    (kind,) = (value for value in _references(FIELDS[field]))
    assert not {field for field, _ in fields_of(kind)} & REDACTED.keys()


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    elif isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for key in ("anyOf", "items"):
            yield from _references(value.get(key))


class Filled:
    """JSON of any record, with SECRET in each field that is redacted; `fields` are those."""

    def __init__(self) -> None:
        self.fields: set[str] = set()

    def struct(self, name: str) -> Any:
        definition = DEFINITIONS[name]
        values = {field: self.field(field, value) for field, value in fields_of(name)}
        if "prefixItems" in definition:
            return list(values.values())
        return {field.rpartition(".")[2]: value for field, value in values.items()}

    def field(self, field: str, value: Any) -> Any:
        if REDACTED.get(field) is Redaction.JUDGED:
            self.fields.add(field)
            return []
        text = "kept"
        if field in REDACTED:
            self.fields.add(field)
            # Looks like an address and like a path.
            text = f"0x{SECRET}/last"
        return self.value(value, text)

    def value(self, value: Any, text: str) -> Any:
        if "anyOf" in value:
            return self.value(next(each for each in value["anyOf"] if each != NULL), text)
        if "$ref" in value:
            return self.struct(value["$ref"].rpartition("/")[2])
        if "enum" in value:
            return value["enum"][0]
        match value.get("type"):
            case "string" if value.get("format") == "date-time":
                return "2026-11-24T10:00:00Z"
            case "string" if "contentEncoding" in value:
                return b64encode(bytes(NETLINK_HEADERS_BYTES) + text.encode()).decode()
            case "string":
                return text
            case "integer" if text != "kept":
                return int(SECRET, 16) << 12 | 1
            case "integer" | "number":
                return 1
            case "boolean":
                return False
            case "array" if "prefixItems" in value:
                return [self.value(each, text) for each in value["prefixItems"]]
            case "array":
                # One of each kind.
                kinds = value["items"].get("anyOf", [value["items"]])
                return [self.value(kind, text) for kind in kinds]
            case "object":
                return {}
        raise AssertionError(value)


RECORDS = [
    each["$ref"].rpartition("/")[2] for each in msgspec.json.decode(recording_schema())["anyOf"]
]


def filled(kind: str) -> tuple[Any, set[str]]:
    filling = Filled()
    return msgspec.convert(filling.struct(kind), union_of_records()), filling.fields


def bytes_of(record: object) -> bytes:
    """Its text and bytes as they are, and its numbers in hexadecimal."""
    return msgspec.msgpack.encode(record) + repr(record).encode()


@pytest.mark.parametrize("kind", RECORDS)
def test_nothing_is_left_of_a_redacted_field(kind: str) -> None:
    record, fields = filled(kind)
    left = bytes_of(redacted(record))
    assert not fields or bytes_of(record) != left
    assert SECRET.encode() not in left
    assert str(int(SECRET, 16) << 12 | 1).encode() not in left


def test_each_redacted_field_was_filled() -> None:
    filled_fields = set().union(*(filled(kind)[1] for kind in RECORDS))
    assert filled_fields == REDACTED.keys()


def test_the_verdict_is_of_what_is_left() -> None:
    """A cgroup's path is in the sentences of a quota."""
    for sample in samples_of("throttled"):
        judged = judge(sample)
        left = redacted(judged)
        assert left == judge(left)
        assert [finding.rule for finding in left.verdict] == [
            finding.rule for finding in judged.verdict
        ]


def test_a_report_and_a_recording_have_the_same_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sample, *_) = samples_of("throttled")
    whole, left = record_samples(tmp_path / "whole.kdr", judge(sample)), tmp_path / "left.kdr"
    with RecordingWriter(left, HEADER, redact=True) as writer:
        writer.sample(judge(sample))
        writer.finish("done")

    assert main(["report", "--header", "--redact", str(whole)]) == 0
    assert main(["report", "--redact", str(whole)]) == 0
    redacted_when_read = capsys.readouterr().out
    assert main(["report", "--header", str(left)]) == 0
    assert main(["report", str(left)]) == 0
    assert capsys.readouterr().out == redacted_when_read
    assert HIDDEN in redacted_when_read
    assert HEADER.host not in redacted_when_read


@pytest.mark.parametrize("option", ["--html", "--json", "--flamegraph", "--folded"])
def test_no_file_beside_a_redacted_recording_is_whole(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "other.svg" if option == "--flamegraph" else "other"
    other = tmp_path / name
    outputs = ["-s", "-o", str(tmp_path / "a.kdr"), option, str(other)]
    assert main(["capture", "-p", str(os.getpid()), "--redact", *outputs]) == os.EX_USAGE
    said = capsys.readouterr().err
    assert "--redact is for the recording (-o) alone: leave" in said
    assert not other.exists()


def test_a_page_without_a_recording_is_refused_in_one_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = str(tmp_path / "page.html")
    assert main(["capture", "-p", str(os.getpid()), "--redact", "--html", page]) == os.EX_USAGE
    assert (
        f"(-o) alone: leave {page} out, and have `kernel-delay report`" in capsys.readouterr().err
    )


def test_redact_alone_has_nothing_to_redact(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--redact", "--pid", "1"]) == 64
    assert "add -o" in capsys.readouterr().err
