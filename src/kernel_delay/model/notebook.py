"""What a notebook shows of a thing: HTML, safe for any text, in the notebook's own style."""

from collections.abc import Iterable, Sequence
from html import escape


def section(title: str, *parts: str) -> str:
    """Return HTML of a title and what is below it.

    Args:
        title: Text.
        parts: HTML.
    """
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def paragraph(text: str) -> str:
    """Return text as HTML."""
    return f"<p>{escape(text)}</p>"


def items(texts: Iterable[str]) -> str:
    """Return a list as HTML.

    Args:
        texts: Text of each item.
    """
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML.

    Args:
        headings: Text above the columns.
        rows: Text of the cells.
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    # Notebooks align all cells to the right, as suits figures.
    style = "" if text[:1].isdigit() else ' style="text-align: left"'
    return f"<td{style}>{escape(text)}</td>"
