"""What nobody means to bring and somebody will: each a word and how it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuzz.cases import Drawn, ordinary, ordinary_schema, ordinary_views, schema_options
from fuzz.matrices import Matrix, cells
from gcmf import Priors
from gcmf.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.matrices import Floats, Rng
    from gcmf.likelihoods import Likelihood

GAUSSIAN = (Gaussian(),)
COUNTS = (*(Poisson(bound) for bound in ("tight", "cell", "paper", "exact")), NegativeBinomial())
BERNOULLIS = tuple(Bernoulli(bound, weight) for bound in ("tight", "cell") for weight in (1.0, 0.3, 100.0))


def _pick(choices: tuple[Likelihood, ...], rng: Rng) -> Likelihood:
    return choices[rng.integers(len(choices))]


def _single(x: Floats, likelihood: Likelihood, rng: Rng, layout: str = "dense") -> Drawn:
    return Drawn([Matrix("x", ("a", "b"), x, likelihood, layout)], options=schema_options(rng))


def _shape(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(2, 40)), int(rng.integers(2, 40))


def _change(drawn: Drawn, rng: Rng, change: Callable[[Floats], Floats], *, every: bool = False) -> Drawn:
    """Change the values of one matrix or view, or of every one."""
    parts = drawn.views or drawn.matrices
    for n in range(len(parts)) if every else [int(rng.integers(len(parts)))]:
        if drawn.views:
            drawn.views[n] = change(drawn.views[n])
        else:
            drawn.matrices[n].x = change(drawn.matrices[n].x)
    return drawn


def _numbers(rng: Rng, noise: float | None = None) -> Drawn:
    """Gaussian cells only, as a schema or as views."""
    if rng.random() < 0.5:
        return ordinary_views(rng, noise)
    return ordinary_schema(rng, GAUSSIAN, noise)


def _constant(rng: Rng) -> Drawn:
    value = rng.choice([0.0, 1.0, -3.7, 1e9 + 0.3])
    return _change(_numbers(rng), rng, lambda x: np.where(np.isnan(x), np.nan, value))


def _constant_columns(rng: Rng) -> Drawn:
    level = rng.normal()
    return _change(_numbers(rng), rng, lambda x: np.where(np.isnan(x), np.nan, level + np.arange(x.shape[1])))


def _noise_free(rng: Rng) -> Drawn:
    return _numbers(rng, noise=float(rng.choice([0.0, 1e-6, 1e-4, 1e-3])))


def _one_noise_free(rng: Rng) -> Drawn:
    def change(x: Floats) -> Floats:
        clean = rng.normal(size=(len(x), 2)) @ rng.normal(size=(2, x.shape[1]))
        return np.where(np.isnan(x), np.nan, clean)

    return _change(_numbers(rng), rng, change)


def _shared_set(rng: Rng) -> Drawn:
    """Two relations that share a set, of one low rank, almost without noise."""
    u = {name: rng.normal(size=(rng.integers(100, 160), 3)) for name in "abc"}
    drawn = Drawn(options={"n_factors": 5})
    for ends in (("a", "b"), ("c", "b")):
        x = cells(u[ends[0]] @ u[ends[1]].T, Gaussian(), 1e-4, rng)
        drawn.matrices.append(Matrix("".join(ends), ends, x, Gaussian(), "dense"))
    return drawn


def _offset(rng: Rng) -> Drawn:
    offset = 10.0 ** rng.integers(4, 14)
    return _change(_numbers(rng), rng, lambda x: x + offset)


def _scale(rng: Rng) -> Drawn:
    scale = 10.0 ** rng.uniform(-170, 200)
    return _change(_numbers(rng), rng, lambda x: scale * x)


def _scales(rng: Rng) -> Drawn:
    return _change(_numbers(rng), rng, lambda x: 10.0 ** rng.uniform(-40, 40) * x, every=True)


def _outlier(rng: Rng) -> Drawn:
    def change(x: Floats) -> Floats:
        y = x.copy()
        y.flat[rng.integers(x.size)] = rng.choice([-1e3, 1e6, 1e12])
        return y

    return _change(_numbers(rng), rng, change)


def _one_line(rng: Rng) -> Drawn:
    """One row, one column or one cell, of any kind."""
    likelihood = _pick((*GAUSSIAN, *COUNTS, *BERNOULLIS), rng)
    n = int(rng.integers(1, 30))
    shape = [(1, n), (n, 1), (1, 1)][rng.integers(3)]
    return _single(cells(rng.normal(size=shape), likelihood, 1.0, rng), likelihood, rng)


def _large_counts(rng: Rng) -> Drawn:
    n, m = _shape(rng)
    rate = 10.0 ** rng.uniform(2, 5) * np.exp(0.5 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, m)))
    return _single(rng.poisson(rate).astype(float), _pick(COUNTS, rng), rng)


def _one_large_count(rng: Rng) -> Drawn:
    x = rng.poisson(1.0, _shape(rng)).astype(float)
    x.flat[rng.integers(x.size)] = rng.choice([1e3, 1e6])
    return _single(x, _pick(COUNTS, rng), rng, str(rng.choice(["dense", "filled"])))


def _rare_ones(rng: Rng) -> Drawn:
    x = (rng.random(_shape(rng)) < rng.choice([0.0, 0.002, 0.02])).astype(float)
    return _single(x, _pick((*BERNOULLIS, *COUNTS), rng), rng, str(rng.choice(["dense", "filled"])))


def _all_alike(rng: Rng) -> Drawn:
    x = np.full(_shape(rng), float(rng.integers(2)))
    return _single(x, _pick((*BERNOULLIS, *COUNTS), rng), rng, str(rng.choice(["dense", "filled"])))


def _separable(rng: Rng) -> Drawn:
    n, m = _shape(rng)
    x = np.outer(np.arange(n) < n // 2, np.arange(m) < m // 2).astype(float)
    return _single(x, _pick(BERNOULLIS, rng), rng)


def _empty_entities(rng: Rng) -> Drawn:
    drawn = ordinary(rng)
    for x in [*drawn.views, *(m.x for m in drawn.matrices if m.layout != "filled")]:
        kept = x.copy()
        x[rng.random(len(x)) < 0.4] = np.nan
        x[:, rng.random(x.shape[1]) < 0.3] = np.nan
        if np.isnan(x).all():
            x[:] = kept
    drawn.entities = {end: range(100) for m in drawn.matrices for end in m.ends}
    return drawn


def _few_cells(rng: Rng) -> Drawn:
    drawn = ordinary(rng)
    for x in [*drawn.views, *(m.x for m in drawn.matrices if m.layout != "filled")]:
        seen = np.flatnonzero(~np.isnan(x))
        x.flat[rng.permutation(seen)[int(rng.integers(1, 4)) :]] = np.nan
    return drawn


def _twins(rng: Rng) -> Drawn:
    """All rows the same."""
    return _change(_numbers(rng), rng, lambda x: np.where(np.isnan(x), np.nan, np.nan_to_num(x[:1], nan=0.5)))


def _improper(rng: Rng) -> Drawn:
    """A point estimate under priors that leave its density without a maximum, or nearly so."""
    drawn = ordinary_schema(rng)
    shape, rate = rng.choice([1e-3, 1.0]), rng.choice([1e-10, 1e-3])
    drawn.options |= {"inference": "map", "priors": Priors(alpha_shape=shape, alpha_rate=rate)}
    return drawn


HOSTILE: dict[str, Callable[[Rng], Drawn]] = {
    "constant": _constant,
    "constant columns": _constant_columns,
    "without noise": _noise_free,
    "one without noise": _one_noise_free,
    "shared set": _shared_set,
    "offset": _offset,
    "scale": _scale,
    "mixed scales": _scales,
    "outlier": _outlier,
    "one line": _one_line,
    "large counts": _large_counts,
    "one large count": _one_large_count,
    "rare ones": _rare_ones,
    "all alike": _all_alike,
    "separable": _separable,
    "empty entities": _empty_entities,
    "few cells": _few_cells,
    "twins": _twins,
    "improper priors": _improper,
}
