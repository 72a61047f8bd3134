"""The kinds of cells, and the one place where their names become objects."""

from __future__ import annotations

from gcmf.errors import OptionError
from gcmf.likelihoods.base import Likelihood
from gcmf.likelihoods.bernoulli import Bernoulli
from gcmf.likelihoods.gaussian import Gaussian
from gcmf.likelihoods.poisson import Poisson

__all__ = ["Bernoulli", "Gaussian", "Likelihood", "Poisson", "resolve"]

_BY_NAME: dict[str, type[Gaussian | Bernoulli | Poisson]] = {
    "gaussian": Gaussian,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
}


def resolve(likelihood: object) -> Likelihood:
    """Turn a name or a likelihood object into a likelihood object."""
    if isinstance(likelihood, str) and likelihood in _BY_NAME:
        return _BY_NAME[likelihood]()
    if isinstance(likelihood, (Gaussian, Bernoulli, Poisson)):
        return likelihood
    msg = f"A likelihood must be one of {sorted(_BY_NAME)} or an object from gcmf.likelihoods. Got {likelihood!r}."
    raise OptionError(msg)
