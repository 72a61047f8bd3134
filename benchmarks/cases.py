"""The six cases, (a) to (f), as plain arrays; (d) comes with and without missing cells."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.problem import Problem, Table, Triplets, distinct
from gcmf import datasets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    import gcmf

    Floats = NDArray[np.float64]

#: Held-out cells that are looked at, at most: enough for four digits, few enough to look after every sweep.
MAX_TESTED = 100_000
#: Factors of case (d): in all three views, in the first two, in the last two, and two of each view's own.
VIEW_PATTERN = (
    ((1, 1, 1),) * 6 + ((1, 1, 0),) * 2 + ((0, 1, 1),) + ((1, 0, 0),) * 2 + ((0, 1, 0),) * 2 + ((0, 0, 1),) * 2
)


def build(case: str, *, quick: bool = False) -> Problem | None:
    """Return a case; None where its data are not on this machine. `quick` makes the simulated ones small."""
    return CASES[case](quick=quick)


def movielens_1m(*, quick: bool) -> Problem | None:
    """(a): ratings, 90/10 at random with seed 0, user traits, movie genres."""
    del quick
    folder = datasets.find_data_folder()
    if folder is None:
        return None
    return _movielens("a", "MovieLens 1M with traits and genres", datasets.load_movielens_1m(folder / "ml-1m"))


def movielens_100k(*, quick: bool) -> Problem | None:
    """(b): the published split u1, with the same side relations."""
    del quick
    folder = datasets.find_data_folder()
    if folder is None:
        return None
    return _movielens("b", "MovieLens 100K, split u1", datasets.load_movielens_100k(folder / "ml-100k"))


def _movielens(case: str, title: str, parts: tuple[gcmf.Collection, gcmf.Collection]) -> Problem:
    train, test = parts
    sizes = {name: entity.size for name, entity in train.entities.items()}
    held_out = Triplets(*test.relations["ratings"].cells.triplets())
    ratings = Triplets(*train.relations["ratings"].cells.triplets())
    tables = [Table("ratings", "user", "movie", "gaussian", ratings, held_out, 1.0 / len(held_out.x))]
    for name in ("traits", "genres"):
        relation = train.relations[name]
        whole = np.full(relation.shape, np.nan, np.float32)
        i, j, x = relation.cells.triplets()
        whole[i, j] = x
        side = whole if np.isnan(whole).any() else whole.astype(np.uint8)
        tables.append(Table(name, relation.rows, relation.cols, "bernoulli", side))
    return Problem(case, title, sizes, tuple(tables), "RMSE of held-out ratings, clipped to [1, 5]", clip=(1.0, 5.0))


def simulated_ratings(*, quick: bool) -> Problem:
    """(c): 20,000 × 5,000, rank 10, 2 million Gaussian cells, noise 0.5; binary side relations of 50 and 30 columns."""
    rng = np.random.default_rng(0)
    n, m, n_cells = (2_000, 500, 40_000) if quick else (20_000, 5_000, 2_000_000)
    u, v = rng.normal(size=(n, 10)), rng.normal(size=(m, 10)) / np.sqrt(10)
    n_test = min(MAX_TESTED, n_cells // 4)
    drawn = rng.permutation(distinct(rng, n * m, n_cells + n_test))
    i, j = (index.astype(np.int32) for index in np.divmod(drawn, m))
    x = (np.einsum("nk,nk->n", u[i], v[j]) + 0.5 * rng.normal(size=len(i))).astype(np.float32)
    train, test = (Triplets(i[part], j[part], x[part]) for part in (slice(n_cells), slice(n_cells, None)))
    sides = [("traits", "user", "trait", u, 50), ("genres", "movie", "genre", v * np.sqrt(10), 30)]
    tables = [Table("ratings", "user", "movie", "gaussian", train, test, 1.0 / n_test)]
    for name, rows, cols, factors, width in sides:
        theta = factors @ rng.normal(size=(10, width)) * 0.5
        binary = (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(np.uint8)
        tables.append(Table(name, rows, cols, "bernoulli", binary))
    sizes = {"user": n, "movie": m, "trait": 50, "genre": 30}
    title = f"Simulated {n:,} × {m:,}, rank 10, {n_cells:,} cells, binary side relations"
    return Problem("c", title, sizes, tuple(tables), "RMSE of held-out cells", floor=0.5)


def views_with_gaps(*, quick: bool) -> Problem:
    """(d1): three dense views of 500 samples, 15 factors shared and private, noise 1, 20% of the cells missing."""
    return _views("d1", 0.2, quick=quick)


def views_complete(*, quick: bool) -> Problem:
    """(d2): the same with nothing missing; the error is that of the noise-free values.

    With every cell given there is none to hold out, and mofapy2 has no fold-in for whole new samples, so
    predictions are compared with the truth behind the cells.
    """
    return _views("d2", 0.0, quick=quick)


def _views(case: str, missing: float, *, quick: bool) -> Problem:
    rng = np.random.default_rng(0)
    n, widths = (100, (120, 120, 60)) if quick else (500, (2000, 2000, 1000))
    z = rng.normal(size=(n, len(VIEW_PATTERN)))
    on = np.array(VIEW_PATTERN, dtype=np.float64)
    n_tested = [MAX_TESTED * width // sum(widths) for width in widths]
    tables = []
    for v, (width, count) in enumerate(zip(widths, n_tested, strict=True)):
        truth = (z * on[:, v]) @ rng.normal(size=(len(on), width)) + rng.normal(size=width)
        x = truth + rng.normal(size=truth.shape)
        out = rng.random(x.shape) < missing
        places = np.flatnonzero(out if missing else np.ones(x.shape, bool))
        i, j = (index.astype(np.int32) for index in np.divmod(np.sort(rng.permutation(places)[:count]), width))
        test = Triplets(i, j, (x if missing else truth)[i, j])
        x[out] = np.nan
        tables.append(Table(f"view{v + 1}", "sample", f"feature{v + 1}", "gaussian", x, test))
    shape = f"{n} samples × {widths}, 15 factors"
    sizes = {"sample": n, **{f"feature{v + 1}": width for v, width in enumerate(widths)}}
    if missing:
        title, measure, floor = f"Dense views, {shape}, 20% missing", "RMSE of held-out cells", 1.0
    else:
        title, measure, floor = f"Dense views, {shape}, nothing missing", "RMSE against the noise-free values", 0.0
    return Problem(case, title, sizes, _pooled(tables), measure, floor=floor)


def leukemia(*, quick: bool) -> Problem | None:
    """(e): chronic lymphocytic leukemia, four views of 200 patients, a tenth of the real-valued cells held out.

    All of the mutations are given: mofapy2 has no intercepts for 0/1 features, and would be judged by that alone.
    """
    del quick
    folder = datasets.find_data_folder()
    if folder is None:
        return None
    views = leukemia_views(folder / "cll")
    rng = np.random.default_rng(0)
    tables, sizes = [], {"sample": len(next(iter(views.values())))}
    for name, x in views.items():
        sizes[f"features of {name}"] = x.shape[1]
        if name == "Mutations":
            tables.append(Table(name, "sample", f"features of {name}", "bernoulli", x))
            continue
        i, j = (index.astype(np.int32) for index in np.nonzero(np.isfinite(x)))
        out = np.sort(rng.permutation(len(i))[: len(i) // 10])
        test = Triplets(i[out], j[out], x[i[out], j[out]])
        train = x.copy()
        train[test.i, test.j] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a feature without cells has no mean
            residual = test.x - np.nan_to_num(np.nanmean(train, axis=0))[test.j]
        # In units of what the feature means leave, so that every view counts the same.
        weight = 1.0 / ((len(views) - 1) * float((residual**2).sum()))
        tables.append(Table(name, "sample", f"features of {name}", "gaussian", train, test, weight))
    measure = "RMSE of held-out cells relative to the feature means (root of the mean square over the three)"
    return Problem("e", "Chronic lymphocytic leukemia, four views", sizes, tuple(tables), measure)


def leukemia_views(folder: Path) -> dict[str, Floats]:
    """The views by name, patients × features, NaN where missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MuData announces a change of its defaults
        import mudata  # noqa: PLC0415 - of the extra [bench]

        data = mudata.read_h5mu(folder / "cll.h5mu")
        return {
            name: data[name].to_df().reindex(data.obs_names).to_numpy(dtype=np.float64, copy=True) for name in data.mod
        }


def binary_cycle(*, quick: bool) -> Problem:
    """(f): the paper's cycle of five binary relations, 5 shared and 10 private factors, 40% held out."""
    options: dict[str, Any] = {"sizes": (30, 40)} if quick else {}
    drawn = datasets.simulate_cycle(5, likelihood="bernoulli", random_state=0, **options)
    assert drawn.test is not None
    tables = []
    for name, relation in drawn.train.relations.items():
        test = Triplets(*drawn.test.relations[name].cells.triplets())
        train = Triplets(*relation.cells.triplets())
        tables.append(Table(name, relation.rows, relation.cols, "bernoulli", train, test))
    problem = Problem("f", "The paper's binary cycle, M = 5", {n: e.size for n, e in drawn.train.entities.items()},
                      _pooled(tables), "RMSE of held-out cells, probabilities against 0/1")  # fmt: skip
    truth = {t.name: drawn.means[t.name][t.test.i, t.test.j] for t in problem.tables if t.test is not None}
    return Problem(**{**vars(problem), "floor": problem.error(truth)})


def _pooled(tables: list[Table]) -> tuple[Table, ...]:
    """Every held-out cell counts the same."""
    n = sum(len(table.test.x) for table in tables if table.test is not None)
    return tuple(Table(**{**vars(table), "weight": 1.0 / n}) for table in tables)


CASES: dict[str, Callable[..., Problem | None]] = {
    "a": movielens_1m,
    "b": movielens_100k,
    "c": simulated_ratings,
    "d1": views_with_gaps,
    "d2": views_complete,
    "e": leukemia,
    "f": binary_cycle,
}
