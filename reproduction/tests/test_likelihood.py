import pandas as pd
import pytest
from matplotlib.figure import Figure

from reproduction import likelihood
from reproduction.base import Progress
from reproduction.likelihood import BASELINE, METHODS, Settings, claims, ratios, relate, run_with

SMALL = Settings(2, (1.0, 2.0), (1, 2), sizes=(12, 16), curve_m=3, max_iter=5, tol=1e-2)


class Counter(Progress):
    total = steps = 0

    def start(self, total, what):
        self.total = total

    def step(self, text=""):
        self.steps += 1


@pytest.fixture(scope="module")
def small():
    counter = Counter()
    return run_with(SMALL, counter, seed=3), counter


def test_a_row_per_fit(small):
    outcome, counter = small
    table = outcome.table
    assert len(table) == counter.total == counter.steps == 4 * 2 * 4
    assert set(table["method"]) == set(METHODS)
    assert set(table["seed"]) == {3, 4}
    assert set(zip(table["M"], table["strength"], strict=True)) == {(3, 1.0), (3, 2.0), (1, 1.0), (2, 1.0)}
    assert (table.loc[table["method"] == BASELINE, ["entries_relative", "means_relative"]] == 1).all(axis=None)
    assert (table["entries"] > table["bayes"] * 0.9).all()
    assert isinstance(outcome.figure, Figure)


def test_the_same_seed_gives_the_same_table(small):
    again = likelihood.measure(3, 2.0, settings=SMALL, progress=Progress(), seed=4)
    table = small[0].table
    own = table[(table["M"] == 3) & (table["strength"] == 2.0) & (table["seed"] == 4)]
    assert [row["entries"] for row in again] == own["entries"].to_list()


def made_up(means):
    """A table where the methods have these errors, in the order of METHODS, by strength and M."""
    rows = [
        {"M": m, "strength": strength, "seed": seed, "method": method, "entries": error, "means": error, "bayes": 0.1}
        for (m, strength), errors in means.items()
        for seed in (0, 1)
        for method, error in zip(METHODS, errors, strict=True)
    ]
    return relate(pd.DataFrame(rows))


def test_claims_hold_where_they_do():
    table = made_up({(5, 1.0): (0.7, 0.8, 0.9, 1.0), (5, 2.0): (0.5, 0.8, 0.9, 1.0), (3, 1.0): (0.8, 0.9, 0.9, 1.0)})
    found = claims(table, Settings(2, (1.0, 2.0), (3,)))
    assert [claim.holds for claim in found] == [True] * 7
    assert "0/1 entries: -37.5% to -12.5%, lower at 1, 2; higher at none" in found[0].ours
    assert found[4].ours == "30% at strength 1; 25 to 35% at strength 1; at most 50%, at strength 2"
    assert ratios(table, "means", "gCMF Bernoulli", "gCMF Gaussian").loc[5, 2.0, 0] == pytest.approx(0.625)


def test_claims_fail_where_they_do():
    table = made_up({(5, 1.0): (0.95, 0.9, 1.1, 1.0), (5, 2.0): (0.9, 0.95, 0.8, 1.0), (3, 1.0): (1.1, 0.9, 0.9, 1.0)})
    found = claims(table, Settings(2, (1.0, 2.0), (3,)))
    assert [claim.verdict for claim in found] == [*["depends on the setting"] * 3, "yes", "no", "no", "no"]
    assert "lower at 2; higher at 1;" in found[0].ours
    assert "at no strength looked at" in found[4].ours


def test_a_wrong_likelihood_that_is_better_everywhere():
    table = made_up({(5, 1.0): (0.95, 0.9, 1.1, 1.0), (5, 2.0): (0.99, 0.95, 0.8, 1.0)})
    assert claims(table, Settings(2, (1.0, 2.0), ()))[0].holds is False


def test_other_m_that_were_not_run_are_not_judged():
    table = made_up({(5, 1.0): (0.7, 0.8, 0.9, 1.0), (1, 1.0): (1.0, 1.0, 1.0, 1.0)})
    assert claims(table, Settings(2, (1.0,), (1,)))[-1].holds is None
