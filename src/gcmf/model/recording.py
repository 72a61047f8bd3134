"""From states of chains to draws that are kept, with entities without data filled in, and to running means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.carried import array_like, pack_generator, part, refuse, unpack_generator
from gcmf.engines.base import State
from gcmf.gamma import Gamma
from gcmf.model.centers import absorb
from gcmf.model.diagnostics import effective_size, r_hat
from gcmf.model.draws import Draws
from gcmf.model.kept import Kept, pack_kept, unpack_kept
from gcmf.model.links import Layers, covariance, linked
from gcmf.model.packing import in_order, pack, unpack_like
from gcmf.model.posterior import BiasPrior, Moments, row_priors, scales_of
from gcmf.model.regression import Regression

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]
    Array = NDArray[Any]

#: Cells of each relation by whose θ chains are judged (every other one of entities that need have no cells there: who
#: lacks a view is predicted too), and the share of them that may be worse than what is told.
N_PROBES = 300
WORST = 0.05


class Link(NamedTuple):
    """Bias layers of an entity set that go together, and the covariance that a variational fit found for them."""

    layers: list[int]
    sigma: Floats


class Recorder:
    """Takes the states of chains as they come."""

    def __init__(self, spec: Spec, posterior: Posterior, state: State, *, seed: int) -> None:
        self._spec, self._rng = spec, np.random.default_rng(seed)
        self._links = _links(spec, posterior, state)
        self._noise: list[Array] = []
        self._kept: list[Kept] = []
        self._unit = _unit(spec, state)
        self._sums: _Sums | None = None
        self._on = np.zeros(posterior.on.shape)
        self.probes = [_pairs(spec, m, self._rng) for m in range(len(spec.ends))]

    def probe(self, posterior: Posterior, state: State, log_cells: Floats) -> Floats:
        """By what chains are judged, all relations after each other: θ of some cells, and log p of all."""
        spec, scales = (
            self._spec,
            None if posterior.scales is None else scales_of(posterior.scales, self._spec.directed),
        )
        found = []
        for m, (i, j) in enumerate(self.probes):
            (r, c) = spec.ends[m]
            theirs = state.mean[c][j].astype(np.float64)
            if scales is not None:
                theirs, _ = scales.scaled(m, 0, theirs, theirs)
            theta = np.einsum("nk,nk->n", state.mean[r][i].astype(np.float64), theirs)
            found.append(theta + state.bias_mean[2 * m][i] + state.bias_mean[spec.layer(m, 1)][j] + spec.offset[m])
            found.append(log_cells[m : m + 1])
        return np.concatenate(found)

    def add(self, posterior: Posterior, state: State) -> None:
        """Add a state to the running means."""
        if self._sums is None:
            self._sums = _Sums(posterior, state)
        self._on += posterior.on
        self._sums.add(posterior, state)

    def keep(self, posterior: Posterior, state: State) -> None:
        """Keep a state, with a draw for who has no data."""
        spec, K = self._spec, posterior.n_factors
        # What no data bind has the same deviations as in the state before, with the other sign: means are then exact.
        if len(self._kept) % 2 == 0:
            self._noise = [self._rng.standard_normal(shape) for shape in self._shapes(K)]
        else:
            self._noise = [-noise for noise in self._noise]
        parameters = tuple(
            likelihood.settled(p, spec.parameter_prior)
            for likelihood, p in zip(spec.likelihoods, posterior.parameters, strict=True)
        )
        scales = np.ones((len(spec.ends), K)) if posterior.scales is None else posterior.scales.mean
        (factors, expected), (biases, away) = self._factors(posterior, state), self._biases(posterior, state)
        absorb(spec, posterior, factors, biases)
        if self._links:
            # They were found in biases that have taken up what centers do.
            absorb(spec, posterior, expected, away)
            for link in self._links:
                self._fill(link, biases, away)
        small = [np.clip(u / unit, -6e4, 6e4).astype(np.float16) for u, unit in zip(factors, self._unit, strict=True)]
        # Both sides of a symmetric relation have the biases of the first.
        layers = [biases[spec.layer(*divmod(n, 2))].astype(np.float32) for n in range(len(biases))]
        self._kept.append(Kept(small, layers, scales, parameters))

    def _shapes(self, K: int) -> list[tuple[int, ...]]:
        """Of deviations: every member of a set and one more, and of every layer of biases."""
        spec = self._spec
        layers = [(spec.sizes[spec.ends[n // 2][n % 2]] + 1,) for n in range(len(spec.biased))]
        return [*((d + 1, K) for d in spec.sizes), *layers]

    def _factors(self, posterior: Posterior, state: State) -> tuple[list[Floats], list[Floats]]:
        """Of every set, where who has no data is drawn from the prior; and what is expected of all."""
        factors, all_expected = [], []
        for e, prior in enumerate(row_priors(self._spec, posterior)):
            u = np.zeros((len(state.mean[e]) + 1, posterior.n_factors))
            u[:-1] = state.mean[e]
            unseen = np.append(~self._spec.observed[e], True)
            told = prior.mean[self._rng.permutation(len(prior.mean))[:1]]
            expected = np.concatenate([np.broadcast_to(prior.mean, (len(u) - 1, u.shape[1])), told])
            drawn = expected + self._noise[e] / np.sqrt(prior.precision)
            u[unseen] = np.where(posterior.on[e], drawn, 0.0)[unseen]
            factors.append(u)
            all_expected.append(np.where(posterior.on[e], expected, 0.0))
        return factors, all_expected

    def _biases(self, posterior: Posterior, state: State) -> tuple[list[Floats], list[Floats]]:
        """Of every layer, where who has no cells is drawn from the prior; and what is expected of all."""
        spec, first = self._spec, len(self._spec.sizes)
        biases: list[Floats] = [np.zeros(0)] * len(spec.biased)
        away: list[Floats] = [np.zeros(0)] * len(spec.biased)
        for e, (prior, layers) in enumerate(zip(row_priors(spec, posterior), spec.layers, strict=True)):
            for b, layer in enumerate(layers):
                d = spec.sizes[e]
                center = np.broadcast_to(prior.bias_mean[:, b], d)
                anybody = prior.bias_mean[self._rng.integers(len(prior.bias_mean)), b]
                away[layer] = np.append(center, anybody)
                drawn = away[layer] + self._noise[first + layer] * np.sqrt(posterior.bias.scale[layer])
                seen = np.append(spec.in_layer[layer], False)
                found = np.where(seen, np.append(state.bias_mean[layer], 0.0), drawn)
                biases[layer] = found if spec.biased[layer] else np.zeros(d + 1)
        return biases, away

    def _fill(self, link: Link, biases: list[Floats], center: list[Floats]) -> None:
        """Draw b given the biases that an entity has, of b ~ N(μ, Σ), for each pattern of those that it has."""
        layers, sigma = link
        seen = np.stack([np.append(self._spec.in_layer[n], False) for n in layers], axis=1)
        for pattern in np.unique(seen, axis=0):
            rows = np.flatnonzero((seen == pattern).all(axis=1))
            if pattern.all() or not pattern.any():
                continue
            gone, there = np.flatnonzero(~pattern), np.flatnonzero(pattern)
            gain = np.linalg.solve(sigma[np.ix_(there, there)], sigma[np.ix_(there, gone)]).T
            left = np.linalg.cholesky(sigma[np.ix_(gone, gone)] - gain @ sigma[np.ix_(there, gone)])
            told = np.stack([(biases[layers[n]] - center[layers[n]])[rows] for n in there], axis=1) @ gain.T
            noise = np.stack([self._noise[len(self._spec.sizes) + layers[n]][rows] for n in gone], axis=1) @ left.T
            for at, n in enumerate(gone):
                biases[layers[n]][rows] = center[layers[n]][rows] + told[:, at] + noise[:, at]

    @property
    def n(self) -> int:
        """States that were kept."""
        return len(self._kept)

    def pack(self) -> dict[str, Any]:
        """All that was recorded, for another process to go on with."""
        sums = None if self._sums is None else self._sums.pack()
        return {"rng": pack_generator(self._rng), "noise": list(self._noise), "kept": pack_kept(self._kept),
                "sums": sums, "on": self._on}  # fmt: skip

    def unpack(self, values: dict[str, Any], posterior: Posterior, state: State) -> None:
        """Go on with what `pack` took; draws look like this posterior and state."""
        spec, sums, noise = self._spec, part(values, "sums"), part(values, "noise")
        self._rng, self._on = unpack_generator(part(values, "rng")), array_like(self._on, part(values, "on"), "on")
        self._kept = unpack_kept(spec.sizes, spec.ends, posterior.n_factors, part(values, "kept"))
        shapes = self._shapes(posterior.n_factors) if self._kept else []
        if not isinstance(noise, list) or len(noise) != len(shapes):
            refuse("noise", "is not of all sets and layers")
        self._noise = [array_like(np.zeros(shape), one, "noise") for shape, one in zip(shapes, noise, strict=True)]
        if sums is not None:
            self._sums = _Sums(posterior, state)
            self._sums.unpack(sums)

    def finish(self, chains: Floats) -> tuple[Draws, Posterior, State]:
        """All draws that were kept, and means and variances over all that were added; `chains` are probes (C, S, n)."""
        spec, kept = self._spec, self._kept
        assert self._sums is not None
        K = kept[0].scales.shape[1]
        size, ratio = effective_size(chains), r_hat(chains)
        # θ of random cells, and log p of all cells, of each relation.
        size, ratio = (a.reshape(len(spec.ends), N_PROBES + 1) for a in (size, ratio))
        mates = np.broadcast_to(np.arange(K), (len(spec.ends), K))
        if self._sums.posterior.scales is not None:
            mates = scales_of(self._sums.posterior.scales, spec.directed).mates
        draws = Draws(
            factors=tuple(np.stack([one.factors[e] for one in kept]) for e in range(len(spec.sizes))),
            unit=self._unit,
            biases=tuple(np.stack([one.biases[n] for one in kept]) for n in range(len(spec.biased))),
            scales=np.stack([one.scales for one in kept]),
            parameters=tuple(np.stack([one.parameters[m] for one in kept]) for m in range(len(spec.ends))),
            offset=spec.offset, ends=np.array(spec.ends), mates=np.ascontiguousarray(mates),
            inclusion=self._on / self._sums.n,
            effective=np.quantile(size[:, :-1], WORST, axis=1),
            r_hat=np.maximum(np.quantile(ratio[:, :-1], 1.0 - WORST, axis=1), ratio[:, -1]),
        )  # fmt: skip
        posterior, state = self._sums.finish()
        # A factor that was ever on is one of the model's.
        return draws, posterior._replace(on=self._on > 0), state


class _Sums:
    """Sums and sums of squares of all that is drawn."""

    def __init__(self, posterior: Posterior, state: State) -> None:
        self.posterior, self.n = in_order(posterior), 0
        self._dtype = state.mean[0].dtype
        self._totals = [np.zeros((2, *a.shape)) for a in self._arrays(posterior, state)]

    def _arrays(self, posterior: Posterior, state: State) -> list[Floats]:
        scales = [] if posterior.scales is None else [posterior.scales.mean]
        return [
            *state.mean, *state.bias_mean, 1.0 / posterior.alpha.mean, posterior.bias.mean, posterior.bias.scale,
            *posterior.parameters, *scales, *(r.q.mean for r in posterior.regressions),
        ]  # fmt: skip

    def add(self, posterior: Posterior, state: State) -> None:
        self.n += 1
        for total, array in zip(self._totals, self._arrays(posterior, state), strict=True):
            wide = array.astype(np.float64)
            total[0] += wide
            total[1] += wide**2

    def pack(self) -> dict[str, Any]:
        return {"posterior": pack(self.posterior), "n": self.n, "totals": list(self._totals),
                "dtype": self._dtype.name}  # fmt: skip

    def unpack(self, values: dict[str, Any]) -> None:
        totals, n, dtype = part(values, "totals"), part(values, "n"), part(values, "dtype")
        if not isinstance(totals, list) or len(totals) != len(self._totals) or type(n) is not int or n < 1:
            refuse("sums", "are not of the parts of the model")
        if dtype not in ("float32", "float64"):
            refuse("sums", f"are of {dtype!r}")
        self.posterior = unpack_like(self.posterior, part(values, "posterior"))
        self._totals = [array_like(*pair, "sums").copy() for pair in zip(self._totals, totals, strict=True)]
        self.n, self._dtype = n, np.dtype(dtype)

    def finish(self) -> tuple[Posterior, State]:
        """Means, and variances in place of those that a variational fit would have."""
        moments = [(t[0] / self.n, np.maximum(t[1] / self.n - (t[0] / self.n) ** 2, 0.0)) for t in self._totals]
        found, posterior = iter(moments), self.posterior
        E, layers = len(posterior.on), len(posterior.bias.mean)
        factors, biases = [next(found) for _ in range(E)], [next(found) for _ in range(layers)]
        state = State(*([m.astype(self._dtype) for m in part]
                        for part in (*zip(*factors, strict=True), *zip(*biases, strict=True))))  # fmt: skip
        alpha, (mu, mu_var), (scale, _) = next(found)[0], next(found), next(found)
        parameters = tuple(next(found)[0] for _ in posterior.parameters)
        scales = posterior.scales
        if scales is not None:
            mean, var = next(found)
            scales = scales._replace(mean=mean, var=var)
        regressions = []
        for design, q, products in posterior.regressions:
            mean, var = next(found)
            regressions.append(Regression(design, q._replace(mean=mean, var=var), products))
        return posterior._replace(
            alpha=Gamma(np.ones_like(alpha), alpha), parameters=parameters, bias=BiasPrior(mu, mu_var, scale),
            scales=scales, regressions=tuple(regressions), moments=Moments.of(state),
        ), state  # fmt: skip


def _unit(spec: Spec, state: State) -> Floats:
    """Powers of two near the root mean squares of the factors, (E, K)."""
    sizes = []
    for mean, seen in zip(state.mean, spec.observed, strict=True):
        square = (mean.astype(np.float64) ** 2).sum(axis=0) / max(int(seen.sum()), 1)
        sizes.append(np.exp2(np.round(0.5 * np.log2(np.where(square > 0, square, 1.0)))))
    return np.stack(sizes)


def _pairs(spec: Spec, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random cells of entities with data: in the relation, and of every second cell in any."""
    there, anywhere = (
        [rng.choice(np.flatnonzero(of_side), N_PROBES) for of_side in sides]
        for sides in (
            [spec.in_layer[2 * m + side] for side in (0, 1)],
            [spec.observed[e] for e in spec.ends[m]],
        )
    )  # fmt: skip
    second = np.arange(N_PROBES) % 2 == 1
    i, j = (np.where(second, *pair) for pair in zip(anywhere, there, strict=True))
    return i, j


def _links(spec: Spec, posterior: Posterior, state: State) -> list[Link]:
    """Which bias layers go together, as a variational fit has it."""
    found = []
    for prior, of_set, observed in zip(row_priors(spec, posterior), spec.layers, spec.observed, strict=True):
        at = [b for b, layer in enumerate(of_set) if spec.biased[layer]]
        group = [of_set[b] for b in at]
        if len(group) < 2:
            continue
        center = np.broadcast_to(prior.bias_mean, (len(observed), len(of_set)))[:, at]
        layers = Layers(
            np.stack([state.bias_mean[n] for n in group], axis=1).astype(np.float64),
            np.stack([state.bias_var[n] for n in group], axis=1).astype(np.float64),
            np.stack([spec.in_layer[n] for n in group], axis=1), center,
            (posterior.bias.scale + posterior.bias.var)[group],
        )  # fmt: skip
        for some in linked(layers):
            found.append(Link([group[n] for n in some], covariance(layers.only(some))))
    return found
