"""Tidy tables of one model, a line per thing that is drawn: each picture `gcmf.plot.x` is drawn from `tables.x`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from gcmf.data.collection import Collection
from gcmf.errors import MissingExtraError, OptionError, UnknownIdError, did_you_mean
from gcmf.estimators.asking import fitted_of
from gcmf.estimators.tables import explained_table, factor_table, structure_table
from gcmf.options import check_choice, check_integer
from gcmf.report.cells import calibration, compare, predicted_vs_observed, reconstruction
from gcmf.report.matching import stability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gcmf.estimators.gcmf import GCMF
    from gcmf.model.fitted import Fitted
    from gcmf.report.recorder import Recorder

__all__ = [
    "calibration", "compare", "convergence", "embedding", "loadings", "predicted_vs_observed", "reconstruction",
    "schema", "stability", "structure", "variance_explained",
]  # fmt: skip

ROLES = ("shared", "partial", "private")
#: Neighbors that t-SNE looks at, at most; it needs three times as many entities.
_PERPLEXITY = 30.0


def schema(of: Collection | GCMF) -> pd.DataFrame:
    """Return a line per relation: what it joins, its likelihood, sizes, cells, and of a model the share explained.

    A model knows of its cells at most which there were (`GCMF(keep=)`), and where blanks are zeros not even how many:
    `cells` is missing there.
    """
    if isinstance(of, Collection):
        found, shares = of.schema, None
        sizes = {name: entities.size for name, entities in of.entities.items()}
        cells: list[float] = [of.relations[relation.name].n_cells for relation in found.relations]
    else:
        fitted = fitted_of(of, "schema")
        found, shares = fitted.schema, fitted.explained.total
        sizes = {name: len(ids) for name, ids in fitted.vocabularies.items()}
        cells = _cells_kept(fitted)
    lines = [
        {"relation": r.name, "rows": r.rows, "cols": r.cols, "likelihood": r.likelihood, "symmetric": r.symmetric,
         "n_rows": sizes[r.rows], "n_cols": sizes[r.cols], "cells": cells[m]}
        for m, r in enumerate(found.relations)
    ]  # fmt: skip
    table = pd.DataFrame(lines).astype({"symmetric": object})
    return table if shares is None else table.assign(explained=shares)


def _cells_kept(fitted: Fitted) -> list[float]:
    """The number of cells that each relation was fitted to, NaN where the model does not know."""
    if fitted.pairs is None or fitted.terms is None:
        return [np.nan] * len(fitted.schema.relations)
    counts = (len(pairs.places) for pairs in fitted.pairs)
    return [
        np.nan if filled else n // 2 if relation.symmetric else n
        for n, filled, relation in zip(counts, fitted.terms.filled, fitted.schema.relations, strict=True)
    ]


def structure(model: GCMF) -> pd.DataFrame:
    """Return a line per factor and entity set or relation: its role, whether it is on there, and how strong.

    `value` is the activity in an entity set, and in a relation the share of variance that the factor adds. Factors
    come as they are drawn: shared ones, then those of the same relations together, more of them first, private last.
    """
    fitted = fitted_of(model, "structure")
    table, explained = structure_table(fitted), explained_table(fitted)
    relations = [r.name for r in fitted.schema.relations]
    lines = []
    for factor in _by_subset(table, relations):
        row = table.loc[factor]
        head = {"factor": factor, "role": row["role"], "subset": " + ".join(row["relations"])}
        for name in fitted.schema.entities:
            lines.append({**head, "kind": "entity set", "name": name, "on": row[name] > 0, "value": row[name]})
        for name in relations:
            share = max(float(explained[factor][name]), 0.0)
            lines.append({**head, "kind": "relation", "name": name, "on": name in row["relations"], "value": share})
    return pd.DataFrame(lines, columns=["factor", "role", "subset", "kind", "name", "on", "value"])


def _by_subset(table: pd.DataFrame, relations: Sequence[str]) -> list[str]:
    """Factors ordered by role, then by the relations that they reach, each as they were: by variance explained."""

    def key(factor: str) -> tuple[int, int, list[int]]:
        reached: Any = table["relations"][factor]
        return ROLES.index(table["role"][factor]), -len(reached), [relations.index(name) for name in reached]

    return sorted(map(str, table.index), key=key)


def variance_explained(model: GCMF) -> pd.DataFrame:
    """Return a line per relation and part ("bias", each factor, "total"): the share of variance that it explains."""
    table = explained_table(fitted_of(model, "variance_explained"))
    parts = ["bias", *(name for name in table.columns if name not in ("bias", "total")), "total"]
    long = table[parts].rename_axis("relation").reset_index()
    return long.melt("relation", var_name="part", value_name="share")


def convergence(model: GCMF, record: Recorder | None = None) -> pd.DataFrame:
    """Return a line per sweep: the bound after it, and how far `below` its best value that is.

    Of a sampled model, "bound" is the log joint density of a draw; `attrs["objective"]` says which of the two it is.
    With a `gcmf.plot.Recorder` that was a callback of the fit also the factors alive, the terms of the bound
    ("term cells", ...) and held-out errors ("error ratings", ...) of the start that was kept.
    """
    fitted = fitted_of(model, "convergence")
    trace = np.asarray(model.elbo_trace_, dtype=np.float64)
    best = trace.max(initial=-np.inf)
    table = pd.DataFrame({"sweep": np.arange(1, len(trace) + 1), "bound": trace, "below": best - trace})
    table.attrs["objective"] = fitted.objective
    if record is None:
        return table
    kept = record.table()
    ends = kept.groupby("restart")["bound"].last()
    # Starts compare by the bound at which their structure was settled: the last one need not be the highest.
    kept = kept[kept["restart"] == (ends - trace[-1]).abs().idxmin()] if len(ends) else kept
    recorded = table.merge(kept.drop(columns=["restart", "bound"]), on="sweep", how="left")
    recorded.attrs = table.attrs
    return recorded


def loadings(model: GCMF, factor: str, entity: str | None = None, *, n: int = 10) -> pd.DataFrame:
    """Return the `n` entities of each set that a factor is largest in, of either sign, from high to low.

    A line has the entity set, the id, its mean, and its standard deviation. `entity` asks for one set only.
    """
    check_integer("n", n, 1)
    fitted = fitted_of(model, "loadings")
    k = factor_index(fitted, factor)
    wanted = fitted.schema.entities if entity is None else (entity,)
    parts = []
    for name in wanted:
        e = fitted.schema.entity_index(name)
        if not fitted.structure.on[e, k]:
            continue
        mean, std = fitted.mean[e][:, k].astype(float), np.sqrt(fitted.var[e][:, k].astype(float))
        top = np.argsort(-np.abs(mean), kind="stable")[:n]
        top = top[np.argsort(-mean[top], kind="stable")]
        ids = fitted.vocabularies[name].ids.take(top)
        parts.append(pd.DataFrame({"set": name, "id": ids.astype(object), "mean": mean[top], "std": std[top]}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["set", "id", "mean", "std"])


def factor_index(fitted: Fitted, factor: str) -> int:
    """Return the position of a factor by its name, weak ones too."""
    names = fitted.factor_names
    if factor not in names:
        known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") or "none"
        msg = f"There is no factor {factor!r}; the model has {known}.{did_you_mean(factor, names)}"
        raise UnknownIdError(msg)
    return names.index(factor)


def embedding(
    model: GCMF, entity: str, factors: tuple[str, str] | None = None, *, method: str = "factors", color: Any = None
) -> pd.DataFrame:
    """Return a line per entity of a set: its id, its place (`x`, `y`), and its `color` where one was given.

    Places are two factors, by default the two of largest variance in the set, or with `method` a projection of all of
    them: "pca", "tsne" (scikit-learn) or "umap" (needs umap-learn). `color` is a column: a value per entity in the
    order of the model, or a Series or mapping by id, in which those missing have no color.
    """
    check_choice("method", method, ("factors", "pca", "tsne", "umap"))
    fitted = fitted_of(model, "embedding")
    e, ids = fitted.schema.entity_index(entity), fitted.vocabularies[entity].ids
    table = factor_table(fitted, entity)
    living = table[[name for name, on in zip(table.columns, fitted.structure.on[e], strict=False) if on]]
    if method == "factors":
        x, y, names = _two_factors(table, living, factors)
    else:
        (x, y), names = _projected(living.to_numpy(dtype=np.float64), method), (f"{method} 1", f"{method} 2")
    places = pd.DataFrame({"id": ids.astype(object), "x": x, "y": y})
    if color is not None:
        places["color"] = _colors(color, ids)
    places.attrs["names"] = names
    return places


def _two_factors(
    table: pd.DataFrame, living: pd.DataFrame, factors: Sequence[str] | None
) -> tuple[Any, Any, tuple[str, str]]:
    """Two columns of a table and their names; zeros in place of those that there are not."""
    if factors is None:
        largest = np.argsort(-living.to_numpy(dtype=float).var(axis=0), kind="stable")
        factors = [str(living.columns[k]) for k in largest[:2]]
    for name in factors:
        if name not in table.columns:
            msg = f"There is no factor {name!r}; the model has {', '.join(table.columns)}."
            raise UnknownIdError(msg + did_you_mean(name, table.columns))
    nothing = np.zeros(len(table))
    x, y = [*(table[name].to_numpy(dtype=float) for name in factors), nothing, nothing][:2]
    return x, y, ([*factors, "", ""][0], [*factors, "", ""][1])


def _projected(means: Any, method: str) -> Any:
    """Two coordinates of every entity, (2, d), the same in every run."""
    d, width = means.shape
    if width < 2 or d < 8:
        return np.vstack([means.T, np.zeros((2, d))])[:2]
    if method == "pca":
        centered = means - means.mean(axis=0)
        _, _, axes = np.linalg.svd(centered, full_matrices=False)
        return (centered @ axes[:2].T).T
    if method == "tsne":
        from sklearn.manifold import TSNE  # noqa: PLC0415 - takes a while, and few ask

        way = TSNE(perplexity=min(_PERPLEXITY, (d - 1) / 3), init="pca", random_state=0)
        with threadpool_limits(1):  # many threads wait for each other over so little, and change the last bits
            return way.fit_transform(means.astype(np.float32)).T
    try:
        from umap import UMAP  # type: ignore[import-not-found]  # noqa: PLC0415 - optional
    except ImportError as error:
        msg = 'method="umap" needs umap-learn, which is not installed: pip install umap-learn. "tsne" needs nothing.'
        raise MissingExtraError(msg) from error
    return UMAP(n_neighbors=min(15, d - 1), random_state=0, n_jobs=1).fit_transform(means).T


def _colors(color: Any, ids: pd.Index[Any]) -> Any:
    if isinstance(color, dict):
        return [color.get(item) for item in ids]
    if isinstance(color, pd.Series) and not color.index.equals(pd.RangeIndex(len(color))):
        return color[~color.index.duplicated()].reindex(ids).to_numpy()
    values = np.asarray(color)
    if values.shape != (len(ids),):
        msg = f"color= must be one value for each of the {len(ids):,} entities. Got shape {values.shape} instead."
        raise OptionError(msg)
    return values
