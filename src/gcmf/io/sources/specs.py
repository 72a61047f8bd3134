"""What may be read: a table of any kind, and the relation, features or ids in it. Sections of a project file say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

Decimal = Literal[",", "."]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a table comes from."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """For who reads one from a project file: keys that are not named below are refused."""

    source: str
    """A file, relative to the project file; or a PostgreSQL server, postgresql://USER@HOST/DATABASE."""
    format: Literal["csv", "tsv", "parquet", "arrow", "jsonl", "mtx", "sqlite", "duckdb"] | None = None
    """How to read it, where its ending does not say."""
    table: str | None = None
    """Which table of a database."""
    query: str | None = None
    """Or what to ask a database for; a file is called `source` in it."""
    where: str | None = None
    """An SQL condition that the rows to be used meet."""
    encoding: str | None = None
    """Of a text file; UTF-8 (UTF-16 where its first bytes say so), and Latin-1 where that fails."""
    decimal: Decimal | None = None
    """Which sign of a text file's numbers is the decimal point: "," as in 1.200,5 or "." as in 1,200.5; the other one
    groups thousands. Without it, numbers are written as 1200.5."""


@dataclass(frozen=True, kw_only=True)
class Section(Source):
    """A section of the project file that says what to read."""

    name: str


@dataclass(frozen=True, kw_only=True)
class RelationSpec(Section):
    """A relation: cells between two entity sets."""

    rows: str
    """The entity set of its rows."""
    cols: str
    """The entity set of its columns."""
    row: str | None = None
    """The column of row ids."""
    col: str | None = None
    """The column of column ids."""
    value: str | None = None
    """The column of values; without it, every pair that is listed is a 1."""
    weight: str | None = None
    """The column of weights, how many cells a line counts as; without it, each counts once."""
    likelihood: str = "gaussian"
    blanks: Literal["missing", "zero"] | None = None
    """What a cell that is not listed is."""
    layout: Literal["long", "wide", "matrix"] = "long"
    """A line per cell, a line per row entity (first column ids), or Matrix Market."""
    symmetric: bool | None = None
    """Of a set with itself: whether a pair is the same both ways."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpec(Section):
    """A table of features: an entity per line."""

    rows: str
    """The entity set of its lines."""
    row: str
    """The column of ids."""
    numeric: tuple[str, ...] = ()
    """Columns of numbers: standardized, Gaussian."""
    categories: tuple[str, ...] = ()
    """Columns of categories: a 0/1 column per value, Bernoulli."""
    booleans: tuple[str, ...] = ()
    """Columns of 0/1, true/false: as they are, Bernoulli."""


@dataclass(frozen=True, kw_only=True)
class EntitySpec(Section):
    """Ids that belong to an entity set whether or not a cell mentions them, and covariates: what is known of them."""

    id: str
    """The column of ids."""
    numeric: tuple[str, ...] = ()
    """Columns of numbers on which the set's factors and biases regress,"""
    categories: tuple[str, ...] = ()
    """of categories,"""
    booleans: tuple[str, ...] = ()
    """of 0/1, true/false,"""
    dates: tuple[str, ...] = ()
    """and of dates or times."""

    @property
    def known(self) -> bool:
        """Whether it names covariates."""
        return bool(self.numeric or self.categories or self.booleans or self.dates)


Report = Callable[[str, int, int], object]
"""Told what is read now, the how-many-th of how many."""
