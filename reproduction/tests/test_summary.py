import pandas as pd
import pytest

from reproduction.summary import Tally, change, direction, quantiles, spread, tally


@pytest.mark.parametrize(
    ("ratios", "way"),
    [([0.9, 0.8, 0.95], -1), ([1.1, 1.2, 1.01], 1), ([0.9, 0.8, 1.2], 0), ([0.5], 0), ([1.0, 1.0], 0)],
)
def test_direction_needs_the_whole_range(ratios, way):
    assert direction(pd.Series(ratios)) == way


def test_one_stray_of_many_does_not_matter():
    assert direction(pd.Series([0.9] * 19 + [1.5])) == -1


@pytest.mark.parametrize(
    ("lower", "higher", "unclear", "holds"),
    [("abc", "", "d", True), ("abc", "d", "", None), ("ab", "", "cd", None), ("a", "bc", "", False),
     ("", "a", "bc", False), ("", "", "ab", None)],
)  # fmt: skip
def test_lower_holds_in_most_and_is_contradicted_in_none(lower, higher, unclear, holds):
    assert Tally(tuple(lower), tuple(higher), tuple(unclear)).lower_holds is holds


def test_a_mixed_finding_is_not_called_unclear():
    assert Tally(("a", "b"), ("c",), ()).undecided == "depends on the setting"
    assert Tally(("a",), (), ("b", "c")).undecided == "no clear difference"


def test_tally_names_the_settings():
    index = pd.MultiIndex.from_product([[0.1, 0.5, 0.9], [0, 1]], names=["missing", "seed"])
    found = tally(pd.Series([0.9, 0.8, 0.9, 1.2, 1.1, 1.2], index=index), "missing", "{:.0%}".format)
    assert found == Tally(("10%",), ("90%",), ("50%",))
    assert str(found) == "lower at 10%; higher at 90%; unclear at 50%"


def test_repetitions_in_words():
    values = pd.Series([0.9, 1.0, 1.1])
    assert spread(values, ".2f") == "1.00 (0.92 to 1.08)"
    assert change(values) == "+0.0% (-8.0% to +8.0%)"
    assert change(values[:1]) == "-10.0%"


def test_quantiles_by_group():
    table = pd.DataFrame({"m": [1, 1, 2], "x": [0.0, 10.0, 5.0]})
    assert quantiles(table, ["m"], "x").to_dict("list") == {
        "m": [1, 2], "median": [5.0, 5.0], "low": [1.0, 5.0], "high": [9.0, 5.0], "n": [2, 1],
    }  # fmt: skip
