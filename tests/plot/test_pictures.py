"""Every picture: from its table, into given axes or a figure of its own, whatever names and factors there are."""

import io

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import gcmf
from gcmf import plot
from gcmf.errors import DataError, MissingExtraError, OptionError, UnknownIdError

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")

LONG = "a name that goes on and on, with $x_{ and $ in it\nand <b>more</b>"


def collection(seed=0, *, n=24, odd=False):
    """Numbers and 0/1 cells that share rows, of three factors; `odd`: with ids that are hard to show."""
    rng = np.random.default_rng(seed)
    u, v, w = rng.normal(size=(n, 3)), rng.normal(size=(18, 3)), rng.normal(size=(12, 3))
    x = u @ v.T + 0.3 * rng.normal(size=(n, 18))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = (u @ w.T + rng.normal(size=(n, 12)) > 0).astype(float)
    ids = {"row_ids": [f"{LONG} {k}" for k in range(n)], "col_ids": [("$", k) for k in range(18)]} if odd else {}
    rows = {"row_ids": ids["row_ids"]} if odd else {}
    return gcmf.Collection([
        gcmf.Relation("x", "a", "b", x, **ids),
        gcmf.Relation(LONG if odd else "y", "a", "c", y, "bernoulli", **rows),
    ])  # fmt: skip


def fitted(data, n_factors=4, seed=0, **options):
    return gcmf.GCMF(n_factors, random_state=seed, max_iter=60, n_threads=1, progress=False, **options).fit(data)


@pytest.fixture(scope="module")
def split():
    return collection().split(0.2, random_state=1)


@pytest.fixture(scope="module")
def model(split):
    return fitted(split[0])


@pytest.fixture(scope="module")
def other(split):
    return fitted(split[0], 2, 1)


def written(picture):
    buffer = io.BytesIO()
    figure = picture if isinstance(picture, Figure) else picture.figure
    figure.savefig(buffer, format="png", dpi=50)
    return buffer.getvalue()


def texts(picture):
    return {t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_visible() and t.get_text()}


PICTURES = {
    "schema": lambda m, _, test, **ax: plot.schema(m, **ax),
    "schema of data": lambda m, _, test, **ax: plot.schema(test, **ax),
    "structure": lambda m, _, test, **ax: plot.structure(m, **ax),
    "variance explained": lambda m, _, test, **ax: plot.variance_explained(m, **ax),
    "convergence": lambda m, _, test, **ax: plot.convergence(m, **ax),
    "embedding": lambda m, _, test, **ax: plot.embedding(m, "a", **ax),
    "embedding of all": lambda m, _, test, **ax: plot.embedding(m, "a", method="pca", color=np.arange(24), **ax),
    "predicted": lambda m, _, test, **ax: plot.predicted_vs_observed(m, test, **ax),
    "calibration": lambda m, _, test, **ax: plot.calibration(m, test, list(test.relations)[1], **ax),
    "reconstruction": lambda m, _, test, **ax: plot.reconstruction(m, test, n=10, **ax),
    "stability": lambda m, other, test, **ax: plot.stability({"one": m, LONG: other}, **ax),
    "compare": lambda m, other, test, **ax: plot.compare({"one": m, LONG: other}, test, **ax),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_pictures_are_figures_or_in_given_axes(draw, model, other, split):
    before = dict(matplotlib.rcParams)
    figure = draw(model, other, split[1])
    assert isinstance(figure, Figure)
    assert written(figure).startswith(b"\x89PNG")
    ax = Figure().add_subplot()
    assert draw(model, other, split[1], ax=ax) is ax
    assert ax.has_data() or ax.texts
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("n_factors", [0, 1])
@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_few_factors_and_long_names_break_nothing(draw, n_factors, odd_models):
    models, test = odd_models
    assert models[n_factors].n_factors_active_ == n_factors
    written(draw(models[n_factors], models[1], test))


@pytest.fixture(scope="module")
def odd_models():
    train, test = collection(odd=True).split(0.3, random_state=0)
    one = fitted(train, 1)
    # Noise has no factor; the same ids are in it.
    rng = np.random.default_rng(0)
    noise = {name: bound.cells.triplets() for name, bound in train.relations.items()}
    relations = []
    for name, (i, j, x) in noise.items():
        bound = train.relations[name]
        rows, cols = (train.entities[side].ids for side in (bound.rows, bound.cols))
        triplets = rows[i].tolist(), cols[j].tolist(), rng.permutation(x)
        relations.append(gcmf.Relation(name, bound.rows, bound.cols, triplets, bound.likelihood))
    return {0: fitted(relations, 1, bias=False), 1: one}, test


def test_a_factor_shows_its_top_entities_of_both_signs(model):
    table = plot.tables.loadings(model, "F1", n=5)
    for name, lines in table.groupby("set"):
        means = model.factors(name)["F1"]
        expected = means.abs().nlargest(5).index
        assert set(lines["id"]) == set(expected)
        assert lines["mean"].is_monotonic_decreasing
        assert np.allclose(lines["std"], model.factors(name, std=True)["F1"].loc[list(lines["id"])])
    figure = plot.loadings(model, "F1", n=5)
    assert len(figure.axes) == table["set"].nunique()
    one = plot.loadings(model, "F1", "a", n=5)
    assert {str(item) for item in table[table["set"] == "a"]["id"]} <= texts(one)
    with pytest.raises(UnknownIdError, match="no factor 'F99'"):
        plot.loadings(model, "F99")


def test_structure_is_ordered_by_role_and_subset(model):
    table = plot.tables.structure(model)
    heads = table.drop_duplicates("factor")
    roles = [plot.tables.ROLES.index(role) for role in heads["role"]]
    assert roles == sorted(roles)
    assert (heads["subset"] != heads["subset"].shift()).sum() == heads["subset"].nunique()
    wide = table[table["kind"] == "entity set"].pivot(index="factor", columns="name", values="value")
    assert np.allclose(wide, model.structure().loc[wide.index, wide.columns])


def test_variance_explained_is_the_same_in_a_tidy_table(model):
    tidy = plot.tables.variance_explained(model).pivot(index="relation", columns="part", values="share")
    wide = model.variance_explained()
    assert np.allclose(tidy.loc[wide.index, wide.columns], wide)


def test_predictions_stand_beside_their_cells(model, split):
    table = plot.tables.predicted_vs_observed(model, split[1], "x")
    assert np.allclose(table["predicted"], model.predict("x", table["row"], table["col"]))
    score = model.score(split[1]).loc["x"]
    assert np.isclose(((table["predicted"] - table["observed"]) ** 2).mean() ** 0.5, score["rmse"])
    assert len(table) == score["n"]


def test_calibration_has_every_cell_in_one_bin(model, split):
    table = plot.tables.calibration(model, split[1], "y")
    cells = plot.tables.predicted_vs_observed(model, split[1], "y")
    assert table["n"].sum() == len(cells)
    assert table["predicted"].is_monotonic_increasing
    assert np.isclose((table["observed"] * table["n"]).sum(), cells["observed"].sum())


def test_reconstruction_marks_missing_cells(model, split):
    table = plot.tables.reconstruction(model, split[0], "x", n=10)
    i, j, x = split[0].relations["x"].cells.triplets()
    known = {(int(a), int(b)): c for a, b, c in zip(i, j, x, strict=True)}
    expected = [known.get((a, b), np.nan) for a, b in zip(table["row"], table["col"], strict=True)]
    assert len(table) == 100
    assert table["observed"].isna().any()
    assert np.allclose(table["observed"], expected, equal_nan=True)
    assert np.allclose(table["predicted"], model.predict("x", table["row"], table["col"]))


def test_a_symmetric_relation_is_reconstructed_both_ways():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(14, 1))
    x = u @ u.T + 0.1 * np.eye(14)
    data = gcmf.Collection([gcmf.Relation("alike", "p", "p", (x + x.T) / 2, symmetric=True)])
    table = plot.tables.reconstruction(fitted(data, 2), data)
    seen = table.pivot(index="row", columns="col", values="observed").to_numpy()
    assert np.isnan(np.diag(seen)).all()
    assert np.allclose(seen, seen.T, equal_nan=True)


def test_a_model_is_stable_against_itself(model, other):
    same = plot.tables.stability({"one": model, "again": model})
    assert (same["match"] == same["factor"]).all()
    assert np.allclose(same["similarity"], 1.0)
    less = plot.tables.stability({"one": model, "two": other})
    matched = less[less["match"] != ""]["match"]
    assert matched.is_unique
    assert len(less) == model.n_factors_active_
    with pytest.raises(OptionError, match="at least two"):
        plot.stability({"one": model})
    with pytest.raises(OptionError, match="inference='gibbs'"):
        plot.stability(model)


def test_draws_are_compared_with_their_mean(split):
    sampled = fitted(split[0], 2, inference="gibbs", n_samples=8, n_burn=2)
    table = plot.tables.stability(sampled)
    assert table["model"].nunique() == sampled.fitted_.draws.n
    assert table["similarity"].between(0, 1 + 1e-9).all()
    assert table["similarity"].mean() > 0.5
    written(plot.stability(sampled))


def test_models_are_compared_on_the_same_cells(model, other, split):
    table = plot.tables.compare({"one": model, "two": other}, split[1])
    lines = table.set_index(["relation", "model"])
    assert np.isclose(lines.loc[("x", "two"), "error"], other.score(split[1]).loc["x", "rmse"] ** 2)
    assert np.isclose(lines.loc[("y", "one"), "error"], -model.score(split[1]).loc["y", "log_likelihood"])
    assert (lines.loc[(slice(None), "one"), "difference"] == 0).all()
    gap = lines.loc[("x", "two"), "error"] - lines.loc[("x", "one"), "error"]
    assert np.isclose(lines.loc[("x", "two"), "difference"], gap)
    # A model that knows fewer entities is compared where all know them.
    train = split[0]
    few = train.entities["a"].ids[:10]
    i, j, x = train.relations["x"].cells.triplets()
    part = i < 10
    small = fitted(gcmf.Relation("x", "a", "b", (few[i[part]], train.entities["b"].ids[j[part]], x[part])), 1)
    both = plot.tables.compare({"one": model, "small": small}, split[1].select(["x"]))
    assert both["n"].nunique() == 1
    assert 0 < both["n"].iloc[0] < lines.loc[("x", "one"), "n"]


def test_embeddings_are_colored_by_a_column(model):
    ids = model.factors("a").index
    plain = plot.tables.embedding(model, "a", ("F2", "F1"))
    assert np.allclose(plain["x"], model.factors("a")["F2"])
    by_id = plot.tables.embedding(model, "a", color={ids[3]: "red"})
    assert by_id["color"].tolist() == [None] * 3 + ["red"] + [None] * (len(ids) - 4)
    series = pd.Series(np.arange(len(ids))[::-1], index=ids[::-1], name="age")
    assert plot.tables.embedding(model, "a", color=series)["color"].tolist() == list(range(len(ids)))
    levels = [f"kind {k % 9}" for k in range(len(ids))]
    assert "other" in texts(plot.embedding(model, "a", color=levels))
    with pytest.raises(OptionError, match="one value for each of the 24"):
        plot.embedding(model, "a", color=[1, 2])
    with pytest.raises(UnknownIdError, match="no factor 'G1'"):
        plot.embedding(model, "a", ("F1", "G1"))


def test_projections_take_what_is_installed(model):
    assert np.isfinite(plot.tables.embedding(model, "a", method="tsne")[["x", "y"]].to_numpy()).all()
    try:
        import umap  # noqa: F401, PLC0415
    except ImportError:
        with pytest.raises(MissingExtraError, match="umap-learn"):
            plot.embedding(model, "a", method="umap")


def test_data_that_a_picture_cannot_use_are_refused(model, split):
    with pytest.raises(DataError, match="no relation 'z'"):
        plot.reconstruction(model, split[1], "z")
    strangers = gcmf.Relation("x", "a", "b", (["who"], [0], [1.0]))
    with pytest.raises(DataError, match="No cell of 'x'"):
        plot.predicted_vs_observed(model, strangers)


def test_hundreds_of_factors_and_relations_fit_on_a_page(model, monkeypatch):
    n, head = 300, {"role": "shared", "subset": "", "on": True, "value": 0.5}
    lines = [
        {**head, "factor": f"F{k}", "kind": kind, "name": f"{kind} {r}"}
        for k in range(n) for kind in ("entity set", "relation") for r in range(3 if kind == "entity set" else 2)
    ]  # fmt: skip
    monkeypatch.setattr(plot.tables, "structure", lambda _: pd.DataFrame(lines))
    figure = plot.structure(model)
    assert max(figure.get_size_inches()) < 25
    assert len(figure.axes[0].get_xticks()) <= 60


def test_a_recorder_keeps_terms_factors_and_errors(split):
    record = plot.Recorder(*split, every=5)
    model = fitted(split[0], 3, callbacks=record, n_init=2)
    table = plot.tables.convergence(model, record)
    # In the trace, a bound is replaced where something that was tried after the sweep raised it.
    assert np.allclose(record.table().filter(like="term ").sum(axis=1), record.table()["bound"], rtol=1e-9)
    assert table["below"].iloc[-1] == 0
    assert set(record.table()["restart"]) == {0, 1}
    measured = table["error x"].notna()
    assert table.loc[measured, "sweep"].isin([1, *range(5, 500, 5)]).all()
    assert table.loc[measured, "error x"].iloc[-1] < table.loc[measured, "error x"].iloc[0]
    assert table["factors"].iloc[-1] >= model.n_factors_active_
    assert len(plot.convergence(model, record).axes) == 6
    written(plot.convergence(model, record))
    # Another fit with the same recorder starts afresh; without test data nothing is measured.
    bare = plot.Recorder()
    for _ in range(2):
        model = fitted(split[0], 2, callbacks=bare)
        assert len(bare.table()) == model.n_iter_
    assert not [name for name in plot.tables.convergence(model, bare) if name.startswith("error")]
