"""The stacked symmetric matrix, the factor matrix with its zeros, and which factors feed which block."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle

from gcmf.plot.style import FAINT, INK, MUTED, ROLE_COLORS, bare, new_figure, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.estimators.gcmf import GCMF

    Floats = NDArray[np.float64]

_CELLS = LinearSegmentedColormap.from_list("cells", ["#b2501f", "#f7f7f5", "#1f6f8b"]).with_extremes(bad="#ffffff")
_UNKNOWN: dict[str, Any] = {"facecolor": "#f3f5f7", "edgecolor": "#d5dbe1", "hatch": "////", "linewidth": 0}


class _Stack(NamedTuple):
    """All entity sets one below the other."""

    names: tuple[str, ...]
    ends: list[int]
    """Where each set ends, with 0 in front."""
    order: dict[str, NDArray[np.int64]]
    """The entities of each set, by their value in its first factor."""

    def part(self, name: str) -> slice:
        e = self.names.index(name)
        return slice(self.ends[e], self.ends[e + 1])

    def middle(self, name: str) -> float:
        e = self.names.index(name)
        return (self.ends[e] + self.ends[e + 1]) / 2 - 0.5


def draw_figure2(data: Collection, model: GCMF) -> Figure:
    """Draw Y ≈ U Uᵀ block by block."""
    stack = _stack(model)
    with styled():
        figure = new_figure(14.0, 5.9)
        left, middle, right = figure.subplots(1, 3, width_ratios=[1.0, 0.52, 0.95])
        _draw_matrix(left, data, stack)
        _draw_factors(middle, model, stack)
        _draw_blocks(right, model)
        roles = [role for role in ROLE_COLORS if role in set(model.structure()["role"])]
        words = {"shared": "shared by all matrices", "partial": "shared by some", "private": "private to one"}
        handles = [Patch(color=ROLE_COLORS[role], label=words[role]) for role in roles]
        figure.legend(handles=handles, loc="outside lower right", ncols=3, fontsize=9)
    return figure


def _stack(model: GCMF) -> _Stack:
    names = model.schema_.entities
    sizes = [len(model.factors(name)) for name in names]
    order = {}
    for name in names:
        values, on = model.factors(name).to_numpy(), _on(model, name)
        order[name] = np.argsort(values[:, on.argmax()]) if on.any() else np.arange(len(values))
    return _Stack(names, [0, *np.cumsum(sizes).tolist()], order)


def _on(model: GCMF, entity: str) -> NDArray[np.bool_]:
    """Which factors live in an entity set, (K,)."""
    return np.asarray(model.structure()[entity].to_numpy(dtype=float) > 0)


def _draw_matrix(ax: Axes, data: Collection, stack: _Stack) -> None:
    """Draw the cells of all relations, each twice: as they are, and turned."""
    n = stack.ends[-1]
    cells = np.full((n, n), np.nan)
    for own in data.relations.values():
        i, j, x = own.cells.triplets()
        block = np.full(own.shape, np.nan)
        block[i, j] = x
        block = block[np.ix_(stack.order[own.rows], stack.order[own.cols])]
        cells[stack.part(own.rows), stack.part(own.cols)] = block
        cells[stack.part(own.cols), stack.part(own.rows)] = block.T
    limit = float(np.nanquantile(np.abs(cells), 0.98))
    joined = {pair for own in data.relations.values() for pair in ((own.rows, own.cols), (own.cols, own.rows))}
    for row in stack.names:
        for col in stack.names:
            if (row, col) not in joined:
                _unknown(ax, stack.part(row), stack.part(col))
    ax.imshow(np.ma.masked_invalid(cells), cmap=_CELLS, vmin=-limit, vmax=limit, interpolation="nearest", zorder=1)
    for own in data.relations.values():
        _tag(ax, stack.middle(own.cols), stack.middle(own.rows), own.name)
        _tag(ax, stack.middle(own.rows), stack.middle(own.cols), f"{own.name}ᵀ")
    _borders(ax, stack, n)
    ax.set_xticks([stack.middle(name) for name in stack.names], stack.names)
    ax.set_yticks([stack.middle(name) for name in stack.names], stack.names)
    ax.xaxis.tick_top()
    ax.set_title("Y: every matrix is a block of one symmetric matrix", pad=24)
    ax.set_xlabel("white dots: missing entries; hatched: never observed", fontsize=9)
    bare(ax)


def _unknown(ax: Axes, rows: slice, cols: slice) -> None:
    corner = (cols.start - 0.5, rows.start - 0.5)
    ax.add_patch(Rectangle(corner, cols.stop - cols.start, rows.stop - rows.start, **_UNKNOWN, zorder=2))


def _tag(ax: Axes, x: float, y: float, text: str) -> None:
    box: dict[str, Any] = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    ax.text(x, y, text, ha="center", va="center", fontweight="bold", color=INK, bbox=box, zorder=4)


def _borders(ax: Axes, stack: _Stack, width: float) -> None:
    for end in stack.ends:
        ax.plot([-0.5, width - 0.5], [end - 0.5, end - 0.5], color=INK, linewidth=1, zorder=3, clip_on=False)
        if width == stack.ends[-1]:
            ax.plot([end - 0.5, end - 0.5], [-0.5, width - 0.5], color=INK, linewidth=1, zorder=3, clip_on=False)


def _draw_factors(ax: Axes, model: GCMF, stack: _Stack) -> None:
    """Draw |u|, the darker the larger, in the color of the factor's role; white where it is exactly zero."""
    structure = model.structure()
    n, k = stack.ends[-1], len(structure)
    image = np.ones((n, k, 3))
    for name in stack.names:
        values = np.abs(model.factors(name).to_numpy()[stack.order[name]])
        scale = np.quantile(values[values > 0], 0.95) if (values > 0).any() else 1.0
        for c in np.flatnonzero(_on(model, name)).tolist():
            # Not down to white, which is kept for the zeros.
            depth = 0.2 + 0.8 * np.clip(values[:, c] / scale, 0.0, 1.0)[:, None]
            color = np.array(to_rgb(ROLE_COLORS[structure["role"].iloc[c]]))
            image[stack.part(name), c] = 1.0 - depth * (1.0 - color)
    ax.imshow(image, aspect="auto", interpolation="nearest")
    for edge in np.arange(1, k) - 0.5:
        ax.axvline(edge, color="white", linewidth=2)
    _borders(ax, stack, k)
    for name, (low, high) in zip(stack.names, pairwise(stack.ends), strict=True):
        for c in np.flatnonzero(~_on(model, name)).tolist():
            ax.text(c, (low + high) / 2 - 0.5, "0", ha="center", va="center", color=MUTED)
    ax.set_xticks(range(k), structure.index)
    ax.set_yticks([stack.middle(name) for name in stack.names], stack.names)
    ax.xaxis.tick_top()
    ax.set_title("U: whole groups of zeros", pad=24)
    ax.set_xlabel("the darker, the larger |u|", fontsize=9)
    bare(ax)


def _draw_blocks(ax: Axes, model: GCMF) -> None:
    """Draw a square per pair of entity sets, with the factors that live in both."""
    names, structure = model.schema_.entities, model.structure()
    for place in np.ndindex(len(names), len(names)):
        ax.add_patch(Rectangle(place, 1, 1, **_UNKNOWN, zorder=1))
    for relation in model.schema_.relations:
        feeding = structure[[relation.name in found for found in structure["relations"]]]
        r, c = names.index(relation.rows), names.index(relation.cols)
        for x, y, text in ((c, r, relation.name), (r, c, f"{relation.name}ᵀ")):
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor="white", edgecolor=INK, linewidth=1.0, zorder=2))
            ax.text(x + 0.07, y + 0.14, text, va="center", fontsize=9, fontweight="bold", zorder=4)
            _chips(ax, feeding, (x, y))
    ax.set_xlim(-0.02, len(names) + 0.02)
    ax.set_ylim(len(names) + 0.02, -0.02)
    ax.set_aspect("equal")
    ax.set_xticks(np.arange(len(names)) + 0.5, names)
    ax.set_yticks(np.arange(len(names)) + 0.5, names)
    ax.xaxis.tick_top()
    ax.set_title("Which factors feed which block", pad=24)
    bare(ax)


def _chips(ax: Axes, feeding: pd.DataFrame, corner: tuple[float, float]) -> None:
    """One small label per factor, three in a row."""
    for n, (factor, role) in enumerate(feeding["role"].items()):
        x, y = corner[0] + 0.075 + 0.295 * (n % 3), corner[1] + 0.30 + 0.23 * (n // 3)
        box = FancyBboxPatch((x, y), 0.26, 0.18, boxstyle="round,pad=0,rounding_size=0.05", zorder=4,
                             facecolor=ROLE_COLORS[role], edgecolor=FAINT)  # fmt: skip
        ax.add_patch(box)
        ax.text(x + 0.13, y + 0.095, str(factor), ha="center", va="center", color="white", fontsize=7.5,
                fontweight="bold", zorder=5)  # fmt: skip
