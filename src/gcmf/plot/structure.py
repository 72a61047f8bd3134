"""Which factor lives where, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyBboxPatch

from gcmf.estimators.tables import explained_table, structure_table
from gcmf.plot.style import FAINT, MUTED, ROLE_COLORS, bare, new_figure, styled

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
    rows, columns = _rows(model), _columns(table)
    fill = _fill(model, table)
    for role, color in ROLE_COLORS.items():
        here = [k for k in range(len(table)) if table["role"].iloc[k] == role]
        if here:
            _cells(ax, rows, columns[here], fill[:, here], color)
            _heading(ax, role, columns[here], color)
    names = [*model.schema_.entities, *(relation.name for relation in model.schema_.relations)]
    ax.set_yticks(rows, names)
    ax.set_xticks(columns, table.index, rotation=90 if len(table) > 20 else 0, fontsize=8)
    ax.set_xlim(columns[0] - 0.6, columns[-1] + 0.6)
    ax.set_ylim(rows[-1] + 0.6, -1.75)
    for text, at in (("entity sets", -0.6), ("relations", len(model.schema_.entities) + _GAP - 0.6)):
        ax.annotate(text, (0, at), (-4, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                    ha="right", va="center", color=MUTED, fontsize=8, style="italic")  # fmt: skip
    ax.set_aspect("equal")
    bare(ax)


def _rows(model: GCMF) -> Floats:
    n_sets = len(model.schema_.entities)
    rows = np.arange(n_sets + len(model.schema_.relations), dtype=float)
    rows[n_sets:] += _GAP + 0.25
    return rows


def _columns(table: pd.DataFrame) -> Floats:
    """Factors side by side, with a gap where the role changes."""
    changes = table["role"].ne(table["role"].shift()).cumsum().to_numpy() - 1
    return np.arange(len(table)) + _GAP * changes


def _fill(model: GCMF, table: pd.DataFrame) -> Floats:
    """How full each cell is, from 0 to 1; NaN where the factor is off."""
    names = [relation.name for relation in model.schema_.relations]
    activity = table[list(model.schema_.entities)].to_numpy(dtype=float).T
    added = np.maximum(explained_table(model.fitted_)[list(table.index)].to_numpy(dtype=float), 0.0)
    # The root lets small shares still be seen beside the largest.
    added = np.sqrt(added / max(float(added.max(initial=0.0)), 1e-12))
    reached = np.array([[name in found for found in table["relations"]] for name in names])
    return np.vstack([np.where(activity > 0, activity, np.nan), np.where(reached, added, np.nan)])


def _cells(ax: Axes, rows: Floats, columns: Floats, fill: Floats, color: str) -> None:
    """One rounded square per cell; the paler, the emptier."""
    for (r, c), full in np.ndenumerate(fill):
        shade = to_rgba(FAINT, 0.6) if np.isnan(full) else to_rgba(color, 0.22 + 0.78 * full)
        corner = (float(columns[c]) - 0.36, float(rows[r]) - 0.36)
        box = FancyBboxPatch(corner, 0.72, 0.72, boxstyle=_ROUND, facecolor=shade, edgecolor="none")
        ax.add_patch(box)


def _heading(ax: Axes, role: str, columns: Floats, color: str) -> None:
    ends = [columns[0] - 0.4, columns[-1] + 0.4]
    ax.plot(ends, [-0.95, -0.95], color=color, linewidth=2, solid_capstyle="butt")
    text = f"{len(columns)} {role}" if len(columns) > 1 else role
    ax.text(columns.mean(), -1.1, text, ha="center", va="bottom", color=color, fontweight="bold", fontsize=9)
