import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gcmf.experiments import vb_vs_map
from gcmf.experiments.base import Progress, Size
from gcmf.experiments.vb_vs_map import SETTINGS, Settings, claims, cross_validate, run_with

SMALL = Settings((1, 3), 1, 2, alpha_decades=(0, 2), tau_decades=(1, 3), sizes=(12, 16), max_iter=10, map_max_iter=4)


@pytest.fixture(scope="module")
def small():
    return run_with(SMALL, Progress(), seed=0)


def test_a_row_per_collection(small):
    table = small.table
    assert table["M"].to_list() == [1, 3]
    assert (table["map_fits"] == 2 * 2**2 + 1).all()
    assert table["a0"].isin([1.0, 100.0]).all()
    assert table["p0"].isin([10.0, 1000.0]).all()
    scaled = (table["vb_rmse"] - table["truth_rmse"]) / (table["map_rmse"] - table["truth_rmse"])
    assert np.allclose(table["scaled"], scaled)
    assert isinstance(small.figure, Figure)


def test_the_full_size_is_the_papers():
    full = SETTINGS[Size.FULL]
    assert full.relations == tuple(range(1, 12))
    assert full.n_map_fits == 243
    assert len(set(full.grid)) == 11 * 11
    assert (full.grid[0], full.grid[-1]) == ((1e-5, 1e-5), (1e5, 1e5))


def test_cross_validation_takes_the_best_pair(monkeypatch):
    """With a stub for the fit, the pair whose folds have the least error is chosen, and each is fitted twice."""
    asked = []

    def fit(data, m, pair, *, settings, seed):
        asked.append(pair)
        return pair, 0.5

    loss = {(1.0, 10.0): 4.0, (1.0, 1000.0): 2.0, (100.0, 10.0): 3.0, (100.0, 1000.0): np.inf}
    monkeypatch.setattr(vb_vs_map, "_fit_map", fit)
    monkeypatch.setattr(vb_vs_map, "_squares", lambda model, test: loss[model])
    data = vb_vs_map.draw(1, sizes=(12, 16), random_state=0).train
    chosen, seconds = cross_validate(data, 1, settings=SMALL, progress=Progress(), seed=0)
    assert chosen == (1.0, 1000.0)
    assert seconds == 0.5 * len(asked) == 4.0


def made_up(scaled, fits=243):
    return pd.DataFrame({
        "M": list(scaled), "scaled": list(scaled.values()), "map_fits": fits,
        "vb_seconds": 1.0, "map_seconds": 100.0, "map_fit_seconds": 0.4,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("scaled", "fits", "holds"),
    [({1: 0.9, 11: 0.5}, 243, [True, True, True]), ({1: 1.1, 11: 0.9}, 51, [False, False, None]),
     ({3: 0.9}, 51, [None, None, None])],
)  # fmt: skip
def test_claims(scaled, fits, holds):
    assert [claim.holds for claim in claims(made_up(scaled, fits))] == holds


def test_quantities_are_told(small):
    assert "a₀ = b₀ from 10^0 to 10^2 and p₀ = q₀ from 10^1 to 10^3, 2 values each" in small.notes[1]
    assert "9 fits" in small.notes[1]
    assert "M = 11 was not run" in small.claims[1].ours
