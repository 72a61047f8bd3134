"""Figures of collections and fitted models.

Each function returns a `matplotlib.figure.Figure`, made without pyplot: it shows itself in a notebook, and
`figure.savefig("name.png")` writes it anywhere, with or without a screen.
"""

from gcmf.plot.evaluation import evaluation
from gcmf.plot.model import convergence, structure, variance_explained
from gcmf.plot.schema import schema

__all__ = ["convergence", "evaluation", "schema", "structure", "variance_explained"]
