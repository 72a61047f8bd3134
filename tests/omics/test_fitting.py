import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gcmf
from gcmf.errors import DataError, OptionError
from gcmf.omics import fit, genomic_proximity
from gcmf.omics.results import variance_table
from omics_toys import QUIET, SIZES, N, adata, factors, matrices, multi

pytestmark = QUIET


@pytest.fixture(scope="module")
def fitted():
    data = multi()
    model = fit(data, 5, random_state=0)
    return data, model


def alike(one, other):
    return abs(np.corrcoef(one, other)[0, 1])


def test_likelihoods_are_guessed_and_only_features_have_intercepts(fitted):
    _, model = fitted
    assert {r.name: r.likelihood for r in model.schema_.relations} == {
        "rna": "gaussian", "atac": "negative_binomial", "mut": "bernoulli"}  # fmt: skip
    assert model.schema_.entities == ("obs", "rna", "atac", "mut")
    for name in SIZES:
        assert not model.biases(name, "rows").any()
        assert model.biases(name, "cols").any()


def test_planted_factors_are_found_under_the_names_of_the_object(fitted):
    data, model = fitted
    z = data.obsm["X_gcmf"]
    truth = factors()[[int(name[1:]) for name in data.obs_names]]
    assert z.shape == (N, model.n_factors_active_) == (N, 2)
    np.testing.assert_allclose((z**2).mean(axis=0), 1.0)
    assert alike(z[:, 0], truth[:, 0]) > 0.95
    seen = np.array([int(name[1:]) < 50 for name in data.obs_names])
    assert alike(z[seen, 1], truth[seen, 1]) > 0.95
    structure = data.uns["gcmf"]["structure"]
    assert structure["role"].tolist() == ["shared", "private"]
    assert structure["relations"].tolist() == ["rna, atac, mut", "rna"]
    assert list(structure.columns) == ["obs", "rna", "atac", "mut", "role", "relations"]


def test_factors_times_weights_are_the_predictions(fitted):
    data, model = fitted
    z, w = data.obsm["X_gcmf"], data["rna"].varm["gcmf"]
    predicted = model.predict("rna", data.obs_names, data["rna"].var_names, grid=True)
    moved = predicted - z @ w.T
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-4)
    # A sample without rna is predicted from what else is known of it.
    unseen = [int(name[1:]) >= 50 for name in data.obs_names]
    truth = matrices()["rna"][[int(name[1:]) for name in data.obs_names]]
    error = ((predicted - truth)[unseen] ** 2).mean()
    assert error < 0.8 * ((truth.mean(axis=0) - truth)[unseen] ** 2).mean()


def test_the_weights_of_all_modalities_stand_in_order(fitted):
    data, _ = fitted
    assert data.varm["gcmf"].shape == (sum(SIZES.values()), 2)
    for name in SIZES:
        at = data.var_names.get_indexer(data[name].var_names)
        np.testing.assert_array_equal(data.varm["gcmf"][at], data[name].varm["gcmf"])


def test_variance_is_counted_as_everywhere_and_for_mofa_from_the_intercepts(fitted):
    """What the object holds, the model says and prints; MOFA2 has a definition of its own."""
    data, model = fitted
    raw = data.uns["gcmf"]["variance_explained"]
    pd.testing.assert_frame_equal(raw, model.variance_explained())
    assert f"rna (gaussian), {raw.loc['rna', 'total']:.1%} explained" in repr(model)
    table = variance_table(model)
    assert list(table.columns) == ["F1", "F2", "total"]
    np.testing.assert_allclose(table.loc["rna", "F1"], raw.loc["rna", "F1"] / (1 - raw.loc["rna", "bias"]))
    x = data["rna"].X
    rest = x - model.predict("rna", data["rna"].obs_names, data["rna"].var_names, grid=True)
    assert table.loc["rna", "total"] == pytest.approx(1 - (rest**2).sum() / ((x - x.mean(axis=0)) ** 2).sum(), abs=0.01)


def test_what_is_written_goes_to_a_file_and_comes_back(fitted, tmp_path):
    data, _ = fitted
    data.write(tmp_path / "a.h5mu")
    again = mudata.read_h5mu(tmp_path / "a.h5mu")
    np.testing.assert_array_equal(again.obsm["X_gcmf"], data.obsm["X_gcmf"])
    np.testing.assert_array_equal(again.varm["gcmf"], data.varm["gcmf"])
    for table in ("structure", "variance_explained"):
        assert again.uns["gcmf"][table].astype(str).equals(data.uns["gcmf"][table].astype(str))
    params = again.uns["gcmf"]["params"]
    assert params["likelihoods"] == {"rna": "gaussian", "atac": "negative_binomial", "mut": "bernoulli"}
    assert (params["n_factors"], params["random_state"], params["status"]) == (5, 0, "CONVERGED")


def test_a_backed_anndata_gives_the_same(tmp_path):
    whole = adata(matrices()["rna"], "g")
    whole.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    fit(backed, 4, random_state=0)
    model = fit(whole, 4, random_state=0)
    np.testing.assert_array_equal(backed.obsm["X_gcmf"], whole.obsm["X_gcmf"])
    assert list(model.factors("X").index) == list(whole.var_names)
    whole.write_h5ad(tmp_path / "b.h5ad")
    assert anndata.read_h5ad(tmp_path / "b.h5ad").uns["gcmf"]["structure"].shape == (2, 4)
    backed.file.close()


def test_a_backed_mudata_gives_the_same_and_keeps_the_answer(tmp_path):
    whole = multi()
    whole.write(tmp_path / "a.h5mu")
    fit(whole, 4, random_state=0, tol=1e-4)
    backed = mudata.read_h5mu(tmp_path / "a.h5mu", backed="r+")
    assert backed.isbacked
    fit(backed, 4, random_state=0, tol=1e-4)
    np.testing.assert_array_equal(backed.obsm["X_gcmf"], whole.obsm["X_gcmf"])
    np.testing.assert_array_equal(backed["atac"].varm["gcmf"], whole["atac"].varm["gcmf"])
    assert np.isfinite(backed.obsm["X_gcmf"]).all(), "samples without rna have factors from the other views"
    backed.write()
    backed.file.close()
    again = mudata.read_h5mu(tmp_path / "a.h5mu")
    np.testing.assert_array_equal(again.obsm["X_gcmf"], whole.obsm["X_gcmf"])


def test_what_is_not_used_is_nan():
    data = multi()
    data["rna"].var["chosen"] = [j != 3 for j in range(12)]
    model = fit(data, 3, use_var="chosen", use_obs="intersection", random_state=0, tol=1e-4)
    assert np.isnan(data["rna"].varm["gcmf"]).all(axis=1).tolist() == [j == 3 for j in range(12)]
    dropped = np.isnan(data.obsm["X_gcmf"]).all(axis=1)
    assert set(data.obs_names[dropped]) == {f"s{i}" for i in range(50, N)}
    assert len(model.factors("obs")) == 50
    assert "g3" not in model.factors("rna").index
    assert data.uns["gcmf"]["params"]["use_obs"] == "intersection"


def test_blanks_of_sparse_data_are_zeros_unless_told():
    counts = sparse.csr_matrix(matrices()["atac"])
    dense = fit(adata(counts.toarray(), "p"), 2, random_state=0, tol=1e-4)
    filled = fit(adata(counts, "p"), 2, random_state=0, tol=1e-4)
    listed = fit(adata(counts, "p"), blanks="missing", random_state=0, tol=1e-4)
    rows, cols = ["s0", "s1"], ["p0", "p1"]
    np.testing.assert_allclose(dense.predict("X", rows, cols), filled.predict("X", rows, cols), rtol=0.05)
    assert listed.predict("X").mean() > 1.1 * filled.predict("X").mean()


def test_likelihoods_and_biases_can_be_given():
    data = multi()
    model = fit(data, likelihoods={"atac": "gaussian"}, bias={"atac": True}, random_state=0, tol=1e-4)
    assert [r.likelihood for r in model.schema_.relations] == ["gaussian", "gaussian", "bernoulli"]
    assert model.biases("atac", "rows").any()
    assert not model.biases("rna", "rows").any()


def test_standardizing_makes_the_units_of_features_irrelevant():
    x = matrices()["rna"]
    size = 10.0 ** np.arange(-3, 9)
    plain, rescaled = adata(x, "g"), adata(x * size, "g")
    one = fit(plain, 4, standardize=True, random_state=0)
    other = fit(rescaled, 4, standardize=["X"], random_state=0)
    np.testing.assert_allclose(one.predict("X") * size, other.predict("X"), rtol=1e-3)
    np.testing.assert_allclose(plain.varm["gcmf"], rescaled.varm["gcmf"], atol=1e-3)
    np.testing.assert_allclose(plain.uns["gcmf"]["params"]["standardized"]["X"], x.std(axis=0))
    with pytest.raises(OptionError, match="standardize= names 'Y'; the Gaussian views are"):
        fit(plain, 2, standardize=["Y"])


class TestAugment:
    def data(self):
        """Two views of the same forty genes, whose weights differ by chromosome."""
        rng = np.random.default_rng(3)
        z, w = rng.normal(size=(20, 1)), np.repeat([[2.0, -2.0]], 20, axis=1)
        x = [z @ w + rng.normal(size=(20, 40)) for _ in range(2)]
        data = mudata.MuData({"ge": adata(x[0], "e"), "cn": adata(x[1], "c")})
        for mod in data.mod.values():
            mod.var["chrom"], mod.var["start"] = ["1"] * 20 + ["2"] * 20, np.arange(40)
        return data

    def test_proximity_is_a_relation(self):
        data = self.data()
        near = genomic_proximity(data["ge"].var, data["cn"].var, scale=30.0, random_state=0)
        model = fit(data, 3, augment={("ge", "cn"): near}, random_state=0, tol=1e-3)
        assert model.schema_.relations[-1] == gcmf.data.schema.RelationSchema("ge-cn", "ge", "cn", "bernoulli")
        assert model.structure().loc["F1", "role"] == "shared"
        grid = model.predict("ge-cn", grid=True)
        assert grid[near.toarray() > 0].mean() > grid[near.toarray() == 0].mean() + 0.3
        assert list(data.uns["gcmf"]["variance_explained"].index) == ["ge", "cn", "ge-cn"]

    def test_it_follows_the_features_that_are_used(self):
        data = self.data()
        data["ge"].var["chosen"] = np.arange(40) >= 30
        near = genomic_proximity(data["ge"].var, data["cn"].var, scale=2.0)
        frame = pd.DataFrame(near.toarray(), index=data["ge"].var_names, columns=data["cn"].var_names)
        one = fit(data, augment={("ge", "cn"): near}, use_var="chosen", random_state=0, tol=1e-3)
        other = fit(data, augment={("ge", "cn"): frame}, use_var="chosen", random_state=0, tol=1e-3)
        assert one.predict("ge-cn").shape == (10, 40)
        np.testing.assert_allclose(one.predict("ge-cn"), other.predict("ge-cn"), atol=0.02)

    def test_relations_are_taken_as_they_are(self):
        data = self.data()
        pairs = gcmf.Relation("same", "ge", "cn", (["e1", "e2", "e3"], ["c1", "c2", "c9"], [1, 1, 0]), "bernoulli")
        model = fit(data, 2, augment=[pairs], random_state=0, tol=1e-3)
        assert [r.name for r in model.schema_.relations] == ["ge", "cn", "same"]

    def test_faults_are_named(self):
        data = self.data()
        with pytest.raises(DataError, match=r"shape \(40, 40\), in their order. Got \(3, 3\)"):
            fit(data, 2, augment={("ge", "cn"): np.eye(3)})
        with pytest.raises(DataError, match=r"joins 'ge' and 'cnv', but the modalities are 'ge', 'cn'\. Did you mean"):
            fit(data, 2, augment={("ge", "cnv"): np.eye(40)})


def test_views_and_unknown_options_are_refused():
    data = adata(matrices()["rna"], "g")
    with pytest.raises(DataError, match=r"is a view of another.*pass a \.copy\(\)"):
        fit(data[:, :3], 2)
    with pytest.raises(OptionError, match=r"has no option 'max_iters'\. Did you mean 'max_iter'"):
        fit(data, 2, max_iters=3)
    assert "X_gcmf" not in data.obsm


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_features_of_one_modality_may_be_related_with_themselves(make):
    x = np.arange(SIZES["rna"] ** 2, dtype=float).reshape(SIZES["rna"], -1) % 5
    for given, symmetric in ((x + x.T, True), (x, False)):
        model = fit(multi(), 2, augment={("rna", "rna"): make(given)}, random_state=0, tol=1e-2)
        (own,) = (relation for relation in model.schema_.relations if relation.name == "rna-rna")
        assert (own.rows, own.cols, own.symmetric) == ("rna", "rna", symmetric)


def test_a_matrix_that_mirrors_itself_but_for_rounding_is_symmetric():
    """As coexpressions in float32 do, in which small ones differ by more than their last bits."""
    x = np.corrcoef(np.random.default_rng(0).normal(size=(SIZES["rna"], 30)))
    for given in (x, x.astype(np.float32) + 1e-7 * np.random.default_rng(1).normal(size=x.shape).astype(np.float32)):
        assert (given != given.T).any()
        model = fit(multi(), 2, augment={("rna", "rna"): given}, random_state=0, tol=1e-2)
        (own,) = (relation for relation in model.schema_.relations if relation.name == "rna-rna")
        assert own.symmetric
