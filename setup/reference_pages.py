"""Writes the reference pages of the documentation that are made from the code.

    python -m setup.reference_pages [FOLDER]

FOLDER is docs, if none is given. tests/unit/test_docs.py fails if a page is not current.
"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from kernel_delay import commands, errors
from kernel_delay.cli import PROGRAM, parser_of
from kernel_delay.fleet.database import QUERIES, text_of
from kernel_delay.host import privileges
from kernel_delay.model.schema import sample_schema
from kernel_delay.recording.records import recording_schema
from kernel_delay.recording.redaction import KEPT, REDACTED
from kernel_delay.register import COMMANDS, DEFAULT_COMMAND
from setup import metrics_page, verdict_page

OPTION = re.compile(r"(?<![\w/-])(--?[a-z][\w-]*|'[^']+')(?!\w)")

DOCS = Path(__file__).parents[1] / "docs"

# Codes that no KernelDelayError has.
OTHER_CODES = {
    0: "The report was printed. This includes Ctrl-C and the exit of the process.",
    1: "`compare --fail-if`: a condition is met.",
    70: "A fault of kernel-delay itself. `--debug` prints where.",
    126: "A PROGRAM cannot be executed.",
    127: "A PROGRAM does not exist.",
    129: "SIGHUP outside of a window, or a second SIGHUP.",
    130: "Ctrl-C outside of a window, or a second Ctrl-C.",
    141: "The reader of a pipe went away.",
    143: "SIGTERM outside of a window, or a second SIGTERM.",
}

EXIT_CODES = """\
# Exit codes

An error is one line on stderr. It says what is wrong and what to do. The codes are those of
`sysexits.h`. A PROGRAM that `kernel-delay -- PROGRAM` ran returns its own code instead.

| code | name | when |
|---:|---|---|
"""

FIELDS = """\
# {title}

{text}

An array that can be empty is empty where nothing was found. [The schema]({schema}) is for
programs. This page has the same descriptions.
"""

JSON_TEXT = """\
`kernel-delay --json` prints one object per line, one for each sample. The text is ASCII; other
characters are `\\u` escapes. All times are integers in nanoseconds. `…_ns` fields that are
moments are of CLOCK_MONOTONIC. The JSON gains fields in later versions. A field that changes its
meaning or goes away changes `schema`.

The worst wait for a CPU of each thread:

    sudo kernel-delay --json | jq -r '.threads[] | select(.ready) | [.name, .ready.max_ns]'

The worst finding of each sample. The list has the worst first, and remarks stand in it too:

    sudo kernel-delay --json | jq -r '[.verdict[] | select(.remark | not)][0].text // "none"'

In a script add `set -o pipefail` of bash: else the exit code is that of `jq`.
"""

RECORDING_TEXT = """\
A recording is a file of records, one JSON object per line. Each record is a zstd frame with a
checksum, so `zstd -dc FILE` prints the lines. The first record is the header. Samples or events
follow, and the trailer is last. A recording without a trailer was cut. The format gains fields;
older versions of kernel-delay ignore them. A Sample is described in [JSON fields](json.md)."""

QUERIES_TEXT = """\
# Queries of the fleet

`kernel-delay fleet` runs these queries in this order. Each query reads [the
tables](fleet-tables.md), and the queries before it by their names. DuckDB and Spark run the same
text: times are integers, and every ranking has a fixed order. The files are in
`src/kernel_delay/fleet/`.
"""


PRIVILEGES_HEAD = """\
# Privileges while measuring

Attaching takes [root or some capabilities](requirements.md#rights). Then every command that
measures gives up the rest, and keeps what its options use. `/proc/PID/status` shows that:
`CapEff`, `NoNewPrivs` and `Seccomp`.

| use | when | capabilities kept | calls kept |
|---|---|---|---|
"""

PRIVILEGES_TAIL = """
- Above 2, a level that Debian's and Ubuntu's kernels add, `kernel.perf_event_paranoid` makes perf
  events take `CAP_SYS_ADMIN`. Then what keeps `CAP_PERFMON` keeps that too.
- Threads that drain buffers, serve metrics or send them have no capability at all.
- A program that it starts gets no more rights than it has (`no_new_privs`). The PROGRAM of
  `kernel-delay -- PROGRAM` is started before that, and has all rights of the caller.
- C++ and Rust names are demangled in a process without capabilities. It can only read and write
  what is open.
- Functions are named, and stacks are unwound, in a process of the user nobody (65534). It has no
  capabilities, reads only the files that it is passed, and opens nothing. Without `CAP_SETUID`, it
  keeps the user of the tool. An answer takes 10 CPU seconds at most, and 1 GiB beside the files. If
  the process crashes or is late, names are missing, and one line says why. Figures stay the same.
- With `--follow` the rights to attach again stay.
- The [Python API](api.md) gives nothing up: the process is not its own.

## Denied calls

These calls fail with `EPERM` in all threads, unless the table keeps them:

{denied}

`bpf` may read and write maps, link programs that are loaded, and iterate. It loads no program.

The calls are a list of those that are denied. A list of the allowed ones would fail with the next
version of glibc, Python or OpenSSL, in the middle of a measurement.

## Limits

The process stays root. It can still write files that belong to root, and `CAP_SYS_PTRACE` reaches
the memory of other processes. Where you can, run it as [a service](../how-to/watch.md): systemd
makes the file system read-only.
"""


REDACTION_HEAD = """\
# What --redact removes and keeps

    sudo kernel-delay -p PID -o send.kdr --redact
    kernel-delay report --redact before.kdr
    kernel-delay report --redact before.kdr -o send.kdr
    kernel-delay export --redact before.kdr --parquet DIR

With `-o` the recording is redacted, and not what the command prints. Other files, as pages, are
refused beside it. With `report` all outputs are redacted; its `-o` writes the recording again. The
sums, times and counts stay, and so does the verdict: it is made anew of what is left.

| field | what it is | what is left |
|---|---|---|
"""

REDACTION_TAIL = """
Names of threads, functions, calls and datapaths stay, as a report is about them. A program can put
secrets into them. Read `kernel-delay report` of a recording before you send it.

`upcall-cost` joins events by their packets. With a redacted recording it may join fewer upcalls, or
join two whose packets have the same length.

## Fields that stay

These hold text and are not redacted:

{kept}
"""


def pages() -> Mapping[str, Callable[[], str]]:
    """What writes each page, by its path below docs/."""
    of_commands = {
        f"reference/commands/{name}.md": partial(command_page, name) for name in COMMANDS
    }
    return {
        "reference/commands/index.md": overview_page,
        **of_commands,
        "reference/exit-codes.md": exit_codes_page,
        "reference/verdict.md": verdict_page.page,
        "reference/metrics.md": metrics_page.page,
        "reference/privileges.md": privileges_page,
        "reference/redaction.md": redaction_page,
        "reference/fleet-queries.md": queries_page,
        "reference/sample.schema.json": sample_schema,
        "reference/recording.schema.json": recording_schema,
        "reference/json.md": json_page,
        "reference/recording.md": recording_page,
    }


def overview_page() -> str:
    """All commands, a line each."""
    head = (
        "# Commands\n\nEach page lists the options of one command, as `--help` and `man` show them."
        f" Without a command, `{PROGRAM}` runs `{DEFAULT_COMMAND}`.\n\n"
        "| command | what it does |\n|---|---|\n"
    )
    return head + "".join(f"| [{name}]({name}.md) | {text} |\n" for name, text in COMMANDS.items())


def command_page(name: str) -> str:
    """The options of one command."""
    parser = parser_of(name, commands.load(name))
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    lines = [f"# {PROGRAM} {name}\n", f"{parser.description}\n", f"    {usage}"]
    for group in parser._action_groups:
        lines += _options(parser, group)
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup) -> Iterator[str]:
    """One group of options as a table."""
    formatter = parser._get_formatter()
    shown = [each for each in group._group_actions if each.help is not argparse.SUPPRESS]
    if not shown:
        return
    yield f"\n## {(group.title or 'options').capitalize()}\n"
    if group.description:
        # As it stands, where that is several lines.
        indent = "    " if "\n" in group.description else ""
        yield "".join(f"{indent}{line}\n" for line in group.description.splitlines())
    yield "| option | meaning |\n|---|---|"
    for action in shown:
        names = formatter._format_action_invocation(action)
        meaning = formatter._expand_help(action) if action.help else ""
        yield f"| `{_cell(names)}` | {_cell(_code(meaning))} |"


def _code(text: str) -> str:
    """Option names as code, but for those that are code already."""
    parts = text.split("`")
    parts[::2] = [OPTION.sub(r"`\1`", part) for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def exit_codes_page() -> str:
    """The codes, and when each is returned."""
    reasons: dict[int, list[str]] = {code: [text] for code, text in OTHER_CODES.items()}
    for kind in _below(errors.KernelDelayError):
        if "exit_code" in vars(kind):
            # The paragraph behind the summary, or else that.
            summary, _, rest = " ".join((kind.__doc__ or "").split()).partition(". ")
            reasons.setdefault(kind.exit_code, []).append(rest or summary)
    names = {getattr(os, name): name for name in dir(os) if name.startswith("EX_")}
    rows = (
        f"| {code} | {f'`{names[code]}`' if code in names else ''} | {' '.join(texts)} |\n"
        for code, texts in sorted(reasons.items())
    )
    return EXIT_CODES + "".join(rows)


def _below(kind: type[errors.KernelDelayError]) -> Iterator[type[errors.KernelDelayError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def privileges_page() -> str:
    """What each use keeps of capabilities and calls."""
    rows = (
        f"| {use.what} | {use.when} | {', '.join(use.capabilities)} | {_calls(use)} |\n"
        for use in privileges.USES
    )
    denied = _block(privileges.DENIED_CALLS)
    return PRIVILEGES_HEAD + "".join(rows) + PRIVILEGES_TAIL.format(denied=denied)


def _block(words: Iterable[str]) -> str:
    """Words as a block of code."""
    return textwrap.indent("\n".join(textwrap.wrap(" ".join(words), 90)), "    ")


def redaction_page() -> str:
    """What --redact leaves of each field."""
    described = {
        f"{name}.{field}": value["description"]
        for name, definition in msgspec.json.decode(recording_schema())["$defs"].items()
        for field, value in fields_of(definition)
    }
    rows = (
        f"| `{field}` | {_cell(described[field])} | {way.value} |\n"
        for field, way in REDACTED.items()
    )
    return REDACTION_HEAD + "".join(rows) + REDACTION_TAIL.format(kept=_block(sorted(KEPT)))


def _calls(use: privileges.Use) -> str:
    every = ("all of `bpf`",) if use.loads else ()
    return ", ".join((*every, *(f"`{name}`" for name in use.calls)))


def queries_page() -> str:
    """The queries, whole."""
    sections = (f"\n## {name}\n\n```sql\n{text_of(name)}```\n" for name in QUERIES)
    return QUERIES_TEXT + "".join(sections)


def json_page() -> str:
    """What --json prints, field by field."""
    return _fields("JSON fields", JSON_TEXT, "sample.schema.json", sample_schema())


def recording_page() -> str:
    """What a recording has besides the Samples."""
    known = msgspec.json.decode(sample_schema())["$defs"]
    head = "Recording format"
    return _fields(head, RECORDING_TEXT, "recording.schema.json", recording_schema(), known)


def _fields(
    title: str, text: str, schema: str, content: str, known: Mapping[str, Any] | None = None
) -> str:
    """A section for each object of a schema, but for those that are `known`."""
    lines = [FIELDS.format(title=title, text=text, schema=schema)]
    for name, definition in msgspec.json.decode(content)["$defs"].items():
        if name in (known or {}):
            continue
        lines.append(f"## `{name}`\n\n{definition['description']}\n")
        lines.append("| field | type | meaning |\n|---|---|---|")
        lines += [
            f"| `{field}` | {_cell(_type(value))} | {_cell(value['description'])} |"
            for field, value in fields_of(definition)
        ]
        lines.append("")
    return "\n".join(lines)


def fields_of(definition: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The fields of an object of a schema, by name; of one that is an array in JSON, too."""
    in_order = [(item["title"], item) for item in definition.get("prefixItems", ())]
    return in_order or list(definition.get("properties", {}).items())


def _type(value: Mapping[str, Any]) -> str:
    """The type of a field, short."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"`{name}`"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(map(_type, value["anyOf"])))
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if value.get("type") == "array":
        items = value.get("prefixItems") or [value["items"]]
        return f"array of {' and '.join(dict.fromkeys(map(_type, items)))}"
    if value.get("type") == "object":
        return f"object of {_type(value.get('additionalProperties', {}))}"
    return str(value.get("format") or value.get("type", "any"))


def main() -> None:
    """Write all pages."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else DOCS
    for name, write in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write())


if __name__ == "__main__":
    main()
