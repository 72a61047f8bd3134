"""What the genes say about the paper's claims: who is better at which share of missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.base import Claim
from reproduction.summary import UNCLEAR, change, direction, tally

if TYPE_CHECKING:
    import pandas as pd

MOST = 0.8
"""Missing share up to which the paper's gCMF is best."""
EQUAL = 0.02
"""Errors that differ by less than this share are called about equal."""


def claims(table: pd.DataFrame) -> tuple[Claim, ...]:
    """Judge gCMF against each of the others up to 80% missing, and the others at every share."""
    wide = table.pivot(index=["missing", "seed"], columns="method", values="error")
    early = wide[wide.index.get_level_values("missing") <= MOST + 1e-9]
    return (
        *(_lower(early, ("gCMF", rival), f"gCMF is best up to about 80% missing: against {rival}.",
                 "best up to about 80%") for rival in ("CMF", "CCA", "PCA")),
        _lower(wide, ("CCA", "PCA"), "CCA beats PCA.", "CCA below PCA"),
        _equal(wide, ("CMF", "CCA"), "CMF is about equal to CCA.", "about equal"),
    )  # fmt: skip


def _lower(wide: pd.DataFrame, pair: tuple[str, str], text: str, paper: str) -> Claim:
    ratio = wide[pair[0]] / wide[pair[1]]
    found = tally(ratio, "missing", _share)
    return Claim(text, paper, f"error of {pair[0]} against {pair[1]}: {_changes(ratio)}; {found}",
                 holds=found.lower_holds, undecided=found.undecided)  # fmt: skip


def _equal(wide: pd.DataFrame, pair: tuple[str, str], text: str, paper: str) -> Claim:
    ratio = wide[pair[0]] / wide[pair[1]]
    groups = ratio.groupby("missing")
    far = (groups.median() - 1).abs() >= EQUAL
    clearly = far & (groups.apply(direction) != 0)
    return Claim(
        text, paper, f"error of {pair[0]} against {pair[1]}: {_changes(ratio)}",
        holds=True if not far.any() else False if 2 * clearly.sum() > len(far) else None, undecided=UNCLEAR,
        note=f"Judged as: medians within {EQUAL:.0%} at every share (yes); clearly different, by more than that, at "
        "most shares (no).",
    )  # fmt: skip


def _changes(ratio: pd.Series) -> str:
    return ", ".join(f"{change(own)} at {_share(share)}" for share, own in ratio.groupby("missing"))


def _share(missing: object) -> str:
    return f"{float(str(missing)):.0%}"
