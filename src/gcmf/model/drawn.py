"""A draw of a sampled model as a model by itself, and new rows that are drawn beside each draw.

Given a draw, the cells of a new entity say what they say in a chain: its row is drawn from its conditional, and nothing
else moves. So whoever is folded in has as many draws as all others, and is asked in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.errors import StorageError
from gcmf.model.fitted import FittedScales
from gcmf.model.links import Layers, fill
from gcmf.model.newcomers import (
    DrawnRows,
    Rows,
    expected_rows,
    first_state,
    given_rows,
    layers_of,
    met_layers,
    of_layers,
    problem_of,
    terms_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.data.incoming import Met
    from gcmf.engines.base import Engine, Given
    from gcmf.model.draws import Draws, Origin
    from gcmf.model.fitted import Effects, Fitted
    from gcmf.model.newcomers import EngineOf, Expected, Features

    Floats = NDArray[np.float64]

#: Rows of 0/1 cells and counts: sweeps towards the mode, and then draws of which the last counts.
N_TOWARDS, N_DRAWN = 10, 10
#: Of the random numbers of rows that are folded in: the same cells give the same answer.
_SEED = 0


def origin_of(fitted: Fitted) -> tuple[Draws, Origin]:
    """The draws, and how they were drawn; refuse a model that was saved without it."""
    draws = fitted.draws
    assert draws is not None
    if draws.origin is None:
        msg = (
            "This sampled model was saved by an older gcmf, without what new rows are drawn by. Fit it again, or"
            " predict new ids from the prior: predict(..., unknown='prior')."
        )
        raise StorageError(msg)
    return draws, draws.origin


def model_at(fitted: Fitted, s: int, sets: Sequence[int]) -> Fitted:
    """Draw s as it was drawn, as a model of which nothing is uncertain: what it has of these sets is right."""
    draws, origin = origin_of(fitted)
    mean, bias_mean = [*fitted.mean], [b[s, :-1].astype(np.float64) for b in draws.biases]
    for e in sets:
        u = draws.factors[e][s, :-1].astype(np.float64) @ np.linalg.inv(origin.turn[s, e]) * origin.on[s, e]
        for layer in layers_of(fitted, e):
            bias_mean[layer] -= _of_centers(fitted, origin, s, layer, u)
            if fitted.schema.relations[layer // 2].symmetric:
                bias_mean[layer + 1] = bias_mean[layer]
        mean[e] = u + origin.center[s, e]
    terms, scales = terms_of(fitted), fitted.scales
    on, (mu, scale) = origin.on[s], np.where(terms.biased, origin.bias_prior[s], 0.0)
    var = np.where(on, 1.0 / origin.precision[s], 0.0)
    told, told_bias = (np.stack([np.square(w[s]).sum(axis=0) for w in group])
                       for group in (origin.coefficients, origin.bias_coefficients))  # fmt: skip
    of_layer = told_bias[np.array(fitted.ends).ravel(), np.arange(len(mu))]
    return replace(
        fitted, draws=None, mean=tuple(mean), var=tuple(map(np.zeros_like, mean)), bias_mean=tuple(bias_mean),
        bias_var=tuple(map(np.zeros_like, bias_mean)), on=on, parameters=tuple(p[s] for p in draws.parameters),
        prior_var=var + np.where(on, told, 0.0), prior_bias=np.stack([mu, np.where(terms.biased, scale + of_layer, 0)]),
        scales=scales and FittedScales(origin.scales[s], np.zeros_like(origin.scales[s]), scales.on, scales.mate),
        effects={name: _effects(effects, origin, s, fitted.schema.entity_index(name))
                 for name, effects in fitted.effects.items()},
        terms=terms._replace(
            precision=np.where(on, origin.precision[s], 0.0), parameters=tuple(p[s] for p in origin.learned),
            bias_prior=np.stack([mu, scale]), links=np.diag(scale), var=None, bias_var=None, center=origin.center[s],
        ),
    )  # fmt: skip


def _effects(effects: Effects, origin: Origin, s: int, e: int) -> Effects:
    w, c = origin.coefficients[e][s], origin.bias_coefficients[e][s]
    return effects._replace(
        mean=w, std=np.zeros_like(w), bias_mean=c, bias_std=np.zeros_like(c), cov=None, bias_cov=None
    )


def _of_centers(fitted: Fitted, origin: Origin, s: int, layer: int, u: Floats) -> Floats:
    """What biases of a layer have taken up in draw s for rows u, (n, K), without centers (`model/centers.py`)."""
    m, side = divmod(layer, 2)
    mine, other = (origin.center[s, fitted.ends[m][at]] for at in (side, 1 - side))
    return np.asarray((u if side else u + mine) @ (origin.scales[s, m] * other))


def fold_drawn(  # noqa: PLR0913 - whom to draw, and from what
    fitted: Fitted, e: int, met: Sequence[Met], engine_of: EngineOf, *, n: int, features: Features | None
) -> Rows:
    """Draw the factors and biases of n new entities of set e beside every draw, given their cells; else its prior."""
    (draws, origin), layers, rng = origin_of(fitted), layers_of(fitted, e), np.random.default_rng(_SEED)
    problem, sets = problem_of(fitted, e, met, n)
    engine = engine_of(problem, fitted.mean[e].dtype.name) if met else None
    seen = met_layers(layers, met, n)
    there, plain = seen.any(axis=1, keepdims=True), all(block.likelihood.least_squares for block in problem.blocks[0])
    factors, biases = np.empty((draws.n, n, fitted.on.shape[1])), np.empty((draws.n, n, len(layers)))
    for s in range(draws.n):
        model = model_at(fitted, s, sets[1:])
        prior = expected_rows(model, e, n, features)
        u, b = (rng.normal(mean, np.sqrt(var)) for mean, var in (prior.rows[:2], prior.rows[2:4]))
        if engine is not None:
            begin = prior.rows._replace(var=np.zeros_like(u), bias_var=np.zeros_like(b))
            engine.place(first_state(model, met, sets, begin, layers))
            _draw(engine, given_rows(model, e, met, sets, prior), rng, plain=plain)
            state = engine.fetch()
            u = np.where(there, state.mean[0], u)
            b, _ = of_layers(layers, met, (b, b), (state.bias_mean, state.bias_mean))
        u -= origin.center[s, e]
        b += np.stack([_of_centers(fitted, origin, s, layer, u) for layer in layers], axis=1)
        factors[s], biases[s] = u @ origin.turn[s, e], _linked(fitted, (s, e), b, seen=seen, prior=prior, rng=rng)
    return Rows(
        factors.mean(axis=0), factors.var(axis=0), biases.mean(axis=0), biases.var(axis=0),
        drawn=DrawnRows(factors.astype(np.float32), biases.astype(np.float32)),
    )  # fmt: skip


def _draw(engine: Engine, given: Given, rng: np.random.Generator, *, plain: bool) -> None:
    """Draw the rows of the first set: least squares at once, others from near their mode, in some steps."""
    given = given._replace(priors=tuple(prior._replace(point=True) for prior in given.priors))
    for _ in range(0 if plain else N_TOWARDS):
        engine.sweep(0, given)
    for n in range(1 if plain else N_DRAWN):
        # Where ones are rare, rows drawn given weights would stay near the mode, and proposals alone may be refused.
        engine.sweep(0, given._replace(key=int(rng.integers(1 << 62)), proposing=n % 2 == 0))


def _linked(  # noqa: PLR0913 - whose biases, and what is known of them
    fitted: Fitted, at: tuple[int, int], b: Floats, *, seen: NDArray[np.bool_], prior: Expected,
    rng: np.random.Generator,
) -> Floats:  # fmt: skip
    """Biases b; those without cells, of who has some in other relations, are drawn given these, if they go together."""
    (s, e), (_, origin) = at, origin_of(fitted)
    layers = layers_of(fitted, e)
    sigma = terms_of(fitted).links[np.ix_(layers, layers)]
    if not (sigma != np.diag(np.diag(sigma))).any():
        return b
    away = prior.rows.mean - origin.center[s, e]
    center: Any = prior.rows.bias_mean + np.stack(
        [_of_centers(fitted, origin, s, layer, away) for layer in layers], axis=1
    )
    mean, var = fill(Layers(b, np.zeros_like(b), seen, center, np.diag(sigma)), sigma)
    tied = (sigma != 0).sum(axis=0) > 1
    said = ~seen & tied & (seen & tied).any(axis=1, keepdims=True)
    return np.where(said, rng.normal(mean, np.sqrt(np.maximum(var, 0.0))), b)
