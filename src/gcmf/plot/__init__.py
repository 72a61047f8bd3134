"""Pictures of collections and fitted models, and the tidy tables that they are drawn from.

Each function returns a `matplotlib.figure.Figure`, made without pyplot: it shows itself in a notebook, and
`figure.savefig("name.png")` writes it anywhere, with or without a screen. Given axes, `ax=`, it draws into them and
returns them. `plot.x(...)` is drawn from the table that `plot.tables.x(...)` returns for the same arguments.
"""

from gcmf.plot.cells import calibration, predicted_vs_observed, reconstruction
from gcmf.plot.entities import embedding, loadings
from gcmf.plot.evaluation import evaluation
from gcmf.plot.model import convergence, structure, variance_explained
from gcmf.plot.models import compare, stability
from gcmf.plot.schema import schema
from gcmf.report import tables
from gcmf.report.recorder import Recorder

__all__ = [
    "Recorder",
    "calibration", "compare", "convergence", "embedding", "evaluation", "loadings", "predicted_vs_observed",
    "reconstruction", "schema", "stability", "structure", "tables", "variance_explained",
]  # fmt: skip
