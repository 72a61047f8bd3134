import numpy as np
import pytest
from sklearn.datasets import load_digits

from gcmf.datasets import digits
from gcmf.errors import OptionError


def test_two_halves_and_their_proximity():
    data = digits(50)
    assert [str(r).split(" (")[0] for r in data.schema.relations] == [
        "left: image × left pixel",
        "right: image × right pixel",
        "near: left pixel × right pixel",
    ]
    images = load_digits().images[:50] / 16
    for name, columns in (("left", range(4)), ("right", range(4, 8))):
        pixels = data.entities[f"{name} pixel"].ids
        assert set(pixels) == {(row, column) for row in range(8) for column in columns}
        i, j, x = data.relations[name].cells.triplets()
        rows, cols = np.array(list(pixels)).T
        assert np.allclose(x, images[i, rows[j], cols[j]])


def test_near_pixels():
    data = digits(10, radius=2)
    i, j, x = data.relations["near"].cells.triplets()
    near = {
        (data.entities["left pixel"].ids[a], data.entities["right pixel"].ids[b])
        for a, b in zip(i[x == 1], j[x == 1], strict=True)
    }
    assert len(x) == 32 * 32
    assert ((0, 3), (0, 4)) in near
    assert ((0, 3), (1, 5)) not in near
    assert ((0, 2), (0, 4)) in near
    assert ((0, 2), (1, 4)) not in near
    # Straight across by 1 or 2, and diagonally by 1: 8 + 8 + 8 + 7 + 7 pairs.
    assert len(near) == 38


def test_how_many():
    assert digits().entities["image"].size == 1797
    with pytest.raises(OptionError, match=r"n_images=5000 must be from 2 to 1,797"):
        digits(5000)
