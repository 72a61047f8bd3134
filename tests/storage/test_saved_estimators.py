"""PCA, CCA and GFA come back from a file ready to transform, and know all that they knew."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import gcmf
import storage_samples as samples
from gcmf.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")


def same(one, other):
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, np.ndarray | float):
        assert np.array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("make", [samples.pca, samples.cca, samples.gfa])
def test_everything_comes_back(make, tmp_path):
    model = make()
    model.save(tmp_path / "m.gcmf")
    loaded = gcmf.load(tmp_path / "m.gcmf")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    public = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert public == {name for name in vars(loaded) if name.endswith("_") and not name.startswith("_")}
    for name in public:
        same(getattr(model, name), getattr(loaded, name))
    x, y = samples.tables()
    data = {"PCA": (x,), "CCA": (x, y.iloc[:, 0]), "GFA": ({"x": x, "y": None},)}[type(model).__name__]
    scores = model.transform(*data)
    same(scores, loaded.transform(*data))
    same(model.inverse_transform(scores), loaded.inverse_transform(scores))
    same(list(model.get_feature_names_out()), list(loaded.get_feature_names_out()))
    if not isinstance(model, gcmf.PCA):
        pd.testing.assert_frame_equal(model.structure(), loaded.structure())
    loaded.save(tmp_path / "again.gcmf")
    assert (tmp_path / "again.gcmf").read_bytes() == (tmp_path / "m.gcmf").read_bytes()


def test_a_target_of_one_column_stays_one(tmp_path):
    model = samples.cca()
    model.save(tmp_path / "m.gcmf")
    x, _ = samples.tables()
    predicted = gcmf.load(tmp_path / "m.gcmf").predict(x)
    assert predicted.shape == (12,)
    assert np.array_equal(predicted, model.predict(x))


def test_features_are_still_known_by_name(tmp_path):
    samples.gfa().save(tmp_path / "m.gcmf")
    x, y = samples.tables()
    with pytest.raises(DataError, match="in the same order: feature 0 was 'f0'"):
        gcmf.load(tmp_path / "m.gcmf").transform([x.iloc[:, ::-1], y])


def test_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        gcmf.PCA().save(tmp_path / "m.gcmf")
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    model = samples.gfa()
    model.save(tmp_path / "m.gcmf")
    x, y = samples.tables()
    again = gcmf.load(tmp_path / "m.gcmf").fit({"x": x, "y": y.to_numpy()})
    assert np.array_equal(again.components_[0], model.components_[0])
