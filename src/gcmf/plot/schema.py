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

    from gcmf.data.schema import RelationSchema, Schema
    from gcmf.estimators.gcmf import GCMF

    Floats = NDArray[np.float64]

MOST_LINES = 4
"""Relations between the same sets that have a line each; more of them share one."""


def schema(of: Collection | GCMF) -> Figure:
    """Draw the schema of a collection or of a fitted model: entity sets with sizes, relations with kinds."""
    with styled():
        figure = new_figure(6.0, 4.6)
        draw_schema(figure.add_subplot(), of)
    return figure


def draw_schema(ax: Axes, of: Collection | GCMF) -> None:
    """Draw the schema into given axes: a line or loop per relation, or one for all where many join the same sets."""
    schema, sizes, notes = _facts(of)
    places = layout(schema)
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    drawn = [places]
    for (r, c), relations in _groups(schema).items():
        few = len(relations) <= MOST_LINES
        for k in range(len(relations) if few else 1):
            relation, n = relations[k], len(relations) if few else 1
            line, at = _loop(places, r, k, n) if r == c else _bow(places[r], places[c], k, n)
            color = LIKELIHOOD_COLORS.get(relation.likelihood, MUTED)
            ax.plot(line[:, 0], line[:, 1], color=color, linewidth=2.5 if few else 5, zorder=1)
            text = f"{relation.name}\n{notes[relation.name]}" if few else _many(relations)
            x, y = at.tolist()
            ax.text(x, y, text, color=color, fontsize=9, bbox=_box(PAPER, 0.25), zorder=2, **middle)
            drawn += [line, at[None]]
    for (x, y), name in zip(places, schema.entities, strict=True):
        text = f"{name}\n{sizes[name]:,}"
        ax.text(x, y, text, color=PAPER, fontweight="bold", bbox=_box(INK, 0.55), zorder=3, **middle)
    everything = np.concatenate(drawn)
    low, high = everything.min(axis=0), everything.max(axis=0)
    margin = max(0.25, 0.4 - (high[1] - low[1]) / 2)
    ax.set_xlim(low[0] - 0.3, high[0] + 0.3)
    ax.set_ylim(low[1] - margin, high[1] + margin)
    ax.axis("off")


def _groups(schema: Schema) -> dict[tuple[int, int], list[RelationSchema]]:
    """The relations between each two sets, or of a set with itself."""
    groups: dict[tuple[int, int], list[RelationSchema]] = {}
    for relation in schema.relations:
        ends = sorted(schema.entity_index(name) for name in (relation.rows, relation.cols))
        groups.setdefault((ends[0], ends[1]), []).append(relation)
    return groups


def _bow(start: Floats, end: Floats, k: int, n: int) -> tuple[Floats, Floats]:
    """The k-th of n lines between two places, the more bent the farther from the middle one, and where its name is."""
    across = np.array([start[1] - end[1], end[0] - start[0]])
    bend = (k - (n - 1) / 2) * 0.45 * across
    t = np.linspace(0.0, 1.0, 40)[:, None]
    line = (1 - t) * start + t * end + 4 * t * (1 - t) * bend
    return line, (start + end) / 2 + bend


def _loop(places: Floats, e: int, k: int, n: int) -> tuple[Floats, Floats]:
    """The k-th of n loops at a set, away from the other sets, and where its name is: at the far end."""
    others = np.delete(places, e, axis=0) - places[e]
    away = -others.mean(axis=0) if len(others) else np.array([0.0, 1.0])
    base = np.arctan2(away[1], away[0]) if np.linalg.norm(away) > 1e-9 else np.pi / 2
    angle = base + (k - (n - 1) / 2) * min(2 * np.pi / n, 1.4)
    out, along = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    t = np.linspace(0.0, 2 * np.pi, 60)[:, None]
    line = places[e] + 0.3 * (1 - np.cos(t)) * out + 0.2 * np.sin(t) * along
    return line, places[e] + 0.6 * out


def _many(relations: list[RelationSchema]) -> str:
    """Relations that share a line: how many, and the first names."""
    names = ", ".join(relation.name for relation in relations[:3])
    return f"{len(relations)} relations\n{names}, ..."


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
        notes = {r.name: f"{_kind(r)}\n{of.relations[r.name].n_cells:,} cells" for r in of.schema.relations}
        return of.schema, sizes, notes
    fitted = of.fitted_
    sizes = {name: len(vocabulary) for name, vocabulary in fitted.vocabularies.items()}
    notes = {
        r.name: f"{_kind(r)}\n{total:.0%} explained"
        for r, total in zip(fitted.schema.relations, fitted.explained.total, strict=True)
    }
    return fitted.schema, sizes, notes


def _kind(relation: RelationSchema) -> str:
    """The likelihood of a relation, and of a set with itself which way it goes."""
    way = {None: "", True: ", symmetric", False: ", directed"}[relation.symmetric]
    return f"{relation.likelihood}{way}"
