"""Columns, summarized: what kind of values each holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gcmf.io.sql import INTEGERS, NUMBERS, as_number, present, quote

if TYPE_CHECKING:
    from gcmf.io.tables import Table

_ID_WORDS = {"id", "ids", "key", "pk", "fk", "uuid"}
_TIME = re.compile(r"(^|_)(time|timestamp|date|datetime|day|month|created|updated|at|on|ts)(_|$)")
_CODE = re.compile(r"(^|_)(zip|zipcode|postcode|postal|phone|ssn|isbn|url|uri|link|email)(_|$)")
RATING_WORDS = {"rating", "score", "stars", "grade", "value"}
COUNT_WORDS = {
    "count",
    "counts",
    "n",
    "num",
    "plays",
    "weight",
    "quantity",
    "qty",
    "freq",
    "frequency",
    "amount",
    "clicks",
}
_FEW = 64
"""Up to so many columns DuckDB summarizes them all in one question; it takes a tenth of a second for each."""
_CELLS = 50_000_000
"""Cells that are held at a time while more columns are summarized."""


@dataclass(frozen=True)
class Column:
    """One column, summarized."""

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
    return (
        word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is", "series")) and len(word) > 3 else word
    )


def summarize(table: Table) -> tuple[int, dict[str, Column]]:
    """Return the number of rows, and every column summarized."""
    if len(table.columns) <= _FEW:
        return _ask(table)
    rows = int(table.ask(f"SELECT count(*) FROM {table.sql}")[0][0]) if table.arrow is None else len(table.arrow)
    names = list(table.columns)
    step = max(1, _CELLS // max(rows, 1))
    found: dict[str, Column] = {}
    for start in range(0, len(names), step):
        part = table.whole(names[start : start + step])
        found |= {name: _look(name, table.columns[name], part.column(name)) for name in part.column_names}
    return rows, found


def _ask(table: Table) -> tuple[int, dict[str, Column]]:
    """Summarize all columns by one question."""
    parts = ["count(*)"]
    for column, duck in table.columns.items():
        text = duck == "VARCHAR"
        c = f"({present(column)})" if text else quote(column)
        number = f"CAST({c} AS DOUBLE)" if NUMBERS.match(duck) else "NULL"
        seen = f"CASE WHEN NOT isnan({number}) THEN {number} END" if NUMBERS.match(duck) else "NULL"
        parts += [f"count(DISTINCT {c})", f"count({c})", f"min({seen})", f"max({seen})"]
        x = as_number(column)
        parts += [f"count({x})", f"min({c}) FILTER ({x} IS NULL OR isinf({x}))"] if text else ["0", "NULL"]
    answer = table.ask(f"SELECT {', '.join(parts)} FROM {table.sql}")[0]
    rows = int(answer[0])
    columns = {}
    for at, (column, duck) in enumerate(table.columns.items()):
        distinct, there, low, high, numbers, strange = answer[1 + 6 * at : 7 + 6 * at]
        odd = strange if numbers and 2 * numbers >= there else None
        columns[column] = Column(column, _kind(duck), int(distinct), rows - int(there), low, high, odd)
    return rows, columns


def _look(name: str, duck: str, values: Any) -> Column:  # noqa: ANN401 - Arrow's
    """Summarize one column that is at hand."""
    from pyarrow import compute  # noqa: PLC0415 - an extra

    distinct, low, high = int(compute.count_distinct(values).as_py()), None, None
    if NUMBERS.match(duck):
        ends = compute.min_max(compute.cast(values, "float64", safe=False)).as_py()
        low, high = ends["min"], ends["max"]
    odd = None
    if duck == "VARCHAR":
        import pandas as pd  # noqa: PLC0415 - only tables of text wait for it

        texts = values.drop_null().to_pandas()
        numbers = pd.to_numeric(texts, errors="coerce").notna()
        odd = str(texts[~numbers].iloc[0]) if 2 * numbers.sum() >= len(texts) > numbers.sum() else None
    return Column(name, _kind(duck), distinct, int(values.null_count), low, high, odd)


def _kind(duck: str) -> str:
    if INTEGERS.match(duck):
        return "integer"
    if NUMBERS.match(duck):
        return "number"
    return {"VARCHAR": "text", "BOOLEAN": "boolean"}.get(duck, "other")
