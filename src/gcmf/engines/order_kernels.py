"""Colors for the rows of an entity set, compiled: no two rows that share a cell have the same."""

from __future__ import annotations

from gcmf.engines.compiled import compiled


@compiled
def paint(ends, partners, color, seen):
    """Give each row the first color that no partner has; return how many colors there are."""
    n_colors = 0
    for row in range(len(color)):
        for p in range(ends[row], ends[row + 1]):
            if color[partners[p]] >= 0:
                seen[color[partners[p]]] = row
        c = 0
        while seen[c] == row:
            c += 1
        color[row] = c
        n_colors = max(n_colors, c + 1)
    return n_colors
