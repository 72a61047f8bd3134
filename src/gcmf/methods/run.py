"""One run as it stands, and the iteration that every method is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.carried import array_like, part, refuse
from gcmf.methods.scaling import Scaling
from gcmf.methods.search import Search
from gcmf.model import moves, noise
from gcmf.model.elbo import elbo
from gcmf.model.hyper import update_alpha, update_bias_prior, update_parameters, update_scale_prior
from gcmf.model.init import start
from gcmf.model.packing import in_order, pack, pack_state, unpack_posterior, unpack_state
from gcmf.model.posterior import Moments, Posterior, given_of
from gcmf.model.regression import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.engines.base import Engine, State, Swept
    from gcmf.model.spec import Spec
    from gcmf.model.zeros import Drawing

#: The name under which the run is kept after each sweep whose bound was finite and had not fallen.
GOOD = "last good sweep"
#: Sweeps before which no relation is found to have one noise alone.
EARLY = 20
#: By how much the mean precision of rows may differ from one before τ takes it.
NEARLY_ONE = 1e-3
_HERE = "while another is looked at"


class _Kept(NamedTuple):
    """All that goes back with the factors and biases that an engine keeps."""

    spec: Spec
    posterior: Posterior
    measured: NDArray[np.float64]
    level: float
    moved: float


class Run:
    """What is known of a run: small things here, factors and biases in its engine."""

    def __init__(self, spec: Spec, engine: Engine) -> None:
        self.spec, self.engine = spec, engine
        self.posterior: Posterior
        self.measured = np.full(len(spec.ends), np.nan)
        """The engine's summed values of each relation as of the last sweep, (M,)."""
        self.trace: list[float] = []
        """The bound after every sweep."""
        self.level = 0.0
        """Added to the bound: a constant that joins what was found under one prior to what is under another."""
        self.moved = 0.0
        """By how much the trace was moved since the first sweep, to where another model has its bound."""
        self.n_settled: int | None = None
        """Sweeps after which the structure was settled, if it is: by the bound there runs compare (`Fit.bound`)."""
        self.drawing: Drawing | None = None
        """For whom the zeros among the engine's cells were drawn, if some were, and not all alike."""
        self._search, self._scaling = Search(spec), Scaling(spec)
        self._kept: dict[str, _Kept] = {}

    def begin(
        self, on: NDArray[np.bool_], *, dtype: str, rng: np.random.Generator, reach: NDArray[np.bool_] | None = None
    ) -> None:
        """Start from random factors where `on` allows them, seen by the relations that `reach` allows."""
        state, self.posterior = start(self.spec, on, dtype=dtype, rng=rng, reach=reach)
        self.engine.place(state)

    def resume(self, state: State, posterior: Posterior) -> None:
        """Go on from this state; sums and precisions follow from it."""
        self.engine.place(state)
        posterior = told(self.engine, posterior, posterior.moments)
        self.posterior = update_bias_prior(self.spec, update_alpha(self.spec, posterior))
        self.release_noise()

    def sweep(self, *, pooled: bool = False, held: int = 0) -> None:
        """One iteration: every entity set, then α, scales, the likelihoods' parameters and the bias priors.

        `pooled` and `held` are about α, see `update_alpha`.
        """
        spec, given = self.spec, given_of(self.spec, self.posterior)
        swept = [self.engine.sweep(e, given) for e in range(len(spec.sizes))]
        # Each relation is measured by one of its two sets.
        self.measured = np.fmax.reduce([of_set.measured for of_set in swept])
        posterior = told(self.engine, self.posterior, Moments.swept(swept), swept=True)
        posterior = update_alpha(spec, posterior, pooled=pooled, held=held)
        if posterior.scales is not None and not pooled:
            sums = np.add.reduce([of_set.scaling for of_set in swept])
            posterior, self.measured = self._scaling.moved(self.engine, posterior, given, self.measured, sums)
        posterior = self._learn_noise(update_parameters(spec, posterior, self.measured), swept)
        posterior = update_bias_prior(spec, posterior)
        posterior, self.measured = self._search.tried(self.engine, posterior, self.measured)
        self.posterior = moves.shift(spec, self.engine, posterior)

    def _learn_noise(self, posterior: Posterior, swept: list[Swept]) -> Posterior:
        """Take the sums of the precisions of rows, and learn how they are spread."""
        if posterior.noise is None:
            return posterior
        sums = posterior.noise.sums.copy()
        for of_set in swept:
            sums[:, of_set.layers] = of_set.noise
        posterior = self._unit_noise(posterior._replace(noise=posterior.noise._replace(sums=sums)))
        assert posterior.noise is not None
        pairs = zip(self.spec.likelihoods, posterior.parameters, strict=True)
        variance, early = np.array([-0.5 / kind.slope(p) for kind, p in pairs]), len(self.trace) < EARLY
        learned = noise.update(posterior.noise, variance, early=early)
        gone = np.isinf(learned.half) & np.isfinite(posterior.noise.half)
        if gone.any():
            # The model is another from here on, and its bound lies elsewhere: so does the trace.
            before = elbo(self.spec, posterior, self.measured)
            posterior = posterior._replace(noise=learned)
            self.measured = self.engine.measure(given_of(self.spec, posterior))
            self._move_trace(self.moved + elbo(self.spec, posterior, self.measured) - before)
        return posterior._replace(noise=learned)

    def _move_trace(self, moved: float) -> None:
        """Let the trace be moved by so much since the first sweep."""
        step, self.moved = moved - self.moved, moved
        if step:
            self.trace[:] = [bound + step for bound in self.trace]

    def release_noise(self) -> bool:
        """Let rows with few cells have noise of their own from now on; whether any had to wait."""
        known = self.posterior.noise
        if known is None or not known.waits.any():
            return False
        self.posterior = self.posterior._replace(noise=noise.released(known))
        return True

    def _unit_noise(self, posterior: Posterior) -> Posterior:
        """Let τ have the mean of the precisions of rows, if the bound rises: τ may have a prior, or a limit."""
        assert posterior.noise is not None
        unit, factors = noise.unit_mean(posterior.noise)
        if np.abs(factors - 1.0).max() < NEARLY_ONE:
            return posterior
        measured = self.measured * factors.reshape(-1, 2).prod(axis=1)
        moved = update_parameters(self.spec, posterior._replace(noise=unit), measured)
        if not elbo(self.spec, moved, measured) >= elbo(self.spec, posterior, self.measured):
            return posterior
        self.engine.scale_noise(factors)
        self.measured = measured
        return moved

    def leap(self, slot: str, length: float) -> float:
        """Go on so many times the step that was made since something was kept there; return the bound."""
        spec, posterior = self.spec, self.posterior
        square, (bias_sum, bias_square) = self.engine.leap(slot, length)
        moments = posterior.moments._replace(square=square, bias_sum=bias_sum, bias_square=bias_square)
        posterior = update_alpha(spec, told(self.engine, posterior, moments))
        posterior = self._leapt_scales(posterior, slot, length)
        self.measured = self.engine.measure(given_of(spec, posterior))
        self.posterior = update_bias_prior(spec, update_parameters(spec, posterior, self.measured))
        return self.bound()

    def _leapt_scales(self, posterior: Posterior, slot: str, length: float) -> Posterior:
        """D̄ ← d̄ + length (d̄ − d̄ kept there), as factors and biases; variances stay."""
        scales, before = posterior.scales, self._kept[slot].posterior.scales
        if scales is None or before is None:
            return posterior
        mean = scales.mean + length * (scales.mean - before.mean)
        return posterior._replace(scales=update_scale_prior(self.spec, scales._replace(mean=mean)))

    def bound(self) -> float:
        """Return the bound after a sweep."""
        return elbo(self.spec, self.posterior, self.measured) + self.level

    def touched_bound(self) -> float:
        """Return the bound at any state: a pass over the cells, each with a form that touches at its θ."""
        return elbo(self.spec, self.posterior, self.engine.measure(given_of(self.spec, self.posterior))) + self.level

    def size(self, bound: float) -> float:
        """What changes of the bound are compared with: its size, or the number of cells where it is near zero."""
        return max(abs(bound), float(self.spec.n_weighed.sum()))

    def change_engine(self, engine_of: Callable[[State], Engine]) -> None:
        """Go on with the engine of other cells for this state; the trace moves to where those have it."""
        before, state = self.touched_bound(), self.engine.fetch()
        self.engine = engine_of(state)
        self.engine.place(state)
        self.measured = self.engine.measure(given_of(self.spec, self.posterior))
        step = self.bound() - before
        self.trace[:] = [bound + step for bound in self.trace]
        self._kept.clear()
        self.keep(GOOD)

    def settle(self) -> None:
        """Take a sweep to be good: keep it, in the layout in which `pack` gives it away."""
        self.posterior = in_order(self.posterior)
        self.keep(GOOD)

    def pack(self) -> dict[str, Any]:
        """The run after a good sweep, with all that is kept, for another process to go on with."""
        others = [slot for slot in self._kept if slot != GOOD]
        return {
            "now": self._packed(self._as_kept(), self.engine.fetch()),
            "kept": {slot: self._packed(self._kept[slot], self._fetched(slot)) for slot in others},
            "trace": np.array(self.trace), "n_settled": self.n_settled,
            "search": self._search.pack(), "scaling": self._scaling.pack(),
        }  # fmt: skip

    def unpack(self, values: dict[str, Any]) -> None:
        """Go on with what `pack` took; the engine is one of the same cells and precision."""
        others = part(values, "kept")
        if not isinstance(others, dict):
            refuse("kept", "is no mapping")
        for slot, kept in others.items():
            self._place(kept)
            self.keep(str(slot))
        self._place(part(values, "now"))
        trace, n_settled = part(values, "trace"), part(values, "n_settled")
        if not isinstance(trace, np.ndarray) or trace.dtype != float or trace.ndim != 1 or not len(trace):
            refuse("trace", "is no list of numbers")
        if n_settled is not None and (type(n_settled) is not int or not 1 <= n_settled <= len(trace)):
            refuse("n_settled", "is no sweep of the trace")
        self.trace[:], self.n_settled = trace.tolist(), n_settled
        self._search.unpack(part(values, "search"))
        self._scaling.unpack(part(values, "scaling"))
        self.keep(GOOD)

    @staticmethod
    def _packed(kept: _Kept, state: State) -> dict[str, Any]:
        return {
            "posterior": pack(in_order(kept.posterior)), "measured": kept.measured, "level": float(kept.level),
            "moved": float(kept.moved), "state": pack_state(state),
        }  # fmt: skip

    def _place(self, values: dict[str, Any]) -> None:
        self.posterior = unpack_posterior(self.spec, part(values, "posterior"))
        self.measured = array_like(self.measured, part(values, "measured"), "measured").copy()
        level, moved = part(values, "level"), part(values, "moved")
        if not isinstance(level, float) or not isinstance(moved, float):
            refuse("level", "is no number")
        self.level, self.moved = level, moved
        self.engine.place(unpack_state(self.spec, self.posterior.n_factors, part(values, "state")))

    def _fetched(self, slot: str) -> State:
        """What the engine keeps there, without moving from where it is."""
        self.engine.keep(_HERE)
        self.engine.restore(slot)
        state = self.engine.fetch()
        self.engine.restore(_HERE)
        self.engine.drop(_HERE)
        return state

    def keep(self, slot: str) -> None:
        """Remember the run as it is now under this name."""
        self.engine.keep(slot)
        self._kept[slot] = self._as_kept()

    def _as_kept(self) -> _Kept:
        return _Kept(self.spec, self.posterior, self.measured, self.level, self.moved)

    def has(self, slot: str) -> bool:
        """Whether something is kept under this name."""
        return slot in self._kept

    def drop(self, slot: str) -> None:
        """Forget what was kept under this name."""
        self.engine.drop(slot)
        del self._kept[slot]

    def restore(self, slot: str) -> None:
        """Go back to what was kept under this name; the trace stays, where that model has its bound."""
        self.engine.restore(slot)
        self.spec, self.posterior, self.measured, self.level, moved = self._kept[slot]
        self._move_trace(moved)
