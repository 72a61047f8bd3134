"""Small models of every kind that a file may hold, and what any loaded model must be able to do."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
from safetensors import safe_open
from safetensors.numpy import save

import gcmf
from gcmf.data.relation import Relation
from gcmf.data.units import Units
from gcmf.likelihoods import Bernoulli, Poisson
from gcmf.storage import container

OPTIONS = {"random_state": 0, "max_iter": 40, "tol": 1e-2, "device": "reference", "progress": False}


def many_relations():
    """Each likelihood; categories, tuples, text and positions as ids; columns with units; a factor that is private."""
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(n, 1)) for n in (9, 7, 5))
    users = pd.CategoricalIndex([f"user {n}" for n in range(9)], categories=[f"user {n}" for n in range(10)])
    films = pd.Index([("film", n) for n in range(7)], tupleize_cols=False)
    ratings = pd.DataFrame(3 * u @ v.T + 7 + 0.1 * rng.normal(size=(9, 7)), index=users, columns=films)
    tagged = pd.DataFrame((v @ w.T > 0).astype(float), index=films)
    plays = pd.DataFrame(rng.poisson(np.log1p(np.exp(u @ w.T))), index=users)
    numbers = Relation(
        "numbers", "user", "number", pd.DataFrame(rng.normal(size=(9, 2)), index=users, columns=["a", "b"])
    )
    object.__setattr__(numbers.raw, "units", Units(np.array([40.0, 170.0]), np.array([10.0, 8.0])))
    return gcmf.GCMF(2, bias={"tagged": "cols"}, priors=gcmf.Priors(tau_shape=1e-3), **OPTIONS).fit(
        gcmf.Collection(
            [
                Relation("ratings", "user", "movie", ratings),
                Relation("tagged", "movie", "tag", tagged, Bernoulli("paper", zero_weight=2.0)),
                Relation("plays", "user", "tag", plays, Poisson("cell")),
                numbers,
            ]
        )
    )


def positions():
    """Bare arrays, a point estimate."""
    x = np.random.default_rng(1).normal(size=(6, 5))
    priors = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
    return gcmf.GCMF(2, inference="map", priors=priors, **OPTIONS).fit({("a", "b"): x, ("b", "c"): x.T @ x})


def times_and_levels():
    """Times with and without a zone, levels, and ids of several types."""
    rng = np.random.default_rng(2)
    days = pd.date_range("2020-03-28", periods=6, freq="12h", tz="Europe/Paris")
    places = pd.MultiIndex.from_tuples([("it", 1), ("it", 2), ("fr", 1), ("fr", 2)], names=["land", None])
    # Ids of one set are of one kind; a tuple may hold anything.
    mixed = pd.Index([None] * 4, dtype=object, tupleize_cols=False).to_numpy(copy=True)
    mixed[:] = [(dt.date(2020, 1, 1), "x"), ("x", "y"), (pd.Timestamp("2020-01-01", tz="UTC"), 2.5), (2**70, 1)]
    mixed = pd.Index(mixed, tupleize_cols=False)
    one = pd.DataFrame(rng.normal(size=(6, 4)), index=days, columns=places)
    other = pd.DataFrame(rng.normal(size=(6, 4)), index=days, columns=mixed)
    return gcmf.GCMF(1, **OPTIONS).fit(gcmf.Collection([Relation("p", "day", "place", one),
                                                        Relation("q", "day", "thing", other)]))  # fmt: skip


def polars_frame():
    """Ids of polars types, and answers in polars."""
    rng = np.random.default_rng(3)
    i, j = (a.ravel() for a in np.indices((5, 4)))
    columns = {"i": pl.Series(i, dtype=pl.UInt8), "x": rng.normal(size=20),
               "j": pl.Series([f"k{n}" for n in j], dtype=pl.Enum([f"k{n}" for n in range(5)]))}  # fmt: skip
    long = Relation.from_frame("r", pl.DataFrame(columns), rows="a", cols="b", row="i", col="j", value="x")
    return gcmf.GCMF(1, **OPTIONS).fit(gcmf.Collection([long]))


def covariates():
    """What is known of users: numbers, levels, gaps, and users without a rating."""
    rng = np.random.default_rng(5)
    age, ids = rng.normal(size=10), [f"u{n}" for n in range(10)]
    known = pd.DataFrame({"age": age, "color": ["red", "blue"] * 5, "size": [None, None, *range(8)]}, index=ids)
    x = np.outer(age, rng.normal(size=6)) + 0.1 * rng.normal(size=(10, 6))
    ratings = Relation("r", "user", "film", pd.DataFrame(x[:8], index=ids[:8], columns=list("abcdef")))
    return gcmf.GCMF(1, **OPTIONS).fit(gcmf.Collection([ratings], entities={"user": known}))


def tables():
    """Rows of three samples' tables, with names."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=(12, 1))
    return [pd.DataFrame(z @ rng.normal(size=(1, d)) + 0.3 * rng.normal(size=(12, d))).add_prefix("f") for d in (4, 3)]


def pca():
    return gcmf.PCA(2, random_state=0, max_iter=60).fit(tables()[0])


def cca():
    x, y = tables()
    return gcmf.CCA(2, random_state=0, max_iter=60).fit(x, y.iloc[:, 0])


def gfa():
    x, y = tables()
    return gcmf.GFA(2, random_state=0, max_iter=60).fit({"x": x, "y": y.to_numpy()})


MODELS = (many_relations, positions, times_and_levels, polars_frame, covariates, pca, cca, gfa)


# --- what a model must be able to do ------------------------------------------------------------------------


def use(model):
    """Ask a model everything; whatever is a number must be finite."""
    repr(model)
    for answer in _answers(model) if isinstance(model, gcmf.GCMF) else _table_answers(model):
        values = answer.to_numpy() if hasattr(answer, "to_numpy") else np.asarray(answer)
        if values.dtype.kind == "f":
            assert np.isfinite(values).all()


def _answers(model):
    for entity in model.schema_.entities:
        yield from (_numbers(model.factors(entity, std=std)) for std in (False, True))
        if entity in model.fitted_.effects:
            yield _numbers(model.coefficients(entity))
    yield _numbers(model.structure())
    yield _numbers(model.variance_explained())
    for one in model.schema_.relations:
        yield from (
            _numbers(model.biases(one.name, side, std=std)) for side in ("rows", "cols") for std in (False, True)
        )
        yield from model.predict(one.name, return_std=True)
        yield from model.predict(one.name, ["nobody"], ["nothing"], unknown="prior", return_std=True)
    score = model._score_table(own_predictions(model))
    yield score[["rmse", "mae", "log_likelihood"]]


def _numbers(frame):
    """The columns of numbers of a frame or a column, of pandas or polars."""
    if isinstance(frame, pl.DataFrame):
        return frame.select(pl.selectors.float())
    return frame.select_dtypes("number") if isinstance(frame, pd.DataFrame) else frame


def own_predictions(model):
    """A collection with the ids of a model, and cells that its likelihoods may take."""
    relations = []
    for one, likelihood in zip(model.schema_.relations, model.fitted_.likelihoods, strict=True):
        rows, cols = (model.fitted_.vocabularies[entity].ids for entity in (one.rows, one.cols))
        x = model.predict(one.name)
        x = x if one.likelihood == "gaussian" else np.round(np.clip(x, 0, 1 if one.likelihood == "bernoulli" else 9))
        triplets = rows.repeat(len(cols)), cols[np.tile(np.arange(len(cols)), len(rows))], x.ravel()
        relations.append(Relation(one.name, one.rows, one.cols, triplets, likelihood))
    return gcmf.Collection(relations)


def _table_answers(model):
    rng = np.random.default_rng(0)
    if isinstance(model, gcmf.PCA):
        shapes = [(model.n_features_in_, getattr(model, "feature_names_in_", None))]
    else:
        shapes = [(view["width"], view.get("features")) for view in model._views]
        yield _numbers(model.structure())
    views = [pd.DataFrame(rng.normal(size=(5, width)), columns=names) for width, names in shapes]
    scores = model.transform(views) if isinstance(model, gcmf.GFA) else model.transform(*views)
    yield scores
    back = model.inverse_transform(scores)
    yield from [back] if isinstance(model, gcmf.PCA) else back
    yield from [model.components_] if isinstance(model, gcmf.PCA) else model.components_
    yield from (model.noise_variance_, model.explained_variance_ratio_)


# --- files --------------------------------------------------------------------------------------------------


def unpack(path):
    """The document of a file, with None for each array, and its arrays."""
    with safe_open(path, framework="numpy") as file:
        head = json.loads(file.metadata()["gcmf"])
        return head["model"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def pack(path, document, tensors, *, version=container.FORMAT_VERSION):
    """Write any document and arrays with a valid checksum."""
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    try:
        checksum = container._checksum(document, tensors)
        text = json.dumps({"format_version": version, "sha256": checksum, "model": document})
    except RecursionError:
        return False
    path.write_bytes(save(tensors, {"gcmf": text}))
    return True
