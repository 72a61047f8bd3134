"""What notebooks show of an object: a caption and a small table in HTML, in which every name is text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_LINES = 12
"""Lines of a table that are shown before the rest is counted."""


def shown_table(head: str, columns: Sequence[str], lines: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> str:
    """Return a bold head, sentences below it, and a table; without any style, so that it is of the notebook's theme."""
    rows = [f"<tr>{_cells(line, 'td')}</tr>" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        rows.append(f'<tr><td colspan="{len(columns)}">and {len(lines) - MOST_LINES:,} more</td></tr>')
    said = "".join(f"<div>{_text(note)}</div>" for note in notes)
    table = f"<table><thead><tr>{_cells(columns, 'th')}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<div><b>{_text(head)}</b>{said}{table if lines else ''}</div>"


def _cells(values: Sequence[object], tag: str) -> str:
    return "".join(f'<{tag} style="text-align: left">{_text(value)}</{tag}>' for value in values)


def _text(value: object) -> str:
    """A value as text; half of a pair of characters, which no page can hold, as "?"."""
    return escape(str(value)).encode("utf-8", "replace").decode("utf-8")
