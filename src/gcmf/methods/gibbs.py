"""Gibbs sampling: chains that start from a variational fit, with the pass over rows that the fit was made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.carried import Carried, part
from gcmf.engines.base import is_proposed, is_rare
from gcmf.methods.inclusion import OFF, Inclusion
from gcmf.methods.walk import Walk
from gcmf.model import conditionals
from gcmf.model.centers import absorbed, around_centers, draw_centers, shift_centers
from gcmf.model.packing import in_order, pack, pack_state, unpack_like, unpack_state
from gcmf.model.posterior import Moments, given_of
from gcmf.model.regression import told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine, State
    from gcmf.model.conditionals import Hyper
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


#: Factors of each set that are decided on in a sweep: each costs about as much as drawing the set.
N_DECIDED = 1
#: Rows with rare ones are drawn given Pólya-Gamma weights in every third sweep, and proposed in the others. Proposals
#: go as far as the posterior is wide; but patterns and scales need weights, and so do rows whose proposals are refused.
WEIGHED_EVERY = 3


class Chain(Carried):
    """One chain: what is global is here, factors and biases are in its engine, all of them points."""

    carried = ("n", "_inclusion", "_walk")

    def __init__(self, spec: Spec, engine: Engine, posterior: Posterior, hyper: Hyper, *, seed: int) -> None:
        self.spec, self.engine, self.posterior, self.hyper = spec, engine, posterior, hyper
        self.log_joint = np.nan
        self.log_cells = np.full(len(spec.ends), np.nan)
        """Log density of the cells of each relation at the last draw, (M,)."""
        self._seed, self.n = seed, 0
        likelihoods = spec.likelihoods
        self._summed = np.array([likelihood.least_squares for likelihood in likelihoods])
        # The scales of these have a Gaussian to be drawn from. A cell of a symmetric relation has a weight at each of
        # its ends, and none that it has as a cell.
        self._conjugate = np.array([
            likelihood.least_squares or not (is_proposed(likelihood) or symmetric)
            for likelihood, symmetric in zip(likelihoods, spec.symmetric, strict=True)
        ])  # fmt: skip
        self._rare = np.array([is_rare(lik, at) for lik, at in zip(likelihoods, spec.offset.tolist(), strict=True)])
        self._rare_sets = {e for pair, rare in zip(spec.ends, self._rare, strict=True) if rare for e in pair}
        self._inclusion = Inclusion(spec, posterior, wanted=hyper.patterns)
        self._walk = Walk(spec, posterior, ~self._conjugate)

    def sweep(self, *, adapting: bool = False) -> None:
        """Draw every row of every set, then all that is global. While `adapting`, steps of walks may change."""
        self.n += 1
        spec, posterior = self.spec, self.posterior
        rng = np.random.default_rng([self._seed, self.n])
        key = int(rng.integers(1 << 62))
        if self.hyper.centers is not None:
            posterior = shift_centers(spec, self.engine, posterior, self.hyper.centers, rng)
        proposing, swept = self.n % WEIGHED_EVERY != 0, []
        for e in range(len(spec.sizes)):
            if e in self._inclusion.sets and not (proposing and e in self._rare_sets):
                for _ in range(N_DECIDED):
                    posterior = self._inclusion.decided(self.engine, posterior, e, key=key, rng=rng)
            swept.append(self.engine.sweep(e, given_of(spec, posterior)._replace(key=key, proposing=proposing)))
            posterior = self._silenced(posterior)
        given = given_of(spec, posterior)
        measured = np.fmax.reduce([of_set.measured for of_set in swept])
        posterior = around_centers(told(self.engine, posterior, Moments.swept(swept), swept=True))
        posterior = conditionals.draw_alpha(spec, posterior, rng)
        posterior = conditionals.draw_alpha_prior(spec, posterior, self.hyper, rng)
        posterior = conditionals.draw_coefficients(posterior, self.hyper, rng, biases=False)
        if self.hyper.centers is not None:
            posterior = draw_centers(spec, self.engine, posterior, self.hyper.centers, rng)
        if posterior.scales is not None:
            sums = np.add.reduce([of_set.scaling for of_set in swept])
            conjugate = self._conjugate & ~(proposing & self._rare)
            posterior, gain = conditionals.draw_scales(posterior, self.hyper, sums, conjugate, rng)
            measured = measured + np.where(self._summed, gain / given.slope, 0.0)
        posterior = conditionals.draw_parameters(spec, posterior, self.hyper, measured, rng)
        if not self._summed.all():
            measured = np.where(self._summed, measured, self.engine.measure(given_of(spec, posterior)))
            posterior, measured = self._walk.moved(self.engine, posterior, measured, rng, adapting=adapting)
        posterior = conditionals.draw_bias_prior(spec, posterior, self.hyper, rng)
        self.posterior = in_order(conditionals.draw_coefficients(posterior, self.hyper, rng, biases=True))
        self.log_cells = conditionals.log_cells(spec, self.posterior, measured)
        self.log_joint = conditionals.log_joint(spec, self.posterior, self.hyper, self.log_cells)

    def _silenced(self, posterior: Posterior) -> Posterior:
        """Switch off what was decided to be off: its rows are nothing by now, and then are zero."""
        off = posterior.on & (posterior.alpha.mean >= OFF)
        if not off.any():
            return posterior
        self.engine.transform([np.diag(np.where(row, 0.0, 1.0)) for row in off])
        alpha = np.where(off, np.broadcast_to(posterior.alpha_prior.mean, off.shape), posterior.alpha.mean)
        return posterior._replace(on=posterior.on & ~off, alpha=conditionals.points(alpha))

    def fetch(self) -> State:
        """The factors and biases of this draw."""
        return self.engine.fetch()

    def without_centers(self, drawn: State) -> tuple[Posterior, State]:
        """What was fetched as a model has it: its biases have taken up what the centers of factors do."""
        return absorbed(self.spec, self.posterior, drawn)

    def pack(self) -> dict[str, Any]:
        """The chain after a sweep, for another process to go on with."""
        return {**super().pack(), "posterior": pack(self.posterior), "state": pack_state(self.fetch())}

    def unpack(self, values: dict[str, Any]) -> None:
        """Go on with what `pack` took; the engine is one of the same cells and precision."""
        super().unpack(values)
        self.posterior = unpack_like(self.posterior, part(values, "posterior"))
        self.engine.place(unpack_state(self.spec, self.posterior.n_factors, part(values, "state")))
