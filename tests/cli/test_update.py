"""`gcmf update`: cells that came since a model was fitted."""

import json

import numpy as np
import pandas as pd
import pytest

import gcmf
from commands import report, run
from gcmf.storage.files import claiming
from io_samples import RATINGS_PROJECT

PROJECT = f"""{RATINGS_PROJECT}
[relations.likes]
source = "likes.csv"
rows = "user"
cols = "page"
row = "user"
col = "page"
likelihood = "bernoulli"
blanks = "zero"
"""


@pytest.fixture
def project(tmp_path):
    """A project whose model lacks the last twenty ratings, of a known user and a new one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(31, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(31, 20))
    i, j = np.nonzero(rng.random(x.shape) < 0.6)
    late = (i == 30) | ((i == 3) & (j < 9))
    ratings = pd.DataFrame({"user": i, "film": j, "rating": x[i, j].round(3)})
    likes = np.argwhere(rng.random((30, 12)) < 0.3)
    pd.DataFrame(likes, columns=["user", "page"]).to_csv(tmp_path / "likes.csv", index=False)
    (tmp_path / "gcmf.toml").write_text(PROJECT)
    ratings[~late].to_csv(tmp_path / "ratings.csv", index=False)
    assert run("fit", tmp_path, "--n-factors", 2, "--max-iter", 60).exit_code == 0
    ratings.to_csv(tmp_path / "ratings.csv", index=False)
    return tmp_path, ratings[late], int((~late).sum())


def test_new_cells_and_new_ids_are_taken_in(project):
    folder, late, n_before = project
    model = folder / "model.gcmf"
    before = gcmf.load(model)
    told = report("update", model, folder)
    assert (told["updated"], told["new_cells"], told["seen_cells"]) == (True, len(late), n_before)
    assert told["left_out"] == {}
    after = gcmf.load(model)
    mine = late[late["user"] == 30]
    error = after.predict("ratings", mine["user"], mine["film"]) - mine["rating"].to_numpy()
    assert np.sqrt(np.mean(error**2)) < 0.5
    by_hand = before.update({"ratings": late.rename(columns={"rating": "value"})})
    pd.testing.assert_frame_equal(by_hand.factors("user"), after.factors("user"))


def test_a_second_time_there_is_nothing_to_do(project):
    folder, _, _ = project
    model = folder / "model.gcmf"
    report("update", model, folder)
    written = model.read_bytes()
    done = run("update", model, folder)
    assert done.exit_code == 0
    assert "Nothing to do" in done.stdout
    assert model.read_bytes() == written
    assert report("update", model, folder, "-o", folder / "copy.gcmf")["updated"] is False
    assert (folder / "copy.gcmf").exists()
    quiet = run("update", model, folder, "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_an_updated_model_is_not_taken_for_the_fit_of_a_project(project):
    folder, late, _ = project
    fit = ("fit", folder, "--n-factors", 2, "--max-iter", 60)
    ratings = pd.read_csv(folder / "ratings.csv")
    old = ratings[~ratings.index.isin(late.index)]
    old.to_csv(folder / "ratings.csv", index=False)
    assert not report(*fit)["fitted"]
    ratings.to_csv(folder / "ratings.csv", index=False)
    report("update", folder / "model.gcmf", folder)
    old.to_csv(folder / "ratings.csv", index=False)
    assert report(*fit)["fitted"]


def refused(*arguments, code=1):
    done = run(*arguments)
    assert done.exit_code == code
    return " ".join(done.stderr.split())


def test_what_cannot_be_updated(project):
    folder, _, _ = project
    model = folder / "model.gcmf"
    with claiming(model):
        assert "Another process is writing" in refused("update", model, folder, code=3)
    (folder / "gcmf.toml").write_text(PROJECT.replace("[relations.likes]", "[relations.loves]"))
    assert "The model has no relation 'loves'; it has ratings, likes." in refused("update", model, folder)
    (folder / "gcmf.toml").write_text(PROJECT + '\n[fit]\nkeep = "nothing"\nmax_iter = 2\n')
    assert run("fit", folder, "-o", folder / "m.gcmf").exit_code == 0
    assert 'fit with keep = "pairs"' in refused("update", folder / "m.gcmf", folder)


def test_what_an_update_cannot_take_in_is_said(project):
    """New lines of a table whose blanks are zeros: the model has seen those pairs as zeros."""
    folder, late, _ = project
    model = folder / "model.gcmf"
    likes = pd.read_csv(folder / "likes.csv")
    new = pd.DataFrame({"user": [3, 3, 31], "page": [100, 101, likes["page"][0]]})
    pd.concat([likes.iloc[:-1], new]).to_csv(folder / "likes.csv", index=False)
    first = run("update", model, folder)
    assert first.exit_code == 4
    assert f"{len(late)} new cells" in first.stdout
    written = model.read_bytes()
    done = run("update", model, folder)
    assert done.exit_code == 4
    said = " ".join(done.stderr.split())
    assert "likes: 3 new cells and 1 cell no longer listed were not taken in" in said
    assert "Fit again" in said
    assert "Nothing was taken in" in done.stdout
    assert "has seen all" not in done.stdout
    assert model.read_bytes() == written
    quiet = run("update", model, folder, "--quiet", "--json")
    assert quiet.exit_code == 4
    left = json.loads(quiet.stdout)["left_out"]["likes"]
    assert (left["n_new"], left["n_gone"]) == (3, 1)
    assert "likes" in quiet.stderr
    likes.to_csv(folder / "likes.csv", index=False)
    assert run("update", model, folder).exit_code == 0
