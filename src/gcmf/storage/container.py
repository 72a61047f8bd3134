"""The file: nested plain values and arrays as one safetensors file, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from gcmf.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Tensors = dict[str, npt.NDArray[Any]]

#: Raised by one whenever older versions of gcmf could no longer read what is written.
FORMAT_VERSION = 1
_KEY = "gcmf"


def check_target(path: Path) -> None:
    """Refuse a path that cannot be written to."""
    if path.is_dir():
        msg = f"Cannot write the model to {path}: it is a folder. Name a file in it, such as {path / 'm.gcmf'}."
        raise StorageError(msg)
    folder = path.absolute().parent
    if not folder.is_dir():
        msg = f"Cannot write the model to {path}: there is no folder {folder}; create it first."
        raise StorageError(msg)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write nested values and arrays; the path holds either what it held before or all of the new file."""
    tensors: Tensors = {}
    model = _detach(document, "", tensors)
    head = {"format_version": FORMAT_VERSION, "sha256": _checksum(model, tensors), "model": model}
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        save_file(tensors, temporary, {_KEY: json.dumps(head)})
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        msg = f"Cannot write the model to {path}: {error}."
        raise StorageError(msg) from error
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """Return what `write` wrote, after checking that it is whole."""
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "there is no such file"
        msg = f"Cannot read a model from {path}: {what}."
        raise StorageError(msg)
    head, tensors = _open(path)
    if _checksum(head["model"], tensors) != head["sha256"]:
        msg = (
            f"{path} is damaged: its contents do not match the checksum they were saved with. "
            "Take a copy from elsewhere, or fit and save the model again."
        )
        raise StorageError(msg)
    return _attach(head["model"], tensors)


def _open(path: Path) -> tuple[dict[str, Any], Tensors]:
    try:
        with safe_open(path, framework="numpy") as file:
            head = _head(path, file.metadata())
            return head, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        msg = (
            f"{path} cannot be read as a gcmf model: it is no model file, or a piece of it is missing "
            f"({error}). A model file is what model.save(path) writes."
        )
        raise StorageError(msg) from error


def _head(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        head: dict[str, Any] = json.loads((metadata or {})[_KEY])
        version = int(head["format_version"])
    except (KeyError, ValueError, TypeError):
        msg = f"{path} is a safetensors file, but no gcmf model. A model file is what model.save(path) writes."
        raise StorageError(msg) from None
    if version > FORMAT_VERSION:
        msg = (
            f"{path} has format version {version}, and this gcmf reads versions up to {FORMAT_VERSION}. "
            "Update it: pip install --upgrade gcmf."
        )
        raise StorageError(msg)
    return head


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
    """Put each array back where `_detach` found it."""
    for name, array in tensors.items():
        *path, last = name.split("/")
        place: Any = model
        for step in path:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[int(last) if isinstance(place, list) else last] = array
    return model
