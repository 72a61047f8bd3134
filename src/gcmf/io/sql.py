"""Names, texts and numbers as SQL wants them."""

from __future__ import annotations

import re

NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|REAL|DECIMAL.*)$")
"""DuckDB's types of numbers."""
INTEGERS = re.compile(r"^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$")


def quote(name: str) -> str:
    """Return a name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: object) -> str:
    """Return a text as SQL wants it."""
    return "'" + str(text).replace("'", "''") + "'"


def as_number(column: str, kind: str = "DOUBLE") -> str:
    """Return a column as numbers in SQL, null where it holds none."""
    return f"TRY_CAST({quote(column)} AS {kind})"
