import operator

import pytest

from gcmf.datasets import simulate_cycle
from gcmf.errors import DataError
from gcmf.outcome import Status
from reproduction import fitting
from reproduction.fitting import side_by_side, timed_fit


def refuse(task):
    msg = f"no {task}"
    raise DataError(msg)


@pytest.mark.parametrize("n_processes", [1, 2])
def test_results_come_in_the_order_of_the_tasks(n_processes):
    told = []
    found = side_by_side(operator.neg, [3, 1, 2], n_processes=n_processes, done=told.append)
    assert found == [-3, -1, -2]
    assert sorted(told) == [1, 2, 3]


def test_errors_of_other_processes_are_raised_here():
    with pytest.raises(DataError, match="no 7"):
        side_by_side(refuse, [7], n_processes=2, done=lambda task: pytest.fail("it was not done"))


def test_a_fit_is_timed(monkeypatch):
    ticks = iter([10.0, 12.5])
    monkeypatch.setattr(fitting.time, "perf_counter", lambda: next(ticks))
    model, seconds = timed_fit(simulate_cycle(3, sizes=(8, 10)).train, 2, max_iter=2, random_state=0)
    assert (model.n_iter_, seconds) == (2, 2.5)


def test_an_interrupted_fit_stops_the_experiment():
    """Ctrl-C ends a fit with a model of its last sweep; the experiment must not go on with the next."""
    stop = [lambda step: True]
    model = fitting.GCMF(2, progress=False, callbacks=stop, random_state=0).fit(simulate_cycle(3, sizes=(8, 10)).train)
    assert model.status_ is Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        timed_fit(simulate_cycle(3, sizes=(8, 10)).train, 2, callbacks=stop, random_state=0)
