"""Figures of a fitted model: how the bound rose, what is explained, which factor lives where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from gcmf.estimators.tables import explained_table, structure_table
from gcmf.plot.style import ACCENT, FAINT, INK, MUTED, PAPER, ROLE_COLORS, bare, new_figure, shades, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF

    Floats = NDArray[np.float64]

_GAP = 0.5
"""Room between two groups of columns or rows, in cells."""
_ROUND = "round,pad=0.04,rounding_size=0.14"


def convergence(model: GCMF) -> Figure:
    """Draw the lower bound after each sweep, and how far below its final value it stood.

    A straight fall in the second panel is convergence at a steady rate; a step is a change of structure. Of a sampled
    model, the log joint density, which wanders.
    """
    trace = np.asarray(model.elbo_trace_)
    sweeps = np.arange(1, len(trace) + 1)
    with styled():
        figure = new_figure(7.6, 3.0)
        bound, gap = figure.subplots(1, 2)
        bound.plot(sweeps, trace, color=ACCENT, linewidth=2)
        bound.set_title("Lower bound (ELBO)" if model.fitted_.draws is None else "Log joint density")
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


# --- what is explained --------------------------------------------------------------------------------------


def variance_explained(model: GCMF) -> Figure:
    """Draw `model.variance_explained()`: the biases, each factor alone, and at right the whole model."""
    table = explained_table(model.fitted_)
    parts = ["bias", *(name for name in table.columns if name not in ("bias", "total"))]
    with styled():
        width, height = 3.4 + 0.46 * len(parts), 1.1 + 0.46 * len(table)
        figure = new_figure(max(width, 5.0), max(height, 1.8))
        cells, bars = figure.subplots(1, 2, width_ratios=[max(len(parts), 3), 3.2], sharey=True)
        _draw_shares(cells, np.maximum(table[parts].to_numpy(dtype=float), 0.0))
        cells.set_xticks(range(len(parts)), parts, fontsize=8, rotation=90 if len(parts) > 20 else 0)
        cells.set_yticks(range(len(table)), table.index)
        cells.set_title("Share of variance (deviance) explained, %")
        _draw_totals(bars, table["total"].to_numpy(dtype=float))
    return figure


def _draw_shares(ax: Axes, share: Floats) -> None:
    largest = max(float(share.max(initial=0.0)), 1e-12)
    ax.imshow(share, cmap=shades(ACCENT), vmin=0.0, vmax=largest, aspect="auto")
    ax.set_xticks(np.arange(share.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(share.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=2)
    for (row, column), value in np.ndenumerate(share):
        if value >= 0.005:
            color = PAPER if value > 0.55 * largest else INK
            ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=color, fontsize=8)
    bare(ax)
    ax.tick_params(which="minor", length=0)


def _draw_totals(ax: Axes, total: Floats) -> None:
    rows = np.arange(len(total))
    ax.barh(rows, np.ones(len(total)), height=0.5, color=FAINT)
    ax.barh(rows, np.clip(total, 0.0, 1.0), height=0.5, color=ACCENT)
    for row, value in enumerate(total):
        ax.text(1.04, row, f"{value:.0%}", ha="left", va="center", fontsize=9, fontweight="bold")
    ax.set_xlim(0, 1.3)
    ax.set_xticks([])
    ax.set_title("all together")
    bare(ax)
    ax.tick_params(which="both", length=0, labelleft=False)


# --- structure ----------------------------------------------------------------------------------------------


def structure(model: GCMF) -> Figure:
    """Draw a matrix with a column per factor and a row per entity set and relation.

    The color of a column is the role of its factor. In the rows of entity sets, the strength is its
    activity, as in `model.structure()`; in those of relations, what it adds to the variance explained,
    relative to the largest. A gray cell: the factor is switched off there.
    """
    n_rows = len(model.schema_.entities) + len(model.schema_.relations)
    with styled():
        figure = new_figure(max(4.5, 2.2 + 0.38 * model.n_factors_active_), 1.5 + 0.42 * n_rows)
        draw_structure(figure.add_subplot(), model)
    return figure


def draw_structure(ax: Axes, model: GCMF) -> None:
    """Draw the matrix into given axes."""
    table = structure_table(model.fitted_)
    if table.empty:
        ax.text(0.5, 0.5, "no active factor", ha="center", va="center", color=MUTED, transform=ax.transAxes)
        ax.axis("off")
        return
    n_sets, fill = len(model.schema_.entities), _fill(model, table)
    rows = np.arange(len(fill), dtype=float)
    rows[n_sets:] += _GAP + 0.25
    # Factors side by side, with a gap where the role changes.
    changes = table["role"].ne(table["role"].shift()).cumsum().to_numpy() - 1
    columns = np.arange(len(table)) + _GAP * changes
    for role, color in ROLE_COLORS.items():
        here = [k for k in range(len(table)) if table["role"].iloc[k] == role]
        if here:
            _draw_squares(ax, rows, columns[here], fill[:, here], color)
            _draw_heading(ax, role, columns[here], color)
    names = [*model.schema_.entities, *(relation.name for relation in model.schema_.relations)]
    ax.set_yticks(rows, names)
    ax.set_xticks(columns, table.index, rotation=90 if len(table) > 20 else 0, fontsize=8)
    ax.set_xlim(columns[0] - 0.6, columns[-1] + 0.6)
    ax.set_ylim(rows[-1] + 0.6, -1.75)
    for text, at in (("entity sets", -0.6), ("relations", n_sets + _GAP - 0.6)):
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        ax.annotate(text, (0, at), (-4, 0), **beside, ha="right", va="center", color=MUTED, fontsize=8, style="italic")
    ax.set_aspect("equal")
    bare(ax)


def _fill(model: GCMF, table: pd.DataFrame) -> Floats:
    """How full each cell is, from 0 to 1; NaN where the factor is off."""
    names = [relation.name for relation in model.schema_.relations]
    activity = table[list(model.schema_.entities)].to_numpy(dtype=float).T
    added = np.maximum(explained_table(model.fitted_)[list(table.index)].to_numpy(dtype=float), 0.0)
    # The root lets small shares still be seen beside the largest.
    added = np.sqrt(added / max(float(added.max(initial=0.0)), 1e-12))
    reached = np.array([[name in relations for relations in table["relations"]] for name in names])
    return np.vstack([np.where(activity > 0, activity, np.nan), np.where(reached, added, np.nan)])


def _draw_squares(ax: Axes, rows: Floats, columns: Floats, fill: Floats, color: str) -> None:
    """One rounded square per cell; the paler, the emptier."""
    for (r, c), full in np.ndenumerate(fill):
        shade = to_rgba(FAINT, 0.6) if np.isnan(full) else to_rgba(color, 0.22 + 0.78 * full)
        corner = (float(columns[c]) - 0.36, float(rows[r]) - 0.36)
        ax.add_patch(FancyBboxPatch(corner, 0.72, 0.72, boxstyle=_ROUND, facecolor=shade, edgecolor="none"))


def _draw_heading(ax: Axes, role: str, columns: Floats, color: str) -> None:
    ends = [columns[0] - 0.4, columns[-1] + 0.4]
    ax.plot(ends, [-0.95, -0.95], color=color, linewidth=2, solid_capstyle="butt")
    text = f"{len(columns)} {role}" if len(columns) > 1 else role
    ax.text(columns.mean(), -1.1, text, ha="center", va="bottom", color=color, fontweight="bold", fontsize=9)
