"""The sentences of our errors, as the source has them."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernel_delay import errors

ERRORS = frozenset(name for name in vars(errors) if name.endswith("Error")) | {"ArgumentTypeError"}
"""What the command line prints, each as a line."""


class ErrorSentence(NamedTuple):
    """What one error says.

    Attributes:
        place: The file and the line, as in main.py:7.
        text: The sentence, with a word in backticks for each value.
    """

    place: str
    text: str


def error_sentences(source: str, name: str) -> Iterator[ErrorSentence]:
    """Yield the sentences of all errors that a module makes.

    Args:
        source: The module's text.
        name: What the module is called in `place`.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and _name(node.func) in ERRORS:
            text = _text(node.args[0])
            if text is not None:
                yield ErrorSentence(f"{name}:{node.lineno}", text)


def all_error_sentences(folder: Path) -> Iterator[ErrorSentence]:
    """Yield those of all modules below a folder."""
    for path in sorted(folder.rglob("*.py")):
        yield from error_sentences(path.read_text(), str(path.relative_to(folder)))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _text(argument: ast.expr) -> str | None:
    """The text of a literal, of an f-string, or of several of them; None of anything else."""
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "`VALUE`" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _text(left), _text(right)
            if first is None and second is None:
                return None
            return (first or "`VALUE`") + (second or "`VALUE`")
    return None
