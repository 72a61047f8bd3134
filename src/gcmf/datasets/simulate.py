"""Data drawn from the model itself, so that what a fit should find is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.data.schema import RelationSchema, Schema, check_likelihood
from gcmf.errors import OptionError, counted
from gcmf.likelihoods.functions import sigmoid, softplus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Simulation:
    """A collection, cut into a part to fit and a part to be tested on, and the truth behind it."""

    train: Collection
    """The observed cells."""
    test: Collection | None
    """The missing cells, with the values they would have had; None when nothing is missing."""
    factors: Mapping[str, Floats]
    """U of each entity set, (d, K); zero where the factor does not live."""
    theta: Mapping[str, Floats]
    """U_rows U_colsᵀ of each relation: what its cells are drawn around."""
    pattern: Mapping[str, tuple[bool, ...]]
    """Which factors live in which entity set."""

    @property
    def means(self) -> dict[str, Floats]:
        """E x of every cell of each relation, the best prediction there is."""
        return {
            relation.name: _MEANS[relation.likelihood](self.theta[relation.name])
            for relation in self.train.schema.relations
        }

    def __repr__(self) -> str:
        held_out = 0 if self.test is None else self.test.n_cells
        n_factors = len(next(iter(self.pattern.values())))
        return f"<Simulation: {counted(n_factors, 'factor')}, {counted(held_out, 'cell')} held out>\n{self.train!r}"


_MEANS: dict[str, Any] = {
    "gaussian": lambda theta: theta,
    "bernoulli": sigmoid,
    "poisson": softplus,
    "negative_binomial": np.exp,
}


def simulate(  # noqa: PLR0913 - the truth has this many sides
    schema: Schema,
    sizes: Mapping[str, int],
    *,
    pattern: Mapping[str, Sequence[bool]],
    strength: float = 1.0,
    noise: float = 1.0,
    missing: float = 0.4,
    random_state: RandomState = 0,
) -> Simulation:
    """Draw u ~ N(0, strength²) where the pattern is on, θ = U_rows U_colsᵀ, and cells from the likelihood at θ.

    Parameters
    ----------
    schema : Schema
        Entity sets and relations, with the names of their likelihoods: Gaussian cells are N(θ, noise),
        Bernoulli(σ(θ)), Poisson(softplus(θ)), or negative binomial of mean μ = e^θ and variance μ + noise·μ².
    sizes : mapping of str to int
        Entities per set.
    pattern : mapping of str to sequence of bool
        For each entity set, which of the K factors live there. A relation sees the factors that live in both
        of its sets.
    strength : float
        Standard deviation of u, so that θ has the standard deviation strength² √(factors the relation sees).
    noise : float
        Noise variance of Gaussian cells, and dispersion of negative binomial ones.
    missing : float
        Share of each relation's cells, drawn at random, that are left out of `train` and make up `test`.
    random_state : int or numpy.random.Generator or None
        The same integer gives the same data.

    Examples
    --------
    >>> schema = Schema(("a", "b"), (RelationSchema("ab", "a", "b", "poisson"),))
    >>> truth = simulate(schema, {"a": 20, "b": 30}, pattern={"a": [True, True], "b": [True, False]})
    >>> truth.train.n_cells, truth.test.n_cells, truth.factors["b"].shape
    (360, 240, (30, 2))
    """
    _check(schema, sizes, pattern, missing)
    rng = np.random.default_rng(random_state)
    on = {name: np.array(pattern[name], dtype=bool) for name in schema.entities}
    factors = {name: rng.normal(scale=strength, size=(sizes[name], len(live))) * live for name, live in on.items()}
    theta = {r.name: factors[r.rows] @ factors[r.cols].T for r in schema.relations}
    relations = [
        Relation(r.name, r.rows, r.cols, _draw(rng, r.likelihood, theta[r.name], noise), r.likelihood)
        for r in schema.relations
    ]
    whole = Collection(relations)
    train, test = whole.split(missing, random_state=rng) if missing > 0 else (whole, None)
    return Simulation(train, test, factors, theta, {name: tuple(live.tolist()) for name, live in on.items()})


def simulate_cycle(  # noqa: PLR0913 - the experiment of the paper has this many sides
    n_relations: int,
    *,
    likelihood: str = "gaussian",
    shared: int = 5,
    private: int = 2,
    sizes: tuple[int, int] = (100, 150),
    missing: float = 0.4,
    strength: float = 1.0,
    noise: float = 1.0,
    random_state: RandomState = 0,
) -> Simulation:
    """M entity sets in a circle, relation m joining sets m and m + 1 (mod M), as in the paper's simulations.

    Parameters
    ----------
    n_relations : int
        M, at least 3.
    likelihood : {"gaussian", "bernoulli", "poisson", "negative_binomial"}
        What kind of number every cell is.
    shared, private : int
        Factors that live in all sets, and factors that live in the two sets of one relation only, of each
        relation.
    sizes : tuple of int
        Smallest and largest size of a set; each is drawn uniformly.
    missing, strength, noise, random_state
        As in `simulate`.

    Examples
    --------
    >>> truth = simulate_cycle(3, random_state=1)
    >>> print(truth.train.schema)
    X1: A1 × A2 (gaussian)
    X2: A2 × A3 (gaussian)
    X3: A3 × A1 (gaussian)
    >>> len(truth.pattern["A1"]), sum(truth.pattern["A1"])
    (11, 9)
    """
    if n_relations < 3:
        msg = f"A cycle needs at least 3 relations, since two would join the same sets. Got {n_relations!r}."
        raise OptionError(msg)
    rng = np.random.default_rng(random_state)
    names = tuple(f"A{m + 1}" for m in range(n_relations))
    after = names[1:] + names[:1]
    relations = tuple(
        RelationSchema(f"X{m + 1}", *ends, likelihood) for m, ends in enumerate(zip(names, after, strict=True))
    )
    owners = np.repeat(np.arange(n_relations), private)
    pattern = {
        name: [*[True] * shared, *np.isin(owners, (e, (e - 1) % n_relations)).tolist()] for e, name in enumerate(names)
    }
    drawn = {name: int(rng.integers(sizes[0], sizes[1], endpoint=True)) for name in names}
    drawing = {"strength": strength, "noise": noise, "missing": missing}
    return simulate(Schema(names, relations), drawn, pattern=pattern, random_state=rng, **drawing)


def _draw(rng: np.random.Generator, likelihood: str, theta: Floats, noise: float) -> Floats:
    if likelihood == "gaussian":
        return theta + rng.normal(scale=np.sqrt(noise), size=theta.shape)
    if likelihood == "bernoulli":
        return (rng.random(theta.shape) < sigmoid(theta)).astype(np.float64)
    mean: Floats = _MEANS[likelihood](theta)
    if likelihood == "negative_binomial" and noise > 0:
        mean = mean * rng.gamma(1.0 / noise, noise, size=theta.shape)
    return rng.poisson(mean).astype(np.float64)


def _check(schema: Schema, sizes: Mapping[str, int], pattern: Mapping[str, Sequence[bool]], missing: float) -> None:
    for option, given in (("sizes", sizes), ("pattern", pattern)):
        if set(given) != set(schema.entities):
            msg = f"{option}= names {sorted(given)}, but the entity sets are {sorted(schema.entities)}."
            raise OptionError(msg)
    lengths = {name: len(pattern[name]) for name in schema.entities}
    if len(set(lengths.values())) > 1:
        msg = f"The pattern must name the same factors for every entity set; its lengths are {lengths}."
        raise OptionError(msg)
    for relation in schema.relations:
        check_likelihood(relation.likelihood, relation=relation.name)
    if not 0 <= missing < 1:
        msg = f"missing={missing!r} must be a share from 0 up to, but not, 1, such as 0.4."
        raise OptionError(msg)
