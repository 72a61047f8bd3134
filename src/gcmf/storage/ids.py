"""Ids as tensors: numbers and times as they are, text as one UTF-8 buffer, the rest as tagged JSON lines."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.data.vocabulary import show_id
from gcmf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

Encoded = dict[str, Any]
"""What stands in the file for the ids of one entity set: a `kind`, and what that kind needs."""

_NUMBERS = ("int64", "uint64", "float64", "float32", "bool")


def encode(index: pd.Index[Any], *, entity: str) -> Encoded:
    """Return the ids as a few plain values and arrays, from which `decode` makes an equal index.

    Raises
    ------
    StorageError
        When an id is of a kind that has no place in a file.
    """
    if isinstance(index, pd.RangeIndex):
        return {"kind": "range", "start": index.start, "stop": index.stop, "step": index.step}
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
        return {"kind": "time", "dtype": str(index.dtype), "values": index.asi8}
    if str(index.dtype) in _NUMBERS:
        return {"kind": "numbers", "values": index.to_numpy()}
    items = list(index)
    if all(type(item) is str for item in items):
        return {"kind": "text", "dtype": str(index.dtype), **_pack(items)}
    return {"kind": "mixed", **_pack(_line(item, entity) for item in items)}


def decode(encoded: Encoded) -> pd.Index[Any]:
    """Return the index that `encode` took."""
    kind = encoded["kind"]
    if kind == "range":
        return pd.RangeIndex(encoded["start"], encoded["stop"], encoded["step"])
    if kind == "time":
        return _times(encoded["values"], encoded["dtype"])
    if kind == "numbers":
        return pd.Index(encoded["values"])
    lines = _unpack(encoded)
    if kind == "text":
        return pd.Index(lines, dtype=encoded["dtype"])
    return pd.Index([_item(json.loads(line)) for line in lines], dtype=object, tupleize_cols=False)


def refuse(index: pd.Index[Any], *, entity: str) -> None:
    """Raise the StorageError that `encode` would raise, without encoding more than it must."""
    if not isinstance(index, pd.RangeIndex) and index.dtype == object:
        encode(index, entity=entity)


def _times(numbers: npt.NDArray[np.int64], dtype: str) -> pd.Index[Any]:
    """Read int64 counts of a dtype such as "timedelta64[s]" or "datetime64[us, Europe/Paris]"."""
    plain, _, zone = dtype.rstrip("]").partition(", ")
    values = pd.Index(numbers.view(plain + "]"))
    return values if not zone else pd.DatetimeIndex(values, tz="UTC").tz_convert(zone)


def _pack(lines: Iterable[str]) -> Encoded:
    """One buffer and where each line ends; lone surrogates, which file names may hold, pass through."""
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    ends = np.cumsum([len(line) for line in encoded], dtype=np.int64)
    return {"buffer": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ends": ends}


def _unpack(encoded: Encoded) -> list[str]:
    buffer: bytes = encoded["buffer"].tobytes()
    ends: npt.NDArray[np.int64] = encoded["ends"]
    starts = np.concatenate([[0], ends])[:-1]
    return [buffer[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]


def _line(item: object, entity: str) -> str:
    try:
        return json.dumps(_tagged(item))
    except TypeError:
        # Said here, where the whole id is known and not only the part of a tuple that is at fault.
        msg = (
            f"The id {show_id(item)} of entity set {entity!r} is of type {type(item).__name__}, but a model "
            "file holds integers, floats, booleans, strings, dates, timestamps and tuples of these. Give the "
            "entities such ids before fitting, for example str(id)."
        )
        raise StorageError(msg) from None


def _tagged(item: object) -> object:
    """JSON for an id: what JSON knows stands for itself, the rest is an object whose key names the type."""
    if isinstance(item, np.bool_ | np.integer | np.floating | np.str_):
        item = item.item()
    if item is None or type(item) in (bool, int, float, str):
        return item
    if isinstance(item, tuple):
        return {"tuple": [_tagged(part) for part in item]}
    if isinstance(item, pd.Timestamp):
        zone = None if item.tz is None else str(item.tz)
        return {"timestamp": [str(item.asm8.view(np.int64)), item.unit, zone]}
    if isinstance(item, datetime):
        return {"datetime": item.isoformat()}
    if isinstance(item, date):
        return {"date": item.isoformat()}
    raise TypeError


def _item(tagged: Any) -> Any:  # noqa: ANN401 - what was tagged
    if not isinstance(tagged, dict):
        return tagged
    [(kind, value)] = tagged.items()
    if kind == "tuple":
        return tuple(_item(part) for part in value)
    if kind == "timestamp":
        number, unit, zone = value
        moment = pd.Timestamp(np.datetime64(int(number), unit))
        return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)
    return {"datetime": datetime, "date": date}[kind].fromisoformat(value)
