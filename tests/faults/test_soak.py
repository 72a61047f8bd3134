"""One process that fits and answers for long, in short; `make soak` for long."""

from __future__ import annotations

import pytest

from fuzz import soak
from gcmf.errors import ConvergenceWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}")


def test_fits_and_predictions_stay_the_same():
    memory = soak.Memory()
    assert soak.many_fits(9, memory) == []
    assert len(memory.sizes) == 9


def test_eight_threads_ask_a_model_that_is_replaced():
    assert soak.many_answers(120, soak.Memory()) == []


def test_a_wrong_answer_is_seen(monkeypatch):
    """Of a model that is neither of the two."""
    fitted = soak.fitted
    asked = iter([0, 1])
    monkeypatch.setattr(soak, "fitted", lambda seed, kind: fitted(next(asked) + 5, kind))
    (fault, *_) = soak.many_answers(2000, soak.Memory())
    assert fault.endswith("answered what none of the models says")


def test_growth_is_seen():
    assert soak.Memory([100, 500, 200, 200, 200, 201, 200, 200, 200]).growth == 0.0
    assert soak.Memory([100, 200, 200, 200, 210, 220, 230, 240, 250]).growth > soak.MOST_GROWTH
