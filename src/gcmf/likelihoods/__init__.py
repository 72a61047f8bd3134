"""The kinds of cells, and the one place where their names become objects."""

from __future__ import annotations

from gcmf.errors import OptionError
from gcmf.likelihoods.base import CellMath, Likelihood, ParameterPrior
from gcmf.likelihoods.bernoulli import Bernoulli
from gcmf.likelihoods.gaussian import Gaussian
from gcmf.likelihoods.poisson import Poisson

__all__ = ["Bernoulli", "CellMath", "Gaussian", "Likelihood", "ParameterPrior", "Poisson", "known", "resolve"]


def known() -> dict[str, type[Likelihood]]:
    """Every likelihood that has been imported, by name, the built-in ones first."""
    by_name: dict[str, type[Likelihood]] = {}
    built_in: list[type[Likelihood]] = [Gaussian, Bernoulli, Poisson]
    for cls in built_in + Likelihood.__subclasses__():
        by_name.setdefault(cls.name, cls)
    return by_name


def resolve(likelihood: object) -> Likelihood:
    """Turn a name or a likelihood object into a likelihood object."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, str) and likelihood in known():
        return known()[likelihood]()
    msg = f"A likelihood must be one of {sorted(known())} or an object from gcmf.likelihoods. Got {likelihood!r}."
    raise OptionError(msg)
