"""Factors of several models, or of the draws of one, matched with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from gcmf.errors import OptionError
from gcmf.estimators.asking import fitted_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]


def stability(models: Mapping[str, GCMF] | GCMF) -> pd.DataFrame:
    """Return a line per factor of the first model and other model: its match there, and how alike the two are.

    `similarity` is |cosine| between the factor's entries in all entity sets together, over the ids that both know: 1 is
    the same factor, 0 has nothing to do with it. Each is matched with at most one other, so that the sum is largest; a
    factor without a match has "" and 0. Of one sampled model it compares the factors with those of each draw.
    """
    pairs = _of_draws(models) if not hasattr(models, "items") else _of_models(models)
    lines = []
    for name, names, others, cosine in pairs:
        rows, cols = linear_sum_assignment(-cosine) if cosine.size else ((), ())
        match = dict(zip(rows, cols, strict=True))
        for k, factor in enumerate(names):
            at = match.get(k)
            lines.append({"factor": factor, "model": name, "match": "" if at is None else others[at],
                          "similarity": 0.0 if at is None else float(cosine[k, at])})  # fmt: skip
    return pd.DataFrame(lines, columns=["factor", "model", "match", "similarity"])


def _of_models(models: Mapping[str, GCMF]) -> Any:
    if len(models) < 2:
        msg = "stability compares the first of several models with the others: give at least two, by name."
        raise OptionError(msg)
    (_, first), *others = [(name, fitted_of(model, "stability")) for name, model in models.items()]
    for name, other in others:
        yield name, _names(first), _names(other), _between(first, other)


def _of_draws(model: Any) -> Any:
    fitted = fitted_of(model, "stability")
    if fitted.draws is None:
        msg = "stability takes several models by name, {'seed 0': a, 'seed 1': b}, or one with inference='gibbs'."
        raise OptionError(msg)
    n, draws = fitted.n_factors, fitted.draws
    ours = np.concatenate([mean[:, :n].astype(float) for mean in fitted.mean])
    for s in range(draws.n):
        theirs = np.concatenate([f[s, :-1, :n].astype(float) for f in draws.factors])
        yield f"draw {s + 1}", _names(fitted), _names(fitted), _cosine(ours, theirs)


def _names(fitted: Fitted) -> list[str]:
    return fitted.factor_names[: fitted.n_factors]


def _between(a: Fitted, b: Fitted) -> Floats:
    """|cosine| between the factors of two models, over what both know, (K, K')."""
    ours, theirs = [np.zeros((0, a.n_factors))], [np.zeros((0, b.n_factors))]
    for e, name in enumerate(a.schema.entities):
        if name not in b.schema.entities:
            continue
        at = b.vocabularies[name].index(a.vocabularies[name].ids)
        other = b.mean[b.schema.entity_index(name)][:, : b.n_factors]
        ours.append(a.mean[e][at >= 0, : a.n_factors].astype(float))
        theirs.append(other[at[at >= 0]].astype(float))
    return _cosine(np.concatenate(ours), np.concatenate(theirs))


def _cosine(x: Floats, y: Floats) -> Floats:
    lengths = np.linalg.norm(x, axis=0)[:, None] * np.linalg.norm(y, axis=0)
    return np.abs(x.T @ y) / np.where(lengths > 0, lengths, 1.0)
