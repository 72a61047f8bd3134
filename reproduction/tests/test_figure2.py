import io

import pytest

from reproduction import figure2
from reproduction.base import Progress
from reproduction.figure2 import LIVES, Settings, claims, lives, run_with


@pytest.fixture(scope="module")
def small():
    settings = Settings(1, max_iter=100, tol=1e-4)
    return run_with(settings, Progress(), seed=0), figure2.fit_one(settings, 0)[1]


def test_the_true_pattern_is_found(small):
    outcome, model = small
    assert sorted(lives(model)) == sorted(LIVES)
    assert sorted(outcome.table["lives_in"]) == sorted(LIVES)
    feeds = outcome.table.set_index("lives_in")["feeds"]
    assert feeds["ABC"] == "X1 X2 X3"
    assert feeds["CD"] == "X4"
    assert [claim.holds for claim in outcome.claims] == [True, True]


def test_a_wrong_pattern_is_told(small, monkeypatch):
    _, model = small
    monkeypatch.setattr(figure2, "LIVES", ("ABCD",))
    claim = claims([model])[1]
    assert claim.holds is False
    assert "in 0 of 1" in claim.ours


def test_blocks_are_made_of_their_own_factors_only(small, monkeypatch):
    _, model = small
    structure = model.structure()
    structure["relations"] = [(), *structure["relations"].to_list()[1:]]
    monkeypatch.setattr(model, "structure", lambda: structure)
    assert claims([model])[0].holds is False


def test_the_figure_names_blocks_and_factors(small):
    figure = small[0].figure
    figure.savefig(io.BytesIO())
    matrix, factors, blocks = ([text.get_text() for text in ax.texts] for ax in figure.axes)
    assert sorted(matrix) == sorted(name + turned for name in ("X1", "X2", "X3", "X4") for turned in ("", "ᵀ"))
    assert factors.count("0") == sum(4 - len(sets) for sets in LIVES)
    # Each of the two blocks of a matrix names the factors that live in both of its sets.
    assert [blocks.count(f"F{k + 1}") for k in range(6)] == [8, 8, 6, 2, 2, 2]
    assert blocks.count("X4ᵀ") == 1
