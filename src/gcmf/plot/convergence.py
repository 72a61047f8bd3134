"""How the bound rose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from gcmf.plot.style import ACCENT, FAINT, MUTED, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gcmf.estimators.gcmf import GCMF


def convergence(model: GCMF) -> Figure:
    """Draw the lower bound after each sweep, and how far below its final value it stood.

    A straight fall in the second panel is convergence at a steady rate; a step is a change of structure.
    """
    trace = np.asarray(model.elbo_trace_)
    sweeps = np.arange(1, len(trace) + 1)
    with styled():
        figure = new_figure(7.6, 3.0)
        bound, gap = figure.subplots(1, 2)
        bound.plot(sweeps, trace, color=ACCENT, linewidth=2)
        bound.set_title("Lower bound (ELBO)")
        bound.yaxis.set_major_formatter("{x:,.0f}")
        # The first sweeps climb from far below: cut them off, or the rest is one flat line.
        late = trace[len(trace) // 10 :]
        if np.ptp(late) > 0:
            bound.set_ylim(late.min() - 0.08 * np.ptp(late), trace.max() + 0.08 * np.ptp(late))
        below = trace.max() - trace
        gap.semilogy(sweeps[below > 0], below[below > 0], color=ACCENT, linewidth=2)
        gap.set_title("Below the best value")
        for ax in (bound, gap):
            ax.set_xlabel("sweep")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.grid(axis="y", color=FAINT)
        figure.text(0.995, 0.005, str(model.status_).split(":")[0], ha="right", va="bottom", color=MUTED, fontsize=8)
    return figure
