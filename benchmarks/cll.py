"""Chronic lymphocytic leukemia, four views of 200 patients, beside MOFA2: `python benchmarks/cll.py`.

Variance explained per view (of what the feature intercepts leave), as each tool reports it, and how well the best
factor separates IGHV status, for gcmf and, where mofapy2 is installed, for mofapy2 with the same likelihoods and
factors. On the 0/1 mutations the two report different things: gcmf a share of the deviance, mofapy2 a share of the
squares of Gaussian pseudo-data that it makes from the fit itself. Two further rows therefore measure both fits alike.
IGHV is also one of the 69 mutations: the last line is gcmf without it. Needs the data: GCMF_DATA, or ../shared/data
beside the project, and pip install 'gcmf[omics]' mofapy2.
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
Fit = tuple["NDArray[np.float64]", "pd.Series[float]", "NDArray[np.float64]"]


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
            factors, explained, theta = run(mdata)
        except ImportError as error:
            print(f"{label} skipped: {error}")
            continue
        columns[label] = pd.concat([explained, shares(mdata["Mutations"].to_df().reindex(mdata.obs_names), theta)])
        notes.append(f"{label}: IGHV AUC {best_auc(factors, ighv):.3f}, {factors.shape[1]} factors, "
                     f"{time.perf_counter() - started:.0f} s")  # fmt: skip
    without = mdata.copy()
    without.mod["Mutations"] = without["Mutations"][:, without["Mutations"].var_names != "IGHV"].copy()
    without = type(mdata)(dict(without.mod))
    factors, *_ = run_gcmf(without)
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


def run_gcmf(mdata: Any) -> Fit:  # noqa: ANN401
    """Factors, variance explained per view, and what the factors say of the mutations."""
    gcmf.omics.fit(mdata, N_FACTORS, random_state=0)
    factors, explained = mdata.obsm["X_gcmf"], mdata.uns["gcmf"]["variance_explained"]
    total = (explained["total"] - explained["bias"]) / (1.0 - explained["bias"])  # as MOFA2 counts it
    return factors, total, factors @ mdata["Mutations"].varm["gcmf"].T


def run_mofa(mdata: Any) -> Fit:  # noqa: ANN401
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
        weights = tool.model.nodes["W"].getExpectation()[names.index("Mutations")]
    return factors, pd.Series(np.asarray(total, dtype=np.float64), index=names), factors @ weights.T


def shares(mutations: pd.DataFrame, theta: NDArray[np.float64]) -> pd.Series[float]:
    """Shares of the deviance and of the squares of 0/1 cells that factors explain, beside the best intercepts.

    The baseline is an intercept per feature. Both fits get the intercepts that suit their factors best.
    """
    y = mutations.to_numpy(dtype=np.float64)
    seen, rate = ~np.isnan(y), np.nanmean(y, axis=0)
    intercept = np.zeros(y.shape[1])
    for _ in range(100):  # Newton, each step at most 1
        p = 1 / (1 + np.exp(-(intercept + theta)))
        slope, curve = np.where(seen, y - p, 0).sum(axis=0), np.where(seen, p * (1 - p), 0).sum(axis=0)
        intercept = np.clip(intercept + np.clip(slope / (curve + 1e-9), -1, 1), -12, 12)
    p, base = (1 / (1 + np.exp(-(intercept + theta))))[seen], np.broadcast_to(rate, y.shape)[seen]
    return pd.Series({
        "Mutations, of the deviance": 1 - _deviance(y[seen], p) / _deviance(y[seen], base),
        "Mutations, of the squares": 1 - ((y[seen] - p) ** 2).sum() / ((y[seen] - base) ** 2).sum(),
    })  # fmt: skip


def _deviance(y: NDArray[np.float64], p: NDArray[np.float64]) -> float:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-2 * (y * np.log(p) + (1 - y) * np.log(1 - p)).sum())


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
