"""Small random collections with all that a collection may have, and the same in another order or turned round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit

from fuzz.matrices import NOISES, cells, factors, pierce, predictor
from gcmf import GCMF, Collection, Relation
from gcmf.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fuzz.matrices import Floats, Rng
    from gcmf.likelihoods import Likelihood

#: A seed has one of these for certain, and each other one with a chance of CHANCE.
FEATURES = ("covariates", "scales", "symmetric", "directed", "repeated", "weights", "gibbs")
CHANCE = 0.42
#: With the bounds that users get: others need so many sweeps that no two fits end near each other.
LIKELIHOODS = (*(Gaussian() for _ in range(5)), Bernoulli(), Bernoulli(zero_weight=0.3), Bernoulli(zero_weight=7.5),
               Poisson(), NegativeBinomial())  # fmt: skip


@dataclass
class Table:
    """One relation: cells with NaN where they are missing, what they are expected to be, and what they count as."""

    name: str
    ends: tuple[str, str]
    x: Floats
    truth: Floats
    likelihood: Likelihood
    layout: str
    """"wide", "triplets" or "filled" (a sparse matrix, blanks zero)."""
    symmetric: bool | None = None
    weight: Floats | None = None

    @property
    def filled(self) -> Floats:
        """Cells with zeros where blanks are zeros, and NaN where they are missing."""
        return np.nan_to_num(self.x) if self.layout == "filled" else self.x

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which cells are observed."""
        return ~np.isnan(self.filled)

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Which cells there can be: nobody has one with itself."""
        return np.ones(self.x.shape, bool) if self.symmetric is None else ~np.eye(len(self.x), dtype=bool)

    @property
    def unit(self) -> float:
        """The deviation of the cells, or their size where all are alike."""
        x = self.filled[self.seen]
        return float(x.std() or np.abs(x).max() or 1.0)

    def relation(self, ids: dict[str, Any], order: dict[str, Any], *, turned: bool = False) -> Relation:
        """The relation, with the entities of each set in an order, and with rows for columns."""
        r, c = self.ends
        at, names = np.ix_(order[r], order[c]), (ids[r][order[r]], ids[c][order[c]])
        x, weight = self.x[at], None if self.weight is None else self.weight[at]
        if turned:
            r, c, x, names, weight = c, r, x.T, names[::-1], None if weight is None else weight.T
        more: dict[str, Any] = {"likelihood": self.likelihood, "symmetric": self.symmetric}
        if self.layout == "filled":
            more |= {"blanks": "zero", "row_ids": names[0], "col_ids": names[1]}
            return Relation(self.name, r, c, sparse.csr_array(np.nan_to_num(x)), **more)
        if self.layout == "wide" and weight is None:
            return Relation(self.name, r, c, pd.DataFrame(x, names[0], names[1]), **more)
        i, j = np.nonzero(~np.isnan(x))
        more["weight"] = None if weight is None else weight[i, j]
        return Relation(self.name, r, c, (names[0][i], names[1][j], x[i, j]), **more)


@dataclass
class World:
    """Tables between entity sets, what is known of their entities, and options to fit them with."""

    features: list[str]
    ids: dict[str, Any]
    options: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    covariates: dict[str, pd.DataFrame] = field(default_factory=dict)

    def collection(self, rng: Rng | None = None, *, turned: bool = False) -> Collection:
        """The collection; given `rng`, with entities, cells and relations in another order."""
        tables = self.tables
        order = {name: np.arange(len(ids)) for name, ids in self.ids.items()}
        if rng is not None:
            order = {name: rng.permutation(at) for name, at in order.items()}
            tables = [tables[n] for n in rng.permutation(len(tables))]
        known = {name: ids[order[name]] for name, ids in self.ids.items()}
        known |= {name: frame.iloc[order[name]] for name, frame in self.covariates.items()}
        return Collection([table.relation(self.ids, order, turned=turned) for table in tables], known)

    def estimator(self, seed: int) -> GCMF:
        """The model, not yet fitted."""
        return GCMF(**self.options, random_state=seed, n_threads=1, progress=False)

    def __str__(self) -> str:
        lines = [f"  {t.name}: {t.ends[0]} × {t.ends[1]} {t.x.shape}, {t.likelihood}, {t.layout}, symmetric"
                 f" {t.symmetric}, {np.isnan(t.x).mean():.0%} missing" for t in self.tables]  # fmt: skip
        lines += [f"  covariates of {name}: {frame.shape[1]}" for name, frame in self.covariates.items()]
        return "\n".join([f"  {', '.join(self.features)}", *lines, f"  {self.options}"])


def draw_world(seed: int) -> World:
    """The world of a seed, always the same."""
    rng = np.random.default_rng([seed, len(FEATURES)])
    has = [name for n, name in enumerate(FEATURES) if n == seed % len(FEATURES) or rng.random() < CHANCE]
    sizes = {name: int(np.exp(rng.uniform(np.log(4), np.log(25)))) for name in "abc"[: rng.integers(2, 4)]}
    u, world = factors(sizes, rng), World(has, {}, _options(has, rng))
    ends = [("a", "b"), *[("b", "c"), ("a", "c")][: rng.integers(1, 3)]][: 3 if "c" in sizes else 1]
    networks = [name for name in ("symmetric", "directed") if name in has]
    if networks and rng.random() < 0.3:
        ends = []
    world.tables = [_table("".join(pair), pair, u, rng) for pair in ends]
    world.tables += [_table(name, ("a", "a"), u, rng, symmetric=name == "symmetric") for name in networks]
    if "repeated" in has:
        first = world.tables[rng.integers(len(world.tables))]
        world.tables.append(_table(f"{first.name} again", first.ends, u, rng, symmetric=first.symmetric))
    sizes = {name: sizes[name] for name in sizes if any(name in table.ends for table in world.tables)}
    world.ids = {name: np.array([f"{name}{n}" for n in range(size)]) for name, size in sizes.items()}
    if "weights" in has:
        for table in world.tables:
            if table.layout != "filled" and (table is world.tables[0] or rng.random() < 0.5):
                table.weight = 10.0 ** rng.choice([-4, -2, 0, 0, 0, 2]) * rng.uniform(0.5, 2.0, table.x.shape)
                table.weight = (table.weight + table.weight.T) / 2 if table.symmetric else table.weight
    if "covariates" in has:
        world.covariates = {name: _covariates(u[name], world.ids[name], rng) for name in list(sizes)[:1]}
    return world


def _options(has: list[str], rng: Rng) -> dict[str, Any]:
    options: dict[str, Any] = {
        "n_factors": "auto" if rng.random() < 0.3 else int(rng.integers(1, 7)),
        "sharing": str(rng.choice(["group", "group", "common"])),
        "bias": bool(rng.random() < 0.8),
        "relation_scales": True if "scales" in has else "auto",
        "dtype": str(rng.choice(["float32", "float64"])),
        "max_iter": 300,
    }
    if "gibbs" in has:
        options |= {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "n_chains": int(rng.integers(1, 3))}
    return options


def _table(name: str, ends: tuple[str, str], u: dict[str, Floats], rng: Rng, *, symmetric: bool | None = None) -> Table:
    """Cells of any likelihood; Gaussian ones in any units; scales of either sign where sets or their pairs repeat."""
    (r, c), likelihood = ends, LIKELIHOODS[rng.integers(len(LIKELIHOODS))]
    network, again = symmetric is not None, "again" in name
    scales = rng.choice([-1.0, 0.0, 1.0, 2.0], u[r].shape[1]) if again or network else 1.0
    theta = predictor(u[r] * scales, u[c], rng)
    theta = (theta + theta.T) / 2 if symmetric else theta
    x = cells(theta, likelihood, float(rng.choice(NOISES)), rng)
    truth = theta if likelihood.name == "gaussian" else (
        expit(theta) if likelihood.name == "bernoulli" else np.logaddexp(0.0, theta)
    )  # fmt: skip
    if likelihood.name == "gaussian":
        scale, center = 10.0 ** rng.integers(-3, 4), float(rng.choice([0.0, 0.0, 10.0]))
        x, truth = scale * (x + center), scale * (truth + center)
    layout = str(rng.choice(["wide", "triplets"] if network else ["wide", "wide", "triplets", "triplets", "filled"]))
    zero = rng.random(x.shape) < rng.choice([0.0, 0.5, 0.9])
    x = np.where(zero, 0.0, x) if layout == "filled" else pierce(x, rng)
    if network:
        x[np.tril_indices(len(x)) if symmetric else np.diag_indices(len(x))] = np.nan
        x[[0, 1], [1, 2]] = cells(np.zeros(2), likelihood, 1.0, rng)
    return Table(name, ends, x, truth, likelihood, layout, symmetric)


def _covariates(u: Floats, ids: Any, rng: Rng) -> pd.DataFrame:  # noqa: ANN401 - an array of ids
    """Columns that tell of the factors or of nothing, in any units, with holes; and often a category."""
    x = u @ rng.normal(size=(u.shape[1], int(rng.integers(1, 5)))) * rng.choice([0.0, 1.0, 3.0])
    x = (x + rng.normal(size=x.shape)) * 10.0 ** rng.integers(-3, 4, x.shape[1])
    frame = pd.DataFrame(pierce(x, rng), index=ids).add_prefix("x")
    return frame.assign(level=np.where(x[:, 0] > 0, "high", "low")) if rng.random() < 0.5 else frame
