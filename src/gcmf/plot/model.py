"""Figures of a fitted model: how the bound rose, what is explained, which factor lives where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from gcmf.estimators.asking import fitted_of
from gcmf.plot.style import (
    ACCENT,
    CATEGORY_COLORS,
    FAINT,
    INK,
    MUTED,
    PAPER,
    ROLE_COLORS,
    Picture,
    bare,
    drawn,
    empty,
    new_figure,
    room_for,
    shades,
    shortened,
    styled,
)
from gcmf.report import tables

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF
    from gcmf.report.recorder import Recorder

    Floats = NDArray[np.float64]

_GAP = 0.5
"""Room between two groups of columns or rows, in cells."""
MOST_LABELS = 60
"""Rows or columns that are each labeled; of more, every second one, and so on."""
WIDEST, HIGHEST = 18.0, 14.0
"""Inches that the matrix of a picture may take."""
_ROUND = "round,pad=0.04,rounding_size=0.14"


def convergence(model: GCMF, record: Recorder | None = None, *, ax: Axes | None = None) -> Picture:
    """Draw the lower bound after each sweep, and how far below its best value it stood.

    A straight fall in the second panel is convergence at a steady rate; a step is a change of structure. Of a sampled
    model, the log joint density, which wanders. With what a `Recorder` kept, also the terms of the bound, factors
    alive, and held-out errors. Given axes hold the first panel.
    """
    table = tables.convergence(model, record)
    more = {"term ": _draw_terms, "factors": _draw_alive, "error ": _draw_held_out}
    panels = [_draw_bound, _draw_gap, *(draw for head, draw in more.items() if _columns_of(table, head))]
    with styled():
        if ax is not None:
            _draw_bound(ax, table)
            return ax
        across = min(len(panels), 3)
        down = -(-len(panels) // across)
        figure = new_figure(3.8 * across, 3.0 * down)
        places = figure.subplots(down, across, squeeze=False).ravel()
        for axes in places[len(panels) :]:
            axes.axis("off")
        for axes, panel in zip(places, panels, strict=False):
            panel(axes, table)
        figure.text(0.995, 0.005, str(model.status_).split(":")[0], ha="right", va="bottom", color=MUTED, fontsize=8)
    return figure


def _columns_of(table: pd.DataFrame, head: str) -> list[str]:
    return [str(name) for name in table.columns if str(name).startswith(head)]


def _draw_terms(ax: Axes, table: pd.DataFrame) -> None:
    """Each term minus its last value, of those that change: what the bound gained, and what it paid."""
    late = table.iloc[len(table) // 10 :]
    for name, color in zip(_columns_of(table, "term "), (*CATEGORY_COLORS, MUTED), strict=False):
        gone = late[name] - late[name].iloc[-1]
        if np.ptp(gone) > 0:
            ax.plot(late["sweep"], gone, color=color, linewidth=1.5, label=name.removeprefix("term "))
    ax.set_title("Terms, minus their last values")
    ax.legend(fontsize=7)
    _over_sweeps(ax)


def _draw_alive(ax: Axes, table: pd.DataFrame) -> None:
    ax.step(table["sweep"], table["factors"], where="mid", color=ACCENT, linewidth=2)
    ax.set_title("Factors")
    ax.set_ylim(0, max(float(table["factors"].max()), 1.0) * 1.1)
    _over_sweeps(ax)


def _draw_held_out(ax: Axes, table: pd.DataFrame) -> None:
    """Errors as shares of their first values, so that relations of any units stand together."""
    for name, color in zip(_columns_of(table, "error "), CATEGORY_COLORS * 9, strict=False):
        error = table.loc[table[name].notna(), ["sweep", name]]
        label = shortened(name.removeprefix("error "), 18)
        ax.plot(error["sweep"], error[name] / error[name].iloc[0], "o-", color=color, markersize=3, label=label)
    ax.set_title("Held-out RMSE, first = 1")
    ax.legend(fontsize=7)
    _over_sweeps(ax)


def _draw_bound(ax: Axes, table: pd.DataFrame) -> None:
    ax.plot(table["sweep"], table["bound"], color=ACCENT, linewidth=2)
    ax.set_title("Lower bound (ELBO)" if table.attrs["objective"] == "ELBO" else "Log joint density")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    # The first sweeps climb from far below: cut them off, or the rest is one flat line.
    late = table["bound"].to_numpy()[len(table) // 10 :]
    if len(late) and np.ptp(late) > 0:
        ax.set_ylim(late.min() - 0.08 * np.ptp(late), late.max() + 0.08 * np.ptp(late))
    _over_sweeps(ax)


def _draw_gap(ax: Axes, table: pd.DataFrame) -> None:
    table = table[table["below"] > 0]
    ax.semilogy(table["sweep"], table["below"], color=ACCENT, linewidth=2)
    ax.set_title("Below the best value")
    _over_sweeps(ax)


def _over_sweeps(ax: Axes) -> None:
    ax.set_xlabel("sweep")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(axis="y", color=FAINT)


# --- what is explained --------------------------------------------------------------------------------------


def variance_explained(model: GCMF, *, ax: Axes | None = None) -> Picture:
    """Draw `model.variance_explained()`: the biases, each factor alone, and at right the whole model.

    Given axes hold the parts, without the whole.
    """
    long = tables.variance_explained(model)
    table = long.pivot(index="relation", columns="part", values="share").loc[long["relation"].unique()]
    parts = [name for name in long["part"].unique() if name != "total"]
    with styled():
        if ax is not None:
            _draw_parts(ax, table[parts])
            return ax
        width, height = 3.4 + min(0.46 * len(parts), WIDEST), 1.1 + min(0.46 * len(table), HIGHEST)
        figure = new_figure(max(width, 5.0) + room_for(table.index), max(height, 1.8))
        cells, bars = figure.subplots(1, 2, width_ratios=[min(max(len(parts), 3), 30), 3.2], sharey=True)
        _draw_parts(cells, table[parts])
        _draw_totals(bars, table["total"].to_numpy(dtype=float))
    return figure


def _draw_parts(ax: Axes, table: pd.DataFrame) -> None:
    parts = list(table.columns)
    _draw_shares(ax, np.maximum(table.to_numpy(dtype=float), 0.0))
    step = _every(len(parts), MOST_LABELS)
    ax.set_xticks(range(0, len(parts), step), parts[::step], fontsize=8, rotation=90 if len(parts) > 20 else 0)
    rows = _every(len(table), MOST_LABELS)
    ax.set_yticks(range(0, len(table), rows), [shortened(name) for name in table.index[::rows]])
    between = " " if len(parts) > 8 else "\n"
    ax.set_title(f"Share of variance{between}(deviance) explained, %")


def _every(n: int, most: int) -> int:
    """Of n labels in a row, how far apart those are that are written, so that at most so many are."""
    return max(1, -(-n // most))


def _draw_shares(ax: Axes, share: Floats) -> None:
    largest = max(float(share.max(initial=0.0)), 1e-12)
    ax.imshow(share, cmap=shades(ACCENT), vmin=0.0, vmax=largest, aspect="auto")
    ax.set_xticks(np.arange(share.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(share.shape[0] + 1) - 0.5, minor=True)
    few = max(share.shape) <= MOST_LABELS
    ax.grid(which="minor", color=PAPER, linewidth=2 if few else 0)
    for (row, column), value in np.ndenumerate(share) if few else ():
        if value >= 0.005:
            color = PAPER if value > 0.55 * largest else INK
            ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=color, fontsize=8)
    bare(ax)
    ax.tick_params(which="minor", length=0)


def _draw_totals(ax: Axes, total: Floats) -> None:
    rows = np.arange(len(total))
    ax.barh(rows, np.ones(len(total)), height=0.5, color=FAINT)
    ax.barh(rows, np.clip(total, 0.0, 1.0), height=0.5, color=ACCENT)
    for row, value in enumerate(total if len(total) <= MOST_LABELS else ()):
        ax.text(1.04, row, f"{value:.0%}", ha="left", va="center", fontsize=9, fontweight="bold")
    ax.set_xlim(0, 1.3)
    ax.set_xticks([])
    ax.set_title("all together")
    bare(ax)
    ax.tick_params(which="both", length=0, labelleft=False)


# --- structure ----------------------------------------------------------------------------------------------


def structure(model: GCMF, *, ax: Axes | None = None) -> Picture:
    """Draw a matrix with a column per factor and a row per entity set and relation.

    The color of a column is the role of its factor; shared ones come first, then those of the same relations together.
    In the rows of entity sets, the strength is its activity, as in `model.structure()`; in those of relations, what it
    adds to the variance explained, relative to the largest. A gray cell: the factor is switched off there.
    """
    schema = fitted_of(model, "structure").schema
    n_rows = len(schema.entities) + len(schema.relations)
    size = 2.2 + min(0.38 * model.n_factors_active_, WIDEST), 1.5 + min(0.42 * n_rows, HIGHEST)
    beside = room_for([*schema.entities, *(relation.name for relation in schema.relations)])
    return drawn(ax, (max(4.5, size[0]) + beside, size[1]), lambda axes: draw_structure(axes, model))


def draw_structure(ax: Axes, model: GCMF) -> None:
    """Draw the matrix into given axes."""
    table = tables.structure(model)
    if table.empty:
        empty(ax, "no active factor")
        return
    n_sets, fill = len(model.schema_.entities), _fill(table)
    rows = np.arange(len(fill), dtype=float)
    rows[n_sets:] += _GAP + 0.25
    heads = table.drop_duplicates("factor")
    columns = _columns(heads)
    for role, color in ROLE_COLORS.items():
        here = np.flatnonzero(heads["role"] == role)
        if len(here):
            _draw_squares(ax, rows, columns[here], fill[:, here], color)
            _draw_heading(ax, role, columns[here], color)
    step, every = _every(len(rows), MOST_LABELS), _every(len(columns), MOST_LABELS)
    ax.set_yticks(rows[::step], [shortened(name) for name in table["name"][: len(rows) : step]])
    names = heads["factor"].tolist()[::every]
    ax.set_xticks(columns[::every], names, rotation=90 if len(columns) > 20 else 0, fontsize=8)
    ax.set_xlim(columns[0] - 0.6, columns[-1] + 0.6)
    ax.set_ylim(rows[-1] + 0.6, -1.75)
    for text, at in (("entity sets", -0.6), ("relations", n_sets + _GAP - 0.6)):
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        ax.annotate(text, (0, at), (-4, 0), **beside, ha="right", va="center", color=MUTED, fontsize=8, style="italic")
    if max(len(rows), len(columns)) <= MOST_LABELS:
        ax.set_aspect("equal")
    bare(ax)


def _columns(heads: pd.DataFrame) -> Floats:
    """Places of factors side by side, with a gap where the role changes, and half of it where the relations do."""
    role, subset = (heads[name].ne(heads[name].shift()).cumsum().to_numpy() - 1 for name in ("role", "subset"))
    return np.arange(len(heads)) + 0.5 * _GAP * (role + subset)


def _fill(table: pd.DataFrame) -> Floats:
    """How full each cell is, from 0 to 1, (sets and relations, factors); NaN where the factor is off."""
    relation = (table["kind"] == "relation").to_numpy()
    value = table["value"].to_numpy(dtype=float)
    # The root lets small shares still be seen beside the largest.
    added = np.sqrt(value / max(float(value[relation].max(initial=0.0)), 1e-12))
    full = np.where(table["on"], np.where(relation, added, value), np.nan)
    return full.reshape(table["factor"].nunique(), -1).T


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
