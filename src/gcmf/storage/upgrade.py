"""From the documents of older formats to those of this one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gcmf.storage.ids import decode
from gcmf.storage.layout import DATA, NUMBER, SCHEMA, Each, Matcher, refuse


def upgrade(document: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the document as this version would have written it."""
    return _from_1(document) if version == 1 else document


def _from_1(document: dict[str, Any]) -> dict[str, Any]:
    """`extras` held the kind of frame, and the units of columns by relation and id."""
    extras = document.pop("extras", None)
    Matcher().match(extras, {"frame?": ("pandas", "polars"), "units?": dict}, "extras")
    Matcher().match({key: document.get(key) for key in SCHEMA}, SCHEMA, "")
    relations = {relation["name"]: relation for relation in document["relations"]}
    for name, units in extras.get("units", {}).items():
        if name not in relations:
            refuse("extras/units", name, "the name of a relation")
        relations[name]["units"] = _units_1(document, relations[name]["cols"], units)
    return {**document, "frame": extras.get("frame", "pandas")}


def _units_1(document: dict[str, Any], cols: str, units: Any) -> dict[str, Any]:  # noqa: ANN401 - from a file
    """Return {id: [center, scale]} as two arrays in the order of the column set."""
    where = "extras/units"
    Matcher().match(units, dict, where)
    columns = [entity["ids"] for entity in document["entities"] if entity["name"] == cols]
    ids = list(decode(columns[0], size=None, where="entities")) if columns else []
    for name, pair in units.items():
        Matcher().match(pair, Each(NUMBER), where)
        if name not in ids or len(pair) != 2 or max(map(abs, pair)) > DATA:
            refuse(where, name, "an id of a column, with its mean and deviation,")
    pairs = np.array([units.get(name, (0.0, 1.0)) for name in ids], dtype=np.float64).reshape(-1, 2)
    return {"center": pairs[:, 0].copy(), "scale": pairs[:, 1].copy()}
