"""Which factors live in which entity sets, drawn: on or off, with the rows of the set integrated out.

Given all else, row i of set e knows of its factor k by a Gaussian with precision a_i and a_i times the mean, h_i
(`Engine.lean`). With u_ik ~ N(m_i, 1/α), the factor being on is then more probable than it being off by

    B(α) = ½ Σ_i [ log α/(α + a_i) + (α m_i + h_i)²/(α + a_i) − α m_i² ],

α ~ Gamma(a_e, b_e), and the prior of the pattern. α is integrated over on a fine grid, and drawn from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.carried import Carried
from gcmf.engines.base import is_proposed
from gcmf.gamma import log_density
from gcmf.model.conditionals import points
from gcmf.model.posterior import given_of
from gcmf.model.structure import reached

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: Logarithms of α that are looked at, around the prior's mean, and how often the grid closes in on the peak.
REACH, N_POINTS, N_ZOOMS = 12.0, 25, 3
#: Standard deviations of the peak that the last grid covers to either side.
WIDE = 6.0
#: α of a factor that is off, while the rows are drawn for the last time with it: it is then nothing.
OFF = 1e14


class Inclusion(Carried):
    """Decides on factors one after the other, a few in each sweep."""

    carried = ("_next",)

    def __init__(self, spec: Spec, posterior: Posterior, *, wanted: bool) -> None:
        self._spec = spec
        own = {r for r, c in spec.ends if r == c}
        others = {e for pair, kind in zip(spec.ends, spec.likelihoods, strict=True) if is_proposed(kind) for e in pair}
        # With one relation, a factor that is off in a set is off altogether: shrinking is enough.
        free = wanted and spec.priors.vague and len(spec.ends) > 1 and not spec.common and posterior.scales is None
        self.sets = [e for e in range(len(spec.sizes))
                     if free and e not in own | others and not spec.unit_variance[e]]  # fmt: skip
        self._next = np.zeros(len(spec.sizes), np.int64)

    def decided(self, engine: Engine, posterior: Posterior, e: int, *, key: int, rng: np.random.Generator) -> Posterior:
        """The posterior with the next factor of set e on or off; α is `OFF` for one that is to vanish in a sweep."""
        K = posterior.n_factors
        if not K:
            return posterior
        k = self._next[e] = (int(self._next[e]) + 1) % K
        tried = posterior.on.copy()
        tried[e, k] = True
        there = posterior._replace(on=tried)
        if not reached(self._spec, there)[:, k].any():
            return posterior  # nobody would see it
        alpha = posterior.alpha.mean.copy()
        if not posterior.on[e, k]:
            alpha[e, k] = posterior.alpha_prior.mean[e, 0]
        there = there._replace(alpha=points(alpha))
        given = given_of(self._spec, there)._replace(key=key)
        lean = engine.lean(e, k, given)
        mean = np.broadcast_to(given.priors[e].mean, (self._spec.sizes[e], K))[:, k]
        seen = self._spec.observed[e]
        log_odds, drawn = self._weighed(there, e, k, (lean[:, seen], mean[seen]), rng)
        is_on = rng.random() < 1.0 / (1.0 + np.exp(-np.clip(log_odds, -500.0, 500.0)))
        if not is_on and not posterior.on[e, k]:
            return posterior
        alpha[e, k] = drawn if is_on else OFF
        if not is_on and there.center is not None:
            # It is to be zero, not its center.
            there = there._replace(center=np.where(there.on & (alpha >= OFF), 0.0, there.center))
        return there._replace(alpha=points(alpha))

    def _weighed(
        self, there: Posterior, e: int, k: int, told: tuple[Floats, Floats], rng: np.random.Generator
    ) -> tuple[float, float]:
        """Log odds that the factor is on, and an α for the case that it is."""
        (a, h), m = told
        shape, rate = float(there.alpha_prior.shape[e, 0]), float(there.alpha_prior.rate[e, 0])

        def density(log_alpha: Floats) -> Floats:
            alpha = np.exp(log_alpha)
            each = np.empty(len(alpha))
            for n, one in enumerate(alpha):
                # (α m + h)²/(α + a) − α m², so that nothing cancels, also where α is beyond numbers.
                share = 1.0 / (1.0 + a / one)
                each[n] = 0.5 * (np.log(share) + share * m * (2.0 * h - a * m) + h**2 / (one + a)).sum()
            return each + log_density(alpha, shape, rate) + log_alpha

        center, reach = np.log(shape / rate), REACH
        for _ in range(N_ZOOMS):
            grid = center + np.linspace(-reach, reach, N_POINTS)
            center, reach = float(grid[int(density(grid).argmax())]), reach * 3.0 / (N_POINTS - 1)
        step = 1e-2
        low, here, high = density(center + np.array([-step, 0.0, step]))
        wide = step / np.sqrt(max(2.0 * here - low - high, 1e-8))
        grid = center + np.linspace(-WIDE, WIDE, 2 * N_POINTS + 1) * wide
        found = density(grid)
        share = np.exp(found - found.max())
        gap = grid[1] - grid[0]
        evidence = float(found.max() + np.log(share.sum() * gap))
        drawn = rng.choice(grid, p=share / share.sum()) + gap * (rng.random() - 0.5)
        off = there.on.copy()
        off[e, k] = False
        prices = (
            reached(self._spec, there)[:, k] & ~reached(self._spec, there._replace(on=off))[:, k]
        ) @ self._spec.price
        return evidence - float(prices), float(np.exp(drawn))
