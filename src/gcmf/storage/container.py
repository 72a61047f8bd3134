"""The file: nested plain values and arrays as one safetensors file, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from gcmf.errors import StorageError
from gcmf.storage.files import replacing
from gcmf.storage.layout import MalformedError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Tensors = dict[str, npt.NDArray[Any]]

#: Raised by one whenever older versions of gcmf could no longer read what is written, or would misread it.
#: 1: the units of columns stood beside the model. 2: they are part of it, and PCA, CCA and GFA can be saved.
#: 3: likelihoods have parameters. 4: some factors are weak. 5: entity sets may have covariates.
#: 6: relations may have scales, and be of a set with itself. 7: what adds entities and cells later, what was seen, and
#: draws.
FORMAT_VERSION = 7
_KEY = "gcmf"
#: Values within values: more than any model has, and far less than would exhaust the stack.
_DEEPEST = 12
_TYPES = ("F64", "F32", "F16", "I64", "U64", "U8", "BOOL")


def write(path: Path, document: Mapping[str, Any], *, keep_previous: bool = False) -> None:
    """Write nested values and arrays; the path holds either what it held before or all of the new file."""
    tensors: Tensors = {}
    model = _detach(document, "", tensors)
    head = {"format_version": FORMAT_VERSION, "sha256": _checksum(model, tensors), "model": model}
    # In memory first: `save_file` makes hidden files of its own, and gives them modes of its own.
    content = save(tensors, {_KEY: json.dumps(head)})
    with replacing(path, keep_previous=keep_previous) as temporary:
        temporary.write_bytes(content)


def read(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the format version and what `write` wrote, after checking that it is whole."""
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "there is no such file" if not path.exists() else "it is no file"
        msg = f"Cannot read a model from {path}: {what}."
        raise StorageError(msg)
    head, tensors = _open(path)
    if _checksum(head["model"], tensors) != head["sha256"]:
        msg = (
            f"{path} is damaged: its contents do not match the checksum they were saved with. "
            "Take a copy from elsewhere, or fit and save the model again."
        )
        raise StorageError(msg)
    return head["format_version"], _attach(head["model"], tensors)


def _open(path: Path) -> tuple[dict[str, Any], Tensors]:
    try:
        with safe_open(path, framework="numpy") as file:
            head = _head(path, file.metadata())
            return head, {name: _tensor(file, name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError, ValueError, TypeError, OverflowError) as error:
        # ValueError and the like: an array of no element with sizes beyond what NumPy can count. What safetensors says
        # is about the inside of its files, which a database or a note does not have.
        why = "" if isinstance(error, SafetensorError) else f" ({error})"
        msg = (
            f"{path} cannot be read as a gcmf model: it is no model file, or a piece of it is missing{why}. "
            "A model file is what model.save(path) writes."
        )
        raise StorageError(msg) from error


def _tensor(file: Any, name: str) -> npt.NDArray[Any]:
    kind = file.get_slice(name).get_dtype()
    if kind not in _TYPES:
        msg = f"the array {name!r} is of type {kind}, and only {', '.join(_TYPES)} are written"
        raise ValueError(msg)
    array: npt.NDArray[Any] = file.get_tensor(name)
    return array


def _head(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        head = json.loads((metadata or {})[_KEY])
        fits = isinstance(head, dict) and type(head["format_version"]) is int and head["format_version"] >= 1
    except (KeyError, ValueError, RecursionError):
        fits = False
    if not fits:
        msg = f"{path} is a safetensors file, but no gcmf model. A model file is what model.save(path) writes."
        raise StorageError(msg)
    if head["format_version"] > FORMAT_VERSION:
        msg = (
            f"{path} has format version {head['format_version']}, and this gcmf reads versions up to "
            f"{FORMAT_VERSION}. Update it: pip install --upgrade gcmf."
        )
        raise StorageError(msg)
    if not (isinstance(head.get("sha256"), str) and isinstance(head.get("model"), dict) and _is_shallow(head)):
        msg = f"{path} is damaged: its head lacks the checksum or the model, or is nested without end."
        raise StorageError(msg)
    return head  # type: ignore[no-any-return]  # a dict, as was checked


def _is_shallow(value: object) -> bool:
    """Whether values are nested no deeper than models are: what follows may recurse then."""
    level = [value]
    for _ in range(_DEEPEST):
        nested = [list(part.values()) if isinstance(part, dict) else part for part in level]
        level = [part for parts in nested if isinstance(parts, list) for part in parts]
    return not level


def _checksum(model: object, tensors: Tensors) -> str:
    """SHA-256 of the metadata and of every tensor's name, type, shape and bytes, in order of the names."""
    digest = hashlib.sha256(json.dumps(model).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def _detach(value: object, name: str, tensors: Tensors) -> object:
    """Return the value with None for each array, which goes to `tensors` by its path, as "fitted/mean/0"."""
    if isinstance(value, np.ndarray):
        tensors[name] = value if value.flags.c_contiguous else value.copy(order="C")
        return None
    if isinstance(value, Mapping):
        return {key: _detach(part, f"{name}/{key}".lstrip("/"), tensors) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_detach(part, f"{name}/{position}", tensors) for position, part in enumerate(value)]
    return value


def _attach(model: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Put each array back where `_detach` found it, and where None stands for it."""
    for name, array in tensors.items():
        *path, last = name.split("/")
        place: Any = model
        for step in path:
            place = _inside(place, step, name)[1]
        key, value = _inside(place, last, name)
        if value is not None:
            msg = f"the array {name!r} has no place"
            raise MalformedError(msg)
        place[key] = array
    return model


def _inside(place: Any, step: str, name: str) -> tuple[str | int, Any]:
    """Return the key of a step and what lies there."""
    if isinstance(place, dict) and step in place:
        return step, place[step]
    if isinstance(place, list) and re.fullmatch("[0-9]{1,9}", step) and int(step) < len(place):
        return int(step), place[int(step)]
    msg = f"the array {name!r} has no place"
    raise MalformedError(msg)
