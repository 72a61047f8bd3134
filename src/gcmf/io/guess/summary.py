"""Columns, summarized: what kind of values each holds, and what its name says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gcmf.io.sources.duck import INTEGERS, NUMBERS, as_number, duck_errors, literal, present, quote
from gcmf.io.sources.files import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.sources.specs import Decimal
    from gcmf.io.sources.tables import Table

_ID_WORDS = {"id", "ids", "key", "pk", "fk", "uuid"}
_TIME = re.compile(r"(^|_)(time|timestamp|date|datetime|day|month|created|updated|at|on|ts)(_|$)")
_CODE = re.compile(r"(^|_)(zip|zipcode|postcode|postal|phone|ssn|isbn|url|uri|link|email)(_|$)")
RATING_WORDS = {"rating", "score", "stars", "grade", "value"}
COUNT_WORDS = {"count", "counts", "n", "num", "plays", "weight", "quantity", "qty", "freq", "frequency", "amount",
               "clicks"}  # fmt: skip
_FEW = 64
"""Up to so many columns DuckDB summarizes them all in one question; it takes a tenth of a second for each."""
_CELLS = 50_000_000
"""Cells that are held at a time while more columns are summarized."""
_POINT = r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d*)?([eE][+-]?\d+)?"
_COMMA = r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d*)?([eE][+-]?\d+)?"
_DECIMAL = {",": "commas are decimal signs in its numbers", ".": "commas group thousands in its numbers"}


@dataclass(frozen=True)
class ColumnSummary:
    """What a column holds."""

    name: str
    kind: str
    """"integer", "number", "text", "boolean" or "other"."""
    distinct: int
    nulls: int
    low: float | None = None
    high: float | None = None
    odd: str | None = None
    """What keeps a text from being a column of numbers, where half of it or more is."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of its name: userID is user, id."""
        return name_words(self.name)

    @cached_property
    def is_id(self) -> bool:
        """Whether its name says that it holds ids."""
        return self.words[-1] in _ID_WORDS

    @property
    def may_be_ids(self) -> bool:
        """Whether its values could be ids: whole numbers or texts."""
        return self.kind in ("integer", "text")

    @cached_property
    def is_time(self) -> bool:
        """Whether its name or its size says that it holds times."""
        epoch = self.kind == "integer" and self.low is not None and self.low > 1e8
        return bool(_TIME.search("_".join(self.words))) or epoch

    @cached_property
    def is_code(self) -> bool:
        """Whether its name says that its numbers count nothing: a zip code, a link."""
        return bool(_CODE.search("_".join(self.words)))

    @cached_property
    def names_value(self) -> bool:
        """Whether its name says that it holds the values of cells: stars, quantity."""
        return bool(set(self.words) & (RATING_WORDS | COUNT_WORDS))

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers, or true and false."""
        return self.kind in ("integer", "number", "boolean")

    @property
    def is_bits(self) -> bool:
        """Whether it holds nothing but 0 and 1, true and false, be it one of them only."""
        return self.kind == "boolean" or (self.is_number and 0 < self.distinct <= 2 and {self.low, self.high} <= {0, 1})

    @property
    def is_binary(self) -> bool:
        """Whether it holds both 0 and 1, or true and false."""
        return self.is_bits and self.distinct == 2


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case: userID, user_id and "user id" are user, id."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return tuple(word for word in re.split(r"[^\w]+|_", parted) if word) or (name.lower(),)


def entity_of(column: str) -> str:
    """Return what the name of a column of ids says they are ids of: user for userID; nothing for a bare id."""
    words = name_words(column)
    while words and words[-1] in _ID_WORDS:
        words = words[:-1]
    return singular("_".join(words))


def singular(word: str) -> str:
    """Return movies as movie, categories as category."""
    if word.endswith("ies") and len(word) > 5 and not word.endswith(("movies", "series")):
        return word[:-3] + "y"
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is", "series")) and len(word) > 3
    return word[:-1] if plural else word


def summarize(table: Table) -> tuple[int, dict[str, ColumnSummary]]:
    """Return the number of rows, and every column summarized."""
    if len(table.columns) <= _FEW:
        return _summarize_by_sql(table)
    rows = int(table.ask(f"SELECT count(*) FROM {table.sql}")[0][0]) if table.arrow is None else len(table.arrow)
    names = list(table.columns)
    step = max(1, _CELLS // max(rows, 1))
    summaries: dict[str, ColumnSummary] = {}
    for start in range(0, len(names), step):
        part = names[start : start + step]
        if table.arrow is not None:
            data = table.arrow.select(part)
        else:
            with duck_errors(table.label):
                data = table.connection.sql(f"SELECT {', '.join(map(quote, part))} FROM {table.sql}").to_arrow_table()
        summaries |= {name: _summarize_by_arrow(name, table.columns[name], data.column(name)) for name in part}
    return rows, summaries


def _summarize_by_sql(table: Table) -> tuple[int, dict[str, ColumnSummary]]:
    parts = ["count(*)"]
    for name, duck in table.columns.items():
        text = duck == "VARCHAR"
        c = f"({present(name)})" if text else quote(name)
        x = as_number(name)
        number = f"CASE WHEN NOT isnan({x}) THEN {x} END" if NUMBERS.match(duck) else "NULL"
        parts += [f"count(DISTINCT {c})", f"count({c})", f"min({number})", f"max({number})"]
        parts += [f"count({x})", f"min({c}) FILTER ({x} IS NULL OR isinf({x}))"] if text else ["0", "NULL"]
    rows, *answer = table.ask(f"SELECT {', '.join(parts)} FROM {table.sql}")[0]
    summaries = {}
    for at, (name, duck) in enumerate(table.columns.items()):
        distinct, present_count, low, high, numbers, strange = answer[6 * at : 6 * at + 6]
        odd = strange if numbers and 2 * numbers >= present_count else None
        summaries[name] = ColumnSummary(name, _kind(duck), distinct, rows - present_count, low, high, odd)
    return rows, summaries


def _summarize_by_arrow(name: str, duck: str, values: Any) -> ColumnSummary:  # noqa: ANN401 - Arrow's
    from pyarrow import compute

    distinct, low, high, odd = int(compute.count_distinct(values).as_py()), None, None, None
    if NUMBERS.match(duck):
        low, high = compute.min_max(compute.cast(values, "float64", safe=False)).as_py().values()
    elif duck == "VARCHAR":
        import pandas as pd

        texts = values.drop_null().to_pandas()
        numbers = pd.to_numeric(texts, errors="coerce").notna()
        odd = str(texts[~numbers].iloc[0]) if 2 * numbers.sum() >= len(texts) > numbers.sum() else None
    return ColumnSummary(name, _kind(duck), distinct, int(values.null_count), low, high, odd)


def _kind(duck: str) -> str:
    if INTEGERS.match(duck):
        return "integer"
    return "number" if NUMBERS.match(duck) else {"VARCHAR": "text", "BOOLEAN": "boolean"}.get(duck, "other")


def find_decimal(table: Table, file: Path) -> tuple[Decimal | None, str]:
    """Return the decimal sign of the numbers in columns that look like text for their commas, and why; or None."""
    texts = [name for name, kind in table.columns.items() if kind == "VARCHAR"][:_FEW]  # a file is written in one way
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
    examples: dict[str, tuple[str, str]] = {}
    for at, name in enumerate(texts):
        there, point, comma, example = answer[4 * at : 4 * at + 4]
        signs = "." * (there == point) + "," * (there == comma)
        if there and example is not None and signs:
            examples.setdefault(signs, (name, example))
    if not examples or {",", "."} <= set(examples):
        return None, ""
    doubtful = not {",", "."} & set(examples)
    if doubtful:  # all of them like 1,200: who writes decimal commas puts semicolons between the values
        with open_bytes(file) as text:
            comma = b";" in text.readline()
    else:
        comma = "," in examples
    sign: Decimal = "," if comma else "."
    other = "." if comma else ","
    name, example = examples.get(sign) or examples[".,"]
    doubt = f' (a guess: say decimal = "{other}" if {_DECIMAL[other]})' if doubtful else ""
    return sign, f'decimal = "{sign}", as {_DECIMAL[sign]}, such as {example!r} in {name}{doubt}.'
