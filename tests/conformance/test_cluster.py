"""The cluster engine: the same bits for any number of workers, lost or not; those of one machine to rounding."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_engines_agree import iterate, make_sample, wide_collection

import cluster
import test_resume
from gcmf import GCMF, Collection, Relation
from gcmf.data import zeros
from gcmf.engines import cpu, select
from gcmf.engines.cluster import client
from gcmf.engines.cluster import engine as engine_module
from gcmf.engines.cluster.engine import ATTEMPTS, ClusterEngine
from gcmf.engines.cluster.parts import Cut
from gcmf.engines.cluster.stored import Store, Stored
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.layout import ways_of
from gcmf.errors import ClusterError, MissingExtraError, StorageError
from gcmf.likelihoods import Gaussian
from gcmf.options import FitOptions
from strategies import relation
from toys import GAUSSIAN, HYBRID, PROPER

#: One worker, and others: with as many threads, with more, and more of them than a small set has strips.
WORKERS = {"a": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 1, "c": 4}, {f"w{n:02}": 1 for n in range(40)}


@pytest.fixture(autouse=True)
def _many_strips(monkeypatch):
    monkeypatch.setattr(cpu, "RANGE_COST", 100)
    monkeypatch.setattr(engine_module, "FEW", 500)  # so that some sets are told in pieces, and some are not


def engine_of(problem, dtype, workers):
    return ClusterEngine(problem, dtype=dtype, cluster=cluster.Nearby(**workers))


def assert_same(runs):
    for other in runs[1:]:
        for what, value in runs[0].items():
            np.testing.assert_array_equal(value, other[what], err_msg=what)


def beside_itself():
    """Friends of a set among themselves, scores of theirs, and a second relation between the same sets: scales."""
    rng = np.random.default_rng(0)
    friends = (rng.random((40, 40)) < 0.3).astype(float)
    scores = [relation(name, ("a", "b"), (40, 30), likelihood=GAUSSIAN, layout="listed", missing=0.3, rng=rng)
              for name in ("one", "two")]  # fmt: skip
    return Collection([Relation("friends", "a", "a", friends, "bernoulli", symmetric=False), *scores])


DATA = {
    "listed": lambda: wide_collection(HYBRID, "listed"),
    "filled": lambda: wide_collection(GAUSSIAN, "filled"),
    "dense": lambda: wide_collection(GAUSSIAN, "dense"),
    "dense 0/1": lambda: wide_collection(HYBRID, "dense"),
    "beside itself": beside_itself,
    "noise, listed": lambda: wide_collection(Gaussian("both"), "listed"),
    "noise, filled": lambda: wide_collection(Gaussian("rows"), "filled"),
    "noise, dense": lambda: wide_collection(Gaussian("both"), "dense"),
}


@pytest.mark.parametrize("key", [None, 17], ids=["updates", "draws"])
@pytest.mark.parametrize("case", DATA)
def test_the_number_of_workers_changes_no_bit(case, key):
    sample = make_sample(DATA[case](), FitOptions(n_factors=5), 3)
    if key is not None:
        points = [[np.zeros_like(a) for a in group] for group in (sample.state.var, sample.state.bias_var)]
        sample = replace(sample, state=replace(sample.state, var=points[0], bias_var=points[1]))
    given, runs = sample.given._replace(key=key), []
    for workers in WORKERS:
        engine = engine_of(sample.problem, "float32", workers)
        runs.append(iterate(engine, sample.state.copy(), given, n_sweeps=2))
        runs[-1]["leans"] = np.concatenate([engine.lean(e, 1, given) for e in range(len(sample.spec.sizes))], axis=1)
    assert len(set(engine._cluster.asked)) > 5, "several workers had something to do"
    assert_same(runs)
    alone = CpuEngine(sample.problem, dtype="float32", n_threads=1)
    for what, value in iterate(alone, sample.state.copy(), given, n_sweeps=2).items():
        np.testing.assert_allclose(
            runs[0][what], value, rtol=2e-4, atol=2e-4 * max(1.0, np.nanmax(np.abs(value), initial=0.0))
        )


def test_strips_follow_each_other_and_cost_about_the_same():
    data = wide_collection(HYBRID, "listed")
    problem = make_sample(data, FitOptions(n_factors=2), 0).problem
    cut = Cut.of(problem, 1, ways_of(problem))
    n = len(cut.strips) - 1
    assert n > 8
    for weights in ([1], [1, 1, 1], [5, 1], [1] * 100):
        shares = cut.share(weights)
        assert [rows.start for rows in shares[1:]] == [rows.stop for rows in shares[:-1]]
        assert (shares[0].start, shares[-1].stop) == (0, 300)
    heavy, light = cut.share([5, 1])
    assert heavy.last - heavy.first == pytest.approx(5 * (light.last - light.first), abs=6)


class Unsteady(cluster.Nearby):
    """Workers that are lost now and then, and come back under other names."""

    def __init__(self, every, **n_threads):
        super().__init__(**n_threads)
        self.every, self.n_asked, self.n_waits = every, 0, 0

    def ask(self, questions):
        self.n_asked += 1
        if self.n_asked % self.every == 0:
            self.n_threads = {f"{name}'": n for name, n in [*list(self.n_threads.items())[1:], ("new", 2)]}
            raise client.LostError
        return super().ask(questions)

    def wait(self):
        self.n_waits += 1


def test_lost_workers_change_no_bit():
    sample = make_sample(DATA["listed"](), FitOptions(n_factors=4), 1)
    runs = []
    for workers in (cluster.Nearby(a=1, b=1, c=1), Unsteady(3, a=1, b=1, c=1)):
        engine = ClusterEngine(sample.problem, dtype="float32", cluster=workers)
        runs.append(iterate(engine, sample.state.copy(), sample.given, n_sweeps=3))
    assert workers.n_waits > 2
    assert_same(runs)


def test_workers_that_are_not_there_yet_are_waited_for():
    sample, late = make_sample(DATA["listed"](), FitOptions(n_factors=2), 1), Unsteady(10**6)
    late.wait = lambda: late.n_threads.update(a=1)
    engine = ClusterEngine(sample.problem, dtype="float32", cluster=late)
    engine.place(sample.state)
    assert np.isfinite(engine.sweep(0, sample.given).square).all()


def test_workers_that_are_always_lost_are_given_up(monkeypatch):
    monkeypatch.setattr("gcmf.engines.cluster.engine.time.sleep", lambda seconds: None)
    sample, workers = make_sample(DATA["listed"](), FitOptions(n_factors=2), 1), Unsteady(1, a=1)
    engine = ClusterEngine(sample.problem, dtype="float32", cluster=workers)
    engine.place(sample.state)
    with pytest.raises(ClusterError, match="10 times in a row"):
        engine.sweep(0, sample.given)
    assert workers.n_asked == ATTEMPTS


def test_parameters_are_told_when_they_have_changed(monkeypatch):
    """Once for each set that has moved, whoever needs it."""
    monkeypatch.setattr(engine_module, "FEW", 1 << 20)
    sample, told = make_sample(DATA["listed"](), FitOptions(n_factors=3), 1), []
    engine = engine_of(sample.problem, "float32", WORKERS[1])
    monkeypatch.setattr(engine._cluster, "tell", lambda pieces: [told.append(len(p.mean)) or p for p in pieces])
    engine.place(sample.state)
    sizes = list(sample.spec.sizes)
    assert sizes == [11, 300, 5]  # a, b and c: a has a relation with each of the others
    for e in (0, 1, 2):
        engine.sweep(e, sample.given)
    assert told == [11, 300, 5, 11]  # all of them, and the set that was swept first once more
    told.clear()
    engine.measure(sample.given)
    assert sorted(told) == [5, 300]
    told.clear()
    engine.measure(sample.given)
    assert told == []
    engine.scale(np.full((3, 3), 1.1))
    engine.measure(sample.given)
    assert sorted(told) == sorted(sizes)


def test_a_map_of_a_file_is_not_written_again(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(20.0))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r").view(np.ndarray)[4:14]
    store = Store(tmp_path / "nowhere")
    stored = store.put(mapped).cut(2, 5)
    assert stored.path == str((tmp_path / "x.npy").resolve())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(stored)).open(), [6.0, 7.0, 8.0])


def test_files_go_with_the_engine(tmp_path, monkeypatch):
    folder = tmp_path / "cells"
    folder.mkdir()
    monkeypatch.setattr(cluster.Nearby, "folder", lambda self: (folder, os.open(folder, os.O_RDONLY)))
    sample = make_sample(DATA["dense"](), FitOptions(n_factors=2), 1)
    engine = engine_of(sample.problem, "float32", WORKERS[1])
    engine.place(sample.state)
    engine.sweep(1, sample.given)
    assert list(folder.iterdir())
    del engine
    gc.collect()
    assert not folder.exists()


def test_a_worker_that_does_not_see_the_files_says_so(tmp_path):
    with pytest.raises(StorageError, match="must see the files"):
        Stored(str(tmp_path / "nowhere"), 0, 3, "<f4").open()


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"gcmf\[dask\]"):
        GCMF(2, device="dask", progress=False).fit({("a", "b"): np.eye(5)})


@pytest.fixture(scope="module")
def dask():
    """A client of two workers, which are threads of this process; it is the current one."""
    distributed = pytest.importorskip("distributed", reason="no Dask here: pip install 'gcmf[dask]'")
    started = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**started, silence_logs=logging.CRITICAL) as local, distributed.Client(local) as own:
        yield own


def ratings(n=3000, seed=0, noise="relation"):
    """Ratings of two factors, and which genres what is rated has."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(80, 2)), rng.normal(size=(50, 2))
    places = rng.choice(80 * 50, n, replace=False)
    i, j = np.divmod(places, 50)
    x = (users[i] * items[j]).sum(axis=1) + 0.5 * rng.normal(size=n)
    genres = (items @ rng.normal(size=(2, 6)) > 0).astype(float)
    scores = Relation("x", "user", "item", (i, j, x), Gaussian(noise))
    return Collection([scores, Relation("g", "item", "genre", genres, "bernoulli")])


OPTIONS = {
    "vb": {"max_iter": 12},
    "map": {"inference": "map", "max_iter": 12, "n_factors": 3, "priors": PROPER},
    "gibbs": {"inference": "gibbs", "n_samples": 4, "n_burn": 1, "max_iter": 5, "n_factors": 3},
}


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize(("method", "noise"), [*((method, "relation") for method in OPTIONS), ("vb", "both")])
def test_fits_by_dask_are_those_of_one_machine(dask, method, noise, tmp_path):
    data, models = ratings(noise=noise), []
    for device in ("dask", "cpu"):
        with sys.modules["dask"].config.set({"temporary-directory": str(tmp_path)}):
            model = GCMF(random_state=0, progress=False, n_threads=1, device=device, **OPTIONS[method])
            models.append(model.fit(data))
    far, near = models
    assert far.status_ is near.status_
    np.testing.assert_allclose(far.elbo_trace_, near.elbo_trace_, rtol=1e-5)
    np.testing.assert_allclose(far.predict("x"), near.predict("x"), rtol=0, atol=1e-3)
    gc.collect()
    assert list(tmp_path.iterdir()) == [], "files go with the fit"
    assert not [name for name in dask.who_has() if "answer" in name], "and so does what workers have"


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_long_questions_are_not_sent_with_tasks(dask, monkeypatch):
    """Where rows have priors of their own, a question is as long as what is told."""
    monkeypatch.setattr(client, "LONG", 300)
    data, n_long = test_resume.known(), []
    tell = client.DaskCluster.tell
    monkeypatch.setattr(
        client.DaskCluster, "tell", lambda self, given: n_long.append(type(given[0]).__name__) or tell(self, given)
    )
    far, near = (
        GCMF(3, random_state=0, progress=False, n_threads=1, device=device, max_iter=3).fit(data)
        for device in ("dask", "cpu")
    )
    np.testing.assert_allclose(far.elbo_trace_, near.elbo_trace_, rtol=1e-5)
    assert {"Question", "Parameters"} == set(n_long)


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
def test_new_rows_need_no_worker():
    """What a model is asked later is answered where it is asked."""
    data = ratings()
    model = GCMF(3, random_state=0, progress=False, max_iter=5, device="cpu").fit(data)
    answers = []
    for device in ("cpu", "dask"):
        model.set_params(device=device)
        answers.append(model.fold_in("user", {"x": (["new"] * 3, [1, 2, 3], [1.0, -1.0, 0.5])}).predict("x"))
    np.testing.assert_array_equal(*answers)


def test_an_error_of_a_task_is_raised_here(dask):
    """It is not tried again as if a worker had been lost."""
    sample = make_sample(DATA["listed"](), FitOptions(n_factors=2), 1)
    engine = ClusterEngine(sample.problem, dtype="float32")
    engine.place(sample.state)
    engine.sweep(0, sample.given)
    for file in Path(engine._store._folder).iterdir():
        file.unlink()
    engine._shares.clear()
    with pytest.raises(StorageError, match="must see the files"):
        engine.sweep(0, sample.given)


#: Fits with all that engines may be asked for.
KINDS = (
    "covariates and counts", "scales and mates", "drawn zeros", "more precise than float32", "chains with scales",
    "noise of rows and columns", "chains with noise of rows",
)  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_whole_fits_agree_and_go_on_from_a_checkpoint(case, monkeypatch, tmp_path):
    """The bound is that of one machine, and a fit that goes on ends with the bits of one that nobody has stopped."""
    for name, value in {"MANY": 1000, "PER_ENTITY": 4, "PER_CELL": 5}.items():
        monkeypatch.setattr(zeros, name, value)
    workers = {"a": 1, "b": 2}
    monkeypatch.setitem(select.ENGINES, "nearby", lambda problem, dtype, n_threads: engine_of(problem, dtype, workers))
    make, options = test_resume.CASES[case]
    options = {**options, "n_init": 1, "max_iter": 8, "n_samples": 3, "n_burn": 1}
    data = make()
    whole, copies = test_resume.stopped_at(data, tmp_path, **options, device="nearby")
    alone = test_resume.fit(data, tmp_path / "alone.gcmf", **options, device="cpu")
    np.testing.assert_allclose(whole.elbo_trace_, alone.elbo_trace_, rtol=1e-5)
    workers["c"] = 1  # and one more worker changes nothing
    again = test_resume.fit(data, copies[len(copies) // 2], resume=True, **options, device="nearby")
    assert test_resume.bits(again) == test_resume.bits(whole)


@pytest.mark.parametrize("noise", ["relation", "both"])
def test_cells_in_a_folder_are_read_there(tmp_path, monkeypatch, noise):
    """No cells are written for workers, who open the files of the collection; of noise, one number for each row."""
    pytest.importorskip("pyarrow")
    i, j = np.divmod(np.random.default_rng(0).choice(9000, 4000, replace=False), 60)
    table = pd.DataFrame({"user": i, "item": j, "score": np.random.default_rng(1).normal(size=len(i))})
    table.to_parquet(tmp_path / "x.parquet")
    data = Collection.from_parquet({("user", "item"): tmp_path / "x.parquet"}, folder=tmp_path / "cells")
    relations = [replace(bound, likelihood=Gaussian(noise)) for bound in data.relations.values()]
    data = data._with(dict(data.entities), relations)
    write, written = Store._written, []
    monkeypatch.setattr(Store, "_written", lambda store, array: written.append(array.size) or write(store, array))
    sample = make_sample(data, FitOptions(n_factors=3), 1)
    far, near = (
        engine_of(sample.problem, "float32", WORKERS[2]),
        CpuEngine(sample.problem, dtype="float32", n_threads=1),
    )
    swept = [iterate(engine, sample.state.copy(), sample.given) for engine in (far, near)]
    np.testing.assert_array_equal(swept[0]["mean of 0"], swept[1]["mean of 0"])
    assert sorted(written) == (sorted(sample.problem.sizes) if noise == "both" else [])
