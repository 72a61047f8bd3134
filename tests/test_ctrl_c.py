"""Ctrl-C ends a fit at the end of a sweep, with its model; pressed twice, at once."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest

from gcmf import GCMF, Collection, Relation, Status
from gcmf.engines.cpu import CpuEngine
from gcmf.engines.reference import ReferenceEngine
from gcmf.interrupts import Interrupts
from gcmf.methods import variational
from gcmf.methods.variational import Variational

X = np.random.default_rng(0).normal(size=(25, 2)) @ np.random.default_rng(1).normal(size=(2, 18))
X += 0.5 * np.random.default_rng(2).normal(size=X.shape)
ENGINES = {"cpu": CpuEngine, "reference": ReferenceEngine}


def fit(**options):
    chosen = {"n_factors": 4, "random_state": 0, "progress": False, "dtype": "float64", **options}
    return GCMF(**chosen).fit({("a", "b"): X})


def press():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def press_in_sweep(monkeypatch):
    """Ctrl-C before the n-th call of an engine's sweep, so in the middle of an iteration if n is even."""

    def arm(device, *calls):
        original, seen = ENGINES[device].sweep, []

        def sweep(self, e, given):
            seen.append(e)
            if len(seen) in calls:
                press()
            return original(self, e, given)

        monkeypatch.setattr(ENGINES[device], "sweep", sweep)

    yield arm
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("device", ENGINES)
def test_the_sweep_is_finished_first(device, press_in_sweep, recwarn):
    whole = fit(max_iter=6, device=device)
    press_in_sweep(device, 12)
    model = fit(device=device)
    assert (model.status_, model.n_iter_) == (Status.INTERRUPTED, 6)
    np.testing.assert_array_equal(model.elbo_trace_, whole.elbo_trace_)
    assert [w.category.__name__ for w in recwarn] == ["ConvergenceWarning"], "that of max_iter"


def test_in_the_first_sweep_too(press_in_sweep):
    press_in_sweep("cpu", 1)
    model = fit()
    assert (model.status_, model.n_iter_) == (Status.INTERRUPTED, 1)
    assert np.isfinite(model.elbo_)


def test_restarts_end_too(press_in_sweep):
    press_in_sweep("cpu", 5)
    assert fit(n_init=5).n_iter_ == 3


def test_twice_ends_at_once(press_in_sweep):
    press_in_sweep("reference", 7, 8)
    with pytest.raises(KeyboardInterrupt):
        fit(device="reference")


def test_a_trial_of_new_factors_is_given_up(monkeypatch):
    """Trials begin where the bound is flat: pressed there, the model is that of before, and nothing weak is added."""
    before, trial = [], Variational._try

    def pressed(self, *args, **options):
        if not before:
            before.append((len(self._run.trace), self._run.trace[-1], self._run.posterior.n_factors))
            press()
        return trial(self, *args, **options)

    monkeypatch.setattr(Variational, "_try", pressed)
    model = fit()
    assert model.status_ is Status.INTERRUPTED
    assert [(model.n_iter_, model.elbo_, model.n_factors_active_)] == before
    assert model.fitted_.n_weak == 0


def test_the_handler_of_the_user_stays():
    pressed = []
    old = signal.signal(signal.SIGINT, lambda *args: pressed.append(args))
    try:
        with Interrupts() as interrupts:
            press()
        assert not interrupts.wanted
        assert len(pressed) == 1
    finally:
        signal.signal(signal.SIGINT, old)


def test_who_is_within_another_knows_what_it_knows():
    old = signal.signal(signal.SIGINT, lambda *_: None)  # a handler of the user's own: only SIGTERM is ours
    try:
        with Interrupts() as outer, Interrupts() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
            assert (outer.wanted, inner.wanted) == (True, True)
    finally:
        signal.signal(signal.SIGINT, old)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_cannot_and_do_not_catch_it():
    done = []
    thread = threading.Thread(target=lambda: done.append(fit(max_iter=200).status_))
    thread.start()
    thread.join()
    assert done == [Status.CONVERGED]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_heard_while_covariates_are_left_out(number, monkeypatch):
    passes = []

    def endless(spec, posterior):
        passes.append(0)
        assert len(passes) < 5, "nobody listens"
        os.kill(os.getpid(), number)
        return posterior

    monkeypatch.setattr(variational, "without_idle", endless)
    known = pd.DataFrame({"size": X[:, 0]})
    data = Collection([Relation("x", "a", "b", X)], entities={"a": known})
    model = GCMF(4, random_state=0, progress=False).fit(data)
    assert (model.status_, len(passes)) == (Status.INTERRUPTED, 1)
