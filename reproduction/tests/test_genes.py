import numpy as np
import pandas as pd
import pytest

from gcmf.datasets import Genes, find_data_folder, load_pollack2002
from gcmf.errors import DataError
from reproduction import genes as module
from reproduction.base import Progress
from reproduction.genes import METHODS, Settings, claims, draw_ones, probability, proximity, relate, run_with

FOLDER = find_data_folder()


def toy(n=24, samples=12, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(samples, 1)) * rng.normal(size=(1, n))
    views = [common + 0.3 * rng.normal(size=(samples, n)) for _ in range(2)]
    views[0][0, 0] = np.nan
    chromosome = np.repeat(["1", "2"], n // 2)
    start = np.tile(np.arange(n // 2) * 5e6, 2)
    return Genes(*views, chromosome, start, np.arange(n).astype(str), np.arange(samples).astype(str))


def test_probability_falls_with_distance_and_ends_with_the_chromosome():
    genes = toy()
    p = probability(genes, np.array([0, 0, 0, 3]), np.array([0, 2, 12, 1]))
    assert np.allclose(p, [1.0, np.exp(-1.0), 0.0, np.exp(-1.0)])


def test_ones_have_their_probabilities():
    genes = toy(200)
    n = len(genes.start)
    i, j = draw_ones(genes, np.random.default_rng(0)).T
    expected = probability(genes, *np.indices((n, n)).reshape(2, -1)).sum()
    assert abs(len(i) / expected - 1) < 0.05
    assert (genes.chromosome[i] == genes.chromosome[j]).all()
    assert (i == j).sum() == n


@pytest.mark.parametrize(("zeros", "drawn"), [(2, 40), (1000, 380)])
def test_zeros_are_drawn_apart_from_the_ones_and_stand_for_all(zeros, drawn):
    ones = np.column_stack([np.arange(20), (3 * np.arange(20)) % 20])
    near = proximity(20, ones, zeros=zeros, rng=np.random.default_rng(0))
    cells = module.Collection([near], entities=dict.fromkeys(module.VIEWS.values(), np.arange(20)))
    i, j, x = cells.relations["proximity"].cells.triplets()
    assert {*zip(i[x == 1], j[x == 1], strict=True)} == {*map(tuple, ones)}
    assert (x == 0).sum() == drawn
    assert near.likelihood.zero_weight * drawn == pytest.approx(380)


def test_a_run_in_small(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "load_pollack2002", lambda folder: toy())
    monkeypatch.setattr(module, "folder_of", lambda name: tmp_path)
    steps = []

    class Counting(Progress):
        def start(self, total, what):
            steps.append(total)

        def step(self, text=""):
            steps.append(text)

    settings = Settings(("1",), (0.2, 0.6), 2, 2, max_iter=20, other_factors=(1, 3), other_missing=(0.6,))
    outcome = run_with(settings, Counting(), seed=3)
    table = outcome.table
    assert len(table) == 2 * 2 * len(METHODS)
    assert steps[0] == len(steps) - 1 == len(table) + 2 + 4
    assert set(table["seed"]) == {3, 4}
    assert (table.loc[table["method"] == "gCMF", "relative"] == 1).all()
    assert (table["error"] - table[["expression", "copy_number"]].mean(axis=1)).abs().max() < 1e-12
    # The common factor is found: the error is that of the noise, not that of guessing the mean.
    assert table.loc[table["missing"] == 0.2, "error"].max() < 0.7
    assert len(outcome.claims) == 5
    assert "12 genes (chromosomes 1) in 12 samples" in outcome.notes[0]
    assert "The proximity relation has 144 cells." in outcome.notes[1]
    own = table[(table["missing"] == 0.6) & (table["seed"] == 3)].set_index("method")["error"]
    assert f"60% missing, K = 2: gCMF {own['gCMF']:.4f}" in outcome.notes[2]
    assert all(f"60% missing, K = {k}: gCMF" in outcome.notes[2] for k in (1, 3))


def table_of(errors):
    rows = [
        {"missing": missing, "seed": seed, "method": method, "error": error}
        for missing, own in errors.items()
        for seed in (0, 1)
        for method, error in zip(METHODS, own, strict=True)
    ]
    return relate(pd.DataFrame(rows))


def test_claims_hold_as_in_the_paper():
    """What lies beyond 80% missing does not count for gCMF."""
    found = claims(table_of({0.5: (1.0, 1.1, 1.11, 1.2), 0.9: (1.3, 1.2, 1.21, 1.3)}))
    assert [claim.holds for claim in found] == [True] * 5
    assert "-9.1% (-9.1% to -9.1%) at 50%; lower at 50%; higher at none" in found[0].ours


def test_claims_fail_where_they_do():
    found = claims(table_of({0.2: (1.0, 0.99, 1.11, 0.9), 0.5: (1.0, 0.9, 1.0, 0.95)}))
    assert [claim.holds for claim in found] == [False, None, False, False, False]


def test_better_here_and_worse_there_depends():
    found = claims(table_of({0.2: (1.0, 1.1, 1.1, 1.1), 0.5: (1.0, 0.9, 1.1, 1.1)}))
    assert found[0].verdict == "depends on the setting"


def test_the_loader_says_what_it_needs(tmp_path):
    with pytest.raises(DataError, match=r"does not hold pollack4287\.npz\. They are of Pollack"):
        load_pollack2002(tmp_path)


@pytest.mark.data
@pytest.mark.skipif(FOLDER is None, reason="no data folder: set GCMF_DATA to run this")
def test_the_real_genes():
    genes = load_pollack2002(FOLDER / "pollack2002")
    assert genes.expression.shape == genes.copy_number.shape == (41, 4287)
    assert genes.take(np.flatnonzero(genes.chromosome == "8")).expression.shape == (41, 152)
