"""From states of chains to draws that are kept, with entities without data filled in, and to running means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.carried import array_like, pack_generator, part, refuse, unpack_generator
from gcmf.engines.base import State
from gcmf.gamma import Gamma
from gcmf.model.alignment import Axes, Turn
from gcmf.model.centers import absorb
from gcmf.model.diagnostics import effective_size, r_hat
from gcmf.model.draws import Draws, Origin
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
        # The first draw is brought to the factors that a variational fit found, and all others to the first.
        self._axes = Axes(spec, [_sized(mean) for mean in state.mean], posterior.on)
        self._turn: Turn
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
        """Bring a state, without centers, to the axes of all, and add it to the running means."""
        self._turn = turn = self._axes.turn(posterior, state)
        turned, moved = _turned(posterior, turn), replace(state, mean=_moved(state.mean, turn.factors))
        if self._sums is None:
            self._sums = _Sums(turned, state)
            self._axes = Axes(self._spec, [mean.astype(np.float32) for mean in moved.mean], turn.on)
        self._on += turn.on
        var = np.where(posterior.on, 1.0 / posterior.alpha.mean, 0.0)
        self._sums.add(turned, moved, np.einsum("ek,ekl->el", var, turn.factors**2))

    def keep(self, posterior: Posterior, state: State) -> None:
        """Keep the state that was added last, with a draw for who has no data; here it is as it was drawn."""
        spec, K = self._spec, posterior.n_factors
        # What no data bind has the same deviations as in the state before, with the other sign: means are then exact.
        if len(self._kept) % 2 == 0:
            self._noise = [self._rng.standard_normal(shape) for shape in self._shapes(K)]
        else:
            self._noise = [-noise for noise in self._noise]
        parameters = [
            likelihood.settled(p, spec.parameter_prior)
            for likelihood, p in zip(spec.likelihoods, posterior.parameters, strict=True)
        ]
        (factors, expected), (biases, away) = self._factors(posterior, state), self._biases(posterior, state)
        absorb(spec, posterior, factors, biases)
        if self._links:
            # They were found in biases that have taken up what centers do.
            absorb(spec, posterior, expected, away)
            for link in self._links:
                self._fill(link, biases, away)
        # Both sides of a symmetric relation have the biases of the first.
        layers = [biases[n].astype(np.float32) for n in _shared(spec)]
        turned = [u.astype(np.float32) for u in _moved(factors, self._turn.factors)]
        plain = np.ones((len(spec.ends), K)) if posterior.scales is None else posterior.scales.mean
        self._kept.append(Kept(
            turned, layers, self._turn.scales, [np.array(p, dtype=np.float64) for p in parameters],
            self._turn.factors, posterior.alpha.mean, posterior.on,
            np.zeros(posterior.on.shape) if posterior.center is None else np.where(posterior.on, posterior.center, 0.0),
            plain, np.stack([posterior.bias.mean, posterior.bias.scale])[:, _shared(spec)],
            [np.array(p, dtype=np.float64) for p in posterior.parameters], *_coefficients(spec, posterior),
        ))  # fmt: skip

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
                "sums": sums, "on": self._on, "axes": [*self._axes.mean, self._axes.on]}  # fmt: skip

    def unpack(self, values: dict[str, Any], posterior: Posterior, state: State) -> None:
        """Go on with what `pack` took; draws look like this posterior and state."""
        spec, sums, noise = self._spec, part(values, "sums"), part(values, "noise")
        self._rng, self._on = unpack_generator(part(values, "rng")), array_like(self._on, part(values, "on"), "on")
        # What any state that is kept looks like.
        like, axes, given = Recorder(spec, posterior, state, seed=0), self._axes, part(values, "axes")
        like.add(posterior, state)
        like.keep(posterior, state)
        self._kept = unpack_kept(like._kept[0], part(values, "kept"))
        if not isinstance(given, list) or len(given) != len(axes.mean) + 1:
            refuse("axes", "are not of all sets")
        mean = [array_like(*pair, "axes") for pair in zip(axes.mean, given[:-1], strict=True)]
        self._axes = Axes(spec, mean, array_like(axes.on, given[-1], "axes"))
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
        stacked: dict[str, Any] = {name: tuple(a) if isinstance(a, list) else a for name, a in pack_kept(kept).items()}
        size, ratio = effective_size(chains), r_hat(chains)
        # θ of random cells, and log p of all cells, of each relation.
        size, ratio = (a.reshape(len(spec.ends), N_PROBES + 1) for a in (size, ratio))
        mates = np.broadcast_to(np.arange(K), (len(spec.ends), K))
        if self._sums.posterior.scales is not None:
            mates = scales_of(self._sums.posterior.scales, spec.directed).mates
        draws = Draws(
            factors=stacked["factors"], biases=stacked["biases"], scales=stacked["scales"],
            parameters=stacked["parameters"],
            offset=spec.offset, ends=np.array(spec.ends), mates=np.ascontiguousarray(mates),
            inclusion=self._on / self._sums.n,
            effective=np.quantile(size[:, :-1], WORST, axis=1),
            r_hat=np.maximum(np.quantile(ratio[:, :-1], 1.0 - WORST, axis=1), ratio[:, -1]),
            origin=Origin(
                turn=stacked["turn"], precision=stacked["precision"], on=stacked["on"], center=stacked["center"],
                scales=stacked["plain_scales"], bias_prior=stacked["bias_prior"], learned=stacked["learned"],
                coefficients=stacked["coefficients"], bias_coefficients=stacked["bias_coefficients"],
            ),
        )  # fmt: skip
        posterior, state = self._sums.finish()
        # A factor that was ever on is one of the model's.
        return draws, posterior._replace(on=self._on > 0), state


class _Sums:
    """Sums and sums of squares of all that is drawn."""

    def __init__(self, posterior: Posterior, state: State) -> None:
        self.posterior, self.n = in_order(posterior), 0
        self._dtype = state.mean[0].dtype
        self._totals = [np.zeros((2, *a.shape)) for a in self._arrays(posterior, state, posterior.alpha.mean)]

    def _arrays(self, posterior: Posterior, state: State, spread: Floats) -> list[Floats]:
        scales = [] if posterior.scales is None else [posterior.scales.mean]
        return [
            *state.mean, *state.bias_mean, spread, posterior.bias.mean, posterior.bias.scale,
            *posterior.parameters, *scales, *(r.q.mean for r in posterior.regressions), *state.precision,
        ]  # fmt: skip

    def add(self, posterior: Posterior, state: State, spread: Floats) -> None:
        """Add a draw; `spread` is the prior variance of its factors, (E, K)."""
        self.n += 1
        for total, array in zip(self._totals, self._arrays(posterior, state, spread), strict=True):
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
        spread, (mu, mu_var), (scale, _) = next(found)[0], next(found), next(found)
        spread = np.where(spread > 0, spread, 1.0)  # of factors that no draw had on
        parameters = tuple(next(found)[0] for _ in posterior.parameters)
        scales = posterior.scales
        if scales is not None:
            mean, var = next(found)
            scales = scales._replace(mean=mean, var=var)
        regressions = []
        for design, q, products in posterior.regressions:
            mean, var = next(found)
            regressions.append(Regression(design, q._replace(mean=mean, var=var), products))
        state.precision.extend(mean for mean, _ in found)
        return posterior._replace(
            alpha=Gamma(np.ones_like(spread), spread), parameters=parameters, bias=BiasPrior(mu, mu_var, scale),
            scales=scales, regressions=tuple(regressions), moments=Moments.of(state),
        ), state  # fmt: skip


def _sized(mean: Array) -> Array:
    """Factors of the same size: those that have all but died away are axes, too."""
    size = np.sqrt(np.square(mean, dtype=np.float64).mean(axis=0))
    return np.asarray(mean / np.where(size > 0, size, 1.0), dtype=np.float32)


def _moved(factors: list[Array], T: Floats) -> list[Array]:
    """u T_e of each set, in the precision that it has."""
    return [np.asarray(u @ turn.astype(u.dtype)) for u, turn in zip(factors, T, strict=True)]


def _turned(posterior: Posterior, turn: Turn) -> Posterior:
    """Scales and coefficients on the axes of all draws; no coefficients of factors that are off."""
    regressions = [
        r if r.design.layer is not None else
        r._replace(q=r.q._replace(mean=(r.q.mean * posterior.on[r.design.e]) @ turn.factors[r.design.e]))
        for r in posterior.regressions
    ]  # fmt: skip
    scales = None if posterior.scales is None else posterior.scales._replace(mean=turn.scales)
    return posterior._replace(on=turn.on, scales=scales, regressions=tuple(regressions))


def _coefficients(spec: Spec, posterior: Posterior) -> tuple[list[Floats], list[Floats]]:
    """Of the factors of each set, (p, K), and of its biases, (p, 2M)."""
    factors = [np.zeros((0, posterior.n_factors)) for _ in spec.sizes]
    biases = [np.zeros((0, len(spec.biased))) for _ in spec.sizes]
    for design, q, _ in posterior.regressions:
        if design.layer is None:
            factors[design.e] = q.mean * posterior.on[design.e]
            biases[design.e] = np.zeros((len(q.mean), len(spec.biased)))
    for design, q, _ in posterior.regressions:
        if design.layer is not None:
            biases[design.e][:, design.layer] = q.mean[:, 0]
    return factors, biases


def _shared(spec: Spec) -> list[int]:
    """The layer of the biases of each side of each relation: both sides of a symmetric one have the first."""
    return [spec.layer(*divmod(n, 2)) for n in range(len(spec.biased))]


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
