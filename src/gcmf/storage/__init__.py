"""A fitted model in one file: safetensors with JSON metadata, versioned, checksummed, and unable to run code.

`layout` says what a file holds; `document` turns an estimator into such plain values and back, also from older formats
(`collective` does so for what is fitted by `GCMF`), `ids` the ids of an entity set into tensors, `container` all of it
into a file, and `files` puts the file in its place. Whatever is read is compared with the description, and each part
with the others, before anything is made of it; whatever is written was read back first.

Estimators stand above this package: each says by `_stored` what it holds, and takes it back by `_restore`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcmf.errors import StorageError
from gcmf.storage.container import read, write
from gcmf.storage.document import describe, rebuild, upgrade
from gcmf.storage.files import check_target, previous
from gcmf.storage.ids import encode, refuse
from gcmf.storage.layout import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from gcmf.data.vocabulary import Vocabulary

__all__ = ["check", "fault_of", "load", "load_run", "previous", "save", "to_dict"]


def save(model: Any, path: str | Path, *, run: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one file, whole or not at all; an older file stays until the new one is there.

    With a `run` that is not finished it is a checkpoint: what was there before stays, as `previous(path)`.
    """
    path = Path(path)
    check_target(path)
    try:
        document = _sound(model)
    except MalformedError as error:
        msg = f"Cannot write the model to {path}, as it could not be read back: {error}."
        raise StorageError(msg) from error
    write(path, document if run is None else {**document, "run": run}, keep_previous=run is not None)


def fault_of(model: Any) -> str | None:
    """What is wrong with the numbers of a model, so that no file should hold them; None if nothing is."""
    try:
        _sound(model)
    except MalformedError as error:
        return str(error)
    return None


def _sound(model: Any) -> dict[str, Any]:
    """What a file of the model holds, if it could be read back."""
    document = _with_ids(describe(model), lambda ids, entity: encode(ids, entity=entity))
    rebuild(document, {document["class"]: type(model)})
    return document


def load(path: str | Path, classes: Mapping[str, type[Any]]) -> Any:
    """Read a model that `save` wrote, as one of these classes: a file never chooses what is imported."""
    path = Path(path)
    try:
        version, document = read(path)
        return rebuild(upgrade(document, version), classes)
    except MalformedError as error:
        msg = f"{path} is no sound gcmf model: {error}. Take a copy from elsewhere, or fit and save the model again."
        raise StorageError(msg) from error


def load_run(path: str | Path) -> dict[str, Any]:
    """Read the unfinished run of a checkpoint, as plain values; whoever goes on with it compares them with its data."""
    path = Path(path)
    try:
        _, document = read(path)
    except MalformedError as error:
        msg = f"{path} is no sound checkpoint: {error}."
        raise StorageError(msg) from error
    run = document.get("run")
    if not isinstance(run, dict):
        msg = f"{path} is a model, and no checkpoint of a fit. To start from it: fit(data, start=gcmf.load(path))."
        raise StorageError(msg)
    return run


def to_dict(model: Any) -> dict[str, Any]:
    """Return a fitted model as plain numbers, strings, lists and NumPy arrays; ids are lists."""
    return _with_ids(describe(model), lambda ids, _: ids.tolist())


def check(path: str | Path, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Refuse at once what `save` would refuse after hours of fitting: a bad path, or ids no file can hold."""
    check_target(Path(path))
    for name, vocabulary in vocabularies.items():
        refuse(vocabulary.ids, entity=name)


def _with_ids(document: dict[str, Any], turned: Callable[[pd.Index[Any], str], object]) -> dict[str, Any]:
    """Turn the ids of every entity set, and the categories that they were from, into something else."""
    for entity in document.get("entities", ()):
        entity["ids"] = turned(entity["ids"], entity["name"])
        if "kind" in entity:
            entity["kind"]["categories"] = turned(entity["kind"]["categories"], entity["name"])
    return document
