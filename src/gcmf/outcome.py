"""What a fit says of itself: while it runs, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.carried import part, refuse
from gcmf.data.categories import partly_observed
from gcmf.data.zeros import Drawn
from gcmf.errors import counted
from gcmf.model.dispersion import outweighed, overdispersed
from gcmf.model.fitted import objective_of, summarize
from gcmf.model.packing import in_order, pack, pack_state, unpack_posterior, unpack_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gcmf.data.collection import Collection
    from gcmf.engines.base import State
    from gcmf.model.draws import Draws
    from gcmf.model.fitted import Fitted
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.model.spread import Spread

#: A relation whose bound takes steps this many times too short creeps: a small change of the bound is then no sign that
#: the fit has arrived.
CREEPING = 10.0


class Status(Enum):
    """How a fit ended, in words to act on."""

    CONVERGED = "converged: another sweep would not change the bound"
    MAX_ITER = "stopped at max_iter before converging: raise max_iter, or raise tol if this is precise enough"
    INTERRUPTED = "interrupted: the model is as of the last full sweep"
    NONFINITE = "a number overflowed: the model is as of the last finite sweep; try dtype='float64'"
    ELBO_DECREASED = "the bound fell: try dtype='float64'"
    CAPPED = "converged, but all factors are in use and more would raise the bound: raise n_factors, or leave it 'auto'"
    SAMPLED = "sampled: the draws of predictions agree"
    UNMIXED = "sampled, but the draws of predictions do not agree yet (R-hat > 1.1): raise n_burn and n_samples"
    TOO_FEW_DRAWS = "sampled, but fewer than 8 draws of a chain cannot show whether they agree: raise n_samples"
    ALL_PRUNED = "no factor explains more than it costs, from any start: only biases are left"

    def __str__(self) -> str:
        return self.value


_TROUBLED = (Status.MAX_ITER, Status.NONFINITE, Status.ELBO_DECREASED, Status.CAPPED, Status.UNMIXED,
             Status.TOO_FEW_DRAWS)  # fmt: skip


@dataclass(frozen=True)
class StepInfo:
    """What a sweep is worth logging for; handed to every callback."""

    iteration: int
    elbo: float
    change: float
    """By how much the sweep raised the bound."""
    n_factors: int
    """Factors still alive."""
    restart: int
    """Which start this is, from 0: one of `n_init`, or beyond those a further one where none has found a factor."""
    snapshot: Callable[[], Fit] = field(repr=False, compare=False)
    """Call it to have the run as it stands: a copy of the factors if it is called, and no cost if not."""
    terms: Callable[[], dict[str, float]] = field(default=dict, repr=False, compare=False)
    """Call it to have the bound term by term; draws have none."""
    n_sweeps: int = 0
    """After how many sweeps the run, or its sampling, ends at the latest."""
    sampled: bool = False
    """Whether the sweep was a draw: `elbo` is then the log joint density, and `iteration` counts the draws."""

    @property
    def objective(self) -> str:
        """What `elbo` is, in words."""
        return objective_of(sampled=self.sampled)


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    spec: Spec
    posterior: Posterior
    state: State
    trace: tuple[float, ...]
    status: Status
    drawn: Mapping[str, Drawn]
    """Of which relations zeros were drawn, and how many."""
    widths: Spread | None = None
    """How uncertain factors and biases are, each by itself, where that was asked for."""
    draws: Draws | None = None
    """States of a sampled model; posterior and state then are means over them."""
    n_settled: int | None = None
    """Sweeps after which the structure was settled, where predictions were refined after it."""

    @property
    def bound(self) -> float:
        """The bound by which fits compare: that of the settled structure, or the last one where nothing followed it.

        What refining adds depends on the random weak factors that it started with.
        """
        return self.trace[(self.n_settled or 0) - 1]

    def pack(self) -> dict[str, Any]:
        """As plain values, for another process."""
        return {
            "posterior": pack(in_order(self.posterior)), "state": pack_state(self.state), "trace": np.array(self.trace),
            "status": self.status.name, "drawn": {name: list(drawn) for name, drawn in self.drawn.items()},
            "n_settled": self.n_settled,
        }  # fmt: skip

    @classmethod
    def unpack(cls, spec: Spec, values: dict[str, Any]) -> Fit:
        """What `pack` gave, of a model of this spec."""
        posterior = unpack_posterior(spec, part(values, "posterior"))
        state = unpack_state(spec, posterior.n_factors, part(values, "state"))
        status, trace, drawn, n_settled = (part(values, name) for name in ("status", "trace", "drawn", "n_settled"))
        if status not in Status.__members__ or not isinstance(trace, np.ndarray) or not isinstance(drawn, dict):
            refuse("best", "does not say how it ended")
        counts = {name: Drawn(*map(int, pair)) for name, pair in drawn.items()}
        if n_settled is not None and (type(n_settled) is not int or not 1 <= n_settled <= len(trace)):
            refuse("n_settled", "is no sweep of the trace")
        bounds = tuple(trace.tolist())
        return cls(spec, posterior, state, bounds, Status[status], counts, n_settled=n_settled)

    def summarize(self, data: Collection) -> Fitted:
        """Return what remains of the run: everything that answers need."""
        known = summarize(self.spec, self.posterior, self.state, data, widths=self.widths, draws=self.draws)
        return replace(known, drawn=self.drawn)

    def doubts(self, data: Collection) -> str | None:
        """What does not suit the data that were fitted, and the way out; None where nothing of the kind shows."""
        said = self._overdispersed(data), self._outweighed(data), _half_hidden(data)
        return " ".join(filter(None, said)) or None

    def _overdispersed(self, data: Collection) -> str | None:
        found = overdispersed(self.spec, self.posterior, self.state, data, self.draws)
        if not found:
            return None
        advice = dict.fromkeys(self.spec.likelihoods[m].if_overdispersed for m in found)
        names = ", ".join(f"{self.spec.schema.relations[m].name!r} ({times:.3g} times)" for m, times in found.items())
        kinds = " and ".join(dict.fromkeys(self.spec.likelihoods[m].name for m in found))
        return (f"the squared residuals are larger than {kinds} cells could have in {names}, so that noise is fitted as"
                f" signal: {'; '.join(advice)}.")  # fmt: skip

    def _outweighed(self, data: Collection) -> str | None:
        found = outweighed(self.spec, self.posterior, data)
        names = ", ".join(f"{self.spec.schema.relations[m].name!r} ({mean:.3g})" for m, mean in found.items())
        return names and (
            f"cells are met exactly, without noise, where they weigh more than 1 on average: {names}. A weight of 2"
            " says that the same number was measured twice; divide weights that say something else by their mean."
        )

    @property
    def trouble(self) -> str | None:
        """What a user should be warned of, and the way out; None where the run has arrived."""
        if self.status not in _TROUBLED:
            return None
        slow: dict[str, list[str]] = {}
        relations = zip(self.spec.schema.relations, self.spec.likelihoods, self.spec.creep, strict=True)
        for relation, likelihood, times in relations:
            if times > CREEPING and likelihood.if_slow:
                slow.setdefault(likelihood.if_slow, []).append(f"{relation.name!r} ({times:.2g} times)")
        advice = (
            f" The quadratic bound takes steps that are much too short for {way_out.format(', '.join(names))}."
            for way_out, names in slow.items()
        )
        return f"{self.status}.{''.join(advice)}"


def _half_hidden(data: Collection) -> str | None:
    """Say where columns that exclude each other are observed in part, so that the others tell what is missing."""
    found = {
        relation.name: partly_observed(relation.cells, relation.lead)
        for relation in data.relations.values()
        if relation.lead is not None
    }
    names = ", ".join(f"{name!r} ({counted(rows, 'row')})" for name, rows in found.items() if rows)
    return names and (
        "the columns of a category, of which every row has a 1 in one, predict each other, and some rows lack a part"
        f" of them: {names}. What was hidden there follows from the rest of the row, and says nothing of how well the"
        " model predicts: hide all columns of a category together, as Collection.split and `gcmf fit --holdout` do."
    )
