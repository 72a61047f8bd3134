"""A project file, written: sections, and the reason of each guess in a comment."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError
from gcmf.storage.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.discover import Found

_CONTROLS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""What TOML wants escaped in texts, and does not take in comments at all."""


def write_project(found: Found, path: Path, *, replace: bool) -> None:
    """Write a project file, with the reason of each guess in a comment."""
    check_target(path, replace=replace)
    with replacing(path, what="a project file") as partial:
        partial.write_text(to_toml(found), encoding="utf-8")


def check_target(path: Path, *, replace: bool) -> None:
    """Refuse a project file that is there already."""
    if path.exists() and not replace:
        msg = f"{path} is there already; use --force to replace it, or --out to write elsewhere."
        raise DataError(msg)


def to_toml(found: Found) -> str:
    """Return a project as TOML."""
    lines = ["# Written by `gcmf init`: every guess is explained, and meant to be corrected where it is wrong.",
             "# Paths are relative to this file.", ""]  # fmt: skip
    if found.notes:
        lines += ["# To be checked:", *(f"# - {_one_line(note)}" for note in found.notes), ""]
    for kind, specs in (("relations", found.relations), ("features", found.features), ("entities", found.entities)):
        for spec in specs:
            lines += [f"# {_one_line(reason)}" for reason in found.reasons.get(f"{kind}.{spec.name}", [])]
            lines += [f"[{kind}.{_key(spec.name)}]", *_values(spec), ""]
    lines += ["[fit]", "n_factors = 20  # to start from; superfluous ones are switched off", "random_state = 0", "",
              "[output]", 'model = "model.gcmf"', ""]  # fmt: skip
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return _CONTROLS.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def _text(value: object) -> str:
    """Return a text or a list of them as TOML, which escapes as JSON does, and one character more: DEL."""
    return _escaped(json.dumps(value, ensure_ascii=False))


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)


def _values(spec: Any) -> list[str]:  # noqa: ANN401 - any section
    shown = []
    for one in fields(spec):
        value = getattr(spec, one.name)
        if one.name != "name" and value is not None and value != () and not (one.name == "layout" and value == "long"):
            listed = list(value) if isinstance(value, tuple) else value
            shown.append(f"{one.name} = {_text(listed)}")
    return shown
