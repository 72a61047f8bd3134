import mudata
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gcmf.datasets import find_data_folder
from gcmf.omics import fit
from omics_toys import QUIET

FOLDER = find_data_folder()
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(FOLDER is None, reason="no data folder: set GCMF_DATA to run this"),
    *QUIET,
]


def test_a_factor_of_cll_separates_ighv():
    data = mudata.read_h5mu(FOLDER / "cll" / "cll.h5mu")
    fit(data, random_state=0, tol=1e-4)
    with np.load(FOLDER / "cll" / "covariates.npz") as file:
        status = dict(zip(file["samples"].tolist(), file["IGHV"], strict=True))
    ighv = np.array([status[name] for name in data.obs_names])
    known = ~np.isnan(ighv)
    areas = np.array([roc_auc_score(ighv[known], column[known]) for column in data.obsm["X_gcmf"].T])
    assert np.maximum(areas, 1 - areas).max() >= 0.95
    kinds = data.uns["gcmf"]["params"]["likelihoods"]
    assert kinds == {"Drugs": "gaussian", "Methylation": "gaussian", "mRNA": "gaussian", "Mutations": "bernoulli"}
    explained = data.uns["gcmf"]["variance_explained"]
    total = (explained["total"] - explained["bias"]) / (1 - explained["bias"])
    assert (total > [0.3, 0.15, 0.25, 0.05]).all()
