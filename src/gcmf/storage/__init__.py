"""A fitted model in one file: safetensors with JSON metadata, versioned, checksummed, and unable to run code.

`document` turns a model into plain values, `ids` the ids of an entity set into tensors, `container` both into
a file. An estimator can be stored when it stands in `document.CLASSES`, answers `get_params()`, `fitted_`,
`elbo_trace_`, `n_iter_` and `status_`, and takes them back by `_settle(fitted, trace, status)`; if it keeps
more than that, `_extras()` returns it as plain values and arrays, and `_restore(extras)` takes it back.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcmf.storage.container import check_target, read, write
from gcmf.storage.document import describe, rebuild
from gcmf.storage.ids import decode, encode, refuse

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
        When the path cannot be written, or an id is of a kind that a file cannot hold.
    """
    path = Path(path)
    check_target(path)
    document = describe(model)
    for entity in document["entities"]:
        for part, key in _ids(entity):
            part[key] = encode(part[key], entity=entity["name"])
    write(path, document)


def load(path: str | Path) -> GCMF | CCA | GFA | PCA:
    """Read a model that `save` wrote: no training data is needed, and predictions are the same to the bit.

    Raises
    ------
    StorageError
        When the file is missing, damaged, written by a newer gcmf, or no gcmf model at all.
    """
    document = read(Path(path))
    for entity in document["entities"]:
        for part, key in _ids(entity):
            part[key] = decode(part[key])
    model: GCMF | CCA | GFA | PCA = rebuild(document)
    return model


def to_dict(model: Any) -> dict[str, Any]:  # noqa: ANN401 - any estimator
    """Return a fitted model as plain numbers, strings, lists and NumPy arrays; ids are lists."""
    document = describe(model)
    for entity in document["entities"]:
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
