"""The demonstration: halves of digits predicted from their other halves, together and alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.datasets import digits
from gcmf.errors import ConvergenceWarning
from gcmf.estimators.gcmf import GCMF
from gcmf.fit import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from gcmf.fit import StepInfo

    Report = Callable[[str, "StepInfo | None"], object]
    """Told the name of each fit with every sweep, and with None before its first."""

N_IMAGES, N_FACTORS = 600, 16
HIDDEN_HALVES, HIDDEN_PIXELS = 0.25, 0.30
"""Shares of images whose right half is hidden, and of all other pixels that are."""
MAX_ITER, TOL = 300, 1e-4

GROUP, COMMON, ALONE = "gCMF", "CMF", "alone"
METHODS = {
    GROUP: "gCMF: shared and private factors",
    COMMON: "CMF: every factor is shared",
    ALONE: "alone: one matrix at a time",
}
HALVES, PIXELS = "unseen right halves", "random pixels"


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demonstration found."""

    whole: Collection
    train: Collection
    model: GCMF
    """The group-sparse model."""
    errors: pd.DataFrame
    """Held-out root mean squared error of the gray values (0 to 1): a row per method, a column per task."""
    fits: pd.DataFrame
    """Sweeps and active factors of each fit."""
    hidden: pd.Index[Any]
    """The images whose right half was hidden."""


def run_demo(*, seed: int = 0, report: Report = lambda name, info: None) -> Demo:
    """Fit the digits by gCMF, by CMF and matrix by matrix, and measure what was hidden from all of them."""
    whole = digits(N_IMAGES)
    rng = np.random.default_rng(seed)
    rest, halves = whole.split(HIDDEN_HALVES, "row", relations=["right"], random_state=rng)
    train, pixels = rest.split(HIDDEN_PIXELS, relations=["left", "right"], random_state=rng)
    models = {
        GROUP: _fit(train, GROUP, report, random_state=seed),
        COMMON: _fit(train, COMMON, report, random_state=seed, sharing="common"),
    }
    singles = {name: _fit(_only(train, name), name, report, random_state=seed) for name in ("left", "right")}
    answers: dict[str, Mapping[str, GCMF]] = {
        **{name: dict.fromkeys(singles, model) for name, model in models.items()},
        ALONE: singles,
    }
    errors = {
        name: {HALVES: _rmse(by_relation, halves), PIXELS: _rmse(by_relation, pixels)}
        for name, by_relation in answers.items()
    }
    fits = {**models, **singles}
    return Demo(
        whole=whole,
        train=train,
        model=models[GROUP],
        errors=pd.DataFrame.from_dict(errors, orient="index"),
        fits=pd.DataFrame({
            "sweeps": {name: model.n_iter_ for name, model in fits.items()},
            "factors": {name: model.n_factors_active_ for name, model in fits.items()},
        }),
        hidden=_hidden(halves),
    )  # fmt: skip


def findings(demo: Demo) -> list[str]:
    """Say in words what the errors show, whichever way they fall."""
    halves, pixels = demo.errors[HALVES], demo.errors[PIXELS]
    return [
        "Right halves that nobody has seen, predicted from the left ones: gCMF's error is "
        f"{_against(halves[GROUP], halves[ALONE])} that of the right halves alone, from which every such "
        "image can only be given the average.",
        f"Single hidden pixels: {_against(pixels[GROUP], pixels[ALONE])} the error of each half alone.",
        f"Plain CMF, which shares every factor: gCMF's error is {_against(halves[GROUP], halves[COMMON])} "
        f"its error on the halves, and {_against(pixels[GROUP], pixels[COMMON])} it on the pixels. What gCMF "
        "adds is the structure: it tells shared factors from those that are private to one relation.",
    ]


def _against(error: float, other: float) -> str:
    change = error / other - 1.0
    if abs(change) < 0.005:
        return "equal to"
    return f"{abs(change):.0%} {'below' if change < 0 else 'above'}"


def _fit(data: Collection, name: str, report: Report, **options: Any) -> GCMF:  # noqa: ANN401 - of GCMF
    report(name, None)
    model = GCMF(N_FACTORS, max_iter=MAX_ITER, tol=TOL, progress=False, **options)
    model.set_params(callbacks=[lambda info: report(name, info)])
    with warnings.catch_warnings():
        # A demonstration may stop a little early; the number of sweeps is shown.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data)
    if model.status_ is Status.INTERRUPTED:
        raise KeyboardInterrupt  # the others would be fitted all the same
    return model


def _only(data: Collection, name: str) -> Collection:
    """One relation as a collection of its own, over the same ids."""
    own = data.relations[name]
    rows, cols = data.entities[own.rows].ids, data.entities[own.cols].ids
    i, j, x = own.cells.triplets()
    relation = Relation(name, own.rows, own.cols, (rows[i], cols[j], x), own.likelihood)
    return Collection([relation], entities={own.rows: rows, own.cols: cols})


def _rmse(models: Mapping[str, GCMF], test: Collection) -> float:
    """Root mean squared error over the cells of all relations in `test`, each predicted by its own model."""
    squares = n = 0.0
    for name, own in test.relations.items():
        i, j, x = own.cells.triplets()
        rows, cols = test.entities[own.rows].ids, test.entities[own.cols].ids
        guess = np.asarray(models[name].predict(name, rows[i], cols[j]))
        squares += float(((guess - x) ** 2).sum())
        n += len(x)
    return float(np.sqrt(squares / n))


def _hidden(halves: Collection) -> pd.Index[Any]:
    images = halves.entities["image"].ids
    return images[np.unique(halves.relations["right"].cells.triplets().i)]


def pictures(demo: Demo, images: pd.Index[Any]) -> dict[str, NDArray[np.float64]]:
    """Return 8 × 8 pictures of these images, (n, 8, 8): given (NaN where hidden), predicted and true."""
    given, true, guess = (np.full((len(images), 8, 8), np.nan) for _ in range(3))
    for name in ("left", "right"):
        pixels = demo.whole.entities[f"{name} pixel"].ids
        row, col = np.array(list(pixels)).T
        guess[:, row, col] = demo.model.predict(name, images, pixels, grid=True)
        for picture, data in ((given, demo.train), (true, demo.whole)):
            i, j, x = data.relations[name].cells.triplets()
            place = images.get_indexer(data.entities["image"].ids[i])
            wanted = place >= 0
            picture[place[wanted], row[j[wanted]], col[j[wanted]]] = x[wanted]
    return {"given": given, "predicted": np.where(np.isnan(given), guess, given), "true": true}
