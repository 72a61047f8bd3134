"""Main pictures look as they did: compared in so few pixels that another font renderer makes no difference.

Those that show signs of factors, which are arbitrary, are not among them.

GCMF_PICTURES=write pytest tests/plot/test_as_before.py writes them anew; look at each before you commit it.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gcmf
from gcmf import plot

FOLDER = Path(__file__).parent / "as_before"
#: Width of the small pictures, and how far gray values (0 to 255) may be apart: on the mean, and in a patch of 8 × 8.
WIDTH, MEAN, PATCH = 160, 2.0, 14.0

PICTURES = {
    "schema": lambda model, _: plot.schema(model),
    "structure": lambda model, _: plot.structure(model),
    "variance_explained": lambda model, _: plot.variance_explained(model),
    "predicted_vs_observed": lambda model, test: plot.predicted_vs_observed(model, test, "ratings"),
    "calibration": lambda model, test: plot.calibration(model, test, "tags"),
    "compare": lambda model, test: plot.compare({"all": model, "again": model}, test),
}


@pytest.fixture(scope="module")
def fitted():
    """A model that every machine finds alike: strong factors, a precise fit in float64."""
    rng = np.random.default_rng(0)
    user, movie, tag = (rng.normal(size=(n, 3)) for n in (90, 60, 25))
    tag[:, 2] = 0
    x = user * [1.6, 1.2, 0.9] @ movie.T + 0.3 * rng.normal(size=(90, 60))
    y = (rng.random((60, 25)) < 1 / (1 + np.exp(-3 * movie @ tag.T))).astype(float)
    relations = [gcmf.Relation("ratings", "user", "movie", x), gcmf.Relation("tags", "movie", "tag", y, "bernoulli")]
    train, test = gcmf.Collection(relations).split(0.3, random_state=0)
    options = {"dtype": "float64", "random_state": 0, "tol": 1e-8, "max_iter": 3000, "progress": False}
    return gcmf.GCMF(4, **options).fit(train), test


def small(figure):
    """The gray values of a figure in few pixels."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    picture = Image.open(buffer).convert("L")
    return picture.resize((WIDTH, round(WIDTH * picture.height / picture.width)), Image.Resampling.BOX)


def differences(one, other):
    """How far two small pictures are apart on the mean, and in the patch where they are so most."""
    gap = np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float))
    h, w = (size // 8 * 8 for size in gap.shape)
    return gap.mean(), gap[:h, :w].reshape(h // 8, 8, w // 8, 8).mean(axis=(1, 3)).max()


@pytest.mark.parametrize("name", PICTURES)
def test_as_before(name, fitted):
    drawn, file = small(PICTURES[name](*fitted)), FOLDER / f"{name}.png"
    if os.environ.get("GCMF_PICTURES") == "write":
        FOLDER.mkdir(exist_ok=True)
        drawn.save(file, optimize=True)
    before = Image.open(file)
    assert abs(drawn.height - before.height) <= 2  # labels may be a pixel wider
    mean, patch = differences(drawn.resize(before.size), before)
    assert mean <= MEAN
    assert patch <= PATCH


def test_other_pictures_are_told_apart():
    pictures = [Image.open(FOLDER / f"{name}.png") for name in PICTURES]
    for k, one in enumerate(pictures):
        for other in pictures[k + 1 :]:
            mean, patch = differences(one, other.resize(one.size))
            assert mean > MEAN or patch > PATCH


def test_a_changed_picture_is_told_from_the_one_before(fitted):
    model, _ = fitted
    figure = plot.structure(model)
    figure.axes[0].patches[0].set_facecolor("white")
    _, patch = differences(small(figure), small(plot.structure(model)))
    assert patch > PATCH
