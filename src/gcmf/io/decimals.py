"""Numbers with commas, which are decimal signs or group thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcmf.io.files import open_bytes
from gcmf.io.sql import literal, present

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.tables import Table

_POINT = r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d*)?([eE][+-]?\d+)?"
_COMMA = r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?([eE][+-]?\d+)?"
_MOST = 64
"""So many columns of text are looked at; a file is written in one way."""
_SAID = {",": "commas are decimal signs in its numbers", ".": "commas group thousands in its numbers"}


def find_decimal(table: Table, file: Path) -> tuple[str | None, str]:
    """Return the decimal sign of the numbers in columns that look like text for their commas, and why; or None."""
    texts = [name for name, kind in table.columns.items() if kind == "VARCHAR"][:_MOST]
    if not texts:
        return None, ""
    parts = []
    for name in texts:
        x = f"trim({present(name)})"
        parts += [f"count({x})", f"count(*) FILTER (regexp_full_match({x}, {literal(_POINT)}))",
                  f"count(*) FILTER (regexp_full_match({x}, {literal(_COMMA)}))",
                  f"min({x}) FILTER (contains({x}, ','))"]  # fmt: skip
    sql = table.sql
    if table.arrow is not None:  # DuckDB need not hear of all the others
        table.connection.register("gcmf_texts", table.arrow.select(texts))
        sql = "gcmf_texts"
    answer = table.ask(f"SELECT {', '.join(parts)} FROM {sql}")[0]
    votes: dict[str, tuple[str, str]] = {}
    for at, name in enumerate(texts):
        there, point, comma, example = answer[4 * at : 4 * at + 4]
        signs = ("." if there == point else "") + ("," if there == comma else "")
        if there and example is not None and signs:
            votes.setdefault(signs, (name, example))
    clear = [sign for sign in (",", ".") if sign in votes]
    if len(clear) > 1 or not votes:
        return None, ""
    # All of them like 1,200: who writes decimal commas puts semicolons between the values.
    sign = clear[0] if clear else "," if _has_semicolons(file) else "."
    other = "." if sign == "," else ","
    name, example = votes.get(sign) or votes[".,"]
    doubt = "" if clear else f' (a guess: say decimal = "{other}" if {_SAID[other]})'
    return sign, f'decimal = "{sign}", as {_SAID[sign]}, such as {example!r} in {name}{doubt}.'


def _has_semicolons(file: Path) -> bool:
    with open_bytes(file) as text:
        return text.readline().count(b";") > 0
