"""Places in the plane for the entity sets of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import shortest_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.schema import Schema

    Floats = NDArray[np.float64]


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
