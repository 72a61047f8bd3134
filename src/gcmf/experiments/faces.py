"""Figure 5: faces in a lighting nobody has seen them in, with and without knowing which pixels lie near each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.data.split import draw
from gcmf.datasets import load_faces
from gcmf.experiments.base import Claim, Experiment, Outcome, Progress, Size
from gcmf.experiments.faces_figure import Pictures, draw_faces
from gcmf.experiments.real import folder_of, rmse, timed_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF

BOTH, ALONE = 6, 7
"""People seen in both lightings, and in each of them alone."""
OBSERVED = 0.1
"""Share of the pixel proximity relation that is observed."""
VIEWS = ("first", "second")
PAIRS = {"near": (5, 6), "apart": (4, 9), "far": (2, 13)}
"""Lightings by how far apart the flashes are: neighbors; left and right of the front; left and right side."""
BACK = 0.01
"""An error within this share of the unaugmented one is called back to it."""


@dataclass(frozen=True)
class Settings:
    """Which lightings and neighborhoods, how often, and how long a fit may take."""

    pairs: tuple[str, ...]
    sigmas: tuple[float, ...]
    """Widths of the neighborhood, in pixels of the 32 × 32 images."""
    biases: tuple[bool, ...]
    repetitions: int
    n_factors: int = 10
    coarse: int = 1
    """Pixels averaged in each direction: 2 makes 16 × 16 images."""
    max_iter: int = 200
    tol: float = 1e-5


_WIDE = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 128.0)
SETTINGS = {
    Size.QUICK: Settings(("near", "far"), (0.5, 2.0, 8.0, 32.0, 128.0), (True,), 2, coarse=2, max_iter=80, tol=1e-4),
    Size.FULL: Settings(tuple(PAIRS), _WIDE, (True, False), 10),
}
MIDDLE = Settings(tuple(PAIRS), _WIDE, (True, False), 4, coarse=2, tol=1e-4)
"""Between the two: what docs/reproduction shows."""


class Sitting(NamedTuple):
    """Pixels of the same people in two lightings, people × pixels each, and whether each person was seen in them."""

    images: tuple[NDArray[np.float64], NDArray[np.float64]]
    seen: tuple[NDArray[np.bool_], NDArray[np.bool_]]


def run(size: Size, progress: Progress, *, seed: int = 0) -> Outcome:
    """Run at one of the two sizes."""
    return run_with(SETTINGS[size], progress, seed=seed)


def run_with(settings: Settings, progress: Progress, *, seed: int = 0) -> Outcome:
    """Fit with neighborhoods of every width and without, and judge."""
    faces = coarsen(load_faces(folder_of("faces")), settings.coarse)
    fits = len(settings.pairs) * len(settings.biases) * settings.repetitions * (1 + len(settings.sigmas))
    progress.start(fits, "fits")
    rows: list[dict[str, object]] = []
    pictures: dict[str, Pictures] = {}
    for repetition in range(settings.repetitions):
        for pair in settings.pairs:
            people = sit(faces, PAIRS[pair], seed=seed + repetition)
            for bias in settings.biases:
                case = Case(pair, bias=bias, seed=seed + repetition)
                found, shown = measure(people, case, settings=settings, progress=progress)
                rows += found
                pictures.setdefault(pair, shown)
    table = relate(pd.DataFrame(rows))
    told = (*notes(settings, table), likeness_note(faces, settings))
    return Outcome(table, claims(table), draw_faces(table, pictures), notes=told)


@dataclass(frozen=True)
class Case:
    """What is fitted with every neighborhood."""

    pair: str
    bias: bool
    seed: int


def coarsen(faces: NDArray[np.float64], by: int) -> NDArray[np.float64]:
    """Average squares of `by` × `by` pixels."""
    *first, height, width = faces.shape
    squares = faces.reshape(*first, height // by, by, width // by, by)
    return np.asarray(squares.mean(axis=(-3, -1)), dtype=np.float64)


def sit(faces: NDArray[np.float64], pair: tuple[int, int], *, seed: int) -> Sitting:
    """Draw people: 6 are seen in both lightings, 7 in the first alone, 7 in the second alone."""
    n = BOTH + 2 * ALONE
    people = np.random.default_rng(seed).permutation(len(faces))[:n]
    number = np.arange(n)
    first, second = (faces[people, lighting].reshape(n, -1) for lighting in pair)
    return Sitting((first, second), (number < BOTH + ALONE, (number < BOTH) | (number >= BOTH + ALONE)))


def measure(
    people: Sitting, case: Case, *, settings: Settings, progress: Progress
) -> tuple[list[dict[str, object]], Pictures]:
    """Fit without the relation and with each width; a row per fit, and what they make of the unseen faces."""
    average = errors(people, tuple(image[own].mean(axis=0) for image, own in zip(*people, strict=True)))
    rows: list[dict[str, object]] = []
    guesses: dict[float, NDArray[np.float64]] = {}
    for sigma in (np.nan, *settings.sigmas):
        data = collection(people, sigma, coarse=settings.coarse, seed=case.seed)
        model, seconds = timed_fit(
            data, settings.n_factors, bias=case.bias, random_state=case.seed, max_iter=settings.max_iter,
            tol=settings.tol,
        )  # fmt: skip
        error = errors(people, tuple(np.asarray(model.predict(view)) for view in VIEWS))
        guesses[sigma] = np.asarray(model.predict(VIEWS[1]))[~people.seen[1]]
        rows.append({
            "pair": case.pair, "bias": case.bias, "seed": case.seed, "sigma": sigma, "rmse": error,
            "average_face": average, "factors": model.n_factors_active_, "shared": _shared(model),
            "sweeps": model.n_iter_, "seconds": round(seconds, 2),
        })  # fmt: skip
        progress.step(f"{case.pair}: " + ("views alone" if np.isnan(sigma) else f"sigma {sigma:g}"))
    unseen = ~people.seen[1]
    best = min((row for row in rows[1:]), key=lambda row: float(str(row["rmse"])))["sigma"]
    return rows, Pictures(
        given=people.images[0][unseen], alone=guesses[_first(guesses)], augmented=guesses[float(str(best))],
        true=people.images[1][unseen], sigma=float(str(best)),
    )  # fmt: skip


def _first(guesses: dict[float, NDArray[np.float64]]) -> float:
    """Return the key of the fit without the relation; NaN is found by its place, not by its value."""
    return next(iter(guesses))


def _shared(model: GCMF) -> int:
    return int((model.structure()["role"] == "shared").sum())


def errors(people: Sitting, guesses: tuple[NDArray[np.float64], ...]) -> float:
    """Root mean squared error of gray values, over the views that were never seen; a single guess serves everybody."""
    pairs = [
        (np.broadcast_to(guess, image.shape)[~own], image[~own])
        for guess, image, own in zip(guesses, *people, strict=True)
    ]
    return rmse(np.concatenate([guess.ravel() for guess, _ in pairs]), np.concatenate([x.ravel() for _, x in pairs]))


def collection(people: Sitting, sigma: float, *, coarse: int, seed: int) -> Collection:
    """Return the seen views and, unless sigma is NaN, a tenth of which pixels of the two lightings are near."""
    n, d = people.images[0].shape
    views = [
        Relation(name, "person", f"{name} pixel", np.where(own[:, None], image, np.nan))
        for name, image, own in zip(VIEWS, *people, strict=True)
    ]
    ids = {"person": np.arange(n), **{f"{name} pixel": np.arange(d) for name in VIEWS}}
    if not np.isnan(sigma):
        rng = np.random.default_rng([seed, 1])
        i, j = np.divmod(draw(rng, d * d, round(OBSERVED * d * d)), d)
        near = (rng.random(len(i)) < kernel(i, j, side=round(d**0.5), sigma=sigma / coarse)).astype(np.float64)
        views.append(Relation("near", "first pixel", "second pixel", (i, j, near), "bernoulli"))
    return Collection(views, entities=ids)


def kernel(i: NDArray[np.int64], j: NDArray[np.int64], *, side: int, sigma: float) -> NDArray[np.float64]:
    """exp(-distance² / 2σ²) of pixels numbered row by row."""
    (above, left), (below, right) = np.divmod(i, side), np.divmod(j, side)
    squared: NDArray[np.float64] = ((above - below) ** 2 + (left - right) ** 2).astype(np.float64)
    return np.exp(-squared / (2.0 * sigma**2))


def relate(table: pd.DataFrame) -> pd.DataFrame:
    """Add each error relative to that of the views alone on the same data."""
    key = ["pair", "bias", "seed"]
    base = table[table["sigma"].isna()].set_index(key)["rmse"]
    own = table.set_index(key)["rmse"]
    return table.assign(relative=(own / base.reindex(own.index)).to_numpy())


def claims(table: pd.DataFrame) -> tuple[Claim, ...]:
    """Judge by the medians over people drawn anew, for each pair of lightings."""
    valleys = table.dropna(subset="sigma").groupby(["bias", "pair", "sigma"], sort=False)["relative"].median()
    curves = {
        f"{pair} ({'biases' if bias else 'no biases'})": one.droplevel([0, 1])
        for (bias, pair), one in valleys.groupby(["bias", "pair"], sort=False)
    }
    low = {name: (one.min(), one.idxmin(), int((one < 1 - BACK).sum())) for name, one in curves.items()}
    n = len(next(iter(curves.values())))
    said = "; ".join(f"{name}: {least - 1:+.1%} at σ = {at:g}" for name, (least, at, _) in low.items())
    broad = "; ".join(f"{name}: {width} of {n} widths" for name, (_, _, width) in low.items())
    ends = {name: (one.iloc[0] - 1, one.iloc[-1] - 1) for name, one in curves.items()}
    return (
        Claim("Knowing which pixels are near lowers the error.", "lower in the valley", said,
              holds=all(least < 1 for least, _, _ in low.values()),
              note="Relative to the views alone; judged as: for every pair, at its best width (by this same error)."),
        Claim("The valley is broad.", "a broad valley", f"more than {BACK:.0%} below the views alone: {broad}",
              holds=all(width >= 3 for _, _, width in low.values()), note="Judged as: at least three widths."),
        _back("narrow", {name: start for name, (start, _) in ends.items()}),
        _back("wide", {name: end for name, (_, end) in ends.items()}),
    )  # fmt: skip


def _back(which: str, change: dict[str, float]) -> Claim:
    return Claim(
        f"Very {which} neighborhoods: back to the error of the views alone.", "back to it",
        "; ".join(f"{name} {one:+.1%}" for name, one in change.items()),
        holds=all(abs(one) < BACK for one in change.values()), note=f"Judged as: within {BACK:.0%} for every pair.",
    )  # fmt: skip


def notes(settings: Settings, table: pd.DataFrame) -> tuple[str, ...]:
    """Say what was fitted."""
    side = 32 // settings.coarse
    pairs = ", ".join(f"{name} {PAIRS[name]}" for name in settings.pairs)
    alone = table[table["sigma"].isna()]
    gain = float((alone["rmse"] / alone["average_face"]).median())
    return (
        f"{settings.repetitions} draws of {BOTH + 2 * ALONE} of 68 people; images of {side} × {side} pixels; lightings "
        f"{pairs}; {OBSERVED:.0%} of the pixel × pixel relation observed; K = {settings.n_factors}, at most "
        f"{settings.max_iter} sweeps, tol = {settings.tol:g}. σ is in pixels of the 32 × 32 images.",
        f"How hard it is: with six people to learn from, the views alone have {gain:.2f} times the error of guessing "
        "the average face.",
    )


def likeness(faces: NDArray[np.float64], pair: tuple[int, int]) -> tuple[float, float]:
    """Return the mean correlation over people between the two lightings: of the same pixel, and of distant ones.

    Distant is more than 0.6 of the image's width.
    """
    first, second = (_standard(faces[:, lighting].reshape(len(faces), -1)) for lighting in pair)
    correlation = first.T @ second / len(faces)
    above, left = np.divmod(np.arange(first.shape[1]), faces.shape[-1])
    distance = np.hypot(above[:, None] - above, left[:, None] - left)
    return float(correlation[distance == 0].mean()), float(correlation[distance > 0.6 * faces.shape[-1]].mean())


def _standard(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Center and scale over people; a pixel that never changes correlates with nothing."""
    spread = pixels.std(axis=0)
    return np.asarray((pixels - pixels.mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=np.float64)


def likeness_note(faces: NDArray[np.float64], settings: Settings) -> str:
    """Say what the relation assumes, and how far that is so for each pair of lightings."""
    found = {name: likeness(faces, PAIRS[name]) for name in settings.pairs}
    said = "; ".join(f"{name} {same:.2f} against {distant:.2f}" for name, (same, distant) in found.items())
    return (
        "The relation says that pixels near each other go together in the two lightings. Mean correlation over all "
        f"people, of the same pixel against pixels far away: {said}. Where the two hardly differ, being near says "
        "little: the likely reason, not tested further, why it does not help there."
    )


EXPERIMENT = Experiment("faces", "Figure 5: faces in a lighting never seen", ("faces",), run)
