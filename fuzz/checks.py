"""Run one case and say what is wrong with it."""

from __future__ import annotations

import traceback
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuzz.cases import draw
from gcmf import CCA, GCMF, GFA, PCA, Status
from gcmf.errors import ConvergenceWarning, GcmfError, ModelWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gcmf import Collection

#: By what fraction of its size the bound may fall from one sweep to the next. In float32 that is what two passes over
#: the cells lose: `python -m fuzz.rounding --n 600` gave a median of 1e-8, and 1.3e-6 at most in 598 of 600 fits. The
#: other two are no margin to take: they lost 4e-5 and 1e-4 to a filled relation far from zero, listed cells did not.
MARGINS = {"float64": 1e-9, "float32": 3e-6}


class Outcome(NamedTuple):
    """What came of one case."""

    kind: str
    seed: int
    dtype: str
    word: str
    status: str
    fall: float
    """The worst fall of the bound, as a fraction of its size."""
    faults: tuple[str, ...]
    trace: str = ""
    """Where a raw exception came from."""


def run(kind: str, seed: int, dtype: str) -> Outcome:
    """Draw, fit, look at every answer."""
    word, drawn = draw(kind, seed)
    faults: list[str] = []
    status, fall, trace = "none", 0.0, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = drawn.data()
            model = drawn.estimator(dtype, seed).fit(*data)
            status, fall = model.status_.name, worst_fall(model.elbo_trace_, drawn.n_cells)
            faults += [f"non-finite {name}" for name, values in answers(model, data) if not np.isfinite(values).all()]
        except GcmfError as error:
            status = "REFUSED"
            faults += [f"refused: {error}"] if kind == "ordinary" else []
        except Exception as error:
            status, trace = "RAISED", traceback.format_exc()
            faults.append(f"raised {type(error).__name__}: {error}")
    allowed = (ConvergenceWarning, ModelWarning)
    faults += sorted({f"warned: {w.message}" for w in caught if not issubclass(w.category, allowed)})
    if status in (Status.ELBO_DECREASED.name, Status.NONFINITE.name):
        faults.append(status)
    if fall > MARGINS[dtype]:
        faults.append(f"fell by {fall:.1e}")
    return Outcome(kind, seed, dtype, word, status, fall, tuple(faults), trace)


def worst_fall(trace: np.ndarray, n_cells: float) -> float:
    """The largest fall from one sweep to the next over max(|bound|, cells); zero where it never falls."""
    trace = np.asarray(trace, float)
    with np.errstate(invalid="ignore"):
        steps = np.diff(trace) / np.maximum(np.abs(trace[:-1]), n_cells)
    return float(np.nanmax(-steps, initial=0.0))


def answers(model: GCMF | CCA | GFA | PCA, data: tuple[Any, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """Every number that the model gives away, by name."""
    yield "trace", model.elbo_trace_ if len(model.elbo_trace_) else np.array([np.nan])
    if isinstance(model, GCMF):
        yield from _answers_of_a_schema(model, data[0])
    else:
        yield from _answers_of_views(model, data)


def _answers_of_a_schema(model: GCMF, data: Collection) -> Iterator[tuple[str, np.ndarray]]:
    yield "bound", np.array(model.elbo_)
    for entity in data.schema.entities:
        yield f"factors of {entity}", model.factors(entity).to_numpy()
        yield f"deviations of {entity}", model.factors(entity, std=True).to_numpy()
    for name in data.relations:
        mean, std = model.predict(name, return_std=True)
        yield f"predictions of {name}", mean
        yield f"deviations of {name}", std
        new = model.predict(name, ["never seen"], ["nor this"], unknown="prior", return_std=True)
        yield f"predictions of new entities of {name}", np.array(new)
    yield "structure", model.structure().drop(columns=["role", "relations"]).to_numpy(float)
    yield "variance explained", model.variance_explained().to_numpy()
    # An AUC needs ones and zeros, an average precision ones.
    score = model.score(data).drop(columns=["auc", "average_precision", "calibration_error"], errors="ignore")
    yield "score", score.to_numpy(float)


def _answers_of_views(model: CCA | GFA | PCA, data: tuple[Any, ...]) -> Iterator[tuple[str, np.ndarray]]:
    for name in ("components_", "noise_variance_", "explained_variance_ratio_"):
        value = getattr(model, name)
        yield name, np.concatenate([np.ravel(part) for part in value]) if isinstance(value, list) else np.array(value)
    scores = model.transform(*data)
    yield "scores", np.asarray(scores)
    back = model.inverse_transform(scores)
    yield "reconstruction", back if isinstance(back, np.ndarray) else np.hstack(back)
    if hasattr(model, "structure"):
        yield "structure", model.structure().drop(columns=["role", "views"]).to_numpy(float)
