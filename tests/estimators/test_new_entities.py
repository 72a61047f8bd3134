"""Entities that come after a fit: folded in they are what they would have been."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import gcmf
from gcmf.errors import ConvergenceWarning, DataError, StorageError, UnknownIdError

ENGINES = ("cpu", "reference")
QUIET = {"random_state": 0, "tol": 1e-9, "max_iter": 200, "dtype": "float64", "progress": False}


def settled(data, n_factors, device, **options):
    """A model whose sweeps hardly move anything any more, converged or not, that folds in with this engine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = gcmf.GCMF(n_factors, **QUIET | options).fit(data)
    return model.set_params(device=device)


def draws(seed=0, n=(24, 16, 8), k=2):
    rng = np.random.default_rng(seed)
    return rng, *(rng.normal(size=(size, k)) for size in n)


@pytest.fixture(scope="module", params=ENGINES)
def mixed(request):
    """Ratings, 0/1 tags and counts of users, of whom some lack one of them."""
    rng, u, v, t = draws()
    users = [f"u{i}" for i in range(24)]
    x = 3 + u @ v.T + 0.4 * rng.normal(size=(24, 16)) + rng.normal(size=(24, 1))
    x[rng.random(x.shape) < 0.3] = np.nan
    tags = (rng.random((24, 8)) < 1 / (1 + np.exp(-2 * u @ t.T))).astype(float)
    tags[:4] = np.nan
    plays = rng.poisson(np.exp(0.5 + 0.5 * u @ t.T)).astype(float)
    frames = {
        "ratings": pd.DataFrame(x, index=users, columns=[f"m{j}" for j in range(16)]),
        "tags": pd.DataFrame(tags, index=users, columns=[f"t{j}" for j in range(8)]),
        "plays": pd.DataFrame(plays, index=users, columns=[f"t{j}" for j in range(8)]),
    }
    data = gcmf.Collection([
        gcmf.Relation("ratings", "user", "movie", frames["ratings"]),
        gcmf.Relation("tags", "user", "tag", frames["tags"], "bernoulli"),
        gcmf.Relation("plays", "user", "tag", frames["plays"], "poisson"),
    ])  # fmt: skip
    return settled(data, 3, request.param), data, frames


def some(frames, users):
    return {name: frame.loc[users].dropna(how="all") for name, frame in frames.items()}


def test_who_was_in_the_data_gets_their_own_factors(mixed):
    model, _, frames = mixed
    users = ["u2", "u7", "u20"]  # the first has no tags
    new = model.fold_in("user", some(frames, users))
    assert [*new.ids] == users
    for std in (False, True):
        own = model.factors("user", std=std, weak=True).loc[users]
        assert new.factors(std=std, weak=True).to_numpy() == pytest.approx(own.to_numpy(), abs=2e-3)  # 3e-4
    for name in frames:
        for ours, theirs in zip(
            new.predict(name, users, None, return_std=True), model.predict(name, users, None, return_std=True),
            strict=True,
        ):  # fmt: skip
            assert ours == pytest.approx(theirs, abs=5e-3)  # 9e-4


def test_columns_are_folded_in_like_rows(mixed):
    model, _, frames = mixed
    movies = ["m0", "m9"]
    new = model.fold_in("movie", {"ratings": frames["ratings"][movies].T})
    assert new.predict("ratings") == pytest.approx(model.predict("ratings", None, movies), abs=2e-3)
    ranked = new.recommend("ratings", n=2)
    assert set(ranked["id"]) == set(movies)
    assert set(ranked["item"]) <= set(frames["ratings"].index)


def test_from_part_of_the_relations_and_from_nothing(mixed):
    model, _, frames = mixed
    tagged = model.fold_in("user", {"tags": frames["tags"].loc[["u5"]]})
    wide = model.predict("ratings", "strange", None, return_std=True, unknown="prior")
    told = tagged.predict("ratings", return_std=True)
    truth = np.nan_to_num(frames["ratings"].loc["u5"])
    seen = truth != 0
    assert (told[1] < wide[1]).all()
    assert np.std((told[0] - truth)[0, seen]) < np.std((wide[0] - truth)[0, seen])
    empty = frames["ratings"].loc[["u5"]] * np.nan
    with pytest.raises(DataError, match="no observed cell"):
        model.fold_in("user", {"ratings": empty})
    listed = {
        "tags": frames["tags"].loc[["u5"]],
        "ratings": pd.DataFrame({"user": ["u6"], "movie": ["m0"], "x": [3.0]}),
    }
    both = model.fold_in("user", listed)
    assert [*both.ids] == ["u5", "u6"]
    assert both.predict("ratings", "u5", None) == pytest.approx(told[0], abs=1e-6)


def test_every_form_of_cells_gives_the_same(mixed):
    model, data, frames = mixed
    wide = frames["ratings"].loc[["u3", "u4"]]
    truth = model.fold_in("user", {"ratings": wide}).factors()
    i, j = np.nonzero(wide.notna().to_numpy())
    x = wide.to_numpy()[i, j]
    ids, cols = wide.index[i], wide.columns[j]
    long = pd.DataFrame({"movie": cols, "stars": x, "user": ids})
    order = data.entities["movie"].ids
    matrix = sparse.csr_array((x, (i, order.get_indexer(cols))), shape=(2, 16))
    given = [
        (ids, cols, x), long, pl.DataFrame(long.to_dict("list")),
        gcmf.Relation("ratings", "user", "movie", wide), gcmf.Relation("ratings", "movie", "user", wide.T),
        gcmf.Relation.from_frame("r", long, rows="user", cols="movie", row="user", col="movie", value="stars"),
    ]  # fmt: skip
    for cells in given:
        found = model.fold_in("user", {"ratings": cells}).factors()
        assert found.loc[["u3", "u4"]].to_numpy() == pytest.approx(truth.to_numpy(), abs=1e-9)
    for cells in (matrix, wide[order].to_numpy()):
        found = model.fold_in("user", {"ratings": cells})
        assert [*found.ids] == [0, 1]
        assert found.factors().to_numpy() == pytest.approx(truth.to_numpy(), abs=1e-9)


def test_saved_models_answer_the_same_and_old_ones_say_why_not(mixed, tmp_path):
    model, _, frames = mixed
    model.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    users = some(frames, ["u1", "u9"])
    ours, theirs = (m.fold_in("user", users).predict("plays") for m in (model, again))
    np.testing.assert_array_equal(ours, theirs)
    pd.testing.assert_frame_equal(model.recommend("ratings", n=3), again.recommend("ratings", n=3))
    pd.testing.assert_frame_equal(model.similar("user", n=3), again.similar("user", n=3))
    again._fitted = replace(again.fitted_, terms=None)
    with pytest.raises(StorageError, match="older gcmf"):
        again.fold_in("user", users)


@pytest.mark.parametrize(
    ("cells", "kind", "said"),
    [
        ({"rating": 1}, UnknownIdError, "Did you mean 'ratings'"),
        ([1], DataError, "given by relation"),
        ({"ratings": (["a"], ["m99"], [1.0])}, UnknownIdError, "user 'a' has a cell with the movie 'm99'"),
        ({"ratings": (["a", "a"], ["m1", "m1"], [1.0, 2.0])}, DataError, "row 'a', column 'm1' is given 2 times"),
        ({"tags": (["a"], ["t1"], [0.5])}, DataError, "row 'a', column 't1' is 0.5, but bernoulli cells"),
        ({"ratings": np.zeros((2, 3))}, DataError, "the 16 movies that the model knows"),
        ({"ratings": pd.DataFrame({"user": ["a"], "movie": ["m1"], "x": [1], "y": [2]})}, DataError, "call it 'value'"),
        (
            {"ratings": gcmf.Relation("ratings", "user", "movie", (["a"], ["m1"], [1]), "poisson")},
            DataError,
            "fitted as",
        ),
        ({}, DataError, "no user to fold in"),
    ],
)
def test_what_cannot_be_used_is_refused(mixed, cells, kind, said):
    with pytest.raises(kind, match=said):
        mixed[0].fold_in("user", cells)


def test_relations_of_other_sets_are_refused(mixed):
    with pytest.raises(DataError, match="has no movie; those of movie are 'ratings'"):
        mixed[0].fold_in("movie", {"tags": (["x"], ["t1"], [1])})
    with pytest.raises(DataError, match="fitted without covariates of 'user'"):
        mixed[0].fold_in("user", {}, covariates=pd.DataFrame({"age": [1.0]}, index=["a"]))


def test_together_they_are_a_model_like_any_other(mixed, tmp_path):
    model, _, frames = mixed
    renamed = {name: frame.loc[["u5"]].rename(index={"u5": "new"}) for name, frame in frames.items()}
    both = model.fold_in("user", renamed).together()
    both.save(tmp_path / "m.gcmf")
    again = gcmf.load(tmp_path / "m.gcmf")
    assert again.predict("plays", "new", None) == pytest.approx(model.predict("plays", "u5", None), abs=2e-3)
    assert again.fold_in("movie", {"ratings": (["x"], ["new"], [3.0])}).ids[0] == "x"
    assert not set(again.recommend("ratings", ["new"])["item"]) & set(frames["ratings"].loc["u5"].dropna().index)


def test_threads_do_not_matter():
    rng, u, v, _ = draws(n=(900, 60, 3))
    x = u @ v.T + rng.normal(size=(900, 60))
    model = gcmf.GCMF(4, random_state=0).fit({("user", "movie", "r"): x[:300]})
    found = []
    for n in (1, 3):
        model.n_threads = n
        new = model.fold_in("user", {"r": x[300:]})
        found.append((new.predict("r"), new.recommend("r", n=3, exclude_seen=False).to_numpy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("device", ENGINES)
@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
def test_zeros_are_zeros_of_new_entities_too(device, kind):
    rng, u, v, _ = draws(3)
    ones = rng.random((24, 16)) < 1 / (1 + np.exp(1.5 - 2 * u @ v.T))
    ones[:, 0] = True  # everybody has one
    cells = sparse.csr_array(ones * (1.0 if kind == "bernoulli" else 2.0))
    relation = gcmf.Relation("clicks", "user", "page", cells, kind, blanks="zero")
    model = settled([relation], 2, device, max_iter=1000)
    listed = [(i, j) for i, j in zip(*np.nonzero(ones), strict=True) if i in (4, 11)]
    i, j = np.transpose(listed)
    new = model.fold_in("user", {"clicks": (i, j, np.full(len(i), cells.data[0]))})
    assert new.predict("clicks", [4, 11], None) == pytest.approx(model.predict("clicks", [4, 11], None), abs=2e-2)
    assert not set(new.recommend("clicks", [4])["item"]) & set(j[i == 4])
    assert not set(model.recommend("clicks", [4])["item"]) & set(j[i == 4])


@pytest.mark.parametrize("device", ENGINES)
def test_covariates_alone_say_what_they_said_of_who_was_declared(device):
    rng, u, v, _ = draws(5, n=(60, 16, 3))
    known = pd.DataFrame(
        {"age": 40 + 9 * u[:, 0], "born": pd.Timestamp("2000-01-01") + pd.to_timedelta(np.arange(60), "D"),
         "color": np.where(u[:, 1] > 0, "red", "blue")}, index=[f"u{i}" for i in range(60)],
    )  # fmt: skip
    known.loc["u3", "age"] = known.loc["u5", "age"] = np.nan
    x = pd.DataFrame(u @ v.T + 0.3 * rng.normal(size=(60, 16)), index=known.index)
    data = gcmf.Collection([gcmf.Relation("ratings", "user", "movie", x[:50])], entities={"user": known})
    model = settled(data, 3, device)
    cold = model.fold_in("user", covariates=known[50:])
    mean, std = cold.predict("ratings", return_std=True)
    own_mean, own_std = model.predict("ratings", [*known.index[50:]], None, return_std=True)
    assert mean == pytest.approx(own_mean, abs=1e-6)
    assert std == pytest.approx(own_std, rel=1e-5)
    warm = model.fold_in("user", {"ratings": x[3:6]}, covariates=known[3:6])
    assert warm.factors().to_numpy() == pytest.approx(model.factors("user")[3:6].to_numpy(), abs=5e-4)
    anybody = model.fold_in("user", {"ratings": x[3:4].iloc[:, :1]})
    assert (anybody.factors(std=True).to_numpy() > warm.factors(std=True).to_numpy()[:1]).all()
    with pytest.raises(DataError, match="the table lacks 'color'"):
        model.fold_in("user", covariates=known[50:][["age", "born"]])
    with pytest.raises(DataError, match="holds texts now"):
        model.fold_in("user", covariates=known[50:].assign(age="old"))


@pytest.mark.parametrize("device", ENGINES)
@pytest.mark.parametrize("symmetric", [True, False])
def test_networks_and_repeated_relations(device, symmetric):
    """A network of users and two relations with movies, all with scales of their own."""
    rng, u, v, _ = draws(7, n=(26, 12, 3))
    one, two = (u * s @ v.T + 0.3 * rng.normal(size=(26, 12)) for s in ([1.0, 0.2], [-0.5, 1.0]))
    net = u @ (np.diag([1.0, -1.0]) if symmetric else np.array([[0.2, 1.0], [-1.0, 0.1]])) @ u.T
    net = net + 0.3 * rng.normal(size=net.shape)
    net = (net + net.T) / 2 if symmetric else net
    names = np.array([f"u{i}" for i in range(26)])
    i, j = np.nonzero(np.triu(np.ones((26, 26)), 1) if symmetric else ~np.eye(26, dtype=bool))
    data = gcmf.Collection([
        gcmf.Relation("one", "user", "movie", pd.DataFrame(one, index=names)),
        gcmf.Relation("two", "user", "movie", pd.DataFrame(two, index=names)),
        gcmf.Relation("net", "user", "user", (names[i], names[j], net[i, j]), symmetric=symmetric),
    ])  # fmt: skip
    model = settled(data, 4, device)
    mine = (i == 3) | (j == 3)
    renamed = np.where(names == "u3", "new", names)
    cells = {
        "one": (["new"] * 12, range(12), one[3]), "two": (["new"] * 12, range(12), two[3]),
        "net": (renamed[i[mine]], renamed[j[mine]], net[i[mine], j[mine]]),
    }  # fmt: skip
    new = model.fold_in("user", cells)
    own = model.factors("user", weak=True).loc[["u3"]].to_numpy()
    assert new.factors(weak=True).to_numpy() == pytest.approx(own, abs=0.002)  # 2e-4
    others = [name for name in names if name != "u3"]
    assert new.predict("net", "new", others) == pytest.approx(model.predict("net", "u3", others), abs=0.004)  # 4e-4
    assert len(new.recommend("net", exclude_seen=False, n=40)) == 26  # nobody is recommended to themselves
    assert [*new.recommend("net", n=40)["item"]] == ["u3"]  # the only one not met
    assert new.similar(n=1)["item"][0] == "u3"
    with pytest.raises(DataError, match="both new to the model"):
        model.fold_in("user", {"net": (["a"], ["b"], [1.0])})
    with pytest.raises(DataError, match="both known to the model"):
        model.fold_in("user", {"net": (["u1"], ["u2"], [1.0])})


@pytest.mark.parametrize("device", ENGINES)
@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_an_answer_does_not_depend_on_who_came_along(device, kind):
    """Rows whose cells need more sweeps, or fewer, are folded in with others as alone."""
    rng, u, v, _ = draws(11, n=(60, 14, 3))
    theta = np.concatenate([u[:40], 3 * u[40:50], 0.1 * u[50:]]) @ v.T
    x = rng.random(theta.shape) < 1 / (1 + np.exp(-theta)) if kind == "bernoulli" else rng.poisson(np.exp(0.5 * theta))
    model = settled([gcmf.Relation("r", "user", "movie", x[:40].astype(float), kind)], 2, device)
    new = pd.DataFrame(x[40:].astype(float), index=range(100, 120))
    together = model.fold_in("user", {"r": new}).predict("r", return_std=True)
    for n, row in enumerate(new.index):
        alone = model.fold_in("user", {"r": new.loc[[row]]}).predict("r", return_std=True)
        for one, of_all in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], of_all[n], rtol=1e-12)


def test_counts_that_weigh_much_are_folded_in_where_a_fit_has_them():
    """From the wide prior, E exp θ is so large that the first sweep went where no later one comes back from."""
    rng = np.random.default_rng(0)
    x = rng.poisson(np.exp(rng.normal(size=(12, 1)) @ rng.normal(size=(1, 6)))).astype(float)
    i, j = (a.ravel() for a in np.indices(x.shape))
    data = gcmf.Relation("x", "a", "b", (i, j, x.ravel()), "negative_binomial", weight=np.full(x.size, 100.0))
    with pytest.warns(ConvergenceWarning, match="all factors are in use"):
        model = gcmf.GCMF(1, random_state=0, dtype="float64", n_threads=1, progress=False).fit([data])
    cells = gcmf.Relation("x", "a", "b", (i, j + 100, x.ravel()), "negative_binomial", weight=np.full(x.size, 100.0))
    new = model.fold_in("b", {"x": cells})
    np.testing.assert_allclose(new.predict("x"), model.predict("x"), rtol=0.05, atol=0.05)
