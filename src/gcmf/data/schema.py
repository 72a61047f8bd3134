"""Which entity sets and relations there are: the shape of a collection, without its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gcmf.errors import OptionError, UnknownIdError, did_you_mean
from gcmf.likelihoods import Likelihood, known
from gcmf.likelihoods.support import SUPPORTS

TIMES = "\N{MULTIPLICATION SIGN}"
"""Stands between the two sides of a relation, in words and in sizes."""


def show_shape(shape: tuple[int, int]) -> str:
    """Return the two sizes of a matrix as a person would write them."""
    return f"{shape[0]:,} {TIMES} {shape[1]:,}"


def likelihood_name(likelihood: str | Likelihood) -> str:
    """Return the name of a likelihood given as a string or as an object."""
    return likelihood if isinstance(likelihood, str) else likelihood.name


def likelihood_support(likelihood: str | Likelihood) -> str:
    """Return "real", "binary" or "counts" for a likelihood given as a string or as an object."""
    return known()[likelihood].support if isinstance(likelihood, str) else likelihood.support


def check_likelihood(likelihood: object, *, relation: str) -> None:
    """Refuse what is neither a known name nor a likelihood object."""
    names = ", ".join(known())
    if isinstance(likelihood, str):
        if likelihood not in known():
            hint = did_you_mean(likelihood, known())
            msg = f"relation {relation!r}: unknown likelihood {likelihood!r}; known are {names}.{hint}"
            raise OptionError(msg)
    elif not isinstance(likelihood, Likelihood):
        msg = (
            f"relation {relation!r}: a likelihood is one of {names},"
            f" or an object from gcmf.likelihoods, not {likelihood!r}."
        )
        raise OptionError(msg)
    elif likelihood.support not in SUPPORTS:
        supports = ", ".join(SUPPORTS)
        msg = f"relation {relation!r}: likelihood support {likelihood.support!r} is not one of {supports}."
        raise OptionError(msg)


class Columns(NamedTuple):
    """What the columns of a long table are called, by which later tables of the same relation are read."""

    row: str
    col: str
    """Of the ids."""
    value: str | None
    """None: every line is a 1."""
    weight: str | None = None
    """None: every line counts once."""


@dataclass(frozen=True)
class RelationSchema:
    """One relation: its name, the two entity sets it joins, and the name of its likelihood."""

    name: str
    rows: str
    cols: str
    likelihood: str
    symmetric: bool | None = None
    """Of a set with itself: whether (i, j) and (j, i) are one cell. None between two sets."""
    columns: Columns | None = field(default=None, compare=False)
    """Of the long table that it was read from, if it was; the relation is the same whatever they are called."""

    @property
    def kind(self) -> str:
        """Its likelihood, and of a set with itself which way it goes."""
        way = "" if self.symmetric is None else ", symmetric" if self.symmetric else ", directed"
        return f"{self.likelihood}{way}"

    def __str__(self) -> str:
        return f"{self.name}: {self.rows} {TIMES} {self.cols} ({self.kind})"


@dataclass(frozen=True)
class Schema:
    """The entity sets, in order of first appearance, and the relations that join them."""

    entities: tuple[str, ...]
    relations: tuple[RelationSchema, ...]

    def entity_index(self, name: str) -> int:
        """Return the position of an entity set; refuse a name that none has."""
        if name not in self.entities:
            known = ", ".join(self.entities)
            msg = f"No entity set is named {name!r}; there are: {known}.{did_you_mean(name, self.entities)}"
            raise UnknownIdError(msg)
        return self.entities.index(name)

    def __str__(self) -> str:
        return "\n".join(str(relation) for relation in self.relations)
