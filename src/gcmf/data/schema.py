"""Which entity sets and relations there are: the shape of a collection, without its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gcmf.errors import OptionError, UnknownIdError, did_you_mean

TIMES = "\N{MULTIPLICATION SIGN}"
"""Stands between the two sides of a relation, in words and in sizes."""

SUPPORTS = {"gaussian": "real", "bernoulli": "binary", "poisson": "counts"}
"""The likelihoods that a string can name, and the values that each one takes."""


@runtime_checkable
class LikelihoodLike(Protocol):
    """What the data layer needs to know of a likelihood object."""

    @property
    def name(self) -> str:
        """Its short name, such as "gaussian"."""

    @property
    def support(self) -> str:
        """The values its cells may take: "real", "binary" (0 and 1) or "counts" (0, 1, 2, ...)."""


def show_shape(shape: tuple[int, int]) -> str:
    """Return the two sizes of a matrix as a person would write them."""
    return f"{shape[0]:,} {TIMES} {shape[1]:,}"


def likelihood_name(likelihood: str | LikelihoodLike) -> str:
    """Return the name of a likelihood given as a string or as an object."""
    return likelihood if isinstance(likelihood, str) else likelihood.name


def likelihood_support(likelihood: str | LikelihoodLike) -> str:
    """Return "real", "binary" or "counts" for a likelihood given as a string or as an object."""
    return SUPPORTS[likelihood] if isinstance(likelihood, str) else likelihood.support


def check_likelihood(likelihood: object, *, relation: str) -> None:
    """Refuse what is neither a known name nor a likelihood object."""
    if isinstance(likelihood, str):
        if likelihood not in SUPPORTS:
            msg = (
                f"relation {relation!r}: unknown likelihood {likelihood!r};"
                f" known are {', '.join(SUPPORTS)}.{did_you_mean(likelihood, SUPPORTS)}"
            )
            raise OptionError(msg)
    elif isinstance(likelihood, type) or not isinstance(likelihood, LikelihoodLike):
        msg = (
            f"relation {relation!r}: a likelihood is one of {', '.join(SUPPORTS)},"
            f" or an object from gcmf.likelihoods, not {likelihood!r}."
        )
        raise OptionError(msg)
    elif likelihood.support not in SUPPORTS.values():
        known = ", ".join(SUPPORTS.values())
        msg = f"relation {relation!r}: likelihood support {likelihood.support!r} is not one of {known}."
        raise OptionError(msg)


@dataclass(frozen=True)
class RelationSchema:
    """One relation: its name, the two entity sets it joins, and the name of its likelihood."""

    name: str
    rows: str
    cols: str
    likelihood: str

    def __str__(self) -> str:
        return f"{self.name}: {self.rows} {TIMES} {self.cols} ({self.likelihood})"


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
