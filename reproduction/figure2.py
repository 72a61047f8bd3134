"""Figure 2: every matrix is a block of one symmetric matrix, and the zeros of U say which factor feeds which block."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gcmf.data.schema import RelationSchema, Schema
from gcmf.datasets import simulate
from reproduction.base import Claim, Experiment, Outcome, Progress, Size
from reproduction.figure2_figure import draw_figure2
from reproduction.fitting import timed_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gcmf.datasets import Simulation
    from gcmf.estimators.gcmf import GCMF

SCHEMA = Schema(
    ("A", "B", "C", "D"),
    (
        RelationSchema("X1", "A", "B", "gaussian"),
        RelationSchema("X2", "B", "C", "gaussian"),
        RelationSchema("X3", "C", "A", "gaussian"),
        RelationSchema("X4", "C", "D", "gaussian"),
    ),
)
"""A triangle with a tail: factors may be shared by all four matrices, by the triangle, by two, or be private."""
LIVES = ("ABCD", "ABCD", "ABC", "AB", "BC", "CD")
"""The entity sets of each true factor."""


@dataclass(frozen=True)
class Settings:
    """What is drawn and fitted."""

    seeds: int
    """Collections to check the pattern on; the first is drawn."""
    sizes: tuple[int, int, int, int] = (45, 60, 50, 35)
    n_factors: int = 10
    noise: float = 0.5
    missing: float = 0.2
    max_iter: int = 300
    tol: float = 1e-5


SETTINGS = {Size.QUICK: Settings(3), Size.FULL: Settings(20)}


def run_with(settings: Settings, progress: Progress, *, seed: int = 0) -> Outcome:
    """Fit small collections, compare the zeros found with the true ones, and draw the first."""
    progress.start(settings.seeds, "fits")
    pairs = []
    for one in range(seed, seed + settings.seeds):
        pairs.append(fit_one(settings, one))
        progress.step(f"seed {one}")
    table = pd.concat([factor_rows(model, seed + n) for n, (_, model) in enumerate(pairs)], ignore_index=True)
    truth, model = pairs[0]
    return Outcome(
        table, claims([model for _, model in pairs]), draw_figure2(truth.train, model), notes=notes(settings)
    )


def fit_one(settings: Settings, seed: int) -> tuple[Simulation, GCMF]:
    """Draw a collection with the pattern above, and fit it with factors to spare."""
    pattern = {entity: [entity in lives for lives in LIVES] for entity in SCHEMA.entities}
    truth = simulate(SCHEMA, dict(zip(SCHEMA.entities, settings.sizes, strict=True)), pattern=pattern,
                     noise=settings.noise, missing=settings.missing, random_state=seed)  # fmt: skip
    model, _ = timed_fit(truth.train, settings.n_factors, bias=False, random_state=seed,
                         max_iter=settings.max_iter, tol=settings.tol)  # fmt: skip
    return truth, model


def factor_rows(model: GCMF, seed: int) -> pd.DataFrame:
    """Return a row per factor found: where it lives, which matrices it feeds."""
    found = model.structure()
    return pd.DataFrame({
        "seed": seed,
        "factor": found.index,
        "lives_in": lives(model),
        "role": found["role"].to_numpy(),
        "feeds": [" ".join(names) for names in found["relations"]],
        **{f"activity_{entity}": found[entity].to_numpy(dtype=float).round(4) for entity in SCHEMA.entities},
    })  # fmt: skip


def lives(model: GCMF) -> list[str]:
    """Return the entity sets in which each factor is not exactly zero, as "ABC"."""
    on = model.structure()[list(SCHEMA.entities)].to_numpy(dtype=float) > 0
    return ["".join(np.array(SCHEMA.entities)[row]) for row in on]


def claims(models: Sequence[GCMF]) -> tuple[Claim, ...]:
    """Judge whether zeros decide who feeds what, and whether they are found from the data."""
    gap = max(_gap(model) for model in models)
    right = sum(Counter(lives(model)) == Counter(LIVES) for model in models)
    most = right > len(models) / 2
    return (
        Claim(
            "A factor that is zero for one of a matrix's two entity sets does not feed that matrix.",
            "block = product of the factors that live in both sets",
            f"largest difference between each block's prediction and that product: {gap:.1g}",
            holds=gap < 1e-4,
        ),
        Claim(
            "The zero pattern is learned from the data: shared, partly shared and private factors.",
            "drawn as an illustration",
            f"the true pattern ({', '.join(LIVES)}) found exactly in {right} of {len(models)} collections",
            holds=most,
            note="Judged as: in more than half of them.",
        ),
    )


def _gap(model: GCMF) -> float:
    """Largest difference between a prediction and its centered product of own factors, in units of its spread."""
    found, gaps = model.structure(), []
    for relation in model.schema_.relations:
        own = found.index[[relation.name in names for names in found["relations"]]]
        product = model.factors(relation.rows)[own].to_numpy() @ model.factors(relation.cols)[own].to_numpy().T
        predicted = np.asarray(model.predict(relation.name))
        # Predictions are in the data's units: the product, times the relation's scale, plus its mean.
        slope, level = np.polyfit(product.ravel(), predicted.ravel(), 1)
        gaps.append(float(np.abs(predicted - slope * product - level).max() / predicted.std()))
    return max(gaps)


def notes(settings: Settings) -> tuple[str, ...]:
    """Say what was drawn and fitted."""
    return (
        f"{settings.seeds} simulated collections of four Gaussian matrices over sets of "
        f"{', '.join(map(str, settings.sizes))}; {len(LIVES)} true factors, {settings.n_factors} to start from; "
        f"{settings.missing:.0%} of the entries missing; noise of variance {settings.noise:g}. The first is drawn, the "
        "entities of each set ordered by its first factor.",
    )


EXPERIMENT = Experiment("figure2", "Figure 2: one symmetric matrix, and the zeros of U", (), SETTINGS, run_with)
