"""Everything that a report tells, as plain values: numbers rounded, ids as texts, and no more than a page can hold."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.estimators.rankings import n_threads_of
from gcmf.estimators.tables import explained_table
from gcmf.model.predict import predict_pairs
from gcmf.model.ranking import loadings, metric, similar
from gcmf.report import tables
from gcmf.report.cells import held_cells
from gcmf.report.layout import layout
from gcmf.report.words import summary, warnings_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.estimators.gcmf import GCMF

    Indices = NDArray[np.int64]

TOP = 25
"""Entities of each set on the page of a factor."""
NEIGHBORS = 5
MOST_CELLS = 8_000
"""Test cells of each relation that are told one by one."""
LONGEST = 200
"""Characters of an id that are told."""
_NOT_OF_THE_FIT = ("callbacks", "checkpoint", "progress")
_PACKAGES = ("numpy", "scipy", "numba", "pandas")


class Names:
    """The entities of a set that a report names: their texts, each under a number."""

    def __init__(self, model: GCMF, entity: str) -> None:
        self._ids = model.fitted_.vocabularies[entity].ids
        self._number: dict[int, int] = {}

    def __call__(self, positions: Indices) -> list[int]:
        """Return the numbers of these entities."""
        return [self._number.setdefault(at, len(self._number)) for at in np.asarray(positions).tolist()]

    def texts(self) -> list[str]:
        """Return the texts, by number."""
        shown = (str(item) for item in self._ids.take(list(self._number)))
        return [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in shown]


def content(model: GCMF, test: Collection | None, *, most: int) -> dict[str, Any]:
    """Return what there is to tell of a model, with at most so many entities that can be searched for."""
    names = {entity: Names(model, entity) for entity in model.schema_.entities}
    told = {
        "summary": summary(model), "warnings": warnings_of(model), "relations": _relations(model),
        "places": _rounded(layout(model.schema_), 4), "factors": _factors(model, names),
        "rows": _rows(model), "explained": _explained(model),
        "trace": [float(f"{value:.8g}") for value in model.elbo_trace_], "status": str(model.status_),
        "objective": model.fitted_.objective,
        "searched": {name: _searched(model, name, names, most) for name in model.schema_.entities},
        "test": None if test is None else _tested(model, test, names),
        "settings": _settings(model), "versions": _versions(),
    }  # fmt: skip
    sizes = {name: len(ids) for name, ids in model.fitted_.vocabularies.items()}
    told["sets"] = [{"name": name, "size": sizes[name], "ids": names[name].texts()} for name in names]
    return told


def _relations(model: GCMF) -> list[dict[str, Any]]:
    noise = np.sqrt(model.fitted_.noise) * model.fitted_.scale
    table = tables.schema(model).assign(noise=np.where(noise > 0, noise, np.nan))
    return [{str(key): _plain(value) for key, value in line.items()} for line in table.to_dict(orient="records")]


def _factors(model: GCMF, names: dict[str, Names]) -> list[dict[str, Any]]:
    """Per factor its role, its relations, and its top entities in every set that it lives in."""
    fitted, told = model.fitted_, []
    for factor, lines in tables.structure(model).groupby("factor", sort=False):
        k, top = fitted.factor_names.index(str(factor)), {}
        for e, entity in enumerate(fitted.schema.entities):
            if fitted.structure.on[e, k]:
                mean = fitted.mean[e][:, k]
                at = np.argsort(-np.abs(mean), kind="stable")[:TOP]
                top[entity] = [names[entity](at), _short(mean[at]), _short(np.sqrt(fitted.var[e][at, k]))]
        reached = lines.loc[(lines["kind"] == "relation") & lines["on"], "name"].tolist()
        told.append({"name": factor, "role": lines["role"].iloc[0], "relations": reached, "top": top})
    return told


def _rows(model: GCMF) -> list[dict[str, Any]]:
    """The matrix of the structure: a row per set and relation, a value per factor, None where it is off."""
    rows: dict[tuple[str, str], list[float | None]] = {}
    for line in tables.structure(model).to_dict(orient="records"):
        rows.setdefault((line["kind"], line["name"]), []).append(round(float(line["value"]), 4) if line["on"] else None)
    return [{"kind": kind, "name": name, "values": values} for (kind, name), values in rows.items()]


def _explained(model: GCMF) -> dict[str, Any]:
    table = explained_table(model.fitted_)
    order = [factor["factor"] for factor in tables.structure(model).drop_duplicates("factor").to_dict("records")]
    parts = ["bias", *order, "total"]
    return {"parts": parts, "shares": _rounded(table[parts].to_numpy(dtype=float), 4)}


def _searched(model: GCMF, entity: str, names: dict[str, Names], most: int) -> dict[str, Any]:
    """Entities that can be searched for, those with most cells: their factors with deviations, and neighbors."""
    fitted = model.fitted_
    e, n = fitted.schema.entity_index(entity), fitted.n_factors
    at = _frequent(model, entity, most)
    near: dict[str, Any] = {}
    if n and len(at):
        rows = loadings(fitted, e, metric(fitted, e))
        found = similar(rows[at], rows, at, NEIGHBORS, n_threads_of(model))
        near = {"of": names[entity](at[found.of]), "item": names[entity](found.item), "score": _short(found.score)}
    return {
        "ids": names[entity](at), "mean": _short(fitted.mean[e][at, :n]),
        "std": _short(np.sqrt(fitted.var[e][at, :n])), "near": near,
        "columns": [fitted.factor_names[k] for k in range(n)],
    }  # fmt: skip


def _frequent(model: GCMF, entity: str, most: int) -> Indices:
    """Positions of the entities of a set with most cells, or the first ones where the model does not know."""
    fitted, counts = model.fitted_, np.zeros(len(model.fitted_.vocabularies[entity]), dtype=np.int64)
    if len(counts) <= most:
        return np.arange(len(counts))
    for pairs, relation in zip(fitted.pairs or (), fitted.schema.relations):  # noqa: B905 - none are kept, or all
        sides = np.divmod(pairs.places, max(pairs.shape[1], 1))
        for side, name in zip(sides, (relation.rows, relation.cols), strict=True):
            if name == entity:
                counts += np.bincount(side, minlength=len(counts))
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def _tested(model: GCMF, test: Collection, names: dict[str, Names]) -> list[dict[str, Any]]:
    """Per relation of the test data: errors, coverage, calibration, and cells beside their predictions."""
    scores, told = model._score_table(test, unknown="prior"), []
    for relation in scores.index:
        held = held_cells(model, test, relation, most=MOST_CELLS)
        ends = model.schema_.relations[held.m]
        guess = predict_pairs(model.fitted_, held.m, held.i, held.j)
        bins = tables.calibration(model, test, relation)
        told.append({
            "relation": relation, "rows": ends.rows, "cols": ends.cols,
            "score": {key: _plain(value) for key, value in scores.loc[relation].items()},
            "bins": {key: _short(bins[key].to_numpy(dtype=float)) for key in bins},
            "i": names[ends.rows](held.i), "j": names[ends.cols](held.j), "observed": _short(held.x),
            "predicted": _short(guess.mean), "std": _short(guess.std), "of": held.n,
        })  # fmt: skip
    return told


def _settings(model: GCMF) -> dict[str, str]:
    """What the model was told to do, as it would be typed; not whom it was to tell of it."""
    return {key: repr(value) for key, value in model.get_params().items() if key not in _NOT_OF_THE_FIT}


def _versions() -> dict[str, str]:
    from gcmf import __version__  # noqa: PLC0415 - the face of the library, which imports everything else

    return {"gcmf": __version__, "Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


# --- plain values -------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: what is no number is None, and an object its repr."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else repr(value)


def _rounded(values: Any, digits: int) -> Any:
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), np.round(array, digits), 0.0).tolist()


def _short(values: Any) -> Any:
    """Numbers, or rows of them, to four digits."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1:
        return [_short(row) for row in array]
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in array]
