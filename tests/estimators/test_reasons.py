"""Parts of predictions add up to them, and are what the cells are worth."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf.errors import ConvergenceWarning, UnknownIdError
from gcmf.model.predict import theta_pairs

VIEWS = ("factors", "row cells", "column cells")


def fitted(data, n_factors=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return gcmf.GCMF(n_factors, random_state=0, tol=1e-9, max_iter=300, dtype="float64", **options).fit(data)


#: With noise of rows, θ is not linear in the cells of a row: one that is far off makes the others count less.
BY_COLUMN = gcmf.likelihoods.Gaussian("cols")


def world(seed=0):
    rng = np.random.default_rng(seed)
    u, v, t = (rng.normal(size=(n, 2)) for n in (25, 18, 7))
    x = 3 + u @ v.T + 0.4 * rng.normal(size=(25, 18)) + rng.normal(size=(25, 1))
    x[rng.random(x.shape) < 0.4] = np.nan
    tags = (rng.random((25, 7)) < 1 / (1 + np.exp(-2 * u @ t.T))).astype(float)
    x[0] = np.nan  # known from tags alone
    return x, tags, u


@pytest.fixture(scope="module")
def model():
    x, tags, u = world()
    clicks = gcmf.Relation(
        "clicks", "user", "page", (*np.argwhere(tags == 1).T, np.ones(int(tags.sum()))), "bernoulli",
        blanks="zero",
    )  # fmt: skip
    known = pd.DataFrame({"age": u[:, 0] + 0.3 * np.random.default_rng(1).normal(size=25)}, index=range(25))
    data = gcmf.Collection(
        [
            gcmf.Relation("ratings", "user", "movie", x, BY_COLUMN),
            gcmf.Relation("tags", "user", "tag", tags, "bernoulli"),
            clicks,
        ],
        entities={"user": known},
    )
    return fitted(data), data


@pytest.mark.parametrize("cell", [(3, 4), (0, 2)])
def test_parts_of_a_rating_add_up_to_it_in_every_view(model, cell):
    model, data = model
    parts = model.explain("ratings", *cell, data=data)
    assert tuple(dict.fromkeys(parts["by"])) == VIEWS
    for _, view in parts.groupby("by"):
        assert view["contribution"].sum() == pytest.approx(model.predict("ratings", *cell)[0], abs=1e-9)
    rest = parts.loc[parts["part"] == "rest", "contribution"]
    assert np.abs(rest).max() < 2e-4  # 1e-5: what the sweeps had left
    assert np.abs(parts["contribution"]).max() > 0.3


@pytest.mark.parametrize("name", ["tags", "clicks"])
def test_parts_of_other_cells_add_up_to_the_predictor(model, name):
    model, data = model
    m = [r.name for r in model.schema_.relations].index(name)
    theta, _ = theta_pairs(model.fitted_, m, np.array([5]), np.array([2]))
    parts = model.explain(name, 5, model.fitted_.vocabularies[model.schema_.relations[m].cols].ids[2], data=data)
    for _, view in parts.groupby("by"):
        assert view["contribution"].sum() == pytest.approx(theta[0], abs=1e-9)
    assert np.abs(parts.loc[parts["part"] == "rest", "contribution"]).max() < 0.02


def test_a_cell_is_worth_what_the_row_loses_without_it(model):
    """Fold the row in with a cell that is lower by one: the prediction falls by the slope, contribution/(t w ...)."""
    model, data = model
    x, tags, _ = world()
    parts = model.explain("ratings", 3, 4, data=data)
    cells = parts[(parts["by"] == "row cells") & (parts["part"] == "cell") & (parts["relation"] == "ratings")]
    j = int(cells["item"].iloc[0])
    known = pd.DataFrame({"age": [0.0]}, index=[3])
    base, more = x[3:4].copy(), x[3:4].copy()
    more[0, j] += 1.0

    def guess(row):
        listed = np.flatnonzero(~np.isnan(row[0]))
        return model.fold_in("user", {"ratings": ([3] * len(listed), listed, row[0, listed])}, known).predict(
            "ratings", 3, [4, j]
        )

    slope = (guess(more) - guess(base))[0]
    fit = model.fitted_
    target = (x[3, j] - fit.center[0]) / fit.scale[0] - fit.bias_mean[1][j]
    # θ is linear in the cells: with other cells held, its contribution is slope × target (in the cell's units).
    only = model.explain("ratings", 3, 4, data=data.select(["ratings"]))
    own = only[(only["by"] == "row cells") & (only["item"] == j) & (only["part"] == "cell")]["contribution"].iloc[0]
    assert own == pytest.approx(slope * target * fit.scale[0], rel=1e-6)
    del tags


def test_factors_alone_need_no_data(model, tmp_path):
    model, data = model
    parts = model.explain("ratings", 3, 4)
    assert set(parts["by"]) == {"factors"}
    assert parts["contribution"].sum() == pytest.approx(model.predict("ratings", 3, 4)[0], abs=1e-9)
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    pd.testing.assert_frame_equal(again.explain("ratings", 3, 4, data=data), model.explain("ratings", 3, 4, data=data))
    with pytest.raises(UnknownIdError, match="never seen user 99"):
        model.explain("ratings", 99, 4)


def test_zeros_are_told_together(model):
    model, data = model
    parts = model.explain("clicks", 5, 2, data=data)
    clicks = parts[(parts["by"] == "row cells") & (parts["relation"] == "clicks")]
    assert (clicks.loc[clicks["part"] == "cell", "cell"] == 1).all()
    assert clicks["part"].str.endswith("zeros").sum() == 1


@pytest.mark.parametrize("symmetric", [True, False])
def test_networks_add_up_too(symmetric):
    rng = np.random.default_rng(4)
    u, v = rng.normal(size=(20, 2)), rng.normal(size=(9, 2))
    net = u @ (np.diag([1.0, -0.5]) if symmetric else np.array([[0.1, 1.0], [-1.0, 0.2]])) @ u.T
    net += 0.2 * rng.normal(size=net.shape)
    net = (net + net.T) / 2 if symmetric else net
    data = gcmf.Collection([
        gcmf.Relation("net", "user", "user", net, symmetric=symmetric),
        gcmf.Relation("r", "user", "movie", u @ v.T + 0.2 * rng.normal(size=(20, 9))),
    ])  # fmt: skip
    model = fitted(data)
    parts = model.explain("net", 2, 7, data=data)
    for _, view in parts.groupby("by"):
        assert view["contribution"].sum() == pytest.approx(model.predict("net", 2, 7)[0], abs=1e-9)
    assert np.abs(parts.loc[parts["part"] == "rest", "contribution"]).max() < 2e-3  # 2e-4
