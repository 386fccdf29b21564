"""What a notebook shows of a thing: HTML, safe for any text, in the notebook's own style."""

from collections.abc import Iterable, Sequence
from html import escape

from kernel_delay.formatting import printable


def section(title: str, *parts: str) -> str:
    """Return HTML of a title and what is below it.

    Args:
        title: Text.
        parts: HTML.
    """
    return f"<div><strong>{_safe(title)}</strong>{''.join(parts)}</div>"


def paragraph(text: str) -> str:
    """Return text as HTML."""
    return f"<p>{_safe(text)}</p>"


def items(texts: Iterable[str]) -> str:
    """Return a list as HTML.

    Args:
        texts: Text of each item.
    """
    return f"<ul>{''.join(f'<li>{_safe(text)}</li>' for text in texts)}</ul>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML.

    Args:
        headings: Text above the columns.
        rows: Text of the cells.
    """
    head = "".join(f"<th>{_safe(text)}</th>" for text in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    # Notebooks align all cells to the right, as suits figures.
    style = "" if text[:1].isdigit() else ' style="text-align: left"'
    return f"<td{style}>{_safe(text)}</td>"


def _safe(text: str) -> str:
    # Without what turns the direction of the text around it, and the like.
    return escape(printable(text))
