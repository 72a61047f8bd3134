"""Names, texts, numbers and files as SQL wants them."""

from __future__ import annotations

import re

NUMBERS = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|REAL|DECIMAL.*)$")
"""DuckDB's types of numbers."""
INTEGERS = re.compile(r"^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$")
MISSING = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL")
"""What people and programs write where there is no value."""


def quote(name: str) -> str:
    """Return a name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """Return a text, a truth, a number, a list or a mapping as SQL wants it."""
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
    return "'" + str(value).replace("'", "''") + "'"


def one_file(path: object) -> str:
    """Return the pattern that matches this file and no other: DuckDB takes file names for patterns."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def call(function: str, path: object, **options: object) -> str:
    """Return a call of one of DuckDB's readers of files, everything in it escaped."""
    given = "".join(f", {name} = {literal(value)}" for name, value in options.items())
    return f"{function}({literal(one_file(path))}{given})"


def as_number(column: str, kind: str = "DOUBLE") -> str:
    """Return a column as numbers in SQL, null where it holds none."""
    return f"TRY_CAST({quote(column)} AS {kind})"


def present(column: str) -> str:
    """Return a column of texts in SQL, null where it says that there is no value."""
    return f"CASE WHEN trim({quote(column)}) NOT IN ({literal(MISSING)[1:-1]}) THEN {quote(column)} END"
