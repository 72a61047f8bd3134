"""Tables and files that are a relation as they are: a column per entity, or a Matrix Market file."""

from __future__ import annotations

from dataclasses import asdict
from itertools import takewhile
from typing import TYPE_CHECKING

from gcmf.errors import counted
from gcmf.io.look import files_of, relative, table_name
from gcmf.io.schema import RelationSpec

if TYPE_CHECKING:
    from pathlib import Path

    from gcmf.io.guess import Links
    from gcmf.io.look import Look

Suggested = tuple[RelationSpec, list[str], list[str]]
"""A relation, why it is as it is, and what a person should check."""
_KNOWN = 0.9
"""Columns of which this share is among the keys of a table are entities of its set."""


def wide_relation(look: Look, looks: list[Look], links: Links) -> Suggested:
    """Return the relation of a wide table, why, and what a person should check."""
    key = look.key or ""
    rest = [one for one in look.columns.values() if one.name != key]
    names = [one.name for one in rest]
    cols, why = _column_set(look, names, looks, links)
    whole = all(one.kind != "number" and (one.low or 0) >= 0 for one in rest)
    high = max(one.high or 0 for one in rest)
    bits = all(one.is_bits or not one.distinct for one in rest)  # a column may hold but one of them, or nothing
    likelihood = "bernoulli" if bits else "poisson" if whole and high > 10 else "gaussian"
    spec = RelationSpec(**asdict(look.source), name=look.name, rows=links.entities[look.name, key], cols=cols,
                        row=key, likelihood=likelihood, layout="wide")  # fmt: skip
    kinds = {"bernoulli": "only 0 and 1", "poisson": "whole numbers, as counts are", "gaussian": "real numbers"}
    reasons = [f"{key} tells the lines apart, and the other {len(rest)} columns are all numbers: a column per {cols}",
               f"{likelihood}: they hold {kinds[likelihood]}; an empty cell is missing"]  # fmt: skip
    note = (
        f"{look.name} was taken for a wide table, a column per {cols}{why}; if its columns differ in kind, make it"
        f" [features.{look.name}] with numeric = [...]."
    )
    if look.is_numbered:
        reasons[0] = f"no column can hold ids, as all {len(rest)} hold 0 and 1: a column per {cols}, lines are numbered"
        note = (
            f"{look.name} has no column of ids: it was taken for a wide table, its lines numbered from 1 as {key}, a"
            f" column per {cols}{why}; to relate its lines with other tables, give it a column of ids."
        )
    return spec, reasons, [note]


def _column_set(look: Look, names: list[str], looks: list[Look], links: Links) -> tuple[str, str]:
    """Return what the columns are, and why: the keys of another table, or what their names begin with."""
    for other in looks:
        if other is not look and other.key is not None and not other.is_wide:
            known = {row[0] for row in other.table.ask(other.distinct(other.key))}
            if sum(name in known for name in names) >= _KNOWN * len(names):
                return links.entities[other.name, other.key], f" as {other.name} lists them"
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*(name.lower() for name in names), strict=False))
    start = "".join(letters[0] for letters in alike).rstrip("0123456789_- .")
    # A table without a header has column0, column1 and so on, which are no entities that another one has too.
    return (start, "") if len(start) >= 3 and start != "column" else (f"{look.stem}_column", "")


def matrix_relations(source: Path, *, base: Path) -> tuple[list[Suggested], list[str]]:
    """Return the relation of every Matrix Market file, and a note on each that cannot be read."""
    from scipy.io import mminfo  # noqa: PLC0415 - only who has one waits for it

    made: list[Suggested] = []
    left_out = []
    for file in files_of(source)[0]:
        if not file.name.lower().endswith((".mtx", ".mtx.gz")):
            continue
        try:
            made.append(_matrix_relation(file, mminfo(file), base))
        except (ValueError, OSError) as error:
            left_out.append(f"{file.name} was left out: it cannot be read as Matrix Market: {error}")
    return made, left_out


def _matrix_relation(file: Path, said: tuple[int, int, int, str, str, str], base: Path) -> Suggested:
    rows, cols, entries, layout, field, _ = said
    name = table_name(file)
    likelihood = {"pattern": "bernoulli", "integer": "poisson"}.get(field, "gaussian")
    blanks = None if layout == "array" else "missing" if likelihood == "gaussian" else "zero"
    spec = RelationSpec(source=relative(file, base), name=name, rows=f"{name}_row", cols=f"{name}_col",
                        likelihood=likelihood, blanks=blanks, layout="matrix")  # fmt: skip
    shape = f"{rows:,} × {cols:,}, {counted(entries, 'value')} of kind {field}"
    note = f"{file.name} does not say what its rows and columns are: rename {spec.rows} and {spec.cols}"
    note += f'; nor what its blanks are: blanks = "{blanks}" is a guess.' if blanks else "."
    return spec, [f"a Matrix Market file, {shape}; its rows and columns are numbered from 0"], [note]
