"""Columns that were standardized: whatever a model says of their cells is in the units that they came in."""

import copy

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf.io.results import describe

AGE, HEIGHT = (50.0, 10.0), (170.0, 8.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    z = np.random.default_rng(0).normal(size=(60, 3))
    people = pd.DataFrame({"id": range(60), "age": 50 + 10 * z[:, 0], "height": 170 + 8 * (z[:, 0] + 0.3 * z[:, 1])})
    people.round(3).to_csv(folder / "people.csv", index=False)
    (folder / "gcmf.toml").write_text(
        '[features.people]\nsource = "people.csv"\nrows = "person"\nrow = "id"\nnumeric = ["age", "height"]\n'
    )
    return folder


@pytest.fixture(scope="module")
def people(folder):
    return pd.read_csv(folder / "people.csv").set_index("id")


@pytest.fixture(scope="module")
def model(folder):
    data = gcmf.read_project(folder).collection
    return gcmf.GCMF(2, random_state=0, max_iter=100, tol=1e-4, progress=False, dtype="float64").fit(data)


@pytest.fixture(params=["fitted", "loaded"])
def either(request, model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    return model if request.param == "fitted" else gcmf.load(tmp_path / "m.gcmf")


def test_predictions(either, people):
    mean, std = either.predict("people_numbers", return_std=True)
    assert abs(mean - people.to_numpy()).mean(axis=0) == pytest.approx([0, 0], abs=4)
    assert (std > 0.01 * people.std().to_numpy()).all()
    assert (std < 2 * people.std().to_numpy()).all()
    pairs, pair_std = either.predict("people_numbers", [3, 4], ["height", "age"], return_std=True)
    assert pairs == pytest.approx([mean[3, 1], mean[4, 0]])
    assert pair_std == pytest.approx([std[3, 1], std[4, 0]])
    # Of a new person nothing is known but the columns.
    [age, height] = either.predict("people_numbers", ["new"], ["age", "height"], unknown="prior")
    assert (age, height) == (pytest.approx(people["age"].mean(), abs=1), pytest.approx(people["height"].mean(), abs=1))


def test_standardized_and_plain_cells_score_alike(either, folder, people):
    """A collection of a project file holds deviations and says so; one of the same table holds what it was given."""
    error = either.predict("people_numbers") - people.to_numpy()
    plain = gcmf.Collection([gcmf.Relation("people_numbers", "person", "people_number", people)])
    for data in (gcmf.read_project(folder).collection, plain):
        score = either.score(data).loc["people_numbers"]
        assert score["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
        assert score["mae"] == pytest.approx(abs(error).mean())
    assert either.score(plain)["log_likelihood"].iloc[0] == pytest.approx(score["log_likelihood"])


def test_log_likelihood_is_a_density_in_units(model, people):
    mean, std = model.predict("people_numbers", return_std=True)
    density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((people.to_numpy() - mean) / std) ** 2
    plain = gcmf.Collection([gcmf.Relation("people_numbers", "person", "people_number", people)])
    assert model.score(plain)["log_likelihood"].iloc[0] == pytest.approx(density.mean())


def test_other_people_are_scored_by_their_own_units(model, people, tmp_path):
    """A project of other rows has other means and deviations: they are taken off again."""
    people.iloc[:20].to_csv(tmp_path / "people.csv")
    (tmp_path / "gcmf.toml").write_text(
        '[features.people]\nsource = "people.csv"\nrows = "person"\nrow = "id"\nnumeric = ["age", "height"]\n'
    )
    few = gcmf.read_project(tmp_path).collection
    error = model.predict("people_numbers")[:20] - people.to_numpy()[:20]
    assert model.score(few)["rmse"].iloc[0] == pytest.approx(np.sqrt((error**2).mean()))


def test_parts_keep_their_units(model, folder):
    data = gcmf.read_project(folder).collection
    train, test = data.split(0.3)
    for part in (train, test, data.select(["people_numbers"]), next(iter(data.folds(3)))[1]):
        assert part.relations["people_numbers"].units is data.relations["people_numbers"].units
        assert model.score(part)["rmse"].iloc[0] < 5


def test_declared_columns_have_no_units():
    units = gcmf.data.units.Units(np.array([50.0, 170.0]), np.array([10.0, 8.0]))
    placed = units.placed(np.array([2, 0]), 3)
    assert (placed.center.tolist(), placed.scale.tolist()) == ([170.0, 0.0, 50.0], [8.0, 1.0, 10.0])
    assert [part.tolist() for part in placed.of(np.array([0, -1]))] == [[170.0, 0.0], [8.0, 1.0]]


def test_units_are_described(either, people):
    assert describe(either)["relations"][0]["units"] == {
        name: pytest.approx([people[name].mean(), people[name].std(ddof=0)]) for name in ("age", "height")
    }


def test_a_copy_for_a_checkpoint_has_units(model):
    """Held-out errors and checkpoints take a copy of the estimator and settle another fit in it."""
    other = copy.copy(model)
    other._settle(model.fitted_, model.elbo_trace_, model.status_)
    assert np.array_equal(other.predict("people_numbers"), model.predict("people_numbers"))


def test_omics_views_that_were_standardized_are_predicted_in_units():
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(40, 1)) @ rng.normal(size=(1, 6)) + 0.1 * rng.normal(size=(40, 6))) * 10.0 ** np.arange(6) + 5
    adata = anndata.AnnData(x)
    model = gcmf.omics.fit(adata, standardize=True, random_state=0, progress=False)
    assert (abs(model.predict("X") - x).mean(axis=0) < 0.5 * x.std(axis=0)).all()
