"""Chronic lymphocytic leukemia, four views of 200 patients, beside MOFA2: `python benchmarks/cll.py`.

Variance explained per view (of what the feature intercepts leave) and how well the best factor separates IGHV
status, for gcmf and, where mofapy2 is installed, for mofapy2 with the same likelihoods and factors. IGHV is also one
of the 69 mutations: the last line is gcmf without it. Needs the data: GCMF_DATA, or ../shared/data beside the
project, and pip install 'gcmf[omics]' mofapy2.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import gcmf
from gcmf.datasets import find_data_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

N_FACTORS = 10


def main() -> None:
    """Print one table: a row per view, a column per tool; then AUC and time."""
    folder = find_data_folder()
    if folder is None:
        print("skipped: no data folder (set GCMF_DATA)")
        return
    mdata, ighv = load(folder / "cll")
    columns, notes = {}, []
    for label, run in (("gcmf", run_gcmf), ("mofapy2", run_mofa)):
        try:
            started = time.perf_counter()
            factors, explained = run(mdata)
        except ImportError as error:
            print(f"{label} skipped: {error}")
            continue
        columns[label] = explained
        notes.append(f"{label}: IGHV AUC {best_auc(factors, ighv):.3f}, {factors.shape[1]} factors, "
                     f"{time.perf_counter() - started:.0f} s")  # fmt: skip
    without = mdata.copy()
    without.mod["Mutations"] = without["Mutations"][:, without["Mutations"].var_names != "IGHV"].copy()
    without = type(mdata)(dict(without.mod))
    factors, _ = run_gcmf(without)
    known = pd.Series(ighv, index=mdata.obs_names).reindex(without.obs_names).to_numpy()
    notes.append(f"gcmf without IGHV among the mutations: IGHV AUC {best_auc(factors, known):.3f}")
    print(pd.DataFrame(columns).round(3).to_string())
    print("\n".join(notes))


def load(folder: Path) -> tuple[Any, NDArray[np.float64]]:
    """Return the MuData, and IGHV status by patient (NaN where unknown)."""
    import mudata  # noqa: PLC0415 - optional

    mdata = mudata.read_h5mu(folder / "cll.h5mu")
    with np.load(folder / "covariates.npz") as file:
        status = pd.Series(file["IGHV"], index=file["samples"])
    return mdata, status.reindex(mdata.obs_names).to_numpy()


def run_gcmf(mdata: Any) -> tuple[NDArray[np.float64], pd.Series[float]]:  # noqa: ANN401
    """Factors and variance explained per view."""
    gcmf.omics.fit(mdata, N_FACTORS, random_state=0)
    return mdata.obsm["X_gcmf"], mdata.uns["gcmf"]["variance_explained"]["total"]


def run_mofa(mdata: Any) -> tuple[NDArray[np.float64], pd.Series[float]]:  # noqa: ANN401
    """The same of mofapy2, with its defaults (features centered, views not scaled, ARD and spike and slab)."""
    from mofapy2.run.entry_point import entry_point  # noqa: PLC0415 - optional

    names = list(mdata.mod)
    views = [[mdata[name].to_df().reindex(mdata.obs_names).to_numpy(dtype=np.float64)] for name in names]
    with contextlib.redirect_stdout(io.StringIO()):
        tool = entry_point()
        tool.set_data_options(scale_views=False)
        tool.set_data_matrix(views, views_names=names, groups_names=["group1"], samples_names=[list(mdata.obs_names)],
                             likelihoods=["bernoulli" if name == "Mutations" else "gaussian" for name in names],
                             features_names=[[f"{n}_{f}" for f in mdata[n].var_names] for n in names])  # fmt: skip
        tool.set_model_options(factors=N_FACTORS)
        tool.set_train_options(iter=300, convergence_mode="fast", seed=1, verbose=False, quiet=True)
        tool.build()
        tool.run()
        total = tool.model.calculate_variance_explained(total=True)[0]
        factors = tool.model.nodes["Z"].getExpectation()
    return factors, pd.Series(np.asarray(total, dtype=np.float64), index=names)


def best_auc(factors: NDArray[np.float64], status: NDArray[np.float64]) -> float:
    """Area under the curve of the factor that separates best, of either sign."""
    known = ~np.isnan(status)
    areas = np.array([roc_auc_score(status[known], column[known]) for column in factors.T])
    return float(np.maximum(areas, 1.0 - areas).max())


if __name__ == "__main__":
    with warnings.catch_warnings():
        # MuData announces a change of its defaults; mofapy2 divides by zero where a view is missing.
        warnings.simplefilter("ignore")
        main()
