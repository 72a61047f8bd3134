"""Which items does a person turn to next: python benchmarks/ranking.py [lastfm] [movielens] [synthetic] [--all-zeros].

Last.fm (who listened to whom) and MovieLens 1M (who rated what 4 or more) as 0/1 with blanks="zero". A fifth of each
person's ones is held out, and all items that they have no other one with are ranked. gcmf as it comes, beside the
popularity of items and, where it is installed, `implicit`: ALS and BPR, the best of a grid on a tenth of what is left,
then fitted to all of it. `--all-zeros` fits gcmf from all zeros too, which takes minutes. "synthetic" is
50,000 × 40,000 with two million ones: time and memory alone.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

import gcmf
from gcmf import datasets

if TYPE_CHECKING:
    from pathlib import Path

ALS = {"factors": (16, 32, 64), "alpha": (1.0, 5.0, 20.0), "regularization": (0.05,), "iterations": (15,)}
BPR = {"factors": (32, 64, 128), "learning_rate": (0.01, 0.05), "regularization": (0.01,), "iterations": (100,)}
DISCOUNT = 1.0 / np.log2(np.arange(2, 12))


def main() -> None:
    """Print a table per data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["lastfm", "movielens"])
    parser.add_argument("--all-zeros", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    folder = datasets.find_data_folder()
    for name in options.sets:
        if name == "synthetic":
            synthetic()
        elif folder is None:
            print("skipped: no data folder (set GCMF_DATA)")
        else:
            compare({"lastfm": lastfm, "movielens": movielens}[name](folder), name, options)


def lastfm(folder: Path) -> sparse.csr_array:
    """Who listened to whom."""
    return ones(*np.loadtxt(folder / "lastfm" / "user_artists.dat", np.int64, skiprows=1, usecols=(0, 1)).T)


def movielens(folder: Path) -> sparse.csr_array:
    """Who rated what 4 or more."""
    user, movie, rating = np.loadtxt(folder / "ml-1m" / "ratings.dat", np.int64, delimiter=":", usecols=(0, 2, 4)).T
    return ones(user[rating >= 4], movie[rating >= 4])


def ones(rows: np.ndarray, cols: np.ndarray) -> sparse.csr_array:
    """Return the matrix with ones there, without empty rows and columns."""
    i, j = (np.unique(ids, return_inverse=True)[1] for ids in (rows, cols))
    return sparse.csr_array((np.ones(len(i), np.float32), (i, j)))


def hold_out(x: sparse.csr_array, share: float, seed: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return the rest and a share of the ones of each row."""
    order = np.random.default_rng(seed).random(x.nnz)
    row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    rank = np.empty(x.nnz, np.int64)
    rank[np.lexsort((order, row))] = np.arange(x.nnz)
    out = rank - x.indptr[row] < np.rint(share * np.diff(x.indptr))[row]
    parts = ((row[take], x.indices[take]) for take in (~out, out))
    return tuple(sparse.csr_array((np.ones(len(i), np.float32), (i, j)), shape=x.shape) for i, j in parts)


def compare(x: sparse.csr_array, name: str, options: argparse.Namespace) -> None:
    """Print how each method ranks what was held out."""
    rest, test = hold_out(x, 0.2, 0)
    print(f"{name}: {x.shape[0]:,} × {x.shape[1]:,}, {x.nnz:,} ones, {test.nnz:,} held out", flush=True)
    print("| method | seconds | NDCG@10 | recall@20 | AUC | log-loss per one |\n|---|---|---|---|---|---|", flush=True)
    popularity = np.asarray(rest.sum(axis=0)).ravel()
    show("popularity", 0.0, lambda rows: np.tile(popularity, (len(rows), 1)), rest, test)
    fit_own("gcmf", rest, test)
    if options.all_zeros:
        with mock.patch("gcmf.data.zeros.MANY", np.inf):
            fit_own("gcmf, all zeros", rest, test)
    if not options.no_peers:
        peers(rest, test)


def fit_own(label: str, rest: sparse.csr_array, test: sparse.csr_array) -> None:
    """Fit with all at its defaults."""
    started = time.perf_counter()
    model = gcmf.GCMF(random_state=0).fit(gcmf.Relation("x", "user", "item", rest, "bernoulli", blanks="zero"))
    seconds = time.perf_counter() - started
    label += f", {model.n_factors_active_} + {model.fitted_.n_weak} factors, {model.n_iter_} sweeps"
    show(label, seconds, lambda rows: model.predict("x", rows, None), rest, test, probabilities=True)


def peers(rest: sparse.csr_array, test: sparse.csr_array) -> None:
    """The peers, each with the settings that rank best what is held out of the rest."""
    try:
        from implicit.als import AlternatingLeastSquares  # noqa: PLC0415 - optional
        from implicit.bpr import BayesianPersonalizedRanking  # noqa: PLC0415
    except ImportError:
        print("(implicit is not installed)")
        return
    inner, valid = hold_out(rest, 0.1, 1)
    for label, kind, grid in (("ALS", AlternatingLeastSquares, ALS), ("BPR", BayesianPersonalizedRanking, BPR)):
        settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        found = [rank(scores_of(fit_peer(kind, inner, **one)), inner, valid)[0] for one in settings]
        best = settings[int(np.argmax(found))]
        started = time.perf_counter()
        model = fit_peer(kind, rest, **best)
        seconds = time.perf_counter() - started
        told = ", ".join(f"{key} {value}" for key, value in best.items() if len(grid[key]) > 1)
        show(f"implicit {label}, {told}", seconds, scores_of(model), rest, test)


def fit_peer(kind: Any, x: sparse.csr_array, **settings: Any) -> Any:  # noqa: ANN401 - theirs
    """One fit."""
    model = kind(random_state=0, **settings)
    model.fit(sparse.csr_matrix(x), show_progress=False)
    return model


def scores_of(model: Any) -> Any:  # noqa: ANN401 - theirs
    """From rows to a line of scores for each."""
    return lambda rows: model.user_factors[rows] @ model.item_factors.T


def show(label: str, seconds: float, scores: Any, rest: Any, test: Any, *, probabilities: bool = False) -> None:  # noqa: ANN401
    """Print one line."""
    ndcg, recall = rank(scores, rest, test)
    auc, loss = separate(scores, rest, test)
    said = f"{loss:.3f}" if probabilities else ""
    print(f"| {label} | {seconds:.1f} | {ndcg:.4f} | {recall:.4f} | {auc:.4f} | {said} |", flush=True)


def rank(scores: Any, rest: sparse.csr_array, test: sparse.csr_array) -> tuple[float, float]:  # noqa: ANN401
    """NDCG@10 and recall@20 (of at most 20), averaged over the rows that have something held out."""
    ndcg, recall = [], []
    for rows in batches(rest.shape[0]):
        for row, line in zip(rows, np.array(scores(rows)), strict=True):
            hidden = test.indices[test.indptr[row] : test.indptr[row + 1]]
            if not len(hidden):
                continue
            line[rest.indices[rest.indptr[row] : rest.indptr[row + 1]]] = -np.inf
            top = np.argpartition(-line, 20)[:20]
            hit = np.isin(top[np.argsort(-line[top], kind="stable")], hidden)
            ndcg.append((hit[:10] * DISCOUNT).sum() / DISCOUNT[: len(hidden)].sum())
            recall.append(hit.sum() / min(len(hidden), 20))
    return float(np.mean(ndcg)), float(np.mean(recall))


def separate(scores: Any, rest: sparse.csr_array, test: sparse.csr_array) -> tuple[float, float]:  # noqa: ANN401
    """AUC of held-out ones among blanks, 100 of each row, and −Σ log p over those ones and all blanks, per one."""
    rng, truth, guess, loss = np.random.default_rng(2), [], [], 0.0
    for rows in batches(rest.shape[0]):
        for row, line in zip(rows, np.array(scores(rows), np.float64), strict=True):
            hidden = test.indices[test.indptr[row] : test.indptr[row + 1]]
            blank = np.ones(rest.shape[1], bool)
            blank[rest.indices[rest.indptr[row] : rest.indptr[row + 1]]] = blank[hidden] = False
            drawn = rng.choice(np.flatnonzero(blank), 100)
            truth += [np.ones(len(hidden)), np.zeros(len(drawn))]
            guess += [line[hidden], line[drawn]]
            with np.errstate(invalid="ignore", divide="ignore"):
                loss -= np.log(line[hidden]).sum() + np.log1p(-line[blank]).sum()
    return float(roc_auc_score(np.concatenate(truth), np.concatenate(guess))), loss / test.nnz


def batches(n: int) -> list[np.ndarray]:
    """Rows, some at a time."""
    return np.array_split(np.arange(n), -(-n // 500))


def synthetic(shape: tuple[int, int] = (50_000, 40_000), n_ones: int = 2_000_000) -> None:
    """Fit 2·10⁹ cells: groups of rows with a taste for groups of columns, some of which are popular."""
    rng = np.random.default_rng(0)
    taste = rng.integers(8, size=shape[1])
    popular = np.argsort(taste, kind="stable")
    i = rng.integers(shape[0], size=n_ones)
    group = np.where(rng.random(n_ones) < 0.7, i % 8, rng.integers(8, size=n_ones))
    first, size = np.searchsorted(taste[popular], group), np.bincount(taste)[group]
    j = popular[first + (size * rng.random(n_ones) ** 2).astype(np.int64)]
    x = sparse.csr_array((np.ones(n_ones, np.float32), (i, j)), shape=shape)
    x.data[:] = 1.0
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    data = gcmf.Collection([gcmf.Relation("x", "user", "item", x, "bernoulli", blanks="zero")])
    model = gcmf.GCMF(8, random_state=0).fit(data)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{data}\n{model}\n{time.perf_counter() - started:.0f} s, {(peak - before) / 2**20:.2f} GiB more than the data"
    )


if __name__ == "__main__":
    main()
