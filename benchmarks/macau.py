"""Compounds, proteins and fingerprints, the setting that Macau was made for: python benchmarks/macau.py [--seeds 2].

Its example, IC50 values from ChEMBL with ECFP fingerprints, cannot be fetched here, so it is simulated: 1,000 compounds
and 150 proteins, 5% or 15% of the cells measured with a noise of 0.5, and 1,000 sparse 0/1 features of the compounds,
about 40 each, that determine two thirds of the variance of 8 factors. A fifth of the cells of 90% of the compounds is
hidden, and all cells of the others. Prints the RMSE of both, without and with covariates; beside SMURFF's where it is
installed (`make bench` has a virtual environment with it).
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

import gcmf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

N_COMPOUNDS, N_PROTEINS, N_FEATURES, N_FACTORS = 1_000, 150, 1_000, 8
NOISE = 0.5
SMURFF = {"num_latent": 16, "burnin": 50, "nsamples": 100}


def main() -> None:
    """Print a line per share of cells and tool: means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    n_seeds = parser.parse_args().seeds
    for measured in (0.05, 0.15):
        found: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(n_seeds):
            assays = simulate(measured, seed)
            for name, predicted, seconds in [*own(assays), *theirs(assays)]:
                errors = [float(np.sqrt(np.mean((predicted - assays.x)[part] ** 2))) for part in assays.parts]
                found.setdefault(name, []).append((*errors, seconds))
        for name, rows in found.items():
            known, new, seconds = np.mean(rows, axis=0)
            print(
                f"{measured:.0%} measured, {name}: known compounds {known:.3f}, new compounds {new:.3f};"
                f" {seconds:.1f} s",
                flush=True,
            )


class Assays(NamedTuple):
    """Cells, of which some are for learning, and fingerprints."""

    i: Integers
    j: Integers
    x: Floats
    learned: NDArray[np.bool_]
    is_new: NDArray[np.bool_]
    """Cells of compounds all of whose cells are hidden."""
    fingerprints: Any

    @property
    def parts(self) -> tuple[NDArray[np.bool_], ...]:
        """Hidden cells of known compounds, and of new ones."""
        return ~self.learned & ~self.is_new, self.is_new


def simulate(measured: float, seed: int) -> Assays:
    """Draw factors of compounds from their fingerprints, and cells from the factors."""
    rng = np.random.default_rng(seed)
    often = rng.gamma(0.5, size=N_FEATURES)
    chance = np.minimum(40.0 * often / often.sum(), 0.9)
    fingerprints = sparse.csr_array((rng.random((N_COMPOUNDS, N_FEATURES)) < chance).astype(float))
    told = fingerprints @ (rng.normal(size=(N_FEATURES, N_FACTORS)) / np.sqrt(chance * (1 - chance)).max())
    told = (told - told.mean(axis=0)) / told.std(axis=0)
    u = np.sqrt(2 / 3) * told + np.sqrt(1 / 3) * rng.normal(size=told.shape)
    v = rng.normal(size=(N_PROTEINS, N_FACTORS)) / np.sqrt(N_FACTORS)
    theta = 6.0 + u @ v.T + 0.5 * rng.normal(size=N_PROTEINS)
    i, j = np.nonzero(rng.random(theta.shape) < measured)
    x = theta[i, j] + NOISE * rng.normal(size=len(i))
    is_new = (rng.random(N_COMPOUNDS) < 0.1)[i]
    return Assays(i, j, x, ~is_new & (rng.random(len(i)) < 0.8), is_new, fingerprints)


def own(assays: Assays) -> Iterator[tuple[str, Floats, float]]:
    """Fit with defaults: cells alone, and with the fingerprints as covariates."""
    i, j, x = (part[assays.learned] for part in (assays.i, assays.j, assays.x))
    ids = {"compound": range(N_COMPOUNDS), "protein": range(N_PROTEINS)}
    known = {**ids, "compound": (list(ids["compound"]), assays.fingerprints)}
    for name, entities in (("gcmf, cells alone", ids), ("gcmf, with fingerprints", known)):
        begin = time.perf_counter()
        data = gcmf.Collection([gcmf.Relation("ic50", "compound", "protein", (i, j, x))], entities=entities)
        model = gcmf.GCMF(random_state=0, progress=False).fit(data)
        seconds = time.perf_counter() - begin
        yield name, model.predict("ic50", assays.i, assays.j), seconds


def theirs(assays: Assays) -> Iterator[tuple[str, Floats, float]]:
    """Sample with SMURFF, if it is there, with noise that adapts, as `make bench` has it."""
    try:
        import smurff  # noqa: PLC0415 - optional
    except ImportError:
        return
    center, shape = float(assays.x[assays.learned].mean()), (N_COMPOUNDS, N_PROTEINS)
    train, test = (
        sparse.csr_matrix(((assays.x - center)[part], (assays.i[part], assays.j[part])), shape=shape)
        for part in (assays.learned, ~assays.learned)
    )
    begin = time.perf_counter()
    session = smurff.TrainSession(priors=["macau", "normal"], num_threads=1, seed=1, verbose=0, **SMURFF)
    session.setTrain(train, smurff.AdaptiveNoise(5.0, 10.0), True)  # noqa: FBT003 - its signature: blanks are missing
    session.setTest(test)
    session.addSideInfo(0, sparse.csr_matrix(assays.fingerprints), direct=True)
    session.init()
    while session.step() is not None:
        pass
    seconds = time.perf_counter() - begin
    answer = np.full(shape, np.nan)
    for one in session.getTestPredictions():
        answer[tuple(one.coords)] = one.pred_avg + center
    yield "SMURFF (Macau)", answer[assays.i, assays.j], seconds


if __name__ == "__main__":
    main()
