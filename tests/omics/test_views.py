import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from gcmf.errors import DataError, OptionError
from gcmf.omics.views import divide_columns, feature_deviation, guess_likelihood, read_views
from omics_toys import QUIET, N, adata, matrices, multi

pytestmark = QUIET


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0, 1], [1, 1]], "bernoulli"),
        ([[0.0, np.nan], [1.0, 1.0]], "bernoulli"),
        ([[True, False]], "bernoulli"),
        ([[0, 2], [7, 1]], "poisson"),
        ([[0.0, 2.0], [np.nan, 1.0]], "poisson"),
        ([[0, -1]], "gaussian"),
        ([[0.5, 1.0]], "gaussian"),
        ([[np.nan]], "gaussian"),
    ],
)
def test_the_likelihood_is_guessed_from_the_values(values, expected):
    x = np.array(values)
    assert guess_likelihood(x) == expected
    assert guess_likelihood(sparse.csr_matrix(x)) == expected


def test_deviations_of_features_know_what_blanks_are():
    x = np.array([[0.0, 2.0, 5.0, 0.0], [4.0, 0.0, 5.0, 0.0], [2.0, 4.0, 5.0, 0.0]])
    of_zeros = feature_deviation(sparse.csr_matrix(x), blanks="zero")
    np.testing.assert_allclose(of_zeros, [*x[:, :2].std(axis=0), 1.0, 1.0])
    np.testing.assert_allclose(feature_deviation(x, blanks="zero"), of_zeros)
    np.testing.assert_allclose(feature_deviation(sparse.csr_matrix(x), blanks="missing"), [1.0, 1.0, 1.0, 1.0])
    x[0, 0] = np.nan
    np.testing.assert_allclose(feature_deviation(x, blanks="zero")[0], 1.0)
    scale = np.array([2.0, 4.0, 5.0, 1.0])
    assert_array_equal(divide_columns(sparse.csr_matrix(x), scale).toarray(), divide_columns(x, scale))


def test_views_keep_names_and_order():
    views = read_views(multi())
    assert [view.name for view in views.views] == ["rna", "atac", "mut"]
    assert [view.x.shape for view in views.views] == [(50, 12), (N, 9), (N, 8)]
    atac = views.views[1]
    assert sparse.issparse(atac.x)
    assert_array_equal(atac.x.toarray()[list(atac.obs).index("s7")], matrices()["atac"][7])
    assert set(views.obs) == {f"s{i}" for i in range(N)}


def test_an_anndata_is_one_view():
    views = read_views(adata(matrices()["rna"], "g"))
    assert [view.name for view in views.views] == ["X"]


def test_layers_and_features_are_chosen():
    data = multi()
    data["rna"].layers["logged"] = data["rna"].X + 100.0
    data["rna"].var["highly_variable"] = [j % 2 == 0 for j in range(12)]
    chosen = read_views(data, layer={"rna": "logged"}, use_var="highly_variable")
    rna, atac, _ = chosen.views
    assert_array_equal(rna.x, data["rna"].X[:, ::2] + 100.0)
    assert list(rna.var) == [f"g{j}" for j in range(0, 12, 2)]
    assert len(atac.var) == 9  # no such column there: all features


def test_observations_are_chosen():
    data = multi()
    both = read_views(data, use_obs="intersection")
    assert set(both.obs) == {f"s{i}" for i in range(50)}
    assert [len(view.obs) for view in both.views] == [50, 50, 50]
    data.obs["good"] = pd.array([name in ("s1", "s55") or None for name in data.obs_names], dtype="boolean")
    good = read_views(data, use_obs="good")
    assert set(good.obs) == {"s1", "s55"}
    assert list(data.obs_names[good.at_obs]) == list(good.obs)
    assert [len(view.obs) for view in good.views] == [1, 2, 2]


@pytest.mark.parametrize("as_sparse", [True, False])
def test_backed_objects_are_read(tmp_path, as_sparse):
    x = matrices()["atac"]
    made = adata(sparse.csr_matrix(x) if as_sparse else x, "p")
    made.layers["twice"] = made.X * 2
    made.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    assert backed.isbacked
    [view] = read_views(backed).views
    assert_array_equal(view.x.toarray() if as_sparse else view.x, x)
    [twice] = read_views(backed, layer="twice").views
    assert_array_equal(twice.x.toarray() if as_sparse else twice.x, 2 * x)
    backed.file.close()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"layer": "counts"}, DataError, "View 'rna' has no layer 'counts'; there are: none"),
        ({"layer": {"rn": "counts"}}, OptionError, "names the view 'rn'; there are .* Did you mean 'rna'"),
        ({"use_var": "highly"}, DataError, "column of no modality"),
        ({"use_var": {"rna": "highly"}}, DataError, "not a column of .var of view 'rna'"),
        ({"use_var": "name"}, DataError, "must be a column of booleans"),
        ({"use_var": "never"}, DataError, "leaves no feature of view 'rna'"),
        ({"use_obs": "unoin"}, OptionError, "Did you mean 'union'"),
        ({"use_obs": "never"}, DataError, "leaves no observation"),
    ],
)
def test_choices_that_cannot_be_are_refused(options, error, words):
    data = multi()
    data["rna"].var["name"] = [f"gene {j}" for j in range(12)]
    data["rna"].var["never"] = False
    data.obs["never"] = False
    with pytest.raises(error, match=words):
        read_views(data, **options)


def test_other_things_are_refused():
    with pytest.raises(DataError, match=r"takes a MuData or an AnnData\. Got ndarray"):
        read_views(np.eye(3))
    with pytest.raises(DataError, match="named 'obs'"):
        read_views(mudata.MuData({"obs": adata(np.eye(3), "g")}))
    with pytest.raises(DataError, match="has no X; name a layer"):
        read_views(anndata.AnnData(obs=pd.DataFrame(index=["a"]), var=pd.DataFrame(index=["b"])))
    shared_features = mudata.MuData({"a": adata(np.eye(3), "g"), "b": adata(np.eye(3), "g", list("xyz"))}, axis=1)
    with pytest.raises(DataError, match="share axis 1"):
        read_views(shared_features)
