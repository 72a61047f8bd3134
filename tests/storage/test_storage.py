import datetime as dt
import json
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import gcmf
from gcmf import storage
from gcmf.errors import StorageError
from gcmf.likelihoods import Bernoulli, Poisson
from gcmf.storage import container
from gcmf.storage.ids import decode, encode

# These fits are short on purpose: what they found does not matter here.
pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")

USERS = [f"user {n}" for n in range(30)]
MOVIES = [("film", n) for n in range(20)]


def collection(seed=0):
    rng = np.random.default_rng(seed)
    u, v, w = (rng.normal(size=(n, 2)) for n in (30, 20, 10))
    x = u @ v.T * 3 + 7 + rng.normal(size=(30, 20)) * 0.3
    x[rng.random(x.shape) < 0.2] = np.nan
    ratings = pd.DataFrame(x, index=USERS, columns=pd.Index(MOVIES, tupleize_cols=False))
    i, j = (a.ravel() for a in np.indices((20, 10)))
    clicks = (rng.random((20, 10)) < 1 / (1 + np.exp(-2 * v @ w.T))).astype(float)
    plays = rng.poisson(np.log1p(np.exp(u @ w.T)))
    return gcmf.Collection(
        [
            gcmf.Relation("ratings", "user", "movie", ratings),
            gcmf.Relation("tagged", "movie", "tag", ([MOVIES[n] for n in i], j, clicks.ravel()), Bernoulli("paper")),
            gcmf.Relation("plays", "user", "tag", pd.DataFrame(plays, index=USERS), Poisson("cell")),
        ],
        entities={"user": [*USERS, "newcomer"]},
    )


@pytest.fixture(scope="module")
def model():
    bias = {"ratings": True, "tagged": "cols"}
    options = {"max_iter": 30, "tol": 1e-3, "bias": bias, "priors": gcmf.Priors(tau_shape=1e-3)}
    return gcmf.GCMF(4, random_state=np.int64(3), callbacks=[print], **options).fit(collection())


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "m.gcmf"
    model.save(path)
    return path


def test_predictions_are_identical_to_the_bit(model, saved):
    loaded = gcmf.load(saved)
    for relation in ("ratings", "tagged", "plays"):
        before, after = (m.predict(relation, return_std=True) for m in (model, loaded))
        for old, new in zip(before, after, strict=True):
            assert old.tobytes() == new.tobytes()
    pair = ("ratings", ["user 3", "nobody"], [("film", 2), ("film", 19)])
    assert np.array_equal(model.predict(*pair, unknown="prior"), loaded.predict(*pair, unknown="prior"))


def test_everything_is_there(model, saved):
    loaded = gcmf.load(str(saved))
    assert type(loaded) is gcmf.GCMF
    assert (loaded.n_iter_, loaded.status_, loaded.elbo_) == (model.n_iter_, model.status_, model.elbo_)
    assert np.array_equal(loaded.elbo_trace_, model.elbo_trace_)
    assert loaded.schema_ == model.schema_
    assert loaded.fitted_.likelihoods == model.fitted_.likelihoods
    assert loaded.fitted_.likelihoods[1:] == (Bernoulli("paper"), Poisson("cell"))
    for entity in ("user", "movie", "tag"):
        pd.testing.assert_frame_equal(loaded.factors(entity), model.factors(entity))
        pd.testing.assert_frame_equal(loaded.factors(entity, std=True), model.factors(entity, std=True))
    pd.testing.assert_frame_equal(loaded.structure(), model.structure())
    pd.testing.assert_frame_equal(loaded.variance_explained(), model.variance_explained())
    pd.testing.assert_frame_equal(loaded.score(collection()), model.score(collection()))


def test_parameters_survive_and_callbacks_do_not(model, saved):
    params, was = gcmf.load(saved).get_params(), model.get_params()
    assert params.pop("callbacks") == ()
    assert was.pop("callbacks") == [print]
    assert params == was


def test_a_generator_is_stored_as_none(model, tmp_path):
    other = gcmf.GCMF(2, random_state=np.random.default_rng(0), max_iter=40, tol=0.1, checkpoint=None)
    other.fit(collection()).save(tmp_path / "m.gcmf")
    assert gcmf.load(tmp_path / "m.gcmf").random_state is None


def test_a_model_without_factors(tmp_path):
    noise = np.random.default_rng(0).normal(size=(30, 20))
    model = gcmf.GCMF(2, random_state=0).fit({("a", "b"): noise})
    assert model.n_factors_active_ == 0
    model.save(tmp_path / "m.gcmf")
    loaded = gcmf.load(tmp_path / "m.gcmf")
    assert np.array_equal(loaded.predict("a-b"), model.predict("a-b"))
    assert loaded.fitted_.vocabularies["a"].positional


def test_to_dict_is_plain(model):
    document = model.to_dict()
    kinds = set()

    def walk(value):
        kinds.add(type(value))
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(part)

    walk(document)
    assert kinds <= {dict, list, tuple, str, int, float, bool, np.ndarray, type(None)}
    assert document["entities"][0] == {"name": "user", "ids": [*USERS, "newcomer"], "positional": False}
    assert document["class"] == "GCMF"
    assert np.array_equal(document["fitted"]["mean"][1], model.factors("movie", weak=True).to_numpy())


def test_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        gcmf.GCMF().save(tmp_path / "m.gcmf")
    assert list(tmp_path.iterdir()) == []


# --- ids -------------------------------------------------------------------------------------------------

INDEXES = [
    pd.RangeIndex(4),
    pd.Index([5, -3, 2**62]),
    pd.Index(np.array([2**63 + 1, 3], dtype=np.uint64)),
    pd.Index([0.1, -2.5, np.inf]),
    pd.Index([True, False]),
    pd.Index(["a", "", "ünï", "日本", "🎬", "a\nb"]),
    pd.Index(["a", "\udc80"], dtype=object),
    pd.Index(["a", "b"], dtype="string"),
    pd.to_datetime(["2020-01-01 00:00:00.000000", "1969-12-31 23:59:59.000001"]),
    pd.date_range("2020-03-28", periods=4, freq="12h", tz="Europe/Paris"),
    pd.date_range("2020-03-28", periods=4, freq="ns"),
    pd.to_timedelta(["1s", "2 days"]),
    pd.Index([dt.date(2020, 1, 1), dt.date(1, 1, 1)]),
    pd.Index([1, "1", 2.5, None, 2**80, True], dtype=object)[[0, 1, 2, 4]],
    pd.Index([("a", 1), ("a", ("b", (2.5, None))), ()], tupleize_cols=False),
    pd.Index(
        [
            (dt.date(2020, 1, 1), 1),
            (dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC), True),
            (np.int64(3), np.str_("x")),
        ],
        tupleize_cols=False,
    ),
    pd.Index(
        [(pd.Timestamp("2020-01-01 10:00:00.123456789", tz="Europe/Paris"), 1), (pd.Timestamp("1900"), 2)],
        tupleize_cols=False,
    ),
]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: f"{type(index).__name__}-{index.dtype}")
def test_ids_come_back_as_they_were(index):
    back = decode(encode(index, entity="user"), size=len(index))
    expected = index.copy()
    if hasattr(expected, "freq"):
        expected.freq = None  # how dates were made is no part of the ids
    pd.testing.assert_index_equal(back, expected, exact=True)


def test_types_inside_tuples_come_back():
    item = (1, 1.0, True, "1", None, (dt.date(2020, 1, 1), pd.Timestamp("2020"), dt.datetime(2020, 1, 1)))
    [back] = decode(encode(pd.Index([item], tupleize_cols=False), entity="user"), size=1)

    def types(value):
        return [types(part) if isinstance(part, tuple) else type(part) for part in value]

    assert (back, types(back)) == (item, types(item))


def test_strings_take_a_buffer_and_not_json():
    encoded = encode(pd.Index(["ab", "c"]), entity="user")
    assert encoded["buffer"].tobytes() == b"abc"
    assert encoded["ends"].tolist() == [2, 3]


@pytest.mark.parametrize("bad", [frozenset({1}), Decimal(1), b"bytes", ("a", Decimal(1))])
def test_other_ids_are_refused_with_a_way_out(bad):
    with pytest.raises(StorageError, match=r"entity set 'user' is of type .* for example str\(id\)\.") as caught:
        encode(pd.Index(["fine", bad], dtype=object), entity="user")
    assert repr(bad) in str(caught.value)


def test_refused_ids_leave_no_file(tmp_path):
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(3, 4)), index=[Decimal(n) for n in range(3)])
    model = gcmf.GCMF(1, max_iter=40, tol=0.1).fit(gcmf.Collection([gcmf.Relation("r", "a", "b", x)]))
    with pytest.raises(StorageError, match=r"The id Decimal\('0'\) of entity set 'a'"):
        model.save(tmp_path / "m.gcmf")
    assert list(tmp_path.iterdir()) == []


# --- damaged and foreign files ---------------------------------------------------------------------------


def test_missing_paths(model, tmp_path):
    with pytest.raises(StorageError, match=r"nowhere\.gcmf: there is no such file"):
        gcmf.load(tmp_path / "nowhere.gcmf")
    with pytest.raises(StorageError, match="it is a folder"):
        gcmf.load(tmp_path)
    with pytest.raises(StorageError, match="it is a folder"):
        model.save(tmp_path)
    with pytest.raises(StorageError, match=r"there is no folder .*absent; create it first"):
        model.save(tmp_path / "absent" / "m.gcmf")


@pytest.mark.parametrize("content", [b"", b"hello", b"{}" * 100])
def test_other_files(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"cannot be read as a gcmf model.*what model\.save\(path\) writes"):
        gcmf.load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"gcmf": "no json"}, {"gcmf": "[]"}])
def test_other_safetensors_files(tmp_path, metadata):
    save_file({"weights": np.zeros(3)}, tmp_path / "net.safetensors", metadata)
    with pytest.raises(StorageError, match="is a safetensors file, but no gcmf model"):
        gcmf.load(tmp_path / "net.safetensors")


def test_every_flipped_byte_is_noticed(saved):
    whole = saved.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    # The data, each 97th byte of it, and the head: in its JSON a flipped byte may break anything at all.
    for at in [*range(8 + size, len(whole), 97), *range(8, 8 + size, 61), len(whole) - 1]:
        broken = bytearray(whole)
        broken[at] ^= 1
        saved.write_bytes(broken)
        with pytest.raises(StorageError):
            gcmf.load(saved)
    saved.write_bytes(whole)
    gcmf.load(saved)


def test_flipped_data_is_called_damaged(saved):
    broken = bytearray(saved.read_bytes())
    broken[-5] ^= 64
    saved.write_bytes(broken)
    with pytest.raises(StorageError, match=r"m\.gcmf is damaged: its contents do not match the checksum"):
        gcmf.load(saved)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_files(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StorageError, match="or a piece of it is missing"):
        gcmf.load(saved)


def test_a_newer_format_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr(container, "FORMAT_VERSION", 8)
    model.save(tmp_path / "m.gcmf")
    monkeypatch.undo()
    with pytest.raises(StorageError, match="has format version 8, and this gcmf reads versions up to 7"):
        gcmf.load(tmp_path / "m.gcmf")


def test_fields_of_another_version_are_refused(model, tmp_path):
    document = storage.document.describe(model)
    document["fitted"]["novelty"] = np.zeros(3)
    document["entities"] = [{**e, "ids": encode(e["ids"], entity="e")} for e in document["entities"]]
    container.write(tmp_path / "m.gcmf", document)
    with pytest.raises(StorageError, match=r"m\.gcmf is no sound gcmf model: fitted holds 'novelty', which this gcmf"):
        gcmf.load(tmp_path / "m.gcmf")


def test_the_file_is_plain_safetensors(saved):
    assert load_file(saved)["fitted/mean/1"].shape[0] == len(MOVIES)
    with safe_open(saved, framework="numpy") as file:
        head = json.loads(file.metadata()["gcmf"])
    assert (head["format_version"], head["model"]["class"]) == (7, "GCMF")
    assert head["model"]["entities"][0] == {
        "name": "user",
        "ids": {"kind": "text", "dtype": str(pd.Index(["a"]).dtype), "buffer": None, "ends": None},
        "positional": False,
    }


def test_no_pickle_anywhere():
    folder = Path(container.__file__).parent
    sources = {path.name: path.read_text() for path in folder.glob("*.py")}
    assert {"container.py", "document.py", "ids.py"} <= sources.keys()
    assert not any("pickle" in text for text in sources.values())


# --- checkpoints -----------------------------------------------------------------------------------------


def test_a_checkpoint_is_the_model_of_the_sweep(tmp_path):
    path, bounds, found = tmp_path / "c.gcmf", [], []

    def look(info):
        # The user's callbacks come first: what lies there is of the sweep before.
        if path.exists():
            found.append(gcmf.load(path))
        bounds.append(info.elbo)
        return info.iteration == 12

    model = gcmf.GCMF(4, random_state=0, callbacks=[look], checkpoint=path, checkpoint_every=0).fit(collection())
    assert [early.elbo_ for early in found] == bounds[:-1]
    assert all(early.status_ is gcmf.Status.INTERRUPTED for early in found)
    last = gcmf.load(path)
    assert (last.n_iter_, last.elbo_, last.checkpoint) == (model.n_iter_, model.elbo_, str(path))
    assert np.array_equal(last.predict("ratings"), model.predict("ratings"))


def test_checkpoints_wait_their_minute(tmp_path):
    assert gcmf.GCMF().checkpoint_every == 60
    gcmf.GCMF(2, random_state=0, max_iter=40, tol=0.1, checkpoint=tmp_path / "c.gcmf").fit(collection())
    assert not (tmp_path / "c.gcmf").exists()


def test_a_checkpoint_that_can_never_be_written_is_refused_at_once(tmp_path):
    sweeps = []
    model = gcmf.GCMF(2, checkpoint=tmp_path / "absent" / "c.gcmf", callbacks=[sweeps.append])
    with pytest.raises(StorageError, match="there is no folder"):
        model.fit(collection())
    x = pd.DataFrame(np.eye(3), index=[Decimal(n) for n in range(3)])
    model.set_params(checkpoint=tmp_path / "c.gcmf")
    with pytest.raises(StorageError, match="Decimal"):
        model.fit(gcmf.Collection([gcmf.Relation("r", "a", "b", x)]))
    assert sweeps == []


def test_a_failing_checkpoint_warns_once_and_the_fit_goes_on(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    model = gcmf.GCMF(2, random_state=0, max_iter=40, tol=0.1, checkpoint=folder / "c", checkpoint_every=0)
    model.set_params(callbacks=[lambda _: shutil.rmtree(folder, ignore_errors=True)])
    with pytest.warns(UserWarning, match=r"No checkpoint after sweep \d+, the fit goes on: .*no folder") as told:
        model.fit(collection())
    assert (len(told), model.n_iter_ > 2) == (1, True)
    assert model.status_ in (gcmf.Status.CONVERGED, gcmf.Status.MAX_ITER)


def same_answers(model, path):
    """Save and load a model; both answer alike, and all draws are as they were drawn."""
    model.save(path)
    loaded = gcmf.load(path)
    for relation in model.schema_.relations:
        for old, new in zip(*(m.predict(relation.name, return_std=True) for m in (model, loaded)), strict=True):
            np.testing.assert_array_equal(old, new)
    for entity in model.schema_.entities:
        assert model.factors(entity).equals(loaded.factors(entity))
    assert model.structure().equals(loaded.structure())
    return loaded


def test_draws_of_factors_that_had_died_away_are_not_cut_off(tmp_path):
    """They were kept in units of the variational factors, 1e-75 where those had died: zeros, which no file took."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    rng.normal(size=(25, 3))
    x, y = a @ b.T + 0.3 * rng.normal(size=(40, 30)), rng.normal(size=(40, 25))
    data = gcmf.Collection([gcmf.Relation("x", "a", "b", x), gcmf.Relation("y", "a", "c", y)])
    options = {"inference": "gibbs", "n_samples": 40, "n_burn": 40, "relation_scales": True, "dtype": "float64"}
    model = gcmf.GCMF(random_state=0, **options).fit(data)
    f = model.fitted_
    for e, factors in enumerate(f.draws.factors):
        kept = factors[:, :-1].astype(float)
        np.testing.assert_allclose(np.square(kept).mean(axis=0), f.mean[e] ** 2 + f.var[e], rtol=1e-3, atol=1e-8)
        assert (np.sqrt(np.square(kept).mean(axis=(0, 1)))[f.on[e]] > 1e-3).all()
    same_answers(model, tmp_path / "m.gcmf")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_sampled_model_with_covariates_and_a_number_of_factors(seed, tmp_path):
    """A factor that no draw had on had a prior: what covariates say of those that are off."""
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(k, 2)) for k in (21, 20, 16))
    about = pd.DataFrame({"f": v @ rng.normal(size=2) + 0.3 * rng.normal(size=20), "g": rng.normal(size=20)})
    x, y = ((rng.random(t.shape) < 1 / (1 + np.exp(-2 * t))).astype(float) for t in (u @ v.T, v @ w.T))
    relations = [gcmf.Relation("x", "a", "b", x, "bernoulli"), gcmf.Relation("y", "b", "c", y, "bernoulli")]
    model = gcmf.GCMF(6, inference="gibbs", n_samples=15, n_burn=5, random_state=seed).fit(
        gcmf.Collection(relations, entities={"b": about})
    )
    assert not model.fitted_.prior_var[~model.fitted_.on].any()
    loaded = same_answers(model, tmp_path / "m.gcmf")
    new = [m.fold_in("b", covariates=about[:2].set_axis(["p", "q"])).predict("x") for m in (model, loaded)]
    np.testing.assert_array_equal(*new)


@pytest.mark.parametrize("broken", ["turn", "precision", "learned"])
def test_draws_that_new_rows_cannot_be_drawn_by_are_refused(broken, tmp_path):
    x = np.random.default_rng(0).normal(size=(9, 2)) @ np.random.default_rng(1).normal(size=(2, 8))
    x += 0.2 * np.random.default_rng(2).normal(size=x.shape)
    model = gcmf.GCMF(inference="gibbs", n_samples=8, n_burn=2, random_state=0).fit({("a", "b", "x"): x})
    origin = model.fitted_.draws.origin
    wrong = {"turn": 0.0 * origin.turn, "precision": 0.0 * origin.precision, "learned": (-origin.learned[0],)}[broken]
    draws = model.fitted_.draws._replace(origin=origin._replace(**{broken: wrong}))
    model._fitted = replace(model.fitted_, draws=draws)
    with pytest.raises(StorageError, match=f"draws/origin/{broken}"):
        model.save(tmp_path / "m.gcmf")
