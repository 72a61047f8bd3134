import subprocess
import sys

import h5py
import numpy as np
import pytest
from scipy import sparse

import gcmf
from gcmf.errors import MissingExtraError, StorageError, UnknownIdError
from gcmf.omics import export_mofa, fit
from gcmf.omics.results import unit_factors, variance_table
from omics_toys import QUIET, N, adata, multi

pytestmark = QUIET
KINDS = ["gaussian", "poisson", "bernoulli"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    data = multi()
    data["rna"].var["chosen"] = [j != 3 for j in range(12)]
    model = fit(data, 4, use_var="chosen", standardize=["rna"], random_state=0)
    path = tmp_path_factory.mktemp("mofa") / "model.hdf5"
    export_mofa(model, path, data=data)
    return data, model, path


def test_the_file_is_laid_out_as_mofa2_lays_it_out(exported):
    data, model, path = exported
    with h5py.File(path) as file:
        assert file["views/views"].asstr()[:].tolist() == ["rna", "atac", "mut"]
        assert file["samples/group1"].asstr()[:].tolist() == list(data.obs_names)
        assert file["features/atac"].asstr()[:].tolist() == list(data["atac"].var_names)
        assert file["expectations/Z/group1"].shape == (model.n_factors_active_, N)
        assert file["expectations/W/rna"].shape == (model.n_factors_active_, 11)
        assert file["model_options/likelihoods"].asstr()[:].tolist() == KINDS
        assert file["data/rna/group1"].shape == (N, 11)


def test_the_data_are_those_of_the_model(exported):
    data, model, path = exported
    with h5py.File(path) as file:
        rna, mut = file["data/rna/group1"][:], file["data/mut/group1"][:]
        rest = rna - file["expectations/Z/group1"][:].T @ file["expectations/W/rna"][:]
        explained = file["variance_explained/r2_total/group1"][0]
    assert np.isnan(rna).all(axis=1).tolist() == [int(name[1:]) >= 50 for name in data.obs_names]
    np.testing.assert_array_equal(mut, data["mut"].to_df().loc[data.obs_names])
    # What is explained in total is explained by the weak factors too, which are not in the file.
    n = model.n_factors_active_
    z, w = (model.factors(entity, weak=True).to_numpy(dtype=float)[:, n:] for entity in ("obs", "rna"))
    rest -= model.fitted_.scale[0] * z @ w.T
    assert 100 * (1 - np.nansum(rest**2) / np.nansum((rna - np.nanmean(rna, axis=0)) ** 2)) == pytest.approx(
        explained, abs=1.0
    )


def test_cells_that_were_never_observed_are_missing(tmp_path):
    """Blanks of a sparse view are zeros or missing, as they were in the fit; a stored zero is a cell."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1)) @ rng.normal(size=(1, 9)) + 0.1 * rng.normal(size=(40, 9))
    stored = rng.random(x.shape) < 0.6
    i, j = np.nonzero(stored)
    cells = sparse.csr_matrix((x[i, j], (i, j)), shape=x.shape)
    cells.data[0] = 0.0
    whole = np.where(stored, x, np.nan)
    whole[i[0], j[0]] = 0.0
    for blanks, wanted in (("missing", whole), ("zero", np.nan_to_num(whole))):
        data = adata(cells.copy(), "g")
        model = fit(data, 2, blanks=blanks, random_state=0)
        export_mofa(model, tmp_path / "m.hdf5", data=data)
        with h5py.File(tmp_path / "m.hdf5") as file:
            found = file["data/X/group1"][:] + file["intercepts/X/group1"][:]
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    mofax = pytest.importorskip("mofax")
    model = fit(data, 2, blanks="missing", random_state=0)
    export_mofa(model, tmp_path / "n.hdf5", data=data)
    opened = mofax.mofa_model(str(tmp_path / "n.hdf5"))
    try:
        np.testing.assert_array_equal(np.isnan(opened.get_data()), ~stored)
    finally:
        opened.close()


def test_mofax_opens_it(exported):
    mofax = pytest.importorskip("mofax")
    data, model, path = exported
    opened = mofax.mofa_model(str(path))
    try:
        assert opened.shape == (N, 28)
        assert (opened.nfactors, opened.views, opened.likelihoods) == (model.n_factors_active_, list(data.mod), KINDS)
        np.testing.assert_allclose(opened.get_factors(), data.obsm["X_gcmf"])
        weights = opened.get_weights(df=True)
        assert weights.index.tolist()[:4] == ["g0", "g1", "g2", "g4"]
        np.testing.assert_allclose(opened.get_weights(views="atac"), data["atac"].varm["gcmf"])
        r2 = opened.get_variance_explained().pivot(index="View", columns="Factor", values="R2")
        expected = 100 * variance_table(model)
        np.testing.assert_allclose(r2.loc["rna", "Factor1"], expected.loc["rna", "F1"])
        np.testing.assert_allclose(r2.loc["mut", "Factor2"], expected.loc["mut", "F2"])
    finally:
        opened.close()


def test_any_model_of_shared_samples_can_be_exported(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(30, 1))
    x, y = (z @ rng.normal(size=(1, d)) + 0.2 * rng.normal(size=(30, d)) for d in (5, 6))
    model = gcmf.GCMF(2, random_state=0).fit({("patient", "a", "one"): x, ("b", "patient", "two"): y.T})
    export_mofa(model, tmp_path / "m.hdf5", samples="patient")
    with h5py.File(tmp_path / "m.hdf5") as file:
        assert "data" not in file
        assert file["features/two"].asstr()[:].tolist() == [str(j) for j in range(6)]
        product = file["expectations/Z/group1"][:].T @ file["expectations/W/two"][:]
    f, size = model.fitted_, unit_factors(model, "patient")[1]
    np.testing.assert_allclose(product, f.scale[1] * f.mean[0] @ f.mean[2].T, rtol=1e-4, atol=1e-4)
    assert (size > 0).all()


def test_faults_are_named(exported, tmp_path):
    data, model, _ = exported
    with pytest.raises(UnknownIdError, match="No entity set is named 'cells'; there are: obs, rna"):
        export_mofa(model, tmp_path / "m.hdf5", samples="cells")
    with pytest.raises(StorageError, match=r"Cannot write the MOFA2 file to .*there is no folder"):
        export_mofa(model, tmp_path / "absent" / "m.hdf5")
    with pytest.raises(StorageError, match="have no view 'rna'"):
        export_mofa(model, tmp_path / "m.hdf5", data=data["atac"])
    few = data.copy()
    few.mod["mut"] = few["mut"][:, :3].copy()
    with pytest.raises(StorageError, match="lack features of view 'mut'"):
        export_mofa(model, tmp_path / "m.hdf5", data=few)
    assert not (tmp_path / "m.hdf5").exists()
    noise = gcmf.GCMF(2, random_state=0).fit({("a", "b"): np.random.default_rng(0).normal(size=(30, 20))})
    assert noise.n_factors_active_ == 0
    with pytest.raises(StorageError, match="no active factor"):
        export_mofa(noise, tmp_path / "m.hdf5", samples="a")


def test_without_h5py_the_extra_is_named(exported, tmp_path, monkeypatch):
    _, model, _ = exported
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gcmf\[omics\]'"):
        export_mofa(model, tmp_path / "m.hdf5")


def test_importing_the_part_needs_no_extra():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['anndata', 'mudata', 'h5py']));"
        "import gcmf; gcmf.omics.genomic_proximity"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_of_networks_and_repeated_views_make_the_predictions(tmp_path, symmetric):
    """In a directed relation of the samples a factor is received by its mate."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(30, 2))
    theta = np.outer(u[:, 0], u[:, 1]) + (np.outer(u[:, 1], u[:, 0]) if symmetric else 0.0)
    noise = 0.2 * rng.normal(size=(30, 30))
    w = rng.normal(size=(2, 12))
    model = gcmf.GCMF(4, random_state=0, max_iter=100, tol=1e-4, bias=False).fit([
        gcmf.Relation("net", "obs", "obs", theta + (noise + noise.T if symmetric else noise), symmetric=symmetric),
        gcmf.Relation("one", "obs", "gene", u @ w + 0.2 * rng.normal(size=(30, 12))),
        gcmf.Relation("two", "obs", "gene", -u @ w + 0.2 * rng.normal(size=(30, 12))),
    ])  # fmt: skip
    export_mofa(model, tmp_path / "m.hdf5")
    with h5py.File(tmp_path / "m.hdf5") as file:
        z = file["expectations/Z/group1"][:].T
        for name in ("net", "one", "two"):
            weights, intercept = file[f"expectations/W/{name}"][:], file[f"intercepts/{name}/group1"][:]
            weak = model.fitted_.n_weak
            assert weak == 0
            np.testing.assert_allclose(intercept + z @ weights, model.predict(name), atol=1e-4)
