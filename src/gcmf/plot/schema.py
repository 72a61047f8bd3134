"""Entity sets as nodes, relations as the edges between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.collection import Collection
from gcmf.estimators.asking import fitted_of
from gcmf.plot.style import INK, LIKELIHOOD_COLORS, MUTED, PAPER, Picture, drawn, shortened
from gcmf.report import tables
from gcmf.report.layout import layout

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from gcmf.data.schema import RelationSchema, Schema
    from gcmf.estimators.gcmf import GCMF

    Floats = NDArray[np.float64]

MOST_LINES = 4
"""Relations between the same sets that have a line each; more of them share one."""


def schema(of: Collection | GCMF, *, ax: Axes | None = None) -> Picture:
    """Draw the schema of a collection or of a fitted model: entity sets with sizes, relations with kinds."""
    places = layout(_schema_of(of))
    # Names on lines need room between the sets that they join, also in a long chain.
    width, height = np.clip(2.4 * np.ptp(places, axis=0) + [1.6, 2.6], [6.0, 2.8], [14.0, 9.0]).tolist()
    return drawn(ax, (width, height), lambda axes: draw_schema(axes, of))


def draw_schema(ax: Axes, of: Collection | GCMF) -> None:
    """Draw the schema into given axes: a line or loop per relation, or one for all where many join the same sets."""
    schema = _schema_of(of)
    sizes, notes = _facts(tables.schema(of))
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
            text = f"{shortened(relation.name, 18)}\n{notes[relation.name]}" if few else _many(relations)
            x, y = at.tolist()
            ax.text(x, y, text, color=color, fontsize=9, bbox=_box(PAPER, 0.25), zorder=2, **middle)
            drawn += [line, at[None]]
    for (x, y), name in zip(places, schema.entities, strict=True):
        text = f"{shortened(name)}\n{sizes[name]:,}"
        ax.text(x, y, text, color=PAPER, fontweight="bold", bbox=_box(INK, 0.55), zorder=3, **middle)
    everything = np.concatenate(drawn)
    low, high = everything.min(axis=0), everything.max(axis=0)
    margin = max(0.25, 0.4 - (high[1] - low[1]) / 2)
    ax.set_xlim(low[0] - 0.3, high[0] + 0.3)
    ax.set_ylim(low[1] - margin, high[1] + margin)
    ax.axis("off")


def _schema_of(of: Collection | GCMF) -> Schema:
    return of.schema if isinstance(of, Collection) else fitted_of(of, "schema").schema


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
    names = ", ".join(shortened(relation.name, 12) for relation in relations[:3])
    return f"{len(relations)} relations\n{names}, ..."


def _box(color: str, pad: float) -> dict[str, Any]:
    return {"boxstyle": f"round,pad={pad}", "facecolor": color, "edgecolor": PAPER, "linewidth": 2}


def _facts(table: pd.DataFrame) -> tuple[dict[str, int], dict[str, str]]:
    """Return the size of each entity set, and what to say of each relation under its name."""
    sizes, notes = {}, {}
    for line in table.to_dict(orient="records"):
        sizes[line["rows"]], sizes[line["cols"]] = line["n_rows"], line["n_cols"]
        way = {None: "", True: ", symmetric", False: ", directed"}[line["symmetric"]]
        count = f"{line['explained']:.0%} explained" if "explained" in line else f"{line['cells']:,} cells"
        notes[line["relation"]] = f"{line['likelihood']}{way}\n{count}"
    return sizes, notes
