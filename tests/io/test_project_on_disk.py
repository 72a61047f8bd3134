"""A project whose cells are in a folder is the project whose cells are in memory."""

import numpy as np
import pandas as pd
import pytest

import gcmf
from commands import report
from gcmf.data import sorting
from gcmf.errors import DataError
from gcmf.io.sources import tables

PROJECT = """
[relations.ratings]
source = "ratings.csv"
rows = "user"
cols = "movie"
row = "user"
col = "movie"
value = "stars"
weight = "times"

[relations.seen]
source = "seen.parquet"
rows = "user"
cols = "place"
row = "user"
col = "place"
value = "n"
likelihood = "poisson"
blanks = "zero"

[relations.liked]
source = "liked.csv"
rows = "movie"
cols = "critic"
row = "movie"
col = "critic"
value = "likes"
likelihood = "bernoulli"

[features.about]
source = "movies.csv"
rows = "movie"
row = "movie"
numeric = ["length", "budget"]

[entities.user]
source = "users.csv"
id = "user"
numeric = ["age"]

[fit]
n_factors = 3
max_iter = 8
"""
ARRAYS = ("indptr", "partner", "value", "members", "covered", "weight")


def pairs(n_rows, n_cols, share, rng):
    return np.nonzero(rng.random((n_rows, n_cols)) < share)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Every layout: listed with weights, filled, dense (bytes), and features with units; and covariates."""
    monkeypatch.setattr(sorting, "BUCKET", 100)
    monkeypatch.setattr(sorting, "PART", 70)
    monkeypatch.setattr(tables, "BATCH", 64)
    rng, folder = np.random.default_rng(0), tmp_path / "project"
    folder.mkdir()
    i, j = pairs(60, 40, 0.2, rng)
    stars = rng.normal(size=len(i)).round(2)
    stars[5] = np.nan
    ratings = pd.DataFrame(
        {"user": i, "movie": [f"m{k}" for k in j], "stars": stars, "times": rng.uniform(1, 3, len(i))}
    )
    ratings.sample(frac=1.0, random_state=0).to_csv(folder / "ratings.csv", index=False)
    i, j = pairs(60, 30, 0.1, rng)
    pd.DataFrame({"user": i, "place": j, "n": rng.poisson(1.0, len(i))}).to_parquet(folder / "seen.parquet")
    i, j = pairs(40, 150, 0.8, rng)
    liked = pd.DataFrame({"movie": [f"m{k}" for k in i], "critic": j, "likes": rng.integers(0, 2, len(i))})
    liked.to_csv(folder / "liked.csv", index=False)
    movies = pd.DataFrame(
        {"movie": [f"m{k}" for k in range(40)], "length": rng.normal(90, 10, 40), "budget": rng.random(40)}
    )
    movies.to_csv(folder / "movies.csv", index=False)
    pd.DataFrame({"user": np.arange(62), "age": rng.integers(9, 90, 62)}).to_csv(folder / "users.csv", index=False)
    (folder / "gcmf.toml").write_text(PROJECT)
    return folder


def assert_same(made, other):
    for name, entities in other.entities.items():
        assert made.entities[name].ids.equals(entities.ids)
        assert made.entities[name].declared == entities.declared
        assert (made.entities[name].covariates is None) == (entities.covariates is None)
        if entities.covariates is not None:
            np.testing.assert_array_equal(made.entities[name].covariates.values, entities.covariates.values)
    for name, relation in other.relations.items():
        found = made.relations[name]
        assert (found.schema, found.n_cells) == (relation.schema, relation.n_cells)
        assert (found.units is None) == (relation.units is None)
        for side in ("rows", "cols"):
            one, two = getattr(found.cells, side), getattr(relation.cells, side)
            assert one.stride == two.stride
            for array in ARRAYS:
                a, b = getattr(one, array), getattr(two, array)
                assert (a is None) == (b is None), (name, side, array)
                np.testing.assert_array_equal(a, b, err_msg=f"{name} {side} {array}")


def test_the_same_cells_at_first_and_again(project, tmp_path):
    held = gcmf.read_project(project).collection
    kinds = {name: (bound.cells.dense, bound.cells.filled) for name, bound in held.relations.items()}
    assert kinds["liked"] == (True, False)
    assert kinds["seen"] == (False, True)
    assert held.relations["ratings"].cells.rows.weight is not None
    read = []
    for _ in range(2):
        made = gcmf.read_project(project, folder=tmp_path / "cells", report=lambda *told: read.append(told))
        assert_same(made.collection, held)
    assert len(read) == 5  # the second time no section


@pytest.mark.filterwarnings("ignore::gcmf.errors.ModelWarning")  # of counts that say nothing
def test_the_command_makes_the_same_model(project, tmp_path):
    on_disk, held, model = ("--on-disk", tmp_path / "cells"), tmp_path / "held.gcmf", tmp_path / "disk.gcmf"
    told = [report("fit", project, "-o", held)["elbo"], report("fit", project, "-o", model, *on_disk)["elbo"]]
    assert told[0] == told[1]
    assert gcmf.load(held).fitted_.mean[0].tobytes() == gcmf.load(model).fitted_.mean[0].tobytes()
    assert (tmp_path / "cells").is_dir()
    # Whether there is something to do, and what a fit goes on from, is a matter of the cells, not of where they are.
    assert not report("fit", project, "-o", held, *on_disk)["fitted"]
    saved = "--checkpoint", tmp_path / "checkpoint.gcmf"
    assert report("fit", project, "-o", model, "--force", "--timeout", "0", *saved)["iterations"] < 8
    assert report("fit", project, "-o", model, "--resume", *saved, *on_disk)["elbo"] == told[0]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("weight", 'weight = "stars"\n#', "a weight is"),
        ('value = "stars"', 'value = "movie"', "is not a number"),
        ('value = "stars"', 'likelihood = "bernoulli"\nvalue = "stars"', "must be 0 or 1"),
        ('value = "n"', 'value = "n"\nwhere = "n > 100"', "no rows that meet where"),
    ],
)
def test_faults_are_located_as_in_memory(project, tmp_path, old, new, says):
    text = PROJECT.replace(old, new, 1)
    assert text != PROJECT
    (project / "gcmf.toml").write_text(text)
    for folder in (None, tmp_path / "cells"):
        with pytest.raises(DataError, match=says) as caught:
            gcmf.read_project(project, folder=folder)
        assert "csv" in str(caught.value) or "parquet" in str(caught.value)
    assert not (tmp_path / "cells").exists()


def test_the_columns_of_long_tables_are_remembered(tmp_path):
    """In memory, in a folder and in Parquet: by these names a model reads later frames."""
    frame = pd.DataFrame({"userId": [1, 2, 3, 1], "film": ["a", "b", "a", "b"], "stars": [1.0, 2.5, 3.0, 0.5]})
    frame.to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "gcmf.toml").write_text(
        '[relations.r]\nsource = "r.csv"\nrows = "user"\ncols = "movie"\n'
        'row = "userId"\ncol = "film"\nvalue = "stars"\n'
    )
    for given in ({}, {"folder": tmp_path / "cells"}, {"folder": tmp_path / "cells"}):  # made, and then read
        (schema,) = gcmf.read_project(tmp_path, **given).collection.schema.relations
        assert schema.columns == ("userId", "film", "stars", None)
    frame.set_axis(["user", "movie", "stars"], axis=1).to_parquet(tmp_path / "r.parquet")
    data = gcmf.Collection.from_parquet({("user", "movie"): tmp_path / "r.parquet"}, folder=tmp_path / "parquet")
    assert data.schema.relations[0].columns == ("user", "movie", "stars", None)
