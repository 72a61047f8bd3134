"""A fitted model as plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf import __version__
from gcmf.data.id_kind import IdKind
from gcmf.data.schema import RelationSchema, Schema
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import StorageError
from gcmf.fit import Status
from gcmf.likelihoods import resolve
from gcmf.model.explained import Explained
from gcmf.model.fitted import Fitted
from gcmf.options import Priors

if TYPE_CHECKING:
    from gcmf.likelihoods import Likelihood

#: The estimators that a file may name, and where they live. A file never chooses what is imported.
CLASSES = {name: f"gcmf.estimators.{name.lower()}" for name in ("GCMF", "GFA", "CCA", "PCA")}
#: Fields of `Fitted` that are more than arrays; each has its own place in the document.
_OWN_PLACE = ("schema", "vocabularies", "likelihoods", "explained")


def describe(model: Any) -> dict[str, Any]:  # noqa: ANN401 - any estimator
    """Return everything that makes up a fitted model; only the ids are still pandas indexes.

    Raises
    ------
    StorageError
        When a parameter has a value that cannot be written down.
    """
    fitted: Fitted = model.fitted_
    return {
        "class": _class_name(model),
        "gcmf_version": __version__,
        "params": _params(model),
        "status": model.status_.name,
        "n_iter": model.n_iter_,
        "trace": np.asarray(model.elbo_trace_, dtype=np.float64),
        "relations": [
            {**asdict(relation), "likelihood": _write_likelihood(likelihood)}
            for relation, likelihood in zip(fitted.schema.relations, fitted.likelihoods, strict=True)
        ],
        "entities": [
            {"name": name, "ids": entity.ids, "positional": entity.positional, **_write_kind(entity.kind)}
            for name, entity in ((name, fitted.vocabularies[name]) for name in fitted.schema.entities)
        ],
        "fitted": {f.name: getattr(fitted, f.name) for f in fields(fitted) if f.name not in _OWN_PLACE},
        "explained": fitted.explained._asdict(),
        "extras": model._extras() if hasattr(model, "_extras") else {},
    }


def rebuild(document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whichever estimator was described
    """Return the model that `describe` took."""
    name = document["class"]
    if name not in CLASSES:
        known = ", ".join(CLASSES)
        msg = f"The file holds a {name}, and this gcmf knows {known}. Update it: pip install --upgrade gcmf."
        raise StorageError(msg)
    try:
        model = getattr(import_module(CLASSES[name]), name)(**_read_params(document["params"]))
        model._settle(_read_fitted(document), document["trace"], Status[document["status"]])
        if document["extras"]:
            model._restore(document["extras"])
    except (KeyError, TypeError) as error:
        # The checksum was right, so the file is what some gcmf wrote: one with other fields or options.
        version = document["gcmf_version"]
        msg = f"The file was written by gcmf {version}, which gcmf {__version__} cannot read: {error}."
        raise StorageError(msg) from error
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


def _read_params(params: Mapping[str, Any]) -> dict[str, Any]:
    priors = params.get("priors")
    return {**params, "priors": Priors(**priors)} if priors is not None else dict(params)


# --- the fitted model ---------------------------------------------------------------------------------------


def _write_likelihood(likelihood: Likelihood) -> dict[str, Any]:
    return {"name": likelihood.name, **asdict(likelihood)}  # type: ignore[call-overload]  # each is a dataclass


def _read_likelihood(written: Mapping[str, Any]) -> Likelihood:
    options = {key: value for key, value in written.items() if key != "name"}
    return type(resolve(written["name"]))(**options)


def _read_fitted(document: Mapping[str, Any]) -> Fitted:
    relations = document["relations"]
    schema = Schema(
        tuple(entity["name"] for entity in document["entities"]),
        tuple(RelationSchema(r["name"], r["rows"], r["cols"], r["likelihood"]["name"]) for r in relations),
    )
    arrays: dict[str, Any] = {name: tuple(a) if isinstance(a, list) else a for name, a in document["fitted"].items()}
    return Fitted(
        schema=schema,
        vocabularies={entity["name"]: _read_vocabulary(entity) for entity in document["entities"]},
        likelihoods=tuple(_read_likelihood(r["likelihood"]) for r in relations),
        explained=Explained(**document["explained"]),
        **arrays,
    )


def _read_vocabulary(entity: Mapping[str, Any]) -> Vocabulary:
    vocabulary = Vocabulary(entity["ids"])
    vocabulary.positional = entity["positional"]
    kind = entity.get("kind")
    if kind is None:
        return vocabulary
    categories = tuple(kind["categories"])
    return vocabulary.of_kind(IdKind(kind["name"], tuple(kind["levels"]), categories, kind["ordered"]))


def _write_kind(kind: IdKind | None) -> dict[str, Any]:
    """Return how ids were brought, if there is more to say than their values; the categories are ids too."""
    if kind is None:
        return {}
    categories = pd.Index(kind.categories, tupleize_cols=False)
    said = {"name": kind.name, "levels": list(kind.levels), "ordered": kind.ordered, "categories": categories}
    return {"kind": said}
