"""A fitted model in one file: safetensors with JSON metadata, versioned, checksummed, and unable to run code.

`layout` says what a file holds; `document` turns a model into such plain values and back (`collective` for `GCMF`,
`views` for `PCA`, `CCA` and `GFA`, `upgrade` from older formats), `ids` the ids of an entity set into tensors,
`container` all of it into a file, and `files` puts the file in its place. Whatever is read is compared with the
description, and each part with the others, before anything is made of it; whatever is written was read back first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcmf.errors import StorageError
from gcmf.storage.container import read, write
from gcmf.storage.document import describe, rebuild
from gcmf.storage.files import check_target
from gcmf.storage.ids import encode, refuse
from gcmf.storage.layout import MalformedError
from gcmf.storage.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gcmf.data.vocabulary import Vocabulary
    from gcmf.estimators.cca import CCA
    from gcmf.estimators.gcmf import GCMF
    from gcmf.estimators.gfa import GFA
    from gcmf.estimators.pca import PCA

__all__ = ["check", "load", "save", "to_dict"]


def save(model: Any, path: str | Path) -> None:  # noqa: ANN401 - any estimator
    """Write a fitted model to one file, whole or not at all; an older file stays until the new one is there.

    Raises
    ------
    StorageError
        When the path cannot be written, or the model holds something that a file cannot.
    """
    path = Path(path)
    check_target(path)
    document = describe(model)
    for entity in document.get("entities", ()):
        for part, key in _ids(entity):
            part[key] = encode(part[key], entity=entity["name"])
    try:
        rebuild(document)
    except MalformedError as error:
        msg = f"Cannot write the model to {path}, as it could not be read back: {error}."
        raise StorageError(msg) from error
    write(path, document)


def load(path: str | Path) -> GCMF | CCA | GFA | PCA:
    """Read a model that `save` wrote: no training data is needed, and predictions are the same to the bit.

    Raises
    ------
    StorageError
        When the file is missing, damaged, written by a newer gcmf, or no gcmf model at all.
    """
    path = Path(path)
    try:
        version, document = read(path)
        model: GCMF | CCA | GFA | PCA = rebuild(upgrade(document, version))
    except MalformedError as error:
        msg = f"{path} is no sound gcmf model: {error}. Take a copy from elsewhere, or fit and save the model again."
        raise StorageError(msg) from error
    return model


def to_dict(model: Any) -> dict[str, Any]:  # noqa: ANN401 - any estimator
    """Return a fitted model as plain numbers, strings, lists and NumPy arrays; ids are lists."""
    document = describe(model)
    for entity in document.get("entities", ()):
        for part, key in _ids(entity):
            part[key] = part[key].tolist()
    return document


def check(path: str | Path, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Refuse at once what `save` would refuse after hours of fitting: a bad path, or ids no file can hold."""
    check_target(Path(path))
    for name, vocabulary in vocabularies.items():
        refuse(vocabulary.ids, entity=name)


def _ids(entity: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield where the description of an entity set holds ids: the set's own, and the categories they were from."""
    yield entity, "ids"
    if "kind" in entity:
        yield entity["kind"], "categories"
