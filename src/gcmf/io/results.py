"""People's tables out: everything a model found, as named tables, plain values, and files."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gcmf.errors import OptionError, did_you_mean
from gcmf.estimators.tables import (
    bias_table,
    effect_table,
    explained_table,
    factor_table,
    mate_table,
    strength_table,
    structure_table,
)
from gcmf.io.database import DatabaseTable, write_rows
from gcmf.io.outputs import check_new, make_folder, write_tables
from gcmf.io.sources.postgres import check_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted


def tables(model: GCMF) -> dict[tuple[str, ...], Callable[[], pd.DataFrame]]:
    """Return what makes each table of a model: factors, structure, what is explained, strengths, biases, units.

    ("bias", "ratings", "user") is the table of the biases of the users in the ratings. Ids and names are columns, so
    that any reader finds them.
    """
    fitted = model.fitted_
    made: dict[tuple[str, ...], Callable[[], pd.DataFrame]] = {}
    for entity in model.schema_.entities:
        made["factors", entity] = partial(_factors, fitted, entity)
    for entity in fitted.effects:
        made["coefficients", entity] = partial(effect_table, fitted, entity)
    made["structure",] = partial(_structure, fitted)
    made["variance_explained",] = lambda: _with_ids(explained_table(fitted), "relation")
    if fitted.scales is not None:
        made["strengths",] = lambda: _with_ids(strength_table(fitted), "relation")
    if fitted.directed.any():
        made["mates",] = lambda: _with_ids(mate_table(fitted), "factor")
    for m, relation in enumerate(model.schema_.relations):
        for side, entity in enumerate((relation.rows, relation.cols)):
            which = () if relation.symmetric is None or relation.symmetric else (("rows", "cols")[side],)
            made["bias", relation.name, entity, *which] = partial(_biases, fitted, m, side, entity)
        units = _units(fitted, m)
        if units is not None:
            frame = pd.DataFrame.from_dict(units, orient="index", columns=["mean", "deviation"])
            made["units", relation.name] = partial(_with_ids, frame, "column")
    return made


def export(model: GCMF, folder: Path, *, kind: str, force: bool = False) -> list[Path]:
    """Write every table of a model into a folder, as Parquet or CSV, and return the files.

    All files get their names at the end, together.
    """
    make_folder(folder)
    made = tables(model)
    files = [folder / f"{name}.{kind}" for name in file_names(list(made))]
    for file in files:
        check_new(file, force=force)
    write_tables((make(), file) for make, file in zip(made.values(), files, strict=True))
    return files


def export_to(model: GCMF, address: str, wanted: Sequence[str], *, force: bool = False) -> list[DatabaseTable]:
    """Write tables of a model into a PostgreSQL server, "factors_user=shop.users" each, and return where they are.

    All of them, or none, if one cannot be written.
    """
    check_address(address)
    made = tables(model)
    by_name = dict(zip(file_names(list(made)), made.values(), strict=True))
    targets: dict[str, DatabaseTable] = {}
    for text in wanted:
        name, _, table = text.partition("=")
        if name not in by_name or not table or name in targets:
            msg = (
                f"--table {text!r}: say once for each table what goes there, such as factors_user=my_table. There are"
                f" {', '.join(by_name)}.{did_you_mean(name, by_name)}"
            )
            raise OptionError(msg)
        targets[name] = DatabaseTable(address, table, force)
    if not targets:
        msg = f"{address} is a database: name tables with --table, of {', '.join(by_name)}: --table structure=my_table."
        raise OptionError(msg)
    for target in targets.values():
        target.check()
    write_rows([((by_name[name](),), target) for name, target in targets.items()])
    return list(targets.values())


def file_names(made: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a file name for each of many tables, no two of them the same on any file system.

    The parts of a name are joined by "_", as in bias_ratings_user, with %2F for what a file name cannot hold. Where
    two tables would share a file so, for file systems that do not tell A from a too, theirs are joined by ".", which
    no part holds, and all but a to z, digits, _ and - is escaped.
    """
    simple = ["_".join(_escape(part, r"[^\w -]") for part in parts) for parts in made]
    folded = [unicodedata.normalize("NFKC", name).casefold() for name in simple]  # the same to some file systems
    used = Counter(folded)
    return [
        name if used[same] == 1 else ".".join(_escape(part, r"[^a-z0-9_-]") for part in parts)
        for name, same, parts in zip(simple, folded, made, strict=True)
    ]


def _escape(name: str, strange: str) -> str:
    """Return a name with the bytes of each strange character as %2F."""

    def escaped(odd: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in odd[0].encode("utf-8", "surrogatepass"))

    return re.sub(strange, escaped, name)


def describe(model: GCMF) -> dict[str, Any]:
    """Return what there is to say of a model as plain values: schema, structure, variance explained, noise, fit.

    The noise of a relation whose columns have units of their own (`standardized`) is in standard deviations of the
    columns, as its biases are.
    """
    fitted = model.fitted_
    explained = explained_table(model.fitted_)
    strengths = None if fitted.scales is None else strength_table(fitted)
    mates = mate_table(fitted)["mate"] if fitted.directed.any() else None
    noise = np.sqrt(fitted.noise) * fitted.scale
    relations = [
        {
            "name": relation.name, "rows": relation.rows, "cols": relation.cols, "likelihood": relation.likelihood,
            **({} if relation.symmetric is None else {"symmetric": relation.symmetric}),
            "noise_std": float(noise[m]) if noise[m] > 0 else None,
            "zeros": fitted.drawn[relation.name]._asdict() if relation.name in fitted.drawn else None,
            "units": _units(fitted, m), "standardized": fitted.units[m] is not None,
            "explained": dict(zip(explained.columns, map(float, explained.loc[relation.name].to_numpy()), strict=True)),
            **({} if strengths is None else {"strength": strengths.loc[relation.name].to_dict()}),
        }
        for m, relation in enumerate(model.schema_.relations)
    ]  # fmt: skip
    factors = [
        {
            "name": str(name), "role": row["role"], "relations": list(row["relations"]),
            "activity": {entity: float(row[entity]) for entity in model.schema_.entities},
            **({} if mates is None else {"mate": str(mates[str(name)])}),
        }
        for name, row in structure_table(model.fitted_).iterrows()
    ]  # fmt: skip
    return {
        "entities": {name: len(fitted.vocabularies[name]) for name in model.schema_.entities},
        "covariates": {name: _used(fitted, name) for name in fitted.effects},
        "relations": relations,
        "factors": factors,
        "fit": {
            "status": model.status_.name.lower(), "says": str(model.status_), "iterations": model.n_iter_,
            "elbo": model.elbo_, "objective": fitted.objective,
        },
    }  # fmt: skip


def _used(fitted: Fitted, entity: str) -> dict[str, list[str]]:
    """Source columns of the covariates of an entity set, and those of them that its factors and biases regress on."""
    effects = fitted.effects[entity]
    columns = [feature.column for feature in effects.features]
    factors, biases = ((np.abs(mean).sum(axis=1) > 0).tolist() for mean in (effects.mean, effects.bias_mean))
    used = {"columns": [True] * len(columns), "factors": factors, "biases": biases}
    return {
        what: list(dict.fromkeys(column for column, is_used in zip(columns, flags, strict=True) if is_used))
        for what, flags in used.items()
    }


def _units(fitted: Fitted, m: int) -> dict[str, list[float]] | None:
    """Mean and deviation of each column that was standardized; None for a relation without any."""
    units = fitted.units[m]
    if units is None:
        return None
    ids = fitted.vocabularies[fitted.schema.relations[m].cols].ids
    return {str(name): [float(center), float(scale)] for name, center, scale in zip(ids, *units, strict=True)}


def _factors(fitted: Fitted, entity: str) -> pd.DataFrame:
    means, deviations = factor_table(fitted, entity), factor_table(fitted, entity, std=True)
    return _with_ids(pd.concat([means, deviations.add_suffix("_std")], axis=1), entity)


def _structure(fitted: Fitted) -> pd.DataFrame:
    structure = structure_table(fitted)
    structure["relations"] = structure["relations"].map("; ".join)
    return _with_ids(structure, "factor")


def _biases(fitted: Fitted, m: int, side: int, entity: str) -> pd.DataFrame:
    bias = {"bias": bias_table(fitted, m, side), "std": bias_table(fitted, m, side, std=True)}
    return _with_ids(pd.DataFrame(bias), entity)


def _with_ids(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Turn the index into a first column; ids of mixed kinds become text, as no file column can mix them."""
    index = frame.index
    ids = index.map(str) if index.dtype == object else index
    out = frame.reset_index(drop=True)
    out.insert(0, name if name not in out.columns else f"{name}_id", ids)
    return out
