import numpy as np
import pandas as pd
import pytest

from gcmf.errors import DataError, OptionError
from gcmf.omics import genomic_proximity


def places(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"chrom": rng.choice(["1", "2", "X"], n), "start": rng.integers(0, 1000, n)})


def test_it_is_the_formula():
    a, b = places(40, 0), places(30, 1)
    distance = np.abs(a["start"].to_numpy()[:, None] - b["start"].to_numpy())
    same = a["chrom"].to_numpy()[:, None] == b["chrom"].to_numpy()
    expected = np.where(same, np.exp(-distance / 50.0), 0.0)
    found = genomic_proximity(a, b, scale=50.0, cutoff=0.05)
    np.testing.assert_allclose(found.toarray(), np.where(expected >= 0.05, expected, 0.0))
    assert found.nnz == (expected >= 0.05).sum() < same.sum()


def test_features_without_a_place_are_near_nothing():
    a = pd.DataFrame({"c": ["1", None, "1"], "s": [5, 5, np.nan]})
    np.testing.assert_array_equal(genomic_proximity(a, a, chrom="c", start="s").toarray(), np.diag([1.0, 0, 0]))


def test_it_can_be_drawn():
    a = pd.DataFrame({"chrom": ["1"] * 2000, "start": 0})
    b = pd.DataFrame({"chrom": ["1", "1"], "start": [0, 100]})
    drawn = genomic_proximity(a, b, scale=100.0, random_state=0).toarray()
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert drawn[:, 0].all()
    assert drawn[:, 1].mean() == pytest.approx(np.exp(-1), abs=0.04)


def test_faults_are_named():
    a = places(3, 0)
    with pytest.raises(DataError, match=r"chrom='chr' is not a column of var_a\..*"):
        genomic_proximity(a, a, chrom="chr")
    with pytest.raises(DataError, match="start='start' is not a column of var_b"):
        genomic_proximity(a, a[["chrom"]])
    with pytest.raises(OptionError, match=r"scale must be positive\. Got 0"):
        genomic_proximity(a, a, scale=0)
    with pytest.raises(OptionError, match="cutoff below 1"):
        genomic_proximity(a, a, cutoff=1.0)
