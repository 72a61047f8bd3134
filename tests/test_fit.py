"""The driver: how fits end, what callbacks see, which restart is kept."""

from __future__ import annotations

import gc
import re
import warnings
import weakref

import numpy as np
import pytest

from gcmf import GCMF, Collection, Priors, Relation, Status, load
from gcmf.engines import cpu
from gcmf.engines.reference import ReferenceEngine
from gcmf.errors import ConvergenceWarning, NumericalError, OptionError
from gcmf.fit import fit
from gcmf.interrupts import Interrupts
from gcmf.likelihoods import Bernoulli
from gcmf.loop import Loop, Report
from gcmf.methods import run as iteration
from gcmf.methods import warm_up
from gcmf.methods.run import GOOD, Run
from gcmf.methods.variational import Variational, most_factors, most_shared
from gcmf.model.elbo import elbo
from gcmf.model.posterior import given_of
from gcmf.model.spec import build
from gcmf.options import FitOptions
from gcmf.outcome import StepInfo


def low_rank(seed=0, shape=(25, 18), rank=2, noise=0.5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    return Collection([Relation("x", "a", "b", x + noise * rng.normal(size=shape))])


def run(data=None, callbacks=(), seed=0, **options):
    chosen = {"n_factors": 4, "dtype": "float64", "device": "reference", "max_iter": 200, **options}
    return fit(low_rank() if data is None else data, FitOptions(**chosen), np.random.default_rng(seed), callbacks)


def assert_usable(found, n_sweeps=None):
    """Finite everywhere, whatever happened."""
    for group in found.state.groups():
        assert all(np.isfinite(a).all() for a in group)
    assert np.isfinite(found.trace).all()
    if n_sweeps is not None:
        assert len(found.trace) == n_sweeps


def measured_bound(found):
    """The bound of what a run returned, by the reference engine, which knows nothing of the run."""
    engine = ReferenceEngine(build(low_rank(), FitOptions())[1])
    engine.place(found.state)
    return elbo(found.spec, found.posterior, engine.measure(given_of(found.spec, found.posterior)))


def test_converged():
    found = run(max_iter=400)
    assert found.status is Status.CONVERGED
    assert found.posterior.on.shape[1] == 2
    # Ten times `tol` after the twentieth sweep with weak factors, of the size of the bound or of the number of cells.
    assert found.trace[-1] - found.trace[-2] < 1e-5 * max(abs(found.trace[-1]), float(found.spec.n_cells.sum()))


def test_max_iter_is_kept_and_warned_of():
    found = run(max_iter=7)
    assert found.status is Status.MAX_ITER
    assert_usable(found, 7)
    model = GCMF(3, max_iter=4, random_state=0, progress=False)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model.fit(low_rank())
    assert (model.status_, model.n_iter_) == (Status.MAX_ITER, 4)


@pytest.mark.parametrize("max_iter", [30, 60, 120])
def test_no_more_sweeps_than_asked_for(max_iter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GCMF(6, max_iter=max_iter, tol=1e-3, random_state=0, progress=False).fit(low_rank(noise=3.0))
    assert model.n_iter_ <= max_iter


def test_all_pruned():
    noise = Collection([Relation("x", "a", "b", np.random.default_rng(0).normal(size=(30, 20)))])
    found = run(noise)
    assert found.status is Status.ALL_PRUNED
    assert found.posterior.on.shape == (2, 0)
    assert_usable(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GCMF(4, random_state=0, progress=False).fit(noise)
    assert model.n_factors_active_ == 0
    assert model.predict("x").shape == (30, 20)


def sparse_roles():
    """A directed network of two strong roles, of which half of the cells are seen."""
    rng = np.random.default_rng([1, 7])
    u, bias = rng.normal(size=(50, 2)), 0.3 * rng.normal(size=50)
    truth = u @ (u[:, ::-1] * [1.0, -0.5]).T + bias[:, None] + bias
    x = truth + 0.4 * rng.normal(size=truth.shape)
    there = rng.random(x.shape) < 0.5
    np.fill_diagonal(there, val=False)
    i, j = np.nonzero(there)
    return Collection([Relation("x", "a", "a", (i, j, x[i, j]), symmetric=False)])


@pytest.mark.parametrize("seed", [8, 38])
def test_another_start_is_tried_before_no_factor_is_said_to_pay(seed):
    """These seeds' first starts end with nothing; what is found, other seeds find at once."""
    starts, data = [], sparse_roles()
    model = GCMF(random_state=seed, callbacks=lambda info: starts.append(info.restart)).fit(data)
    assert set(starts) == {0, 1}
    assert (model.status_, model.n_factors_active_) == (Status.CONVERGED, 2)
    again = GCMF(random_state=seed, n_threads=1).fit(data)
    np.testing.assert_array_equal(again.elbo_trace_, model.elbo_trace_)
    other = GCMF(random_state=0).fit(data)
    assert np.sqrt(np.mean((model.predict("x") - other.predict("x")) ** 2)) < 0.02 * np.std(other.predict("x"))


def test_starts_without_a_factor_are_few_and_may_be_stopped():
    noise, starts = Collection([Relation("x", "a", "b", np.random.default_rng(0).normal(size=(30, 20)))]), []
    assert run(noise, [lambda info: starts.append(info.restart)]).status is Status.ALL_PRUNED
    assert set(starts) == {0, 1, 2}
    stopped = run(noise, [lambda info: info.restart == 1 and info.iteration == 2])
    assert stopped.status is Status.INTERRUPTED
    assert_usable(stopped)
    starts.clear()
    run(low_rank(), [lambda info: starts.append(info.restart)])
    assert set(starts) == {0}


def test_a_callback_may_stop_the_fit():
    found = run(callbacks=[lambda info: info.iteration == 5])
    assert found.status is Status.INTERRUPTED
    assert_usable(found, 5)


def test_only_true_stops_the_fit():
    found = run(callbacks=[lambda info: 1, lambda info: "stop", lambda info: None], max_iter=6)
    assert found.status is Status.MAX_ITER


def interrupt_at(n):
    def callback(info):
        if info.iteration == n:
            raise KeyboardInterrupt

    return callback


def test_keyboard_interrupt_leaves_the_model_of_the_last_sweep():
    found = run(callbacks=[interrupt_at(9)])
    assert found.status is Status.INTERRUPTED
    assert_usable(found, 9)
    assert found.trace == run(max_iter=9).trace
    model = GCMF(3, callbacks=[interrupt_at(3)], random_state=0, progress=False).fit(low_rank())
    assert model.status_ is Status.INTERRUPTED
    assert np.isfinite(model.predict("x")).all()


def test_an_interrupt_ends_the_restarts_too():
    seen = []

    def callback(info):
        seen.append(info.restart)
        return info.iteration == 2

    found = run(callbacks=[callback], n_init=3)
    assert found.status is Status.INTERRUPTED
    assert set(seen) == {0}


def test_nonfinite_returns_to_the_last_finite_model(monkeypatch):
    calls = []

    def broken(*args):
        calls.append(0)
        return np.nan if len(calls) > 40 else elbo(*args)

    monkeypatch.setattr(iteration, "elbo", broken)
    found = run()
    assert found.status is Status.NONFINITE
    assert_usable(found)
    assert 0 < len(found.trace) < 40
    monkeypatch.setattr(iteration, "elbo", elbo)
    same = run(max_iter=len(found.trace))
    assert found.trace == same.trace
    # The state is that of the last finite sweep itself, before the moves that followed it; but ε² has fallen since.
    assert 0.0 <= measured_bound(found) - found.trace[-1] < 0.1


@pytest.mark.parametrize(("fall", "status"), [(1e-8, Status.ELBO_DECREASED), (1e-12, Status.CONVERGED)])
def test_a_fall_is_told_from_rounding(monkeypatch, fall, status):
    """What falls by more than float64 loses in a pass over the cells is no convergence."""
    true = Run.bound

    def bound(self):
        return true(self) if len(self.trace) < 12 else self.trace[-1] - fall * self.size(self.trace[-1])

    monkeypatch.setattr(Run, "bound", bound)
    monkeypatch.setattr(Variational, "_restructure", lambda self: False)
    monkeypatch.setattr(Variational, "_grow", lambda self: False)
    found = run()
    assert found.status is status
    assert_usable(found, 12 if status is Status.ELBO_DECREASED else None)


def test_nonfinite_in_the_first_sweep_leaves_nothing_to_return(monkeypatch):
    monkeypatch.setattr(iteration, "elbo", lambda *args: np.inf)
    with pytest.raises(NumericalError, match="first sweep over 'x'"):
        run()


def test_a_falling_bound_is_noticed(monkeypatch):
    calls = []

    def falling(*args):
        calls.append(0)
        return elbo(*args) - (1e3 if len(calls) > 30 else 0.0)

    monkeypatch.setattr(iteration, "elbo", falling)
    found = run()
    assert found.status is Status.ELBO_DECREASED
    assert_usable(found)
    assert np.all(np.diff(found.trace) >= 0)


@pytest.mark.parametrize("status", Status)
def test_every_status_speaks(status):
    assert str(status) == status.value
    assert len(status.value) > 20


def test_n_init_keeps_the_best_bound():
    last = {}

    def callback(info):
        last[info.restart] = info.elbo

    found = run(callbacks=[callback], n_init=4, max_iter=25, n_factors=2)
    assert set(last) == {0, 1, 2, 3}
    assert len({round(value, 6) for value in last.values()}) > 1, "all starts ended alike, so the test shows nothing"
    assert found.trace[-1] == max(last.values())


def test_restarts_do_not_disturb_the_first_one():
    first = []
    run(max_iter=10, n_init=3, callbacks=[lambda info: first.append(info.elbo) if info.restart == 0 else None])
    assert first == list(run(max_iter=10).trace)
    alone = [run(max_iter=10, seed=seed).trace for seed in (0, 0, 1)]
    assert alone[0] == alone[1]
    assert alone[0] != alone[2]


def test_callbacks_see_every_sweep():
    seen = []
    found = run(callbacks=[seen.append], max_iter=15)
    assert all(isinstance(info, StepInfo) for info in seen)
    assert [info.iteration for info in seen] == list(range(1, 16))
    assert [info.elbo for info in seen] == list(found.trace)
    np.testing.assert_allclose([info.change for info in seen[1:]], np.diff(found.trace))
    assert {info.restart for info in seen} == {0}
    assert all(1 <= info.n_factors <= 4 for info in seen)
    assert repr(seen[0])


def test_an_error_in_a_callback_is_not_swallowed():
    def callback(info):
        msg = "mine"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="mine"):
        run(callbacks=[callback])


def test_a_known_pattern_is_kept():
    pattern = {"a": (True, True, False), "b": (True, True, False)}
    found = run(n_factors=3, pattern=pattern)
    np.testing.assert_array_equal(found.posterior.on, [[True, True, False]] * 2)
    assert not found.state.mean[0][:, 2].any()
    with pytest.raises(OptionError, match="entity sets are"):
        run(n_factors=3, pattern={"a": (True,), "z": (True,)})


def test_the_last_bound_is_that_of_the_model():
    """What `elbo_` says is the bound of what is returned, not of a model before the last change.

    While weak factors are refined, it is so up to a constant: the prior of α is another one then.
    """
    for max_iter in (21, 26, 31, 36):
        found = run(max_iter=max_iter, n_factors=6, refined=False)
        assert measured_bound(found) >= found.trace[-1] - 1e-6


def test_bounds_of_one_optimum_are_the_same_whatever_the_seed(tmp_path):
    """Where the trace ends depends on the weak factors that refining started with."""
    rng = np.random.default_rng(22)
    theta = 0.5 + 0.7 * rng.normal(size=(36, 2)) @ rng.normal(size=(2, 30))
    counts = rng.negative_binomial(2, 2.0 / (2.0 + np.exp(theta))).astype(float)
    data = Collection([Relation("x", "a", "b", counts, "negative_binomial")])
    models = [GCMF(random_state=seed, dtype="float64").fit(data) for seed in range(3)]
    assert np.ptp([model.elbo_trace_[-1] for model in models]) > 10.0
    # Measured: 0.1.
    assert np.ptp([model.elbo_ for model in models]) < 0.5
    models[0].save(tmp_path / "m.gcmf")
    assert load(tmp_path / "m.gcmf").elbo_ == models[0].elbo_


def test_map_fits_need_proper_priors_and_converge():
    with pytest.raises(OptionError, match="proper"):
        FitOptions(inference="map")
    priors = Priors(alpha_shape=2, alpha_rate=2, tau_shape=2, tau_rate=2)
    found = run(inference="map", priors=priors, max_iter=600)
    assert found.status is Status.CONVERGED
    assert not any(v.any() for v in found.state.var)
    assert np.all(np.diff(found.trace) >= -1e-9 * np.abs(found.trace[1:]))


def test_scaled_and_shifted_data_give_the_same_model():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 20)) + 0.3 * rng.normal(size=(30, 20))
    x[rng.random(x.shape) < 0.2] = np.nan
    plain, other = (GCMF(5, random_state=0, progress=False).fit({("a", "b"): y}) for y in (x, 1000 * x + 50))
    assert plain.status_ is Status.CONVERGED
    (p, sd), (q, sd2) = (m.predict("a-b", return_std=True) for m in (plain, other))
    np.testing.assert_allclose(q, 1000 * p + 50, rtol=1e-4, atol=1e-4 * 1000 * np.nanstd(x))
    np.testing.assert_allclose(sd2, 1000 * sd, rtol=1e-3)


def begun(data, **options):
    """A run that has not swept yet, and the options it was begun with."""
    chosen = FitOptions(dtype="float64", device="reference", **options)
    spec, problem = build(data, chosen)
    begun = Run(spec, ReferenceEngine(problem))
    on = np.ones((len(spec.sizes), chosen.n_factors), bool)
    begun.begin(on, dtype="float64", rng=np.random.default_rng(0))
    return begun, chosen


def test_a_turn_is_judged_by_bounds_that_touch_again_on_both_sides(monkeypatch):
    """After a sweep the quadratic forms of 0/1 cells no longer touch: touching again is no merit of a turn."""
    x = (low_rank().relations["x"].cells.rows.value > 0).astype(float).reshape(25, 18)
    run, _ = begun(Collection([Relation("x", "a", "b", x, Bernoulli("tight"))]), n_factors=3)
    for pooled in (True, True, True, True, False):
        run.sweep(pooled=pooled)
    before, bound = run.engine.fetch(), run.touched_bound()
    slack = bound - run.bound()
    worse = np.eye(3) + 0.003 * np.random.default_rng(0).normal(size=(2, 3, 3))
    tried = []
    monkeypatch.setattr(warm_up.gauge, "turns", lambda *args, **options: [worse])
    monkeypatch.setattr(warm_up, "update_alpha", lambda spec, posterior: posterior)
    true = Run.touched_bound
    monkeypatch.setattr(Run, "touched_bound", lambda self: tried.append(true(self)) or tried[-1])
    assert not warm_up.turn(run, 0)
    assert tried[0] == bound
    assert 0 < bound - tried[1] < slack, "worse, but by less than what touching again gains"
    assert run.touched_bound() == bound
    for a, b in zip(run.engine.fetch().mean, before.mean, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_growth_found_is_not_lost_to_a_later_overflow(monkeypatch):
    """The last good state is that of the trace's last entry, also where growth made that entry."""
    run, options = begun(low_rank(), n_factors=6, max_iter=60)
    method = Variational(run, options, np.random.default_rng(1), lambda: False)
    report = Report((), None, dict, Interrupts())
    Loop(run, method, options, report=report, restart=0).go()
    higher = run.trace[-1] + 100.0
    monkeypatch.setattr(Run, "bound", lambda self: higher)
    method._grow()
    assert run.trace[-1] == higher
    state, on = run.engine.fetch(), run.posterior.on
    run.restore(GOOD)
    np.testing.assert_array_equal(run.engine.fetch().mean[0], state.mean[0])
    np.testing.assert_array_equal(run.posterior.on, on)


def test_a_trial_switches_off_what_it_brought_for_nothing():
    """In a trial there are more factors than may stay: those that cost more than they gain go all the same."""
    run, options = begun(low_rank(), n_factors=6, max_iter=60)
    method = Variational(run, options, np.random.default_rng(1), lambda: False)
    method._max_factors = 3
    for _ in range(30):
        run.sweep()
    assert method._restructure()
    assert run.posterior.n_factors == 2


def test_the_most_factors_that_a_fit_takes_by_itself():
    """Half of the smallest choice of sets that leaves no relation without one of its two, whatever their order."""
    sizes = {"image": 60, "left": 14, "right": 12}
    pairs = [("image", "left"), ("image", "right"), ("left", "right")]
    for order in (pairs, pairs[::-1]):
        data = Collection([Relation(f"{a} {b}", a, b, np.eye(sizes[a], sizes[b])) for a, b in order])
        spec, _ = build(data, FitOptions())
        assert (most_shared(spec), most_factors(spec)) == (7, 13)
        common, _ = build(data, FitOptions(sharing="common"))
        assert most_factors(common) == 7


def test_an_unknown_device_is_refused_before_the_data_are_looked_at():
    message = "The 'device' parameter must be one of 'auto', 'cpu', 'gpu', 'dask', 'reference'. Got 'tpu' instead."
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        fit(None, FitOptions(device="tpu"), np.random.default_rng(0), ())


def test_the_engine_goes_when_the_fit_ends(monkeypatch):
    """Without a circle of references that waits for the collector: the cells it laid out are as large as the data."""
    engines, plain = [], cpu.CpuEngine.__init__

    def noted(self, *args, **options):
        plain(self, *args, **options)
        engines.append(weakref.ref(self))

    monkeypatch.setattr(cpu.CpuEngine, "__init__", noted)
    gc.disable()
    try:
        fit(Collection([Relation("x", "a", "b", np.eye(6))]), FitOptions(n_factors=2), np.random.default_rng(0), ())
        assert [engine() for engine in engines] == [None]
    finally:
        gc.enable()
