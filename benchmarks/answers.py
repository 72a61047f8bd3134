"""New users and rankings on MovieLens 1M: python benchmarks/answers.py [--full].

1. A tenth of the users is left out of the fit, and folded in from half of their ratings: the error on the other half,
   beside that of a fit that had those halves. 2. How long 6,040 users take. 3. `recommend` for all users, beside a
   blocked matrix product with argpartition, and how much memory it takes. 4. An approximate index, where usearch is
   installed. K = 20; side information as relations; `--full` leaves the number of factors to the fit.
Needs the data: GCMF_DATA, or ../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import copy
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np

import gcmf
from gcmf import datasets
from gcmf.engines.threads import available_threads, single_threaded_blas

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    n_factors: Any = "auto" if parser.parse_args().full else 20
    folder = datasets.find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    data, _ = datasets.load_movielens_1m(folder / "ml-1m")
    print(f"{available_threads()} threads", flush=True)
    model = new_users(data, n_factors)
    rankings(model)
    index(model)


def new_users(data: gcmf.Collection, n_factors: Any) -> gcmf.GCMF:  # noqa: ANN401 - a number or "auto"
    """Fold in a tenth of the users."""
    ids = {name: data.entities[name].ids for name in ("user", "movie")}
    i, j, x = data.relations["ratings"].cells.triplets()
    rng = np.random.default_rng(0)
    new = rng.random(len(ids["user"])) < 0.1
    first, held = rng.random(len(x)) < 0.5, new[i]
    others = [name for name in data.relations if name != "ratings"]

    def fit(kept: np.ndarray) -> gcmf.GCMF:
        cells = data.relations["ratings"].cells
        chosen = gcmf.Relation("r", "user", "movie", (i[kept], j[kept], x[kept]))
        part = gcmf.Collection([chosen], entities={name: range(len(ids[name])) for name in ids})
        rest = {name: data.relations[name].cells for name in others}
        assert part.relations["r"].cells.shape == cells.shape
        return gcmf.GCMF(n_factors, random_state=0).fit(data.with_cells({"ratings": part.relations["r"].cells, **rest}))

    def rmse(guess: np.ndarray, at: np.ndarray) -> float:
        return float(np.sqrt(np.mean((np.clip(guess, 1, 5) - x[at]) ** 2)))

    asked, given = held & ~first, held & first
    model, whole = fit(~held), fit(~asked)
    cells = ids["user"][i[given]], ids["movie"][j[given]], x[given]
    folded = model.fold_in("user", {"ratings": cells, **side_cells(data, ids["user"][new])})
    error = rmse(folded.predict("ratings", ids["user"][i[asked]], ids["movie"][j[asked]], unknown="prior"), asked)
    refit = rmse(whole.predict("ratings", ids["user"][i[asked]], ids["movie"][j[asked]]), asked)
    print(f"fold-in of {new.sum()} users: RMSE {error:.4f}, with a fit that has them {refit:.4f}, "
          f"{100 * (error / refit - 1):+.2f}%", flush=True)  # fmt: skip
    later = copy.copy(model).update({"ratings": cells})
    added = rmse(later.predict("ratings", ids["user"][i[asked]], ids["movie"][j[asked]], unknown="prior"), asked)
    print(f"the same users after update(): RMSE {added:.4f}", flush=True)
    alike = model.fold_in("user", side_cells(data, ids["user"][new]))
    cold = rmse(alike.predict("ratings", ids["user"][i[asked]], ids["movie"][j[asked]]), asked)
    print(f"the same users from their traits alone: RMSE {cold:.4f}", flush=True)
    every = ids["user"][i[first]], ids["movie"][j[first]], x[first]
    seconds = timed(lambda: model.fold_in("user", {"ratings": every}))
    print(f"fold-in of {len(ids['user']):,} users, {first.sum():,} ratings: {seconds:.2f} s", flush=True)
    return whole


def side_cells(data: gcmf.Collection, users: Any) -> dict[str, Any]:  # noqa: ANN401 - an index
    """What is known of these users beside their ratings, as cells."""
    found = {}
    for name, relation in data.relations.items():
        if relation.rows == "user" and name != "ratings":
            i, j, x = relation.cells.triplets()
            ids, cols = data.entities["user"].ids[i], data.entities[relation.cols].ids[j]
            kept = ids.isin(users)
            found[name] = ids[kept], cols[kept], x[kept]
    return found


def rankings(model: gcmf.GCMF) -> None:
    """`recommend` for all users, beside the least that could be done."""
    factors = np.column_stack([model.fitted_.mean[0], model.fitted_.bias_mean[0], np.ones(len(model.fitted_.mean[0]))])
    items = np.column_stack([model.fitted_.mean[1], np.ones(len(model.fitted_.mean[1])), model.fitted_.bias_mean[1]])
    factors, items = factors.astype(np.float32), np.ascontiguousarray(items.T, dtype=np.float32)

    def least() -> None:
        for start in range(0, len(factors), 280):
            scores = factors[start : start + 280] @ items
            best = np.argpartition(scores, -10, axis=1)[:, -10:]
            np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)

    def least_alone() -> None:
        with single_threaded_blas():  # its threads may fight for the cores
            least()

    for n_threads in (1, available_threads()):
        model.set_params(n_threads=n_threads)
        for by in ("mean", "lower", "sample"):
            works = least, least_alone, lambda by=by: model.recommend("ratings", n=10, by=by, random_state=0)
            # In turn: the machine may be busy with other things.
            rounds = np.array([[timed(work, 1) for work in works] for _ in range(REPEATS)]).min(axis=0)
            seconds, bare = rounds[2], rounds[:2].min()
            print(f"recommend to {len(factors):,} users by {by}, {n_threads} threads: {seconds:.2f} s; a blocked "
                  f"product with argpartition {bare:.2f} s; {seconds / bare:.2f} times", flush=True)  # fmt: skip
    tracemalloc.start()
    model.recommend("ratings", n=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"memory at its peak: {peak / 2**20:.0f} MB; all scores would be "
          f"{4 * len(factors) * items.shape[1] / 2**20:.0f} MB in float32", flush=True)  # fmt: skip


def index(model: gcmf.GCMF) -> None:
    """How many of the ten best an approximate index finds."""
    try:
        found = model.to_index("ratings")
    except (AttributeError, gcmf.errors.MissingExtraError) as error:
        print(f"no index: {error}")
        return
    exact = model.recommend("ratings", n=10, exclude_seen=False)
    near = found.search(None, 10)
    both = exact.merge(near, on=["id", "item"])
    print(f"approximate index: {len(both) / len(exact):.1%} of the ten best, "
          f"{timed(lambda: found.search(None, 10)):.2f} s for all users", flush=True)  # fmt: skip


def timed(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest of several times, after one to compile."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    main()
