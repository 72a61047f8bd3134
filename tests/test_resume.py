"""A fit that goes on from a checkpoint ends with the same bits as one that nobody has stopped."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf.data import zeros
from gcmf.errors import ConvergenceWarning, ModelWarning, OptionError, StorageError

PROPER = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)


def ratings(seed=0):
    """Two relations of numbers with holes, and 0/1 traits: shared and private factors."""
    rng = np.random.default_rng(seed)
    u, v, w = (rng.normal(size=(n, 3)) for n in (40, 30, 12))
    x = u[:, :2] @ v[:, :2].T + rng.normal(size=(40, 1)) + 0.5 * rng.normal(size=(40, 30))
    x[rng.random(x.shape) < 0.5] = np.nan
    traits = (rng.random((40, 12)) < 1.0 / (1.0 + np.exp(-2.0 * u[:, 1:] @ w[:, 1:].T))).astype(float)
    return gcmf.Collection(
        [gcmf.Relation("x", "a", "b", 3.0 * x + 10.0), gcmf.Relation("traits", "a", "c", traits, "bernoulli")]
    )


def known():
    """What is known of rows: a number and a color; and counts that are more spread than Poisson's."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"size": rng.normal(size=30), "color": rng.choice(["red", "blue"], 30)})
    u, v = table["size"].to_numpy()[:, None] + 0.3 * rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    counts = rng.poisson(np.exp(0.5 * u @ v.T) * rng.gamma(2.0, 0.5, (30, 20)))
    numbers = u @ rng.normal(size=(2, 15)) + 0.3 * rng.normal(size=(30, 15))
    return gcmf.Collection(
        [gcmf.Relation("n", "a", "b", counts, "negative_binomial"), gcmf.Relation("x", "a", "c", numbers)],
        {"a": table},
    )


def network():
    """A directed network beside numbers: relations have scales, and factors have mates."""
    rng = np.random.default_rng(4)
    u, v = rng.normal(size=(30, 2)), rng.normal(size=(12, 2))
    links = (u @ np.array([[0, 1.5], [-1.5, 0]]) @ u.T + rng.normal(size=(30, 30)) > 0).astype(float)
    np.fill_diagonal(links, np.nan)
    numbers = u @ v.T + 0.5 * rng.normal(size=(30, 12))
    return gcmf.Collection(
        [gcmf.Relation("links", "a", "a", links, "bernoulli", symmetric=False), gcmf.Relation("x", "a", "b", numbers)]
    )


def clicks():
    """Rare ones among zeros, of which some are drawn."""
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 90)) * 1.2 + rng.normal(size=90) - 4.0
    x = sparse.csr_array((rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float))
    return gcmf.Collection([gcmf.Relation("clicks", "user", "page", x, "bernoulli", blanks="zero")])


def noisy():
    """Rows and columns with noise of their own."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30)) + np.exp(rng.normal(size=30)) * rng.normal(size=(40, 30))
    x[rng.random(x.shape) < 0.3] = np.nan
    return gcmf.Collection([gcmf.Relation("x", "a", "b", x, gcmf.likelihoods.Gaussian("both"))])


def precise():
    """Numbers almost without noise: the engine goes on in float64."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(25, 2)) @ rng.normal(size=(2, 18)) + 0.01 * rng.normal(size=(25, 18))
    return gcmf.Collection([gcmf.Relation("x", "a", "b", x)])


def nothing():
    """Noise: no start finds a factor, and others are tried."""
    return gcmf.Collection([gcmf.Relation("x", "a", "b", np.random.default_rng(0).normal(size=(30, 20)))])


#: Sweeps after which each case is stopped, from the first to the last: in the warm-up, between leaps, while refining.
N_SWEEPS = 4
CASES = {
    "variational": (ratings, {}),
    "float64, reference": (ratings, {"dtype": "float64", "device": "reference", "n_factors": 3, "max_iter": 12}),
    "capped, with several starts": (ratings, {"n_factors": 2, "n_init": 3, "max_iter": 40}),
    "nothing found by any start": (nothing, {}),
    "nothing found, then chains": (nothing, {"inference": "gibbs", "n_samples": 12, "n_burn": 6}),
    "point": (ratings, {"inference": "map", "priors": PROPER, "n_factors": 3, "max_iter": 40}),
    "covariates and counts": (known, {"max_iter": 80}),
    "scales and mates": (network, {"max_iter": 80}),
    "drawn zeros": (clicks, {"n_init": 2, "max_iter": 60}),
    "more precise than float32": (precise, {"n_factors": 3, "max_iter": 30}),
    "noise of rows and columns": (noisy, {"max_iter": 60}),
    "chains with noise of rows": (noisy, {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "max_iter": 30}),
    "chains": (ratings, {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "n_chains": 2, "max_iter": 40}),
    "chains with covariates": (known, {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "max_iter": 30}),
    "chains with scales": (network, {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "max_iter": 30}),
    "chains over drawn zeros": (clicks, {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "max_iter": 30}),
    "chains in float64": (precise, {"inference": "gibbs", "n_samples": 12, "n_burn": 6, "n_factors": 4}),
}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Small relations count as large ones."""
    monkeypatch.setattr(zeros, "MANY", 1000)
    monkeypatch.setattr(zeros, "PER_ENTITY", 4)
    monkeypatch.setattr(zeros, "PER_CELL", 5)


def fit(data, path, *, resume=False, every=0, **options):
    chosen = {"random_state": 0, "progress": False, "checkpoint": path, "checkpoint_every": every, **options}
    model = gcmf.GCMF(**chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ModelWarning)
        return model.fit(data, resume=resume)


def bits(model):
    """All numbers of a model, by their place."""
    found = {}

    def walk(value, place):
        if isinstance(value, np.ndarray):
            found[place] = (value.dtype.str, value.shape, value.tobytes())
        elif isinstance(value, dict):
            for key, part in value.items():
                walk(part, f"{place}/{key}")
        elif isinstance(value, list | tuple):
            for n, part in enumerate(value):
                walk(part, f"{place}/{n}")
        else:
            found[place] = repr(value)

    document = model.to_dict()
    del document["params"]
    walk(document, "")
    return found


def stopped_at(data, folder, **options):
    """The finished model, and a copy of the checkpoint of every sweep."""
    path, copies = folder / "c.gcmf", []

    def copy(_):
        # Callbacks come before the checkpoint: what lies there is of the sweep before.
        if path.exists():
            copies.append(shutil.copy(path, folder / f"{len(copies)}.gcmf"))

    return fit(data, path, callbacks=[copy], **options), copies


@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_from_many_sweeps(case, tmp_path):
    make, options = CASES[case]
    data = make()
    whole, copies = stopped_at(data, tmp_path, **options)
    plain = bits(fit(data, None, **options))
    assert bits(whole) == plain, "checkpoints change nothing"
    n_sweeps = N_SWEEPS * 2 if case == "variational" else N_SWEEPS
    for n in sorted(set(np.linspace(0, len(copies) - 1, n_sweeps, dtype=int).tolist())):
        shutil.copy(copies[n], tmp_path / "again.gcmf")
        again = bits(fit(make(), tmp_path / "again.gcmf", resume=True, n_threads=1 + n % 2, **options))
        assert [place for place in plain if again.get(place) != plain[place]] == [], f"after sweep {n}"


def stop_after(n):
    """A callback that stops a fit."""
    return lambda info: info.iteration == n


def test_a_fit_that_was_stopped_leaves_a_checkpoint_of_its_last_sweep(tmp_path):
    path, plain = tmp_path / "c.gcmf", bits(fit(ratings(), None))
    first = fit(ratings(), path, every=1000, callbacks=stop_after(17))
    assert (first.status_, gcmf.load(path).n_iter_) == (gcmf.Status.INTERRUPTED, 17)
    seen = []
    assert bits(fit(ratings(), path, resume=True, callbacks=lambda info: seen.append(info.iteration))) == plain
    assert seen[0] == 18


def test_without_a_checkpoint_the_fit_starts(tmp_path):
    path = tmp_path / "c.gcmf"
    assert bits(fit(ratings(), path, every=1000, resume=True, max_iter=9)) == bits(fit(ratings(), None, max_iter=9))
    assert not path.exists()
    with pytest.raises(OptionError, match="resume=True goes on from a checkpoint"):
        fit(ratings(), None, resume=True)


def test_a_seed_that_nobody_knows_goes_on_too(tmp_path):
    """`random_state=None` and generators: the numbers to come are in the checkpoint."""
    for source in (None, np.random.Generator(np.random.MT19937(5))):
        path = tmp_path / "c.gcmf"
        whole, copies = stopped_at(ratings(), tmp_path, random_state=source, max_iter=50)
        shutil.copy(copies[10], path)
        assert bits(fit(ratings(), path, resume=True, random_state=source, max_iter=50)) == bits(whole)


def test_a_fit_that_started_from_a_model_goes_on(tmp_path):
    path, model = tmp_path / "c.gcmf", fit(ratings(), None, max_iter=40)
    other = fit(ratings(), None, max_iter=20)

    def again(checkpoint, start, **options):
        chosen = {"random_state": 0, "progress": False, "max_iter": 30, "checkpoint": checkpoint, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return gcmf.GCMF(**chosen).fit(ratings(seed=1), start=start, resume=checkpoint is not None)

    plain = bits(again(None, model))
    again(path, model, callbacks=stop_after(3))
    with pytest.raises(StorageError, match="another fit: the model to start from is not the same"):
        again(path, other)
    assert bits(again(path, model)) == plain


# --- refusals -----------------------------------------------------------------------------------------------


def changed(**parts):
    """The collection with a cell, an id or a relation changed."""
    data = ratings()
    x = data.relations["x"].cells.triplets()
    ids = [f"a{n}" for n in range(40)] if "ids" in parts else list(range(40))
    value = x.x + (np.arange(len(x.x)) == 7) * parts.get("cell", 0.0)
    rows = pd.Index(np.array(ids, dtype=object if "ids" in parts else int)[x.i])
    relations = [gcmf.Relation("x", "a", "b", (rows, x.j, value))]
    if "without" not in parts:
        t = data.relations["traits"].cells.triplets()
        rows = pd.Index(np.array(ids, dtype=object if "ids" in parts else int)[t.i])
        relations.append(gcmf.Relation("traits", "a", "c", (rows, t.j, t.x.astype(float)), "bernoulli"))
    return gcmf.Collection(relations)


@pytest.mark.parametrize(
    ("parts", "options", "said"),
    [
        ({"cell": 0.5}, {}, "another fit: the cells of relation 'x' are not the same. Fit as before"),
        ({"ids": True}, {}, "another fit: the ids of entity set 'a' are not the same"),
        ({"without": True}, {}, "the cells of relation 'traits': no longer there"),
        ({}, {"tol": 1e-3}, "another fit: tol was 1e-06 and is 0.001. Fit as before"),
        ({}, {"random_state": 1}, "another fit: random_state was 0 and is 1"),
        ({}, {"priors": gcmf.Priors(tau_rate=1e-3)}, "priors was .*tau_rate=1e-10 and is .*tau_rate=0.001"),
        ({}, {"n_factors": 3, "keep": "nothing"}, "n_factors was 'auto' and is 3; keep was 'auto' and is 'nothing'"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_fit_is_refused_with_the_difference(parts, options, said, tmp_path):
    path = tmp_path / "c.gcmf"
    fit(changed(), path, callbacks=stop_after(3))
    before = path.read_bytes()
    with pytest.raises(StorageError, match=said):
        fit(changed(**parts), path, resume=True, **options)
    assert path.read_bytes() == before


def test_a_model_is_no_checkpoint(tmp_path):
    fit(ratings(), None, max_iter=3).save(tmp_path / "m.gcmf")
    with pytest.raises(StorageError, match="is a model, and no checkpoint"):
        fit(ratings(), tmp_path / "m.gcmf", resume=True)


# --- files --------------------------------------------------------------------------------------------------


def test_the_checkpoint_before_is_kept_and_taken_if_the_last_is_damaged(tmp_path):
    path, previous = tmp_path / "c.gcmf", tmp_path / "c.gcmf.previous"
    fit(ratings(), path, callbacks=stop_after(12))
    assert [gcmf.load(each).n_iter_ for each in (path, previous)] == [12, 11]
    path.write_bytes(path.read_bytes()[:-100])
    seen = []
    with pytest.warns(UserWarning, match=r"Going on from .*previous: .*c.gcmf cannot be read"):
        again = fit(ratings(), path, resume=True, callbacks=lambda info: seen.append(info.iteration))
    assert seen[0] == 12
    assert bits(again) == bits(fit(ratings(), None))
    assert {file.name for file in tmp_path.iterdir()} == {"c.gcmf", "c.gcmf.previous"}


def test_two_damaged_checkpoints_are_an_error(tmp_path):
    path = tmp_path / "c.gcmf"
    fit(ratings(), path, callbacks=stop_after(3))
    for each in (path, tmp_path / "c.gcmf.previous"):
        each.write_bytes(b"nothing")
    with pytest.raises(StorageError, match=r"c\.gcmf cannot be read"):
        fit(ratings(), path, resume=True)


def test_a_folder_without_links_keeps_the_checkpoint_before_too(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("gcmf.storage.files.os.link", no_links)
    fit(ratings(), tmp_path / "c.gcmf", callbacks=stop_after(4))
    assert gcmf.load(tmp_path / "c.gcmf.previous").n_iter_ == 3
