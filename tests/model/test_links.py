"""Biases of entities that have no cells in a relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import gcmf
from gcmf.model.links import Layers, covariance, fill, joint, linked

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRUE = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 2.0]])
NOISE = np.array([0.05, 0.1, 0.1])


def drawn(n: int, seed: int = 0, *, lacking: float = 0.3) -> tuple[Layers, NDArray[np.float64]]:
    """Biases of three layers, of which two go together, as a fit with independent priors would know them."""
    rng = np.random.default_rng(seed)
    center, scale = np.array([0.5, -1.0, 0.0]), np.diag(TRUE).copy()
    truth = center + rng.multivariate_normal(np.zeros(3), TRUE, size=n)
    seen = rng.random((n, 3)) >= lacking
    heard = truth + np.sqrt(NOISE) * rng.standard_normal((n, 3))
    var = 1.0 / (1.0 / NOISE + 1.0 / scale)
    mean = var * (heard / NOISE + center / scale)
    return Layers(mean * seen, var * seen, seen, np.tile(center, (n, 1)), scale), truth


def test_the_covariance_is_found() -> None:
    layers, _ = drawn(4000)
    assert np.abs(covariance(layers) - TRUE).max() < 0.12  # 0.06


def test_only_layers_that_go_together_are_linked() -> None:
    found = [linked(drawn(60, seed)[0]) for seed in range(50)]
    # By chance two were missed, and one has the third layer as well.
    assert sum(groups == [[0, 1]] for groups in found) >= 45


def test_the_posterior_is_that_of_the_joint_normal() -> None:
    """One entity that has the first layer alone, against the formula for two normal variables."""
    layers, _ = drawn(4000)
    mean, var = fill(layers, joint(layers))
    sigma = covariance(layers.only([0, 1]))
    i = int(np.flatnonzero(layers.seen[:, 0] & ~layers.seen[:, 1])[0])
    # What its cells say, without the prior that the fit had for it.
    weight = 1.0 / layers.var[i, 0] - 1.0 / layers.scale[0]
    heard = (layers.mean[i, 0] / layers.var[i, 0] - layers.center[i, 0] / layers.scale[0]) / weight
    slope = sigma[0, 1] / (sigma[0, 0] + 1.0 / weight)
    assert mean[i, 1] == pytest.approx(layers.center[i, 1] + slope * (heard - layers.center[i, 0]), rel=1e-9)
    assert var[i, 1] == pytest.approx(sigma[1, 1] - slope * sigma[0, 1], rel=1e-9)


def test_what_was_seen_stays_and_what_is_not_linked_keeps_its_prior() -> None:
    layers, truth = drawn(500)
    mean, var = fill(layers, joint(layers))
    assert np.array_equal(mean[layers.seen], layers.mean[layers.seen])
    gone = ~layers.seen
    assert np.array_equal(mean[gone[:, 2], 2], layers.center[gone[:, 2], 2])
    told = gone[:, 1] & layers.seen[:, 0]
    error = np.mean((mean[told, 1] - truth[told, 1]) ** 2)
    assert error == pytest.approx(0.36, abs=0.1)  # 1 without the link
    assert error == pytest.approx(var[told, 1].mean(), rel=0.2)


def test_brightness_of_one_picture_tells_that_of_the_other() -> None:
    """Rows that lack a table: their level in it follows from their level in another."""
    rng = np.random.default_rng(0)
    level = rng.standard_normal(80)
    first = level[:, None] + 0.3 * rng.standard_normal((80, 30))
    second = 2.0 * level[:, None] + 0.3 * rng.standard_normal((80, 20))
    told = second.copy()
    told[60:] = np.nan
    data = gcmf.Collection([
        gcmf.Relation("first", "person", "pixel", first), gcmf.Relation("second", "person", "other pixel", told)
    ])  # fmt: skip
    model = gcmf.GCMF(random_state=0).fit(data)
    predicted = np.asarray(model.predict("second", np.repeat(np.arange(60, 80), 20), np.tile(np.arange(20), 20)))
    error = np.sqrt(np.mean((predicted.reshape(20, 20) - second[60:]) ** 2))
    assert error < 0.5  # 0.35; at the mean of the others it would be 2
