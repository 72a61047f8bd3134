"""Who runs on what, with which settings.

Every peer runs with what its documentation recommends; a second row is tuned by hand where that helps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

#: Settings that say how long a tool runs, cut to a tenth by --quick.
LENGTHS = ("n_iter", "niter", "iterations", "burnin", "nsamples", "iter")


@dataclass(frozen=True)
class Run:
    """One row of the table."""

    label: str
    peer: str
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = "defaults"

    def quick(self) -> Run:
        """The same, short: to try the machinery, not to measure."""
        own = {"max_iter": 40} if self.peer == "gcmf" else {}
        short = {key: max(2, value // 10) for key, value in self.settings.items() if key in LENGTHS}
        if self.peer == "mofapy2":
            short = {"iter": 20}
        return replace(self, settings={**self.settings, **short, **own})

    def words(self) -> str:
        """Settings as text."""
        shown = ", ".join(f"{key}={value}" for key, value in self.settings.items() if not isinstance(value, dict))
        return f"{self.note}: {shown}" if shown else self.note


#: Feature intercepts only, as omics data are fitted.
VIEWS = {f"view{v}": "cols" for v in (1, 2, 3)}
OMICS = dict.fromkeys(("Drugs", "Methylation", "mRNA", "Mutations"), "cols")

_CMFREC = Run("cmfrec", "cmfrec", {"k": 20})
_CMFREC_TUNED = Run("cmfrec, tuned", "cmfrec", {"k": 40, "scale_lam": True, "lambda_": 0.05, "niter": 15}, "by hand")
_IMPLICIT = Run("implicit", "implicit", {"factors": 20, "iterations": 15}, "ratings alone")
_MOFA_TUNED = {"factors": 15, "use_float32": True, "convergence_mode": "fast"}


def _gcmf(n_factors: int, **options: Any) -> Run:  # noqa: ANN401 - options of GCMF
    return Run("gcmf", "gcmf", {"n_factors": n_factors, **options})


def _myfm(rank: int, n_iter: int) -> Run:
    return Run("myFM", "myfm", {"rank": rank, "n_iter": n_iter}, "as in its examples")


def _smurff(num_latent: int, burnin: int, nsamples: int, noise: str | float = "adaptive", label: str = "SMURFF") -> Run:
    settings = {"num_latent": num_latent, "burnin": burnin, "nsamples": nsamples, "noise": noise}
    return Run(label, "smurff", settings, "Macau" if label == "SMURFF" else "by hand")


def _mofa(factors: int) -> Run:
    return Run("mofapy2", "mofapy2", {"factors": factors, "convergence_mode": "fast"})


RUNS: dict[str, tuple[Run, ...]] = {
    "a": (_gcmf(20), _CMFREC, _CMFREC_TUNED, _myfm(10, 200), _smurff(20, 50, 100),
          _smurff(32, 50, 150, label="SMURFF, tuned"), _IMPLICIT),
    "b": (_gcmf(20), _CMFREC,
          Run("cmfrec, tuned", "cmfrec", {"k": 20, "scale_lam": True, "lambda_": 0.1, "niter": 15}, "by hand"),
          _myfm(10, 200), _smurff(16, 50, 100),
          _smurff(16, 50, 100, 1.5, label="SMURFF, tuned")),
    "c": (_gcmf(20), _CMFREC, Run("cmfrec, Cholesky", "cmfrec", {"k": 20, "use_cg": False}, "Cholesky"),
          Run("cmfrec, tuned", "cmfrec", {"k": 10, "use_cg": False, "lambda_": 2.0, "niter": 15},
              "true rank, by hand"),
          _myfm(10, 100), _smurff(20, 15, 30), _IMPLICIT),
    "d1": (_gcmf(25, bias=VIEWS), _mofa(25), Run("mofapy2, tuned", "mofapy2", _MOFA_TUNED, "true number, float32")),
    "d2": (_gcmf(25, bias=VIEWS), _mofa(25), Run("mofapy2, tuned", "mofapy2", _MOFA_TUNED, "true number, float32")),
    "e": (_gcmf(10, bias=OMICS), _mofa(10),
          Run("mofapy2, tuned", "mofapy2", {**_MOFA_TUNED, "factors": 10}, "float32")),
    "f": (_gcmf(20), Run("gcmf, common", "gcmf", {"n_factors": 20, "sharing": "common"}, "all factors shared (CMF)"),
          Run("myFM", "myfm", {"rank": 15, "n_iter": 200}, "cells of all relations stacked by hand")),
}  # fmt: skip
