"""A fitted model as plain values, and back: what all estimators have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gcmf import __version__
from gcmf.errors import GcmfError, StorageError
from gcmf.options import Priors
from gcmf.outcome import Status
from gcmf.storage.collective import schema_matcher
from gcmf.storage.ids import decode
from gcmf.storage.layout import (
    DATA,
    DOCUMENTS,
    NUMBER,
    SCHEMA,
    Each,
    MalformedError,
    Matcher,
    Piece,
    refuse,
    refuse_faults,
)

#: Parameters of estimators that older versions had and wrote; a model that was fitted needs none of them.
_FORMER_PARAMS = ("solver", "damping")
#: Features that are seen through noise of unit variance have loadings far below this, and sums of them do not overflow.
_LARGEST = 1e100
_VIEW_COUNTS = {"PCA": 1, "CCA": 2}


def describe(model: Any) -> dict[str, Any]:
    """Return everything that makes up a fitted model; only the ids are still pandas indexes."""
    cls = type(model)
    if cls.__name__ not in DOCUMENTS or not cls.__module__.startswith("gcmf."):
        msg = f"A model file holds one of {', '.join(DOCUMENTS)}, not a {cls.__module__}.{cls.__qualname__}."
        raise StorageError(msg)  # a user's own subclass could not be loaded
    return {
        "class": cls.__name__,
        "gcmf_version": __version__,
        "params": _params(model),
        **model._stored(),
        "status": model.status_.name,
        "n_iter": model.n_iter_,
        "trace": np.asarray(model.elbo_trace_, dtype=np.float64),
    }


def rebuild(document: dict[str, Any], classes: Mapping[str, type[Any]]) -> Any:
    """Return the model that `describe` took, whose ids are encoded, as one of the classes that are known by name."""
    name = document.get("class")
    if not isinstance(name, str) or name not in classes:
        refuse("class", name, f"one of {', '.join(classes)}")
    matcher = schema_matcher(document) if name == "GCMF" else Matcher()
    matcher.match(document, DOCUMENTS[name], "")
    if document["n_iter"] != matcher.sizes["sweeps"]:
        refuse("n_iter", document["n_iter"], f"{matcher.sizes['sweeps']}, the length of the trace,")
    if not 1 <= document.get("n_settled", 1) <= max(document["n_iter"], 1):
        refuse("n_settled", document["n_settled"], f"one of {document['n_iter']} sweeps,")
    if document["status"] not in Status.__members__:
        refuse("status", document["status"], f"one of {', '.join(Status.__members__)}")
    model = _estimator(classes[name], document["params"])
    if name != "GCMF":
        _check_views(document, matcher.sizes)
    model._restore(document, Status[document["status"]])
    return model


def _check_views(document: dict[str, Any], sizes: dict[str, int]) -> None:
    """Refuse views of a `PCA`, `CCA` or `GFA` that contradict each other or the loadings."""
    views, count, arrays = document["views"], _VIEW_COUNTS.get(document["class"]), document["fitted"]
    widths, sets = [view["width"] for view in views], len(views) + 1
    with np.errstate(over="ignore", invalid="ignore"):
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
    refuse_faults(faults)


# --- older formats ------------------------------------------------------------------------------------------


def upgrade(document: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the document as this version would have written it."""
    if isinstance(document.get("params"), dict):
        for name in _FORMER_PARAMS:
            document["params"].pop(name, None)
    if version <= 1:
        document = _from_1(document)
    if version <= 2 and document.get("class") == "GCMF":
        document = _from_2(document)
    if version <= 3 and document.get("class") == "GCMF":
        Matcher().match(document.get("fitted"), dict, "fitted")
        document["fitted"]["n_weak"] = 0  # there were no weak factors
    return document


def _from_2(document: dict[str, Any]) -> dict[str, Any]:
    """`noise` held the noise variance of every relation, zero where it was not Gaussian."""
    Matcher().match({key: document.get(key) for key in SCHEMA}, SCHEMA, "")
    Matcher().match(document.get("fitted"), dict, "fitted")
    fitted = document["fitted"]
    noise = fitted.pop("noise", None)
    Matcher({"relations": len(document["relations"])}).match(noise, Piece(("relations",), 0.0), "fitted/noise")
    names = [relation["likelihood"].get("name") for relation in document["relations"]]
    fitted["parameters"] = [np.array([n] if name == "gaussian" else []) for n, name in zip(noise, names, strict=True)]
    return document


def _from_1(document: dict[str, Any]) -> dict[str, Any]:
    """`extras` held the kind of frame, and the units of columns by relation and id."""
    extras = document.pop("extras", None)
    Matcher().match(extras, {"frame?": ("pandas", "polars"), "units?": dict}, "extras")
    Matcher().match({key: document.get(key) for key in SCHEMA}, SCHEMA, "")
    relations = {relation["name"]: relation for relation in document["relations"]}
    for name, units in extras.get("units", {}).items():
        if name not in relations:
            refuse("extras/units", name, "the name of a relation")
        relations[name]["units"] = _units_1(document, relations[name]["cols"], units)
    return {**document, "frame": extras.get("frame", "pandas")}


def _units_1(document: dict[str, Any], cols: str, units: Any) -> dict[str, Any]:
    """Return {id: [center, scale]} as two arrays in the order of the column set."""
    where = "extras/units"
    Matcher().match(units, dict, where)
    columns = [entity["ids"] for entity in document["entities"] if entity["name"] == cols]
    ids = list(decode(columns[0], size=None, where="entities")) if columns else []
    for name, pair in units.items():
        Matcher().match(pair, Each(NUMBER), where)
        if name not in ids or len(pair) != 2 or max(map(abs, pair)) > DATA:
            refuse(where, name, "an id of a column, with its mean and deviation,")
    pairs = np.array([units.get(name, (0.0, 1.0)) for name in ids], dtype=np.float64).reshape(-1, 2)
    return {"center": pairs[:, 0].copy(), "scale": pairs[:, 1].copy()}


# --- parameters ---------------------------------------------------------------------------------------------


def _params(model: Any) -> dict[str, Any]:
    """Parameters, less what is of no use later: callbacks, and a random generator that has moved on."""
    params = model.get_params(deep=False)
    params.pop("callbacks", None)
    if not isinstance(params.get("random_state"), int | np.integer):
        params["random_state"] = None
    return {name: _plain(value, name) for name, value in params.items()}


def _plain(value: object, name: str) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Priors):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part, name) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, name) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    msg = (
        f"The '{name}' parameter is {value!r}, which cannot be written to a file. Set it to a number, a "
        f"string or None before saving: model.set_params({name}=...)."
    )
    raise StorageError(msg)


def _estimator(cls: type[Any], params: dict[str, Any]) -> Any:
    """Return an estimator with these parameters, of which some may be missing; `_options` refuses bad values."""
    Matcher().match(params.get("random_state"), int | None, "params/random_state")
    Matcher().match(params.get("checkpoint"), str | None, "params/checkpoint")
    if params.get("progress", "auto") not in (True, False, "auto"):
        refuse("params/progress", params["progress"], "True, False or 'auto'")
    try:
        priors = params.get("priors")
        model = cls(**{**params, "priors": Priors(**priors)} if priors is not None else params)
        model._options()
    except (GcmfError, TypeError, ValueError, OverflowError) as error:
        msg = f"params cannot be used: {error}"
        raise MalformedError(msg) from error
    return model
