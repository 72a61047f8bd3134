"""Ids as tensors: numbers and times as they are, text as one UTF-8 buffer, the rest as tagged JSON lines.

What comes from a file is checked before it is used: its type, its size against the number of ids expected, and every
value that some library would take at its word.
"""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NoReturn
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from gcmf.data.vocabulary import show_id
from gcmf.errors import StorageError
from gcmf.storage.layout import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

Encoded = dict[str, Any]
"""What stands in the file for the ids of one entity set: a `kind`, and what that kind needs."""

_NUMBERS = ("int64", "uint64", "float64", "float32", "bool")
_TEXTS = ("object", "str", "string")
_TIME = re.compile(r"(datetime64|timedelta64)\[(s|ms|us|ns)(?:, (.+))?\]")
_OFFSET = re.compile(r"UTC(?:[+-]\d\d:\d\d)?")
_FIELDS = {
    "range": ("start", "stop", "step"),
    "time": ("dtype", "values"),
    "numbers": ("values",),
    "text": ("dtype", "buffer", "ends"),
    "mixed": ("buffer", "ends"),
}
_DEEPEST = 16
"""Tuples within tuples that an id may have."""


# --- out ----------------------------------------------------------------------------------------------------


def encode(index: pd.Index[Any], *, entity: str) -> Encoded:
    """Return the ids as a few plain values and arrays, from which `decode` makes an equal index."""
    if isinstance(index, pd.RangeIndex):
        return {"kind": "range", "start": index.start, "stop": index.stop, "step": index.step}
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex) and _is_time(str(index.dtype)):
        return {"kind": "time", "dtype": str(index.dtype), "values": index.asi8}
    if str(index.dtype) in _NUMBERS:
        return {"kind": "numbers", "values": index.to_numpy()}
    items = list(index)
    if all(type(item) is str for item in items) and str(index.dtype) in _TEXTS:
        return {"kind": "text", "dtype": str(index.dtype), **_pack(items)}
    return {"kind": "mixed", **_pack(_line(item, entity) for item in items)}


def refuse(index: pd.Index[Any], *, entity: str) -> None:
    """Raise the StorageError that `encode` would raise, without encoding more than it must."""
    if index.dtype == object or isinstance(index, pd.DatetimeIndex):
        encode(index, entity=entity)


def _is_time(dtype: str) -> bool:
    match = _TIME.fullmatch(dtype)
    return match is not None and (match[3] is None or (match[1] == "datetime64" and _is_zone(match[3])))


def _is_zone(name: str) -> bool:
    """Whether a time zone is one that every computer knows by this name, and no path to a file of somebody's."""
    if _OFFSET.fullmatch(name):
        return True
    try:
        return bool(ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # unknown, no plain name, a folder
        return False


def _pack(lines: Iterable[str]) -> Encoded:
    """One buffer and where each line ends; lone surrogates, which file names may hold, pass through."""
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    ends = np.cumsum([len(line) for line in encoded], dtype=np.int64)
    return {"buffer": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ends": ends}


def _line(item: object, entity: str) -> str:
    try:
        return json.dumps(_tagged(item))
    except (TypeError, ValueError):
        # Said here, where the whole id is known and not only the part of a tuple that is at fault.
        msg = (
            f"The id {show_id(item)} of entity set {entity!r} is of type {type(item).__name__}, but a model "
            "file holds integers, floats, booleans, strings, dates, timestamps (in zones such as Europe/Paris) and"
            " tuples of these. Give the entities such ids before fitting, for example str(id)."
        )
        raise StorageError(msg) from None


def _tagged(item: object, depth: int = 0) -> object:
    """JSON for an id: what JSON knows stands for itself, the rest is an object whose key names the type."""
    if isinstance(item, np.bool_ | np.integer | np.floating | np.str_):
        item = item.item()
    if item is None or type(item) in (bool, int, float, str):
        return item
    if isinstance(item, tuple) and depth < _DEEPEST:
        return {"tuple": [_tagged(part, depth + 1) for part in item]}
    if isinstance(item, pd.Timestamp) and (item.tz is None or _is_zone(str(item.tz))):
        zone = None if item.tz is None else str(item.tz)
        return {"timestamp": [str(item.asm8.view(np.int64)), item.unit, zone]}
    if isinstance(item, datetime) and not isinstance(item, pd.Timestamp):
        return {"datetime": item.isoformat()}
    if isinstance(item, date) and not isinstance(item, datetime):
        return {"date": item.isoformat()}
    raise TypeError


# --- in -----------------------------------------------------------------------------------------------------


def decode(encoded: Encoded, *, size: int | None, where: str = "ids") -> pd.Index[Any]:
    """Return the index that `encode` took, of as many ids as expected (None: of any number but a range's)."""
    kind = encoded["kind"]
    fields = set(encoded) - {"kind"}
    if fields != set(_FIELDS[kind]):
        _fail(where, f"ids of kind {kind!r} need {', '.join(_FIELDS[kind])}, and not {', '.join(sorted(fields))}")
    if kind == "range":
        return _range(encoded, size, where)
    array = encoded["ends"] if "ends" in encoded else encoded["values"]
    if array.ndim != 1 or (size is not None and len(array) != size):
        _fail(where, f"an array of shape {array.shape}, where {size if size is not None else 'any number of'} ids are")
    try:
        return _decode(encoded, where)
    except (ValueError, TypeError, OverflowError, KeyError, RecursionError) as error:
        # Text that is no UTF-8 or no JSON, and times that no calendar has; `OutOfBoundsDatetime` is a ValueError.
        _fail(where, f"ids that cannot be read ({type(error).__name__}: {error})")


def _range(encoded: Encoded, size: int | None, where: str) -> pd.Index[Any]:
    """Compare the number of ids with that expected before anything is made of it."""
    start, stop, step = encoded["start"], encoded["stop"], encoded["step"]
    counted = step != 0 and max(abs(start), abs(stop), abs(step)) < 2**62
    if size is None or not counted or len(range(start, stop, step)) != size:
        _fail(where, f"the ids range({start}, {stop}, {step}), where {size} are")
    return pd.RangeIndex(start, stop, step)


def _decode(encoded: Encoded, where: str) -> pd.Index[Any]:
    kind = encoded["kind"]
    if kind == "time":
        return _times(encoded["values"], encoded["dtype"], where)
    if kind == "numbers":
        if encoded["values"].dtype.name not in _NUMBERS:
            _fail(where, f"numbers of type {encoded['values'].dtype.name}")
        return pd.Index(encoded["values"])
    lines = _unpack(encoded, where)
    if kind == "mixed":
        return pd.Index([_item(json.loads(line), where) for line in lines], dtype=object, tupleize_cols=False)
    if encoded["dtype"] not in _TEXTS:
        _fail(where, f"text of type {encoded['dtype']!r}")
    return pd.Index(lines, dtype=encoded["dtype"])


def _times(numbers: npt.NDArray[np.int64], dtype: str, where: str) -> pd.Index[Any]:
    """Read int64 counts of a dtype such as "timedelta64[s]" or "datetime64[us, Europe/Paris]"."""
    if not _is_time(dtype) or numbers.dtype != np.int64:
        _fail(where, f"times of type {dtype!r} in {numbers.dtype.name}")
    plain, _, zone = dtype.rstrip("]").partition(", ")
    values = pd.Index(numbers.view(plain + "]"))
    values = values if not zone else pd.DatetimeIndex(values, tz="UTC").tz_convert(zone)
    for extreme in (values.min(), values.max()):
        str(extreme)  # fails for a moment that no calendar has
    return values


def _unpack(encoded: Encoded, where: str) -> list[str]:
    buffer, ends = encoded["buffer"], encoded["ends"]
    starts = np.concatenate([[0], ends])[:-1]
    sound = buffer.dtype == np.uint8 and buffer.ndim == 1 and ends.dtype == np.int64
    if not sound or (len(buffer) != ends[-1] if len(ends) else len(buffer)) or (ends < starts).any():
        _fail(where, "lines that do not lie one after the other")
    content: bytes = buffer.tobytes()
    return [content[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]


def _item(tagged: Any, where: str, depth: int = 0) -> Any:
    if tagged is None or isinstance(tagged, bool | int | float | str):
        return tagged
    if not isinstance(tagged, dict) or len(tagged) != 1 or depth > _DEEPEST:
        _fail(where, f"the id {json.dumps(tagged)[:60]}, which is of no known type")
    [(kind, value)] = tagged.items()
    if kind == "tuple" and isinstance(value, list):
        return tuple(_item(part, where, depth + 1) for part in value)
    if kind == "timestamp" and isinstance(value, list) and len(value) == 3:
        number, unit, zone = value
        if not (isinstance(number, str) and unit in ("s", "ms", "us", "ns") and (zone is None or _is_zone(zone))):
            _fail(where, f"the moment {value!r}")
        moment = pd.Timestamp(np.datetime64(int(number), unit))
        return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)
    readers = {"datetime": datetime, "date": date}
    if kind not in readers or not isinstance(value, str):
        _fail(where, f"an id of type {kind[:60]!r}")
    return readers[kind].fromisoformat(value)


def _fail(where: str, what: str) -> NoReturn:
    msg = f"{where} holds {what}"
    raise MalformedError(msg)
