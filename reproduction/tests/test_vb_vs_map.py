from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from reproduction.base import Progress, Size
from reproduction.vb_vs_map import SETTINGS, Done, Settings, Task, choose, claims, run_with, search

SMALL = Settings(
    (1, 3), 1, 2, alpha_decades=(0, 2), tau_decades=(1, 3), sizes=(12, 16), max_iter=10, map_max_iter=4, n_processes=1
)
SECONDS = ["vb_seconds", "map_seconds", "map_fit_seconds"]


@pytest.fixture(scope="module")
def small():
    return run_with(SMALL, Progress(), seed=0)


def test_a_row_per_collection(small):
    table = small.table
    assert table["M"].to_list() == [1, 3]
    assert (table["map_fits"] == 2 * 2**2 + 1).all()
    tried = np.array(SMALL.grid).reshape(-1, 2)
    np.testing.assert_allclose(tried, [(1, 10), (1, 1000), (100, 10), (100, 1000)], rtol=1e-12)
    assert table["a0"].isin(tried[:, 0]).all()
    assert table["p0"].isin(tried[:, 1]).all()
    scaled = (table["vb_rmse"] - table["truth_rmse"]) / (table["map_rmse"] - table["truth_rmse"])
    assert np.allclose(table["scaled"], scaled)
    assert isinstance(small.figure, Figure)


def test_the_full_size_is_the_papers():
    full = SETTINGS[Size.FULL]
    assert full.relations == tuple(range(1, 12))
    assert full.n_map_fits == 243
    pairs = [pair for row in full.grid for pair in row]
    assert len(set(pairs)) == 11 * 11
    # Processors differ in the last bits of a power.
    np.testing.assert_allclose([pairs[0], pairs[-1]], [(1e-5, 1e-5), (1e5, 1e5)], rtol=1e-12)


def test_two_processes_find_the_same(small):
    table = run_with(replace(SMALL, n_processes=2), Progress(), seed=0).table
    pd.testing.assert_frame_equal(table.drop(columns=SECONDS), small.table.drop(columns=SECONDS))


def test_every_fit_is_told():
    told = []

    class Counting(Progress):
        def start(self, total, what):
            told.append(total)

        def step(self, text=""):
            told.append(text)

    run_with(replace(SMALL, relations=(1,)), Counting(), seed=0)
    assert told[0] == len(told) - 1 == 1 + SMALL.n_map_fits
    assert told.count("M = 1: VB") == 1


def test_cross_validation_takes_the_pair_with_the_least_error_over_both_folds():
    pairs = [pair for row in SMALL.grid for pair in row]
    loss = dict(zip(pairs, [(4.0, 4.0), (1.0, 9.0), (3.0, 2.0), (0.0, np.inf)], strict=True))
    tasks = search(SMALL, 1, 0)
    found = {
        task: [Done(loss[pair][task.fold], None, 0.5, 1, 1) for pair in task.pairs] if task.pairs else []
        for task in tasks
    }
    assert tasks[0] == Task(SMALL, 1, 0)
    assert sum(task.n_fits for task in tasks) == SMALL.n_map_fits
    assert choose(SMALL, found, 1, 0) == pairs[2]


def made_up(scaled, fits=243):
    return pd.DataFrame({
        "M": np.repeat(list(scaled), 2), "scaled": np.repeat(list(scaled.values()), 2), "map_fits": fits,
        "vb_seconds": 1.0, "map_seconds": 100.0, "map_fit_seconds": 0.4,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("scaled", "fits", "holds"),
    [({1: 0.9, 11: 0.5}, 243, [True, True, True]), ({1: 1.1, 11: 0.9}, 51, [False, False, None]),
     ({1: 1.0, 3: 0.9}, 51, [None, None, None])],
)  # fmt: skip
def test_claims(scaled, fits, holds):
    assert [claim.holds for claim in claims(made_up(scaled, fits))] == holds


def test_quantities_are_told(small):
    assert "a₀ = b₀ from 10^0 to 10^2 and p₀ = q₀ from 10^1 to 10^3, 2 values each" in small.notes[1]
    assert "9 fits" in small.notes[1]
    assert "M = 11 was not run" in small.claims[1].ours
