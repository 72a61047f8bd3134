"""Entity sets as nodes, relations as the edges between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import shortest_path

from gcmf.data.collection import Collection
from gcmf.plot.style import INK, LIKELIHOOD_COLORS, MUTED, PAPER, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from gcmf.data.schema import Schema
    from gcmf.estimators.gcmf import GCMF

    Floats = NDArray[np.float64]


def schema(of: Collection | GCMF) -> Figure:
    """Draw the schema of a collection or of a fitted model: entity sets with sizes, relations with kinds."""
    with styled():
        figure = new_figure(6.0, 4.6)
        draw_schema(figure.add_subplot(), of)
    return figure


def draw_schema(ax: Axes, of: Collection | GCMF) -> None:
    """Draw the schema into given axes."""
    schema, sizes, notes = _facts(of)
    places = layout(schema)
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    for relation in schema.relations:
        ends = places[[schema.entity_index(name) for name in (relation.rows, relation.cols)]]
        color = LIKELIHOOD_COLORS.get(relation.likelihood, MUTED)
        ax.plot(ends[:, 0], ends[:, 1], color=color, linewidth=2.5, zorder=1)
        text = f"{relation.name}\n{notes[relation.name]}"
        x, y = ends.mean(axis=0)
        ax.text(x, y, text, color=color, fontsize=9, bbox=_box(PAPER, 0.25), zorder=2, **middle)
    for (x, y), name in zip(places, schema.entities, strict=True):
        text = f"{name}\n{sizes[name]:,}"
        ax.text(x, y, text, color=PAPER, fontweight="bold", bbox=_box(INK, 0.55), zorder=3, **middle)
    low, high = places.min(axis=0), places.max(axis=0)
    margin = max(0.25, 0.4 - (high[1] - low[1]) / 2)
    ax.set_xlim(low[0] - 0.3, high[0] + 0.3)
    ax.set_ylim(low[1] - margin, high[1] + margin)
    ax.axis("off")


def _box(color: str, pad: float) -> dict[str, Any]:
    return {"boxstyle": f"round,pad={pad}", "facecolor": color, "edgecolor": PAPER, "linewidth": 2}


def layout(schema: Schema) -> Floats:
    """Return a place in the plane for each entity set, (E, 2), as far apart as there are relations between.

    Stress majorization (Gansner, Koren and North 2004): cycles become polygons, chains lines, stars stars. It
    starts from a circle, always the same, so equal schemas look alike.
    """
    n = len(schema.entities)
    hops = _hops(schema)
    angle = np.pi / 2 + 2 * np.pi * np.arange(n) / n
    # Not quite a circle: from perfect symmetry a chain could not unfold.
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1.0 + 0.05 * np.arange(n))[:, None]
    weight = np.where(hops > 0, hops, 1.0) ** -2.0 - np.eye(n)
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    for _ in range(200):
        difference = places[:, None] - places[None]
        distance = np.linalg.norm(difference, axis=-1)
        pull = weight * hops / np.where(distance > 1e-9, distance, 1.0)
        places = inverse @ (pull[..., None] * difference).sum(axis=1)
    return _turned(places - places.mean(axis=0))


def _turned(places: Floats) -> Floats:
    """Lie the longest direction flat, as figures are wider than high, with the first set above or at left."""
    if len(places) < 2:
        return places
    _, size, axes = np.linalg.svd(places, full_matrices=False)
    if size[0] - size[-1] > 0.05 * size[0]:
        places = places @ axes.T
        return places * np.where(places[0] * np.array([-1, 1]) < -1e-9, -1.0, 1.0)
    turn = np.pi / 2 - np.arctan2(places[0, 1], places[0, 0])
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    turned: Floats = places @ rotation
    return turned


def _hops(schema: Schema) -> Floats:
    """Relations on the shortest way between two sets, (E, E); a little more than any for none at all."""
    joined = np.zeros((len(schema.entities), len(schema.entities)))
    for relation in schema.relations:
        joined[schema.entity_index(relation.rows), schema.entity_index(relation.cols)] = 1.0
    hops: Floats = shortest_path(joined, directed=False, unweighted=True)
    farthest = hops[np.isfinite(hops)].max()
    return np.where(np.isfinite(hops), hops, farthest + 1.0)


def _facts(of: Collection | GCMF) -> tuple[Schema, dict[str, int], dict[str, str]]:
    """Return the schema, the size of each entity set, and what to say of each relation under its name."""
    if isinstance(of, Collection):
        sizes = {name: entity.size for name, entity in of.entities.items()}
        notes = {r.name: f"{r.likelihood}\n{of.relations[r.name].n_cells:,} cells" for r in of.schema.relations}
        return of.schema, sizes, notes
    fitted = of.fitted_
    sizes = {name: len(vocabulary) for name, vocabulary in fitted.vocabularies.items()}
    notes = {
        r.name: f"{r.likelihood}\n{total:.0%} explained"
        for r, total in zip(fitted.schema.relations, fitted.explained.total, strict=True)
    }
    return fitted.schema, sizes, notes
