"""A case is a seed, a kind and a precision: what they stand for is drawn here, always the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from fuzz.matrices import LAYOUTS, LIKELIHOODS, NOISES, Matrix, cells, factors, pierce, predictor
from gcmf import CCA, GCMF, GFA, PCA, Collection, Priors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuzz.matrices import Floats, Rng

MAX_ITER = 200
PRIORS = (
    Priors(alpha_shape=1e-6, alpha_rate=1e-6, tau_shape=1e-6, tau_rate=1e-6),
    Priors(alpha_shape=0.001),
    Priors(alpha_shape=1.0, alpha_rate=1.0, tau_shape=1.0, tau_rate=1.0),
    Priors(alpha_shape=5.0, alpha_rate=2.0, tau_shape=0.2, tau_rate=3.0),
)


@dataclass
class Drawn:
    """Matrices between entity sets, or views of the same samples, and options to fit them with."""

    matrices: list[Matrix] = field(default_factory=list)
    entities: dict[str, Any] = field(default_factory=dict)
    views: list[Floats] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def n_cells(self) -> float:
        """What the bound is a sum of: observed cells, each as often as it counts."""
        parts = [np.count_nonzero(~np.isnan(x)) for x in self.views]
        return float(sum(parts) + sum(m.n_cells for m in self.matrices))

    def estimator(self, dtype: str, seed: int) -> Any:  # noqa: ANN401 - four kinds without a common type
        """PCA of one view, CCA of two, GFA of more; GCMF of matrices."""
        kinds = {0: GCMF, 1: PCA, 2: CCA}
        chosen = {**self.options, "max_iter": MAX_ITER, "dtype": dtype, "random_state": seed, "n_threads": 1}
        kind = kinds.get(len(self.views), GFA)
        return kind(**chosen, progress=False) if kind is GCMF else kind(**chosen)

    def data(self) -> tuple[Any, ...]:
        """The arguments of `fit`."""
        if not self.views:
            return (Collection([m.relation() for m in self.matrices], self.entities or None),)
        return tuple(self.views) if len(self.views) < 3 else (self.views,)

    def __str__(self) -> str:
        lines = [f"  {m.name}: {m.ends[0]} × {m.ends[1]} {m.x.shape}, {m.likelihood}, {m.layout},"
                 f" {np.isnan(m.x).mean():.0%} missing" for m in self.matrices]  # fmt: skip
        lines += [f"  view {v + 1}: {x.shape}, {np.isnan(x).mean():.0%} missing" for v, x in enumerate(self.views)]
        return "\n".join([*lines, f"  {self.options}"])


def ordinary(rng: Rng) -> Drawn:
    """What users bring: a schema, or views of the same samples."""
    return ordinary_views(rng) if rng.random() < 0.25 else ordinary_schema(rng)


def ordinary_schema(rng: Rng, likelihoods: Sequence[Any] = LIKELIHOODS, noise: float | None = None) -> Drawn:
    """1 to 4 relations among 2 to 5 entity sets, with options of all kinds."""
    names = "abcde"[: rng.integers(2, 6)]
    largest = 90 if rng.random() < 0.9 else 250
    sizes = {name: int(np.exp(rng.uniform(np.log(4), np.log(largest)))) for name in names}
    pairs = list(combinations(names, 2))
    chosen = rng.permutation(len(pairs))[: rng.integers(1, 5)]
    u = factors(sizes, rng)
    drawn = Drawn(options=schema_options(rng))
    for m in chosen.tolist():
        ends = pairs[m] if rng.random() < 0.5 else pairs[m][::-1]
        likelihood, layout = likelihoods[int(rng.integers(len(likelihoods)))], str(rng.choice(LAYOUTS))
        theta = predictor(u[ends[0]], u[ends[1]], rng)
        x = cells(theta, likelihood, rng.choice(NOISES) if noise is None else noise, rng)
        if layout == "filled":
            x = np.where(rng.random(x.shape) < rng.choice([0.0, 0.5, 0.9]), 0.0, x)
        else:
            x = pierce(x, rng)
        drawn.matrices.append(Matrix(f"{ends[0]}{ends[1]}", ends, x, likelihood, layout))
    if rng.random() < 0.3:
        ends = drawn.matrices[0].ends
        drawn.entities = {ends[0]: known(range(sizes[ends[0]] + 2), rng.spawn(1)[0])}
    if rng.random() < 0.2:
        drawn.options["bias"] = {m.name: str(rng.choice(["rows", "cols"])) for m in drawn.matrices}
    if rng.random() < 0.25:
        drawn.matrices.append(_again(drawn.matrices[0], u, rng, likelihoods))
    if rng.random() < 0.2 and sizes[drawn.matrices[0].ends[0]] <= 90:
        drawn.matrices.append(_itself(drawn.matrices[0].ends[0], u, rng, likelihoods))
    if rng.random() < 0.2:
        drawn.options["relation_scales"] = bool(rng.random() < 0.5)
    return drawn


def _again(first: Matrix, u: dict[str, Floats], rng: Rng, likelihoods: Sequence[Any]) -> Matrix:
    """Another relation between the same sets, with scales and signs of its own."""
    likelihood, (r, c) = likelihoods[int(rng.integers(len(likelihoods)))], first.ends
    scales = rng.choice([-1.0, 0.0, 1.0, 2.0], u[r].shape[1])
    x = cells(predictor(u[r] * scales, u[c], rng), likelihood, float(rng.choice(NOISES)), rng)
    return Matrix(f"{first.name} again", first.ends, pierce(x, rng), likelihood, "dense")


def _itself(name: str, u: dict[str, Floats], rng: Rng, likelihoods: Sequence[Any]) -> Matrix:
    """A relation of a set with itself, with scales of either sign."""
    likelihood, symmetric = likelihoods[int(rng.integers(len(likelihoods)))], bool(rng.random() < 0.5)
    scales = rng.choice([-1.0, 0.0, 1.0], u[name].shape[1])
    x = pierce(cells(predictor(u[name] * scales, u[name], rng), likelihood, float(rng.choice(NOISES)), rng), rng)
    x[np.tril_indices(len(x)) if symmetric else np.diag_indices(len(x))] = np.nan
    x[0, 1] = cells(np.zeros((1, 1)), likelihood, 1.0, rng)[0, 0]
    return Matrix(f"{name}{name}", (name, name), x, likelihood, str(rng.choice(["dense", "triplets"])), symmetric)


def known(ids: range, rng: Rng) -> Any:  # noqa: ANN401 - ids, or a table of covariates
    """The ids alone, or with columns of any size and number, of which some say nothing, the same, or the same twice."""
    n, width = len(ids), int(rng.choice([0, 1, 5, 130]))
    x = rng.normal(size=(n, width)) * 10.0 ** rng.integers(-5, 6, width) + 10.0 ** rng.integers(-5, 6, width)
    x[:, 1:2] = x[:, :1]
    x[:, 2:3] = 1.0
    if width == 0:
        return ids
    if rng.random() < 0.5:
        return ids, sparse.csr_array(x * (rng.random(x.shape) < 0.5))
    table = pd.DataFrame(pierce(x, rng), index=ids).add_prefix("x")
    return table.assign(level=rng.choice(["a", "b", "c"], n)) if rng.random() < 0.5 else table


def schema_options(rng: Rng) -> dict[str, Any]:
    """K, sharing, biases, inference and priors."""
    options: dict[str, Any] = {
        "n_factors": int(rng.integers(1, 13)),
        "sharing": str(rng.choice(["group", "group", "common"])),
        "bias": bool(rng.random() < 0.7),
    }
    # At zero a fit runs on where nothing but rounding moves the bound.
    options["tol"] = float(rng.choice([1e-6, 1e-6, 1e-9, 0.0]))
    chance = rng.random()
    if chance < 0.15:
        options |= {"inference": "map", "priors": PRIORS[rng.integers(2, len(PRIORS))]}
    elif chance < 0.3:
        options["priors"] = PRIORS[rng.integers(len(PRIORS))]
    return options


def ordinary_views(rng: Rng, noise: float | None = None) -> Drawn:
    """1 to 4 tables with the same samples; every feature is observed somewhere."""
    n, n_views = int(rng.integers(4, 60)), int(rng.integers(1, 5))
    widths = np.exp(rng.uniform(np.log(2), np.log(30), n_views)).astype(int)
    z = factors({"sample": n, **{str(v): int(d) for v, d in enumerate(widths)}}, rng)
    views = []
    for v in range(n_views):
        x = z["sample"] @ z[str(v)].T + rng.normal(size=(1, widths[v]))
        x = x + (rng.choice(NOISES) if noise is None else noise) * rng.normal(size=x.shape)
        holes = pierce(x, rng)
        holes[:2] = x[:2]
        views.append(holes * 10.0 ** rng.integers(-2, 3))
    return Drawn(
        views=views, options={"n_factors": int(rng.integers(1, 13)), "tol": float(rng.choice([1e-6, 1e-6, 0.0]))}
    )


def draw(kind: str, seed: int) -> tuple[str, Drawn]:
    """The case and a word for it; the precision is no part of it, so that both see the same."""
    from fuzz.hostile import HOSTILE  # noqa: PLC0415 - made of the above

    rng = np.random.default_rng([seed, len(kind)])
    if kind == "ordinary":
        return kind, ordinary(rng)
    name = list(HOSTILE)[seed % len(HOSTILE)]
    make: Callable[[Rng], Drawn] = HOSTILE[name]
    return name, make(rng)
