import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gcmf
from gcmf import demo as module
from gcmf.cli.main import app
from gcmf.demo import ALONE, COMMON, GROUP, HALVES, PIXELS, findings, pictures, run_demo


@pytest.fixture(scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "N_IMAGES", 200)
        patch.setattr(module, "N_FACTORS", 6)
        patch.setattr(module, "MAX_ITER", 60)
        patch.setattr(module, "TOL", 1e-3)
        reports = []
        return run_demo(seed=1, report=lambda name, info: reports.append((name, info))), reports


def test_nothing_hidden_is_seen(small):
    demo, _ = small
    whole, train = demo.whole.relations, demo.train.relations
    right = train["right"].cells.triplets()
    assert not np.isin(demo.train.entities["image"].ids[right.i], demo.hidden).any()
    assert len(demo.hidden) == 50
    assert train["left"].n_cells == round(0.7 * whole["left"].n_cells)
    assert train["near"].n_cells == whole["near"].n_cells


def test_errors_are_of_the_hidden_cells(small):
    demo, _ = small
    assert list(demo.errors.index) == [GROUP, COMMON, ALONE]
    i, j, x = demo.whole.relations["right"].cells.triplets()
    hidden = np.isin(i, demo.hidden)
    guess = demo.model.predict("right", i[hidden], demo.whole.entities["right pixel"].ids[j[hidden]])
    assert np.isclose(demo.errors.loc[GROUP, HALVES], np.sqrt(np.mean((guess - x[hidden]) ** 2)))


def test_sharing_helps_where_a_half_is_unseen(small):
    demo, _ = small
    assert demo.errors.loc[GROUP, HALVES] < 0.97 * demo.errors.loc[ALONE, HALVES]


def test_each_fit_is_reported(small):
    demo, reports = small
    assert [name for name, info in reports if info is None] == ["gCMF", "CMF", "left", "right"]
    assert list(demo.fits.index) == ["gCMF", "CMF", "left", "right"]
    assert max(info.iteration for name, info in reports if info and name == "CMF") > 1


def test_pictures(small):
    demo, _ = small
    shown = pictures(demo, demo.hidden[:3])
    assert {name: images.shape for name, images in shown.items()} == dict.fromkeys(shown, (3, 8, 8))
    assert list(shown) == ["given", "predicted", "true"]
    given = shown["given"]
    assert np.isnan(given[:, :, 4:]).all()
    seen = ~np.isnan(given)
    assert np.array_equal(given[seen], shown["true"][seen])
    assert np.array_equal(given[seen], shown["predicted"][seen])
    assert not np.isnan(shown["predicted"]).any()


@pytest.mark.parametrize(
    ("group", "said"), [(0.5, "50% below that of the right"), (1.2, "20% above"), (1.001, "equal to that")]
)
def test_findings_follow_the_numbers(small, group, said):
    demo, _ = small
    errors = pd.DataFrame({HALVES: [group, 1.0, 1.0], PIXELS: [1.0, 1.0, 1.0]}, index=[GROUP, COMMON, ALONE])
    changed = module.Demo(demo.whole, demo.train, demo.model, errors, demo.fits, demo.hidden)
    assert said in findings(changed)[0]


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_command_shows_and_writes(small, tmp_path, monkeypatch, columns):
    demo, _ = small
    monkeypatch.setattr(module, "run_demo", lambda **_: demo)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out")], env={"COLUMNS": columns})
    assert result.exit_code == 0, result.output
    for words in ("The collection", "The structure found", "Held-out error", "F1", "near", "one matrix at a time"):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines()[:-1])) <= int(columns)
    assert f"{demo.errors.loc[GROUP, HALVES]:.4f}" in result.stdout
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    loaded = gcmf.load(tmp_path / "out" / "demo.gcmf")
    assert np.array_equal(loaded.predict("left"), demo.model.predict("left"))
