"""How good predictions of held-out cells are: a few numbers, pooled over the relations that are tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from benchmarks.problem import Problem

#: The measure that decides, by the kind of cells; of all of them less is better.
MAIN = {"gaussian": "rmse", "bernoulli": "log_loss", "poisson": "neg_log_lik"}
#: Every number of a row.
MEASURES = ("rmse", "log_loss", "auc", "average_precision", "neg_log_lik", "cover50", "cover80", "cover95")
LEVELS = (50, 80, 95)
#: No probability is held to be smaller.
SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method says of the held-out cells of one relation."""

    mean: NDArray[Any]
    """Expectations (0/1: probabilities), or scores where a method only ranks."""
    std: NDArray[Any] | None = None
    """Standard deviations of new cells."""
    log_lik: float | None = None
    """Mean log probability (density) of the cells."""
    ranks_only: bool = False


def score(problem: Problem, answers: Mapping[str, Answer]) -> dict[str, float]:
    """All measures that can be had, by name."""
    tables = problem.tested
    kinds = {table.likelihood for table in tables}
    assert len(kinds) == 1, "tested relations are of one kind"
    given = [answers[table.name] for table in tables]
    x = np.concatenate([np.asarray(t.test.x, np.float64) for t in tables if t.test is not None])
    mean = np.concatenate([np.asarray(one.mean, np.float64) for one in given])
    if not np.isfinite(mean).all():
        msg = f"{np.sum(~np.isfinite(mean))} of {len(mean)} predictions are not finite"
        raise ValueError(msg)
    std = None if any(one.std is None for one in given) else np.concatenate([np.asarray(one.std) for one in given])
    kind = kinds.pop()
    if kind == "bernoulli":
        return _binary(x, mean, ranks_only=any(one.ranks_only for one in given))
    clipped = mean if problem.clip is None else np.clip(mean, *problem.clip)
    found = {"rmse": float(np.sqrt(np.mean((x - clipped) ** 2)))}
    if all(one.log_lik is not None for one in given):
        n = np.array([len(t.test.x) for t in tables if t.test is not None])
        found["neg_log_lik"] = -float(np.average([one.log_lik or 0.0 for one in given], weights=n))
    if std is not None:
        found |= _coverage(kind, x, mean, std)
    return found


def _binary(x: NDArray[np.float64], p: NDArray[np.float64], *, ranks_only: bool) -> dict[str, float]:
    found = {}
    if not ranks_only:
        p = np.clip(p, SMALLEST, 1.0 - SMALLEST)
        found["log_loss"] = -float(np.mean(x * np.log(p) + (1.0 - x) * np.log1p(-p)))
        found["rmse"] = float(np.sqrt(np.mean((x - p) ** 2)))
    if 0 < x.sum() < len(x):
        found |= {"auc": float(roc_auc_score(x, p)), "average_precision": float(average_precision_score(x, p))}
    return found


def _coverage(
    kind: str, x: NDArray[np.float64], mean: NDArray[np.float64], std: NDArray[np.float64]
) -> dict[str, float]:
    """Shares of cells within central intervals: normal ones, or for counts negative binomial ones, of these moments."""
    if kind == "gaussian":
        distance = np.abs(x - mean) / std
        return {f"cover{level}": float(np.mean(distance <= stats.norm.ppf(0.5 + level / 200))) for level in LEVELS}
    mean = np.maximum(mean, 1e-9)
    spread = np.maximum(std**2, mean * (1.0 + 1e-6))
    p = mean / spread
    size = mean * p / (1.0 - p)
    below, upto = stats.nbinom.cdf(x - 1, size, p), stats.nbinom.cdf(x, size, p)
    # x lies between the quantiles q(a) and q(b): F(x) ≥ a and F(x − 1) < b.
    ends = {level: (0.5 - level / 200, 0.5 + level / 200) for level in LEVELS}
    return {f"cover{level}": float(np.mean((upto >= a) & (below < b))) for level, (a, b) in ends.items()}
