import numpy as np
import pandas as pd
import pytest

from gcmf.datasets import Genes, find_data_folder, load_pollack2002
from gcmf.errors import DataError
from gcmf.experiments import genes as module
from gcmf.experiments.base import Progress, Size
from gcmf.experiments.genes import METHODS, Settings, claims, probability, proximity, relate, run_with

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


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_proximity_keeps_its_density(share):
    genes = toy(200)
    n = len(genes.start)
    near = proximity(genes, share, np.random.default_rng(0))
    data = module.collection(genes, dict.fromkeys(module.VIEWS, np.zeros((12, n), bool)), near)
    cells = data.relations["proximity"].cells
    i, j, x = cells.triplets()
    assert cells.n_cells == round(share * n * n)
    everywhere = np.indices((n, n)).reshape(2, -1)
    assert abs(x.mean() - probability(genes, *everywhere).mean()) < 0.01
    assert not x[genes.chromosome[i] != genes.chromosome[j]].any()
    assert x[i == j].all()


def test_a_run_in_small(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "load_pollack2002", lambda folder: toy())
    monkeypatch.setattr(module, "folder_of", lambda name: tmp_path)
    steps = []

    class Counting(Progress):
        def start(self, total, what):
            steps.append(total)

        def step(self, text=""):
            steps.append(text)

    outcome = run_with(Settings(("1",), (0.2, 0.6), 2, 2, max_iter=20), Counting(), seed=3)
    table = outcome.table
    assert len(table) == 2 * 2 * len(METHODS) == steps[0] == len(steps) - 1
    assert set(table["seed"]) == {3, 4}
    assert (table.loc[table["method"] == "gCMF", "relative"] == 1).all()
    assert (table["error"] - table[["expression", "copy_number"]].mean(axis=1)).abs().max() < 1e-12
    # The common factor is found: the error is that of the noise, not that of guessing the mean.
    assert table.loc[table["missing"] == 0.2, "error"].max() < 0.7
    assert len(outcome.claims) == 3
    assert "12 genes (chromosomes 1) in 12 samples" in outcome.notes[0]
    assert "144 cells, all of them observed" in outcome.notes[1]


def table_of(errors):
    rows = [
        {"missing": missing, "seed": 0, "method": method, "error": error}
        for missing, own in errors.items()
        for method, error in zip(METHODS, own, strict=True)
    ]
    return relate(pd.DataFrame(rows))


def test_claims_hold_as_in_the_paper():
    found = claims(table_of({0.5: (1.0, 1.1, 1.11, 1.2), 0.9: (1.3, 1.2, 1.21, 1.3)}))
    assert [claim.holds for claim in found] == [True, True, True]
    assert "1 of 1 missing shares" in found[0].ours


def test_claims_fail_where_they_do():
    found = claims(table_of({0.2: (1.0, 1.1, 1.11, 1.2), 0.5: (1.0, 0.9, 1.0, 0.95)}))
    assert [claim.holds for claim in found] == [False, False, False]
    assert "best at 1 of 2 missing shares (not at 50%)" in found[0].ours


def test_the_loader_says_what_it_needs(tmp_path):
    with pytest.raises(DataError, match=r"does not hold pollack4287\.npz\. They are of Pollack"):
        load_pollack2002(tmp_path)


@pytest.mark.data
@pytest.mark.skipif(FOLDER is None, reason="no data folder: set GCMF_DATA to run this")
def test_the_real_genes():
    genes = load_pollack2002(FOLDER / "pollack2002")
    assert genes.expression.shape == genes.copy_number.shape == (41, 4287)
    assert genes.take(np.flatnonzero(genes.chromosome == "8")).expression.shape == (41, 152)
    assert module.SETTINGS[Size.QUICK].share == 1.0
