"""`gcmf recommend`, `similar`, `explain` and `predict --new`, beside what the library says."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

import gcmf
from commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings of numbered users and named movies, their project and model, and cells of new users."""
    folder = tmp_path_factory.mktemp("films")
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(40, 2)), rng.normal(size=(25, 2))
    i, j = np.nonzero(rng.random((40, 25)) < 0.5)
    stars = 3 + (u[i] * v[j]).sum(axis=1) + 0.3 * rng.normal(size=len(i))
    (folder / "data").mkdir()
    movies = np.array([f"m{k}" for k in range(25)])
    pd.DataFrame({"user_id": i, "movie_id": movies[j], "stars": stars}).to_csv(folder / "data/ratings.csv", index=False)
    new = pd.DataFrame({"user_id": [100, 100, 101], "movie_id": ["m1", "m2", "m3"], "stars": [4.0, 5.0, 1.0]})
    new.to_csv(folder / "new.csv", index=False)
    pd.DataFrame({"user": [100, 3], "movie": ["m7", "m7"]}).to_csv(folder / "cells.csv", index=False)
    assert run("init", folder / "data").exit_code == 0
    assert run("fit", folder / "data").exit_code == 0
    return folder


def table(done):
    assert done.exit_code == 0, done.stderr
    return pd.read_csv(io.StringIO(done.stdout))


def test_recommend(folder, tmp_path):
    file = folder / "data/model.gcmf"
    model = gcmf.load(file)
    pd.testing.assert_frame_equal(table(run("recommend", file, 3, 5, "-n", 2)), model.recommend("ratings", [3, 5], 2))
    found = table(run("recommend", file, "--by", "lower", "-n", 3, "--seen"))
    pd.testing.assert_frame_equal(found, model.recommend("ratings", n=3, by="lower", exclude_seen=False))
    done = run("recommend", file, "-n", 1, "-o", tmp_path / "r.parquet", "--json")
    assert json.loads(done.stdout) == {"recommendations": 40, "file": str(tmp_path / "r.parquet")}
    assert "already" in run("recommend", file, "-o", tmp_path / "r.parquet").stderr
    assert "never seen user 99" in run("recommend", file, 99).stderr
    assert "never seen user 'x'" in run("recommend", file, "x").stderr


def test_new_entities(folder):
    file, new = folder / "data/model.gcmf", folder / "new.csv"
    model = gcmf.load(file)
    given = pd.read_csv(new).set_axis(["user", "movie", "value"], axis=1)
    folded = model.fold_in("user", {"ratings": given})
    found = table(run("predict", file, folder / "cells.csv", "--new", new))
    assert found["mean"][0] == pytest.approx(folded.predict("ratings", 100, "m7")[0])
    assert found["mean"][1] == pytest.approx(model.predict("ratings", 3, "m7")[0])
    every = table(run("predict", file, "--all", "--new", f"ratings={new}"))
    assert every["mean"].to_numpy() == pytest.approx(folded.predict("ratings").ravel())
    ranked = table(run("recommend", file, "--new", new, "-n", 30))
    pd.testing.assert_frame_equal(ranked, folded.recommend("ratings", n=30))
    assert len(ranked) == 23 + 24


def test_new_entities_that_cannot_be_used(folder, tmp_path):
    file = folder / "data/model.gcmf"

    def said(**columns):
        pd.DataFrame(columns).to_csv(tmp_path / "new.csv", index=False)
        done = run("predict", file, "--all", "--new", tmp_path / "new.csv")
        assert done.exit_code == 1
        return done.stderr

    assert "knows the user 3 already" in said(user=[3], movie=["m1"], stars=[1])
    assert "user 50 has a cell with the movie 'm99'" in said(user=[50], movie=["m99"], stars=[1])
    assert "row 2: 'ann' cannot be used" in said(user=[50, "ann"], movie=["m1", "m2"], stars=[1, 2])
    assert "one column of values" in said(user=[50], movie=["m1"], a=[1], b=[2])
    assert "is given 2 times" in said(user=[50, 50], movie=["m1", "m1"], stars=[1, 2])


def test_similar(folder):
    file = folder / "data/model.gcmf"
    model = gcmf.load(file)
    found = table(run("similar", file, "movie", "m1", "m2", "-n", 3))
    pd.testing.assert_frame_equal(found, model.similar("movie", ["m1", "m2"], 3))
    lines = run("similar", file, "user", "7", "-n", 2, "--json").stdout.splitlines()
    assert [json.loads(line)["rank"] for line in lines] == [1, 2]
    assert "No entity set is named 'film'" in run("similar", file, "film").stderr


def test_explain(folder):
    file = folder / "data/model.gcmf"
    model = gcmf.load(file)
    told = run("explain", file, 3, "m7", "--project", folder / "data")
    assert told.exit_code == 0, told.stderr
    mean = model.predict("ratings", 3, "m7")[0]
    assert told.stdout.count(f"{mean:+.3f}") == 3  # each way adds up
    assert "By the cells of the user" in told.stdout
    assert "By the cells" not in run("explain", file, 3, "m7").stdout
    lines = json.loads(run("explain", file, 3, "m7", "--project", folder / "data", "--json").stdout)
    parts = pd.DataFrame(lines).groupby("by")["contribution"].sum()
    assert parts.to_numpy() == pytest.approx([mean] * 3)


@pytest.mark.parametrize("given", ["²", "--5", "-5", "٣", "9" * 20, "9" * 5000, "", "1_0", "+3"])
def test_an_id_that_is_no_number_is_not_known(folder, given):
    file = folder / "data/model.gcmf"
    for command in (["recommend", file], ["similar", file, "user"], ["explain", file, "--"]):
        done = run(*command, *([] if "--" in command else ["--"]), given, *(["m1"] if "explain" in command else []))
        assert done.exit_code == 1, done.exception
        assert f"never seen user {int(given) if given in ('-5', '9' * 20) else repr(given)}" in done.stderr


def test_ids_with_dashes_come_after_two_dashes(folder):
    file = folder / "data/model.gcmf"
    for command in (["recommend", file], ["similar", file, "user"], ["explain", file]):
        done = run(*command, "-5", "m1")
        assert done.exit_code == 2
        assert "Ids that begin with a dash come last, after --." in " ".join(done.output.replace("│", " ").split())
    assert "dash" not in run("describe", file, "-5").output
    pd.testing.assert_frame_equal(table(run("recommend", file, "--", "3")), table(run("recommend", file, "3")))
