"""A fitted model as plain values, and back: what all estimators have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gcmf import __version__
from gcmf.errors import GcmfError, StorageError
from gcmf.fit import Status
from gcmf.options import Priors
from gcmf.storage import collective, views
from gcmf.storage.layout import DOCUMENTS, MalformedError, Matcher, refuse

#: The estimators that a file may name, and where they live. A file never chooses what is imported.
CLASSES = {name: f"gcmf.estimators.{name.lower()}" for name in DOCUMENTS}
_PARTS = {"GCMF": collective, "GFA": views, "CCA": views, "PCA": views}


def describe(model: Any) -> dict[str, Any]:  # noqa: ANN401 - any estimator
    """Return everything that makes up a fitted model; only the ids are still pandas indexes.

    Raises
    ------
    StorageError
        When a parameter has a value that cannot be written down.
    """
    name = _class_name(model)
    return {
        "class": name,
        "gcmf_version": __version__,
        "params": _params(model),
        **_PARTS[name].describe(model),
        "status": model.status_.name,
        "n_iter": model.n_iter_,
        "trace": np.asarray(model.elbo_trace_, dtype=np.float64),
    }


def rebuild(document: dict[str, Any]) -> Any:  # noqa: ANN401 - whichever estimator was described
    """Return the model that `describe` took, whose ids are encoded.

    Raises
    ------
    MalformedError
        When some part of it does not fit the description of such a file, or the other parts.
    """
    name = document.get("class")
    if not isinstance(name, str) or name not in CLASSES:
        refuse("class", name, f"one of {', '.join(CLASSES)}")
    matcher = _PARTS[name].matcher(document)
    matcher.match(document, DOCUMENTS[name], "")
    if document["n_iter"] != matcher.sizes["sweeps"]:
        refuse("n_iter", document["n_iter"], f"{matcher.sizes['sweeps']}, the length of the trace,")
    if document["status"] not in Status.__members__:
        refuse("status", document["status"], f"one of {', '.join(Status.__members__)}")
    model = _estimator(name, document["params"])
    _PARTS[name].settle(model, document, Status[document["status"]], matcher.sizes)
    return model


def _class_name(model: object) -> str:
    """Return the name of an estimator that a file may hold; a user's own subclass could not be loaded."""
    cls = type(model)
    if CLASSES.get(cls.__name__) != cls.__module__:
        msg = f"A model file holds one of {', '.join(CLASSES)}, not a {cls.__module__}.{cls.__qualname__}."
        raise StorageError(msg)
    return cls.__name__


# --- parameters ---------------------------------------------------------------------------------------------


def _params(model: Any) -> dict[str, Any]:  # noqa: ANN401 - any estimator
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


def _estimator(name: str, params: dict[str, Any]) -> Any:  # noqa: ANN401 - the class named
    """Return an estimator with these parameters, of which some may be missing; `_options` refuses bad values."""
    cls = getattr(import_module(CLASSES[name]), name)
    where = Matcher()
    where.match(params.get("random_state"), int | None, "params/random_state")
    where.match(params.get("checkpoint"), str | None, "params/checkpoint")
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
