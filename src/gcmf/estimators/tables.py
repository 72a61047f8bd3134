"""What a model found as named tables: built in pandas, given in the kind of frame that was brought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from narwhals.stable.v1 import dependencies

from gcmf.model.structure import roles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gcmf.data.id_kind import IdKind
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.model.draws import Draws
    from gcmf.model.fitted import Fitted

Frame = pd.DataFrame
"""A data frame: of pandas, as type checkers are told, or of polars if that is what the collection was made of."""


# --- in pandas ----------------------------------------------------------------------------------------------


def factor_table(fitted: Fitted, entity: str, *, std: bool = False, weak: bool = False) -> pd.DataFrame:
    """Means or deviations of the factors of one entity set, ids × factors."""
    e, n = fitted.schema.entity_index(entity), _shown(fitted, weak=weak)
    values = np.sqrt(fitted.var[e][:, :n]) if std else fitted.mean[e][:, :n].copy()
    return pd.DataFrame(values, index=labels(fitted.vocabularies[entity]), columns=fitted.factor_names[:n])


def bias_table(fitted: Fitted, m: int, side: int, *, std: bool = False) -> pd.Series[float]:
    """Means or deviations of one side's biases, in the scale of the predictor."""
    relation, layer = fitted.schema.relations[m], 2 * m + side
    values = np.sqrt(fitted.bias_var[layer]) if std else fitted.bias_mean[layer]
    ids = fitted.vocabularies[(relation.rows, relation.cols)[side]]
    return pd.Series(values * fitted.scale[m], index=labels(ids), name=relation.name)


def structure_table(fitted: Fitted, *, weak: bool = False) -> pd.DataFrame:
    """A row per factor: its activity in every entity set, its role, and the relations it reaches."""
    n, names = _shown(fitted, weak=weak), [r.name for r in fitted.schema.relations]
    pattern = fitted.structure
    activity = (fitted.activity if weak else np.where(pattern.on, fitted.activity, 0.0))[:, :n].T
    table = pd.DataFrame(activity, index=fitted.factor_names[:n], columns=list(fitted.schema.entities))
    role, reached = roles(pattern.seen[:, :n])
    table["role"] = [*role[: fitted.n_factors], *["weak"] * (n - fitted.n_factors)]
    table["relations"] = [tuple(names[m] for m in relations) for relations in reached]
    if fitted.draws is not None:
        for e, name in enumerate(fitted.schema.entities):
            table[f"P({name})"] = fitted.draws.inclusion[e, :n]
    return table


def diagnostic_table(draws: Draws | None, names: list[str]) -> pd.DataFrame:
    """Relation × how many draws there are, how many independent ones they are worth, and whether they agree."""
    columns = ["draws", "effective", "r_hat"]
    if draws is None:
        return pd.DataFrame(columns=columns, dtype=float)
    known = draws.r_hat > 0.0  # of fewer than 8 draws of a chain, nothing is
    effective, r_hat = (np.where(known, a, np.nan) for a in (draws.effective, draws.r_hat))
    values = zip([draws.n] * len(names), effective, r_hat, strict=True)
    return pd.DataFrame(values, index=names, columns=columns)


def mate_table(fitted: Fitted, *, weak: bool = False) -> pd.DataFrame:
    """Factor and mate: with which factor is received what each sends in directed relations."""
    n = _shown(fitted, weak=weak)
    mates = range(n) if fitted.scales is None else fitted.scales.mate[:n].tolist()
    return pd.DataFrame({"mate": [fitted.factor_names[k] for k in mates]}, index=fitted.factor_names[:n])


def noise_table(fitted: Fitted, m: int, side: str | None) -> pd.Series[float] | float:
    """Deviation of the noise of relation m, or of each of its rows or columns, in the user's units."""
    deviation = float(np.sqrt(fitted.noise[m]) * fitted.scale[m])
    if side is None:
        return deviation
    number = ("rows", "cols").index(side)
    entity = fitted.schema.relations[m].cols if number else fitted.schema.relations[m].rows
    ids = fitted.vocabularies[entity].ids
    share = 1.0 if fitted.row_noise is None else fitted.row_noise.share(2 * m + number, np.arange(len(ids)))
    of_columns = fitted.units[m] if number else None
    units = 1.0 if of_columns is None else of_columns.of(np.arange(len(ids)))[1]
    return pd.Series(deviation * np.sqrt(share) * units, index=ids, name="noise", dtype=float)


def strength_table(fitted: Fitted, *, weak: bool = False) -> pd.DataFrame:
    """Relation × factor: d √⟨u_r²⟩ √⟨u_c²⟩, the scale times the root mean squares of the factor in the two sets."""
    n, names = _shown(fitted, weak=weak), [r.name for r in fitted.schema.relations]
    size = [np.sqrt((mean.astype(np.float64) ** 2).mean(axis=0)) for mean in fitted.mean]
    values = np.stack([size[r] * size[c] for r, c in fitted.ends])
    if fitted.scales is not None:
        met = [
            size[c][fitted.scales.mate] if way else size[c]
            for (_, c), way in zip(fitted.ends, fitted.directed, strict=True)
        ]
        values = fitted.scales.mean * np.stack([size[r] * s for (r, _), s in zip(fitted.ends, met, strict=True)])
    return pd.DataFrame(values[:, :n], index=names, columns=fitted.factor_names[:n])


def explained_table(fitted: Fitted, *, weak: bool = False) -> pd.DataFrame:
    """Relation × factor, and "bias" and "total": shares of variance or deviance."""
    n, names = _shown(fitted, weak=weak), [r.name for r in fitted.schema.relations]
    table = pd.DataFrame(fitted.explained.factors[:, :n], index=names, columns=fitted.factor_names[:n])
    table["bias"], table["total"] = fitted.explained.bias, fitted.explained.total
    return table


def effect_table(fitted: Fitted, entity: str, *, weak: bool = False) -> pd.DataFrame:
    """A line per feature and factor, and per feature and relation's bias: mean and deviation of the coefficient."""
    effects, n = fitted.effects[entity], _shown(fitted, weak=weak)
    names, parts = [str(feature) for feature in effects.features], []
    for k, factor in enumerate(fitted.factor_names[:n]):
        if fitted.structure.on[fitted.schema.entity_index(entity), k]:
            parts.append((factor, effects.mean[:, k], effects.std[:, k]))
    for m, relation in enumerate(fitted.schema.relations):
        for side, name in enumerate((relation.rows, relation.cols)):
            if name == entity and not (side and relation.symmetric):
                mean, std = (a[:, 2 * m + side] * fitted.scale[m] for a in (effects.bias_mean, effects.bias_std))
                which = "" if relation.symmetric is not False else (" (rows)", " (cols)")[side]
                parts.append((f"bias in {relation.name}{which}", mean, std))
    tables = [pd.DataFrame({"feature": names, "of": of, "mean": mean, "std": std}) for of, mean, std in parts]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["feature", "of", "mean", "std"])


def _shown(fitted: Fitted, *, weak: bool) -> int:
    """How many factors a table shows: those that pass the on/off test, or the weak ones too."""
    return fitted.n_factors + (fitted.n_weak if weak else 0)


def labels(ids: Vocabulary) -> pd.Index[Any]:
    """Return ids as the index that they were brought as: with levels, or with categories."""
    kind = ids.kind
    if kind is not None and kind.name == "levels":
        return pd.MultiIndex.from_tuples(ids.ids, names=list(kind.levels))
    if kind is not None and kind.name == "category":
        return pd.CategoricalIndex(ids.ids, categories=list(kind.categories), ordered=kind.ordered)
    return ids.ids


# --- in the kind that was brought ---------------------------------------------------------------------------


def give(table: pd.DataFrame, frame: str, *, name: str, ids: Vocabulary | None = None) -> Frame:
    """Return a table as the kind of frame that was brought.

    A polars frame has no index: ids become the first column, called `name`, in the type that they were brought in;
    ids of several levels become a column each. Where polars is not installed, as may be where a model is only
    loaded, the answer is of pandas.
    """
    polars = _polars() if frame == "polars" else None
    if polars is None:
        return table
    index, kind = (table.index, None) if ids is None else (ids.ids, ids.kind)
    columns = _id_columns(polars, name if name not in table.columns else f"{name}_id", index, kind)
    for column, values in table.items():
        numbers = values.dtype.kind in "fiub"
        items = values.to_numpy() if numbers else [list(v) if isinstance(v, tuple) else v for v in values.tolist()]
        columns.append(polars.Series(column, items))
    made: Frame = polars.DataFrame(columns)
    return made


def tidy(columns: Mapping[str, Any], frame: str) -> Frame:
    """Return a table without an index as the kind of frame that was brought; ids come as (vocabulary, positions)."""
    polars = _polars() if frame == "polars" else None
    if polars is None:
        return pd.DataFrame({name: _ids(*c) if isinstance(c, tuple) else c for name, c in columns.items()})
    made: list[Any] = []
    for name, column in columns.items():
        if isinstance(column, tuple):
            ids, at = column
            made += _id_columns(polars, name, ids.ids.take(at), ids.kind)
        else:
            made.append(polars.Series(name, column))
    whole: Frame = polars.DataFrame(made)
    return whole


def give_plain(table: pd.DataFrame, frame: str) -> Frame:
    """Return a table without an index, of which no column is ids of one set, as the kind of frame that was brought."""
    polars = _polars() if frame == "polars" else None
    if polars is None:
        return table
    columns = {}
    for name, values in table.items():
        listed = [None if gone else value for value, gone in zip(values.tolist(), values.isna(), strict=True)]
        try:
            columns[name] = polars.Series(str(name), listed, strict=True)
        except TypeError:  # ids of several sets, which no column can mix
            columns[name] = polars.Series(str(name), [None if value is None else str(value) for value in listed])
    made: Frame = polars.DataFrame(columns)
    return made


def _ids(ids: Vocabulary, at: NDArray[np.int64]) -> Any:
    """Some ids, in any order and as often as wanted, as a column: with categories if they were brought so."""
    flat = ids.kind is not None and ids.kind.name == "levels"
    return (ids.ids if flat else labels(ids)).take(at)


def like(values: NDArray[np.float64], *given: object, name: str) -> Any:
    """Return predictions of paired ids as a column of the kind that the ids were given in, if they were in one."""
    for ids in given:
        if isinstance(ids, pd.Series) and len(ids) == len(values):
            return pd.Series(values, index=ids.index, name=name)
        if dependencies.is_polars_series(ids) and len(ids) == len(values):
            return type(ids)(name, values)
    return values


def _polars() -> Any:
    try:
        import polars  # noqa: PLC0415 - only who brought a frame of it
    except ImportError:
        return None
    return polars


def _id_columns(polars: Any, name: str, index: pd.Index[Any], kind: IdKind | None) -> list[Any]:
    first = index[0] if len(index) else None
    if isinstance(first, tuple):
        return [polars.Series(f"{name}_{k}", [levels[k] for levels in index]) for k in range(len(first))]
    values = index.to_numpy() if index.dtype.kind in "biufmM" else index.tolist()
    try:
        column = polars.Series(name, values)
    except TypeError:  # ids of several types, which no column can mix
        column = polars.Series(name, list(map(str, values)))
    if kind is None or kind.name in ("levels", "category"):
        return [column]
    return [column.cast(polars.Enum(kind.categories) if kind.name == "Enum" else getattr(polars, kind.name))]
