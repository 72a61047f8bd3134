"""Two stages: the structure, as many factors as pay for themselves; then weak factors, which only predictions show."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import gcmf
import storage_samples as samples
from gcmf import GCMF, Collection, Relation, Status
from gcmf.cli.main import app
from gcmf.errors import ConvergenceWarning, OptionError, StorageError
from gcmf.fit import fit
from gcmf.io.results import describe, export
from gcmf.methods import stages
from gcmf.options import FitOptions


def faint(seed=3, kind="bernoulli", frame="pandas"):
    """One factor to be seen and 16 that hardly are, in two relations; θ of the first, and which cells it lacks.

    Of the seeds 0 to 5, weak factors are left in four.
    """
    rng = np.random.default_rng(seed)
    size = np.array([1.5] + [0.5] * 16)
    u, v, w = (size * rng.normal(size=(d, 17)) for d in (80, 70, 40))
    theta = u @ v.T
    x = theta + rng.normal(size=theta.shape)
    hidden = rng.random(theta.shape) < 0.2
    other = w @ v.T
    y = (rng.random(other.shape) < 1 / (1 + np.exp(-other))).astype(float)
    first = Relation("x", "a", "b", np.where(hidden, np.nan, x))
    second = Relation("y", "c", "b", y if kind == "bernoulli" else other + rng.normal(size=other.shape), kind)
    if frame == "polars":
        i, j = (axis.ravel() for axis in np.indices(y.shape))
        long = pl.DataFrame({"c": i, "b": j, "y": y.ravel()})
        second = Relation.from_frame("y", long, rows="c", cols="b", row="c", col="b", value="y", likelihood=kind)
    return Collection([first, second]), theta, hidden


def fitted(data, *, refined=True, **options):
    model = GCMF(random_state=0, progress=False, **options)
    return model._fit(data, model._options(refined=refined))


@pytest.fixture(scope="module")
def model():
    made = fitted(faint()[0])
    assert made.fitted_.n_weak > 0, "nothing weak is left, so the tests show nothing"
    return made


@pytest.fixture(scope="module")
def plain():
    return fitted(faint()[0], refined=False)


# --- what they are for --------------------------------------------------------------------------------------


def test_the_structure_stays_and_predictions_become_better(model, plain):
    """Errors of the hidden cells against their θ are 0.969 and 0.901."""
    _, theta, hidden = faint()
    assert plain.fitted_.n_weak == 0
    assert model.n_factors_active_ == plain.n_factors_active_
    np.testing.assert_array_equal(model.fitted_.on[:, : model.n_factors_active_], plain.fitted_.on)
    error, without = (np.sqrt(np.mean((one.predict("x") - theta)[hidden] ** 2)) for one in (model, plain))
    assert error < 0.95 * without


def test_predictions_are_made_with_them(model):
    f = model.fitted_
    m = f.mean[0] @ f.mean[1].T * f.scale[0] + f.center[0]
    m += f.scale[0] * (f.bias_mean[0][:, None] + f.bias_mean[1])
    np.testing.assert_allclose(model.predict("x"), m, rtol=1e-5, atol=1e-5)
    weak = slice(f.n_factors, None)
    assert np.std(f.mean[0][:, weak] @ f.mean[1][:, weak].T) > 0.05


def test_they_live_in_all_sets_and_come_last(model):
    f = model.fitted_
    assert f.on.shape[1] == f.n_factors + f.n_weak
    assert f.on[:, f.n_factors :].all()
    assert f.factor_names == [f"F{k + 1}" for k in range(f.n_factors)] + [f"W{k + 1}" for k in range(f.n_weak)]
    assert model.n_factors_active_ == f.n_factors


# --- what shows them ----------------------------------------------------------------------------------------


def test_tables_show_them_only_if_asked(model):
    n, names = model.n_factors_active_, model.fitted_.factor_names
    for entity, size in (("a", 80), ("b", 70), ("c", 40)):
        for std in (False, True):
            few, all_of_them = (model.factors(entity, std=std, weak=weak) for weak in (False, True))
            assert all_of_them.shape == (size, len(names))
            pd.testing.assert_frame_equal(few, all_of_them[names[:n]])
    few, all_of_them = model.structure(), model.structure(weak=True)
    pd.testing.assert_frame_equal(few, all_of_them.iloc[:n])
    assert list(all_of_them.index) == names
    assert set(all_of_them["role"].iloc[n:]) == {"weak"}
    assert "weak" not in set(few["role"])
    assert set(all_of_them["relations"].iloc[n:]) == {("x", "y")}
    few, all_of_them = model.variance_explained(), model.variance_explained(weak=True)
    assert list(all_of_them) == [*names, "bias", "total"]
    pd.testing.assert_frame_equal(few, all_of_them[[*names[:n], "bias", "total"]])
    assert f"{n} active factors" in repr(model)


@pytest.mark.parametrize("table", ["factors", "structure", "variance_explained"])
def test_only_true_and_false_ask(model, table):
    given = ("a",) if table == "factors" else ()
    with pytest.raises(OptionError, match="The 'weak' parameter must be one of True, False"):
        getattr(model, table)(*given, weak="yes")


def test_tables_of_polars_show_them_too():
    made = fitted(faint(frame="polars")[0], tol=1e-4)
    assert made.fitted_.n_weak > 0
    names = made.fitted_.factor_names
    assert made.factors("a", weak=True).columns == ["a", *names]
    assert made.structure(weak=True)["factor"].to_list() == names
    assert made.structure()["factor"].to_list() == names[: made.n_factors_active_]


def test_what_is_described_exported_and_drawn_shows_none(model, tmp_path):
    names = model.fitted_.factor_names[: model.n_factors_active_]
    said = describe(model)
    assert [factor["name"] for factor in said["factors"]] == names
    assert list(said["relations"][0]["explained"]) == [*names, "bias", "total"]
    for file in export(model, tmp_path / "tables", kind="csv"):
        assert not any(column.startswith("W") for column in pd.read_csv(file))
    assert pd.read_csv(tmp_path / "tables" / "structure.csv")["factor"].tolist() == names
    model.save(tmp_path / "m.gcmf")
    shown = CliRunner().invoke(app, ["describe", str(tmp_path / "m.gcmf"), "--json"])
    assert [factor["name"] for factor in json.loads(shown.stdout)["factors"]] == names
    for draw in (gcmf.plot.structure, gcmf.plot.variance_explained):
        figure = draw(model)
        ticks = {tick.get_text() for ax in figure.axes for tick in ax.get_xticklabels()}
        assert set(names) <= ticks
        assert not any(tick.startswith("W") for tick in ticks)


# --- what keeps them ----------------------------------------------------------------------------------------


def test_they_are_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "m.gcmf")
    loaded = gcmf.load(tmp_path / "m.gcmf")
    assert (loaded.fitted_.n_weak, loaded.n_factors_active_) == (model.fitted_.n_weak, model.n_factors_active_)
    for relation in ("x", "y"):
        for one, other in zip(*(each.predict(relation, return_std=True) for each in (model, loaded)), strict=True):
            np.testing.assert_array_equal(one, other)
    pd.testing.assert_frame_equal(loaded.factors("b", weak=True), model.factors("b", weak=True))
    pd.testing.assert_frame_equal(loaded.structure(weak=True), model.structure(weak=True))
    pd.testing.assert_frame_equal(loaded.variance_explained(), model.variance_explained())


@pytest.mark.parametrize("n_weak", [-1, 99])
def test_a_file_with_more_of_them_than_factors_is_refused(model, tmp_path, n_weak):
    path = tmp_path / "m.gcmf"
    model.save(path)
    document, tensors = samples.unpack(path)
    document["fitted"]["n_weak"] = n_weak
    samples.pack(path, document, tensors)
    with pytest.raises(StorageError, match="fitted/n_weak is not a number from 0 to"):
        gcmf.load(path)


def test_the_same_bits_for_any_number_of_threads():
    one, two = (GCMF(random_state=0, progress=False, n_threads=n).fit(faint()[0]) for n in (1, 2))
    np.testing.assert_array_equal(one.elbo_trace_, two.elbo_trace_)
    for entity in ("a", "b", "c"):
        pd.testing.assert_frame_equal(one.factors(entity, weak=True), two.factors(entity, weak=True), check_exact=True)
    np.testing.assert_array_equal(one.predict("y"), two.predict("y"))


# --- the stages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
def test_the_bound_rises_through_both_stages(kind, monkeypatch):
    begun = []
    begin = stages.Refinement._begin
    monkeypatch.setattr(stages.Refinement, "_begin", lambda self: begun.append(len(self._run.trace)) or begin(self))
    made = fitted(faint(kind=kind)[0], dtype="float64")
    trace = made.elbo_trace_
    assert made.status_ is Status.CONVERGED
    assert 0 < begun[-1] < made.n_iter_ - 2  # those before are of the trials with hidden cells
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    # The second stage goes on from where the first one was, and rises in its turn.
    assert trace[begun[-1]] == pytest.approx(trace[begun[-1] - 1], rel=1e-9)
    assert trace[-1] > trace[begun[-1]] + 1.0
    # Where the sweeps end with the first stage, nothing weak has been added: it would be random.
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        first = fitted(faint(kind=kind)[0], dtype="float64", max_iter=begun[-1])
    assert (first.status_, first.fitted_.n_weak) == (Status.MAX_ITER, 0)


def test_a_known_pattern_proper_priors_and_point_estimates_have_no_second_stage():
    data, proper = faint()[0], gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
    pattern = dict.fromkeys("abc", (True, True))
    for options in ({"n_factors": 2, "pattern": pattern}, {"n_factors": 3, "priors": proper},
                    {"n_factors": 3, "priors": proper, "inference": "map"}):  # fmt: skip
        found = fit(data, FitOptions(tol=1e-3, **options), np.random.default_rng(0), ())
        assert found.posterior.n_weak == 0


def test_special_cases_have_no_second_stage(monkeypatch):
    """Their components are the answer: none of them is there for predictions alone."""
    began = []
    monkeypatch.setattr(stages.Refinement, "_begin", lambda self: began.append("again"))
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 3)) * [2.0, 0.4, 0.4]
    x, y = (z @ rng.normal(size=(3, d)) + rng.normal(size=(40, d)) for d in (12, 10))
    gcmf.PCA(random_state=0).fit(x)
    gcmf.CCA(random_state=0).fit(x, y)
    gcmf.GFA(random_state=0).fit([x, y])
    assert not began
    GCMF(random_state=0, progress=False).fit({("a", "b"): x})
    assert began


def test_weak_factors_stay_below_the_cap():
    data = faint()[0]
    n_strong = fitted(data, refined=False).n_factors_active_
    made = fitted(data, n_factors=n_strong + 1)
    assert (made.status_, made.n_factors_active_) == (Status.CONVERGED, n_strong)
    assert made.fitted_.n_weak <= 1
    full = fitted(data, n_factors=n_strong)
    assert (full.n_factors_active_, full.fitted_.n_weak) == (n_strong, 0)


def test_pure_noise_has_nothing_to_refine():
    made = fitted({("a", "b"): np.random.default_rng(0).normal(size=(30, 20))})
    assert made.status_ is Status.ALL_PRUNED
    assert made.fitted_.n_weak == 0


# --- how many there are -------------------------------------------------------------------------------------


def thirty():
    rng = np.random.default_rng(0)
    return {("a", "b"): rng.normal(size=(120, 30)) @ rng.normal(size=(30, 100)) + rng.normal(size=(120, 100))}


def test_as_many_factors_as_pay_for_themselves():
    made = GCMF(random_state=0, progress=False, tol=1e-5).fit(thirty())
    assert made.n_factors == "auto"
    assert made.n_factors_active_ == 30
    assert made.status_ is Status.CONVERGED


def test_a_cap_that_binds_is_warned_of():
    with pytest.warns(ConvergenceWarning, match="all factors are in use and more would raise the bound: raise n_fact"):
        made = GCMF(5, random_state=0, progress=False).fit(thirty())
    assert (made.status_, made.n_factors_active_, made.fitted_.n_weak) == (Status.CAPPED, 5, 0)
    assert np.all(np.diff(made.elbo_trace_) >= -3e-6 * np.abs(made.elbo_trace_[1:]))


def test_auto_starts_with_few_factors_where_tables_are_small():
    seen = []
    made = GCMF(random_state=0, progress=False, callbacks=lambda info: seen.append(info.n_factors))
    rng = np.random.default_rng(0)
    made.fit({("a", "b"): rng.normal(size=(9, 1)) @ rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(9, 4))})
    assert seen[0] == 5
    assert made.n_factors_active_ == 1
