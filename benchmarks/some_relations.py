"""Factors in some relations only, solrCMF's example: python benchmarks/some_relations.py [--seeds 20] [FILE ...].

Three sets of 100, 50 and 50 entities and four relations, two of them between the same sets; five sparse orthogonal
factors, each in some of the relations with a strength of its own; two thirds of the variance is noise. The example is
that of solrCMF's README (F. Held and others, arXiv:2405.10067), simulated here as it is described there. FILE: .npz
files of the data that solrCMF's own simulator draws, as x0_1, x0_2, x1_2_0, x1_2_1 and the same with t for the truth.
Prints in how many the exact pattern is found with defaults, and the error relative to the size of the truth.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np

import gcmf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZES = (100, 50, 50)
NONZERO, SNR = 0.25, 0.5
STRENGTHS = {
    "0_1": (7.0, 5.1, 4.6, 0.0, 0.0), "0_2": (8.3, 0.0, 0.0, 5.5, 0.0), "1_2_0": (6.3, 0.0, 4.7, 0.0, 5.1),
    "1_2_1": (0.0, 8.6, 4.9, 0.0, 0.0),
}  # fmt: skip
PATTERN = sorted(tuple(name for name, d in STRENGTHS.items() if d[k]) for k in range(5))


def main() -> None:
    """Print a line per data set and one for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    given = [dict(np.load(name)) for name in options.files] or [simulate(seed) for seed in range(options.seeds)]
    rows = [compare(data) for data in given]
    for exact, n, error, seconds in rows:
        print(f"{'exact pattern' if exact else 'another pattern'}, {n} factors, error {error:.3f}; {seconds:.2f} s")
    exact, _, error, seconds = np.array(rows, dtype=float).T
    print(
        f"exact pattern in {exact.sum():.0f} of {len(rows)}, mean error {error.mean():.3f} of the truth's size;"
        f" {np.median(seconds):.2f} s a fit"
    )


def simulate(seed: int) -> dict[str, Floats]:
    """Draw x = V_i diag(d) V_jᵀ + noise, with orthonormal V of which a quarter is not zero, and name it as files do."""
    rng = np.random.default_rng(seed)
    factors = [sparse_orthonormal(n, 5, rng) for n in SIZES]
    drawn = {}
    for name, d in STRENGTHS.items():
        i, j = map(int, name.split("_")[:2])
        truth = (factors[i] * d) @ factors[j].T
        noise = np.sqrt((truth**2).mean() / SNR)
        drawn[f"t{name}"], drawn[f"x{name}"] = truth, truth + noise * rng.normal(size=truth.shape)
    return drawn


def sparse_orthonormal(n: int, k: int, rng: np.random.Generator) -> Floats:
    """Columns of length 1, each zero but for a quarter, and orthogonal to each other."""
    v = np.zeros((n, k))
    for column in range(k):
        kept = rng.choice(n, round(NONZERO * n), replace=False)
        before = v[kept, :column]
        x = rng.normal(size=len(kept))
        x -= before @ np.linalg.pinv(before) @ x
        v[kept, column] = x / np.linalg.norm(x)
    return v


def compare(data: Mapping[str, Floats]) -> tuple[bool, int, float, float]:
    """Whether the pattern is found, how many factors, the error relative to the truth, and the time."""
    begin = time.perf_counter()
    relations = [gcmf.Relation(name, f"set {name[0]}", f"set {name[2]}", data[f"x{name}"]) for name in STRENGTHS]
    model = gcmf.GCMF(random_state=0, progress=False).fit(relations)
    seconds = time.perf_counter() - begin
    found = sorted(model.structure()["relations"])
    shares = [np.mean((model.predict(name) - data[f"t{name}"]) ** 2) / np.mean(data[f"t{name}"] ** 2)
              for name in STRENGTHS]  # fmt: skip
    return found == PATTERN, len(found), float(np.sqrt(np.mean(shares))), seconds


if __name__ == "__main__":
    main()
