"""Small multi-modal objects with known factors."""

from __future__ import annotations

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

#: What MuData announces at every update, and what anndata and MuData still ask of pandas 3.
QUIET = [
    pytest.mark.filterwarnings(f"ignore:{words}")
    for words in (
        r"From 0\.4 \.update\(\) will not pull",
        r"The 'future\.infer_string' option is deprecated",
        r"The inplace keyword in \w+\.\w+ is deprecated",
    )
]
N = 60
SIZES = {"rna": 12, "atac": 9, "mut": 8}
if int(pd.__version__.split(".")[0]) >= 3:
    # pandas 3 holds names as its own string type, which anndata 0.12 writes only when asked to.
    anndata.settings.allow_write_nullable_strings = True


def factors(seed=0):
    """Factor 0 is in all views, factor 1 in rna only."""
    return np.random.default_rng(seed).normal(size=(N, 2))


def adata(x, prefix, names=None):
    obs = [f"s{i}" for i in range(x.shape[0])] if names is None else names
    var = [f"{prefix}{j}" for j in range(x.shape[1])]
    return anndata.AnnData(x, obs=pd.DataFrame(index=obs), var=pd.DataFrame(index=var))


def matrices(seed=0):
    rng = np.random.default_rng(seed + 1)
    z = factors(seed)
    w = {name: rng.normal(size=(2, size)) for name, size in SIZES.items()}
    w["atac"][1] = w["mut"][1] = 0.0
    rna = 5.0 + np.arange(SIZES["rna"]) + 3.0 * (z @ w["rna"] + 0.3 * rng.normal(size=(N, SIZES["rna"])))
    atac = rng.poisson(np.exp(0.7 + 0.6 * z @ w["atac"])).astype(np.float32)
    mut = (rng.random((N, SIZES["mut"])) < 1 / (1 + np.exp(-3 * z @ w["mut"]))).astype(float)
    return {"rna": rna, "atac": atac, "mut": mut}


def multi(seed=0):
    """Three modalities: rna lacks the last ten samples, atac is sparse and shuffled, mut has missing cells."""
    x = matrices(seed)
    shuffled = np.random.default_rng(9).permutation(N)
    x["mut"][3, 2] = np.nan
    return mudata.MuData({
        "rna": adata(x["rna"][:50], "g"),
        "atac": adata(sparse.csr_matrix(x["atac"][shuffled]), "p", [f"s{i}" for i in shuffled]),
        "mut": adata(x["mut"], "m"),
    })  # fmt: skip
