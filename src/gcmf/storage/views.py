"""`PCA`, `CCA` and `GFA`: loadings and the names of features as plain values, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.storage.layout import MalformedError, Matcher

if TYPE_CHECKING:
    from gcmf.fit import Status

#: Features that are seen through noise of unit variance have loadings far below this, and sums of them do not overflow.
_LARGEST = 1e100
_COUNTS = {"PCA": 1, "CCA": 2}


def describe(model: Any) -> dict[str, Any]:  # noqa: ANN401 - a PCA, CCA or GFA
    """Return what such an estimator holds beyond what every estimator does."""
    stored: dict[str, Any] = model._stored()
    return stored


def matcher(document: dict[str, Any]) -> Matcher:
    """Return what compares arrays with each other."""
    del document  # nothing is counted by it
    return Matcher()


def settle(model: Any, document: dict[str, Any], status: Status, sizes: dict[str, int]) -> None:  # noqa: ANN401
    """Give an estimator the fit that a document holds, whose form was compared already and is of these sizes."""
    views, count = document["views"], _COUNTS.get(document["class"])
    widths, sets = [view["width"] for view in views], len(views) + 1
    with np.errstate(over="ignore", invalid="ignore"):
        arrays = document["fitted"]
        information = arrays["weight"][:, None] * (arrays["mean"] ** 2 + arrays["var"])
    faults = {
        f"it has {len(views)} views": not views or (count is not None and len(views) != count),
        "two views have one name": len({view["name"] for view in views}) < len(views),
        "views/width do not add up to the loadings": min(widths, default=0) < 1 or sum(widths) != sizes["features"],
        "views/features are more or less than views/width": any(
            len(view["features"]) != view["width"] for view in views if "features" in view
        ),
        "fitted/on has not a row for the samples and one for each view": sizes.get("sets", sets) != sets,
        "fitted holds loadings that overflow": not (information <= _LARGEST).all(),
    }
    for fault, there in faults.items():
        if there:
            raise MalformedError(fault)
    model._restore(document, status)
