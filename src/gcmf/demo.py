"""The demonstration: halves of digits predicted from their other halves, together and alone, and its figure."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap

from gcmf.datasets import digits
from gcmf.errors import ConvergenceWarning, StorageError
from gcmf.estimators.gcmf import GCMF
from gcmf.io.outputs import check_model, check_new
from gcmf.outcome import Status
from gcmf.plot.model import draw_structure
from gcmf.plot.schema import draw_schema
from gcmf.plot.style import FAINT, INK, MUTED, ROLE_COLORS, bare, new_figure, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.outcome import StepInfo

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
FIGURE, MODEL = "demo.png", "demo.gcmf"
_COLORS = {GROUP: ROLE_COLORS["shared"], COMMON: "#8fb7c5", ALONE: "#c9d0d7"}
_HEADING: dict[str, Any] = {"x": 0.012, "ha": "left", "fontsize": 11, "fontweight": "bold"}
_N_PICTURES = 12


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
    singles = {name: _fit(train.select([name]), name, report, random_state=seed) for name in ("left", "right")}
    answers: dict[str, Mapping[str, GCMF]] = {
        **{name: dict.fromkeys(singles, model) for name, model in models.items()},
        ALONE: singles,
    }
    errors = {
        name: {HALVES: _rmse(by_relation, halves), PIXELS: _rmse(by_relation, pixels)}
        for name, by_relation in answers.items()
    }
    fits = {
        name: {"sweeps": model.n_iter_, "factors": model.n_factors_active_}
        for name, model in {**models, **singles}.items()
    }
    return Demo(
        whole=whole,
        train=train,
        model=models[GROUP],
        errors=pd.DataFrame.from_dict(errors, orient="index"),
        fits=pd.DataFrame.from_dict(fits, orient="index"),
        hidden=halves.entities["image"].ids[np.unique(halves.relations["right"].cells.triplets().i)],
    )


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


def _rmse(models: Mapping[str, GCMF], test: Collection) -> float:
    """Root mean squared error over the cells of all relations in `test`, each predicted by its own model."""
    squares = n = 0.0
    for name, relation in test.relations.items():
        i, j, x = relation.cells.triplets()
        rows, cols = test.entities[relation.rows].ids, test.entities[relation.cols].ids
        guess = np.asarray(models[name].predict(name, rows[i], cols[j]))
        squares += float(((guess - x) ** 2).sum())
        n += len(x)
    return float(np.sqrt(squares / n))


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


# --- the figure ---------------------------------------------------------------------------------------------


def draw_demo(demo: Demo) -> Figure:
    """Draw everything the demonstration shows."""
    with styled():
        figure = new_figure(11.0, 11.8)
        figure.suptitle("Two halves of handwritten digits, learned together", fontsize=16, fontweight="bold")
        parts: Any = figure.subfigures(3, 1, height_ratios=[3.7, 4.0, 3.2])
        left, right = parts[0].subplots(1, 2, width_ratios=[1.0, 1.15])
        left.set_title("The collection")
        draw_schema(left, demo.model)
        _draw_errors(right, demo)
        draw_structure(parts[1].subplots(), demo.model)
        parts[1].suptitle("The structure found: where each factor lives", **_HEADING)
        _draw_pictures(parts[2], demo)
    return figure


def _draw_errors(ax: Axes, demo: Demo) -> None:
    """Draw a group of bars per task, a bar per method."""
    ax.set_title("Held-out error: RMSE of gray values, 0 to 1")
    words: dict[str, Any] = {"va": "center", "ha": "right", "fontsize": 9}
    place = 0.0
    for task in demo.errors.columns:
        ax.text(0.0, place - 0.65, task, fontsize=9, color=MUTED, va="center")
        for method, error in demo.errors[task].items():
            ax.barh(place, error, height=0.78, color=_COLORS[str(method)])
            ink = "white" if method == GROUP else INK
            ax.text(error - 0.004, place, f"{error:.3f}", fontweight="bold", color=ink, **words)
            ax.text(-0.004, place, str(method), **words)
            place += 0.9
        place += 0.9
    ax.set_ylim(place - 1.2, -1.1)
    ax.set_xlim(0.0, float(demo.errors.to_numpy().max()) * 1.02)
    ax.set_xticks([])
    ax.set_yticks([])
    bare(ax)


def _draw_pictures(figure: SubFigure, demo: Demo) -> None:
    """Three rows of pictures: what was given, what was made of it, what it was."""
    shown = demo.hidden[:_N_PICTURES]
    ink = LinearSegmentedColormap.from_list("ink", ["#ffffff", INK]).with_extremes(bad="#dbe6ec")
    grid = figure.subplots(3, len(shown), gridspec_kw={"wspace": 0.08, "hspace": 0.08})
    for row, (name, images) in enumerate(pictures(demo, shown).items()):
        for column, image in enumerate(images):
            ax: Axes = grid[row, column]
            ax.imshow(np.clip(image, 0.0, 1.0), cmap=ink, vmin=0.0, vmax=1.0)
            ax.set_xticks([])
            ax.set_yticks([])
            for spine in ax.spines.values():
                spine.set(visible=True, color=FAINT)
        grid[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8, color=INK)
    figure.suptitle(f"The first {len(shown)} images whose right half was hidden (pale: not seen)", **_HEADING)


def check_files(folder: Path, *, force: bool) -> None:
    """Refuse, unless `force`, a folder with files of the same names that the demonstration did not write."""
    figure, model = folder / FIGURE, folder / MODEL
    check_model(model, force=force)
    # It writes both, so that the model vouches for the figure.
    check_new(figure, force=force or model.is_file())


def save_demo(demo: Demo, folder: Path) -> list[Path]:
    """Write the figure and the model into a folder, and return their paths."""
    figure, model = folder / FIGURE, folder / MODEL
    try:
        draw_demo(demo).savefig(figure, bbox_inches="tight", pad_inches=0.3)
    except OSError as error:
        msg = f"Cannot write {figure}: {error.strerror}."
        raise StorageError(msg) from error
    demo.model.save(model)
    return [figure, model]
