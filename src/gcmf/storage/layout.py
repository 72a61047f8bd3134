"""What a model file holds: one description, by which documents are checked before they are written and after reading.

A description is made of types (`str`), tuples of allowed words, dicts (exactly these keys; one that ends in "?" may be
absent), `Each` (a list) and `Piece` (an array). Arrays name their dimensions: the first that has one says how large it
is, and all others must agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


class MalformedError(Exception):
    """Something in a document is not as described; the message says what, and where."""


#: Beyond these, products of what is stored could overflow. Factors describe cells of unit variance, and data whose
#: squares overflow cannot be fitted.
FACTOR, DATA = 1e30, 1e150
#: The smallest scale: its square is still a number.
TINY = 1e-150
#: The largest share of a whole, with some rounding of float32 sums.
SHARE = 1.01


@dataclass(frozen=True)
class Piece:
    """An array: its dimensions, the numbers that it may hold, and their type."""

    dims: tuple[str | int, ...]
    low: float = -FACTOR
    high: float = FACTOR
    types: tuple[str, ...] = ("float64",)


@dataclass(frozen=True)
class Each:
    """A list with the same kind of item for each of something; what is not counted may be of any length."""

    item: Any
    of: str | None = None


NUMBER = int | float
_FLOATS = ("float32", "float64")
_IDS = {"kind": ("range", "time", "numbers", "text", "mixed"), "start?": int, "stop?": int, "step?": int,
        "dtype?": str, "values?": np.ndarray, "buffer?": np.ndarray, "ends?": np.ndarray}  # fmt: skip
_COMMON = {
    "class": str,
    "gcmf_version": str,
    "params": dict,
    "status": str,
    "n_iter": int,
    "trace": Piece(("sweeps",), low=-math.inf, high=math.inf),
}
_RELATION = {
    "name": str, "rows": str, "cols": str, "likelihood": dict, "symmetric?": bool,
    "columns?": {"row": str, "col": str, "value?": str, "weight?": str},
}  # fmt: skip
_ZEROS = {"n": int, "of": int}
_UNITS = {"center": Piece(("columns",), -DATA, DATA), "scale": Piece(("columns",), TINY, DATA)}

_COVARIATES = {
    "features": Each({"column": str, "kind": ("number", "level", "missing"), "level": str}),
    "group": Piece(("features",), 0, FACTOR, types=("int64",)),
    "center": Piece(("features",), -DATA, DATA),
    "scale": Piece(("features",), TINY, DATA),
    "mean": Piece(("features", "factors")),
    "std": Piece(("features", "factors"), 0.0),
    "bias_mean": Piece(("features", "layers")),
    "bias_std": Piece(("features", "layers"), 0.0),
    "cov?": Piece(("factors", "features", "features")),
    "bias_cov?": Piece(("layers", "features", "features")),
}
_ENTITY = {
    "name": str, "ids": _IDS, "positional": bool,
    "kind?": {"name": str, "levels": Each(str | int | NoneType), "ordered": bool, "categories": _IDS},
}  # fmt: skip

_ORIGIN = {
    "turn": Piece(("draws", "entities", "factors", "factors"), -DATA, DATA),
    "precision": Piece(("draws", "entities", "factors"), 0.0, math.inf),
    "on": Piece(("draws", "entities", "factors"), types=("bool",)),
    "center": Piece(("draws", "entities", "factors"), -DATA, DATA),
    "scales": Piece(("draws", "relations", "factors"), -DATA, DATA),
    "bias_prior": Piece(("draws", 2, "layers"), -DATA, DATA),
    "learned": Each(Piece(("draws", "learned"), -math.inf, math.inf), of="relations"),
    "coefficients": Each(Piece(("draws", "known features", "factors"), -DATA, DATA), of="entities"),
    "bias_coefficients": Each(Piece(("draws", "known features", "layers"), -DATA, DATA), of="entities"),
}

#: What is known of a `GCMF`: the sets and relations that everything else is counted by, and the rest.
SCHEMA = {
    "entities": Each({**_ENTITY, "covariates?": dict}),
    "relations": Each({**_RELATION, "units?": dict, "zeros?": dict}),
}
COLLECTIVE = {
    **_COMMON,
    "entities": Each({**_ENTITY, "covariates?": _COVARIATES}),
    "relations": Each({**_RELATION, "units?": _UNITS, "zeros?": _ZEROS}),
    "frame": ("pandas", "polars"),
    "fitted": {
        "center": Piece(("relations",), -DATA, DATA),
        "scale": Piece(("relations",), TINY, DATA),
        "offset": Piece(("relations",)),
        "parameters": Each(Piece(("parameters",)), of="relations"),
        "mean": Each(Piece(("members", "factors"), types=_FLOATS), of="entities"),
        "var": Each(Piece(("members", "factors"), 0.0, types=_FLOATS), of="entities"),
        "bias_mean": Each(Piece(("ends",), types=_FLOATS), of="layers"),
        "bias_var": Each(Piece(("ends",), 0.0, types=_FLOATS), of="layers"),
        "prior_var": Piece(("entities", "factors"), 0.0),
        "prior_bias": Piece((2, "layers")),
        "on": Piece(("entities", "factors"), types=("bool",)),
        "activity": Piece(("entities", "factors"), 0.0, SHARE),
        "n_weak": int,
    },
    "scales?": {
        "mean": Piece(("relations", "factors")),
        "var": Piece(("relations", "factors"), 0.0),
        "on": Piece(("relations", "factors"), types=("bool",)),
        "mate": Piece(("factors",), 0.0, types=("int64",)),
    },
    "row_noise?": {
        "precision": Each(Piece(("ends",), 0.0), of="layers"),
        "cells": Each(Piece(("ends",), 0.0), of="layers"),
        "half": Piece(("layers",), 0.0),
        "floor": Piece(("relations",), 0.0),
    },
    "terms?": {
        "precision": Piece(("entities", "factors"), 0.0),
        "parameters": Each(Piece(("learned",)), of="relations"),
        "bias_prior": Piece((2, "layers")),
        "biased": Piece(("layers",), types=("bool",)),
        "links": Piece(("layers", "layers")),
        "has_cells": Each(Piece(("ends",), types=("bool",)), of="layers"),
        "filled": Piece(("relations",), types=("bool",)),
        "point": bool,
        "var?": Each(Piece(("members", "factors"), 0.0, types=_FLOATS), of="entities"),
        "bias_var?": Each(Piece(("ends",), 0.0, types=_FLOATS), of="layers"),
    },
    "pairs?": Each({"code": Piece(("pairs",), 0, 255, types=("uint8",)), "inverted": bool}, of="relations"),
    "draws?": {
        "factors": Each(Piece(("draws", "members+1", "factors"), types=("float16", "float32")), of="entities"),
        "unit?": Piece(("entities", "factors"), 1e-30),
        "biases": Each(Piece(("draws", "ends+1"), types=("float32",)), of="layers"),
        "scales": Piece(("draws", "relations", "factors")),
        "parameters": Each(Piece(("draws", "parameters")), of="relations"),
        "inclusion": Piece(("entities", "factors"), 0.0, 1.0),
        "effective": Piece(("relations",), 0.0, math.inf),
        "r_hat": Piece(("relations",), 0.0, math.inf),
        "origin?": _ORIGIN,
    },
    "run?": dict,
    "made_of?": dict,
    "n_settled?": int,
    "explained": {
        "bias": Piece(("relations",)),
        "factors": Piece(("relations", "factors")),
        "total": Piece(("relations",)),
    },
}

#: What is known of a `PCA`, `CCA` or `GFA`: the loadings of all features side by side, in the units of the data.
_LOADINGS = {
    "mean": Piece(("features", "factors"), -DATA, DATA),
    "var": Piece(("features", "factors"), 0.0, math.inf),
    "weight": Piece(("features",), 0.0, math.inf),
    "precision": Piece(("factors",), math.ulp(0.0), math.inf),
    "intercepts": Piece(("features",), -DATA, DATA),
    "noise_variance": Piece(("views",), 0.0, math.inf),
    "explained": Piece(("views", "factors")),
}
_STRUCTURE = {"activity": Piece(("views", "factors"), 0.0, SHARE), "on": Piece(("sets", "factors"), types=("bool",))}
_TABLE = {**_COMMON, "views": Each({"name": str, "width": int, "features?": Each(str)}, of="views")}
_SEVERAL = {**_TABLE, "fitted": {**_LOADINGS, **_STRUCTURE}}
_ONE = {**_TABLE, "fitted": {**_LOADINGS, "score_variance": Piece(("factors",), 0.0, math.inf)}}

DOCUMENTS = {"GCMF": COLLECTIVE, "GFA": _SEVERAL, "CCA": {**_SEVERAL, "flat_target": bool}, "PCA": _ONE}


@dataclass(frozen=True)
class Matcher:
    """Compares values with descriptions, and remembers how large each dimension is."""

    sizes: dict[str, int] = field(default_factory=dict)
    member_of: Callable[[str, int], str] = lambda dim, _: dim
    """The dimension that a name stands for in item n of a list: the members of which set."""

    def match(self, value: object, wanted: Any, where: str, at: int = 0) -> None:
        """Refuse a value that is not as described."""
        if isinstance(wanted, Piece):
            self._array(value, wanted, where, at)
        elif isinstance(wanted, Each):
            self._list(value, wanted, where)
        elif isinstance(wanted, dict):
            self._mapping(value, wanted, where, at)
        elif isinstance(wanted, tuple):
            if not isinstance(value, str) or value not in wanted:
                refuse(where, value, f"one of {', '.join(wanted)}")
        elif not isinstance(value, wanted) or (isinstance(value, bool) and wanted in (int, NUMBER, int | None)):
            refuse(where, value, _type_name(wanted))
        elif isinstance(value, float) and not math.isfinite(value):
            refuse(where, value, "a finite number")
        elif wanted is str and not _is_text(value):
            refuse(where, value, "text that can be shown")

    def _mapping(self, value: object, wanted: dict[str, Any], where: str, at: int) -> None:
        if not isinstance(value, dict):
            refuse(where, value, "a mapping")
        known = {key.removesuffix("?"): part for key, part in wanted.items()}
        for key in wanted:
            if key not in value and not key.endswith("?"):
                msg = f"{where or 'the model'} lacks {key!r}"
                raise MalformedError(msg)
        for key, part in value.items():
            if key not in known:
                msg = f"{where or 'the model'} holds {key!r}, which this gcmf does not know"
                raise MalformedError(msg)
            self.match(part, known[key], f"{where}/{key}".lstrip("/"), at)

    def _list(self, value: object, wanted: Each, where: str) -> None:
        if not isinstance(value, list):
            refuse(where, value, "a list")
        if wanted.of is not None:
            self._agree(wanted.of, len(value), where)
        for n, part in enumerate(value):
            self.match(part, wanted.item, f"{where}/{n}", n)

    def _array(self, value: object, wanted: Piece, where: str, at: int) -> None:
        if not isinstance(value, np.ndarray):
            refuse(where, value, "an array")
        if value.dtype.name not in wanted.types:
            refuse(where, value, f"an array of {' or '.join(wanted.types)}")
        if value.ndim != len(wanted.dims):
            refuse(where, value, f"an array of {len(wanted.dims)} dimensions")
        for dim, size in zip(wanted.dims, value.shape, strict=True):
            if isinstance(dim, int):
                self._agree(str(dim), size, where, expected=dim)
            else:
                self._agree(self.member_of(dim, at), size, where)
        if value.dtype == np.bool_ or not value.size:
            return
        low, high = float(value.min()), float(value.max())  # float16 could not be compared with its own limits
        if not (math.isfinite(low) and math.isfinite(high)):
            msg = f"{where} holds numbers that are not finite"
            raise MalformedError(msg)
        if low < wanted.low or high > wanted.high:
            msg = f"{where} holds numbers that are not within {wanted.low:g} and {wanted.high:g}"
            raise MalformedError(msg)

    def _agree(self, dim: str, size: int, where: str, *, expected: int | None = None) -> None:
        known = self.sizes.setdefault(dim, size) if expected is None else expected
        if known != size:
            msg = f"{where} has {size} {dim if expected is None else 'rows'}, where there are {known}"
            raise MalformedError(msg)


def refuse(where: str, value: object, wanted: str) -> NoReturn:
    """Say what was found and what was expected."""
    if isinstance(value, np.ndarray):
        found = f"an array of {value.dtype.name}, {value.shape}"
    else:
        found = _cut(repr(value)) if isinstance(value, str | int | float | NoneType) else f"a {type(value).__name__}"
    msg = f"{where or 'the model'} is {found}, where {wanted} is expected"
    raise MalformedError(msg)


def refuse_faults(faults: dict[str, bool]) -> None:
    """Refuse a document for the first fault that it has."""
    for fault, there in faults.items():
        if there:
            raise MalformedError(fault)


def _is_text(value: Any) -> bool:
    """Whether a string is whole characters: half of one cannot be shown, or be the name of a column of polars."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _type_name(wanted: type | UnionType) -> str:
    names = {str: "a string", int: "an integer", NUMBER: "a number", bool: "True or False", dict: "a mapping",
             list: "a list", np.ndarray: "an array"}  # fmt: skip
    return names.get(wanted, str(wanted))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
