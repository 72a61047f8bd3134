"""How much of each relation the biases and each factor explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: Cells per relation that are looked at; larger relations are sampled evenly.
MAX_CELLS = 200_000
#: Cells at a time: of those looked at, and of all that are passed on the way.
_CHUNK, _PASSED = 10_000, 100_000


class Explained(NamedTuple):
    """Fractions of the deviance of an intercept-only model (Gaussian: of the variance), on the training cells."""

    bias: Floats
    """What biases alone explain, (M,)."""
    factors: Floats
    """What each factor adds to the biases when it is added alone, (M, K)."""
    total: Floats
    """What the whole model explains, (M,)."""


def explain(spec: Spec, posterior: Posterior, data: Collection) -> Explained:
    """1 − D/D₀ for biases, each factor and all together; D the deviance, D₀ that of the mean alone."""
    rows = [_relation(spec, posterior, data, m) for m in range(len(spec.ends))]
    bias, factors, total = zip(*rows, strict=True)
    return Explained(np.array(bias), np.stack(factors), np.array(total))


def _relation(spec: Spec, posterior: Posterior, data: Collection, m: int) -> tuple[float, Floats, float]:
    s, likelihood = posterior.state, spec.likelihoods[m]
    relation = data.relations[spec.schema.relations[m].name]
    cells, (r, c) = relation.cells, spec.ends[m]
    step = -(-cells.n_cells // MAX_CELLS)
    K = posterior.on.shape[1]
    base, alone, whole, plain = 0.0, np.zeros(K), 0.0, 0.0
    low, high = np.inf, -np.inf
    for part in cells.chunks(step * max(1, min(_CHUNK, _PASSED // step))):
        i, j = part.i[::step], part.j[::step]
        x = (part.x[::step].astype(np.float64) - spec.center[m]) / spec.scale[m]
        b = s.bias_mean[2 * m][i].astype(np.float64) + s.bias_mean[2 * m + 1][j] + spec.offset[m]
        low, high = min(low, x.min()), max(high, x.max())
        p = s.mean[r][i].astype(np.float64) * s.mean[c][j]
        plain += float(likelihood.deviance(x, np.full_like(x, spec.offset[m])).sum())
        base += float(likelihood.deviance(x, b).sum())
        alone += likelihood.deviance(x[:, None], b[:, None] + p).sum(axis=0)
        whole += float(likelihood.deviance(x, b + p.sum(axis=1)).sum())
    if low == high:
        return 0.0, np.zeros(K), 0.0  # every cell is the same: there is nothing to explain
    return 1.0 - base / plain, (base - alone) / plain, 1.0 - whole / plain
