"""A project to be written: its sections, and the reason of each guess in a comment."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import tomli_w

from gcmf.errors import DataError
from gcmf.storage.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.sources.specs import EntitySpec, FeatureSpec, RelationSpec


@dataclass
class Draft:
    """A project to be written: its sections, why each is as it is, and what a person should check."""

    relations: list[RelationSpec] = field(default_factory=list)
    features: list[FeatureSpec] = field(default_factory=list)
    entities: list[EntitySpec] = field(default_factory=list)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    """By section, such as "relations.ratings"."""
    notes: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    """Every column that no section uses, and why."""


def check_target(path: Path, *, replace: bool) -> None:
    """Refuse a project file that is there already."""
    if path.exists() and not replace:
        msg = f"{path} is there already; use --force to replace it, or --out to write elsewhere."
        raise DataError(msg)


def write_project(draft: Draft, path: Path, *, replace: bool) -> None:
    """Write a project file, with the reason of each guess in a comment."""
    check_target(path, replace=replace)
    with replacing(path, what="a project file") as partial:
        partial.write_text(to_toml(draft), encoding="utf-8")


def to_toml(draft: Draft) -> str:
    """Return a project as TOML."""
    lines = ["# Written by `gcmf init`: every guess is explained, and meant to be corrected where it is wrong.",
             "# Paths are relative to this file.", ""]  # fmt: skip
    if draft.notes:
        lines += ["# To be checked:", *(_comment(f"- {note}") for note in draft.notes), ""]
    for kind, specs in (("relations", draft.relations), ("features", draft.features), ("entities", draft.entities)):
        for spec in specs:
            given = {key: value for key, value in asdict(spec).items() if key != "name" and value not in (None, ())}
            if given.get("layout") == "long":
                del given["layout"]
            lines += [_comment(reason) for reason in draft.reasons.get(f"{kind}.{spec.name}", [])]
            lines.append(tomli_w.dumps({kind: {spec.name: given}}))
    lines += ["[fit]", 'n_factors = "auto"  # as many as pay for themselves; a number is a cap', "random_state = 0", "",
              "[output]", 'model = "model.gcmf"', ""]  # fmt: skip
    return "\n".join(lines)


def _comment(text: str) -> str:
    """Return a comment of one line; what TOML does not take in comments is escaped."""
    line = " ".join(text.split())
    return "# " + re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", lambda odd: f"\\u{ord(odd[0]):04x}", line)
