"""The kinds of cells, and the one place where their names become objects."""

from __future__ import annotations

from gcmf.errors import OptionError
from gcmf.likelihoods.base import CellMath, Likelihood, ParameterPrior
from gcmf.likelihoods.bernoulli import Bernoulli
from gcmf.likelihoods.gaussian import Gaussian
from gcmf.likelihoods.negative_binomial import NegativeBinomial
from gcmf.likelihoods.poisson import Poisson

__all__ = [
    "Bernoulli",
    "CellMath",
    "Gaussian",
    "Likelihood",
    "NegativeBinomial",
    "ParameterPrior",
    "Poisson",
    "known",
    "resolve",
]


#: Every kind of cells that has a name: a new one is imported above and added here.
REGISTERED: tuple[type[Likelihood], ...] = (Gaussian, Bernoulli, Poisson, NegativeBinomial)


def known() -> dict[str, type[Likelihood]]:
    """The registered likelihoods by name."""
    return {cls.name: cls for cls in REGISTERED}


def resolve(likelihood: object) -> Likelihood:
    """Turn a name or a likelihood object into a likelihood object."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, str) and likelihood in known():
        return known()[likelihood]()
    msg = f"A likelihood must be one of {sorted(known())} or an object from gcmf.likelihoods. Got {likelihood!r}."
    raise OptionError(msg)
