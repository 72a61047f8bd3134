"""One table through every door: equal collections, ids, order, cells and weights, or equal faults."""

from __future__ import annotations

import sqlite3

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import gcmf
from gcmf.errors import DataError

ENTITIES = '[entities.{name}]\nsource = "{name}.csv"\nid = "id"\n'


class Table:
    """Lines of cells, in any order, and what is said of them."""

    def __init__(self, lines, likelihood="gaussian", *, weight=None, entities=None, **said):
        self.frame = pd.DataFrame(lines, columns=["u", "i", "x"])
        if weight is not None:
            self.frame["w"] = weight
        self.likelihood, self.entities, self.said = likelihood, entities or {}, said
        self.ends = ("user", "user") if "symmetric" in said else ("user", "item")

    def relation(self, data, **more):
        return gcmf.Relation("r", *self.ends, data, self.likelihood, **{**self.said, **more})

    def collection(self, relation):
        return gcmf.Collection([relation], entities=self.entities)


# --- doors of listings --------------------------------------------------------------------------------------


def triplets(table, _):
    weight = table.frame["w"].to_numpy() if "w" in table.frame else None
    return table.collection(table.relation(tuple(table.frame[c].to_numpy() for c in "uix"), weight=weight))


def from_frame(table, _, made=lambda frame: frame):
    ends = dict(zip(("rows", "cols"), table.ends, strict=True))
    columns = {"row": "u", "col": "i", "value": "x", "weight": "w" if "w" in table.frame else None}
    likelihood = {"likelihood": table.likelihood}
    frame = made(table.frame)
    return table.collection(gcmf.Relation.from_frame("r", frame, **ends, **columns, **likelihood, **table.said))


def polars(table, _):
    return from_frame(table, _, pl.from_pandas)


def named(table):
    return table.frame.rename(columns={"u": "user", "i": "item"})


def parquet(table, folder):
    named(table).to_parquet(folder / "r.parquet", index=False)
    return gcmf.Collection.from_parquet({("user", "item", "r"): folder / "r.parquet"}, folder=folder / "cells")


def dask(table, folder):
    frame = dd.from_pandas(named(table), npartitions=2)
    return gcmf.Collection.from_dask({("user", "item", "r"): frame}, folder=folder / "cells")


def project(table, folder, *, kind="csv", on_disk=False):
    said = {"likelihood": table.likelihood, **table.said, **({"weight": "w"} if "w" in table.frame else {})}
    lines = {"source": f"r.{kind}", "rows": table.ends[0], "cols": table.ends[1], "row": "u", "col": "i", "value": "x"}
    if kind == "csv":
        table.frame.to_csv(folder / "r.csv", index=False)
    elif kind == "parquet":
        table.frame.to_parquet(folder / "r.parquet", index=False)
    else:
        lines["table"] = "cells"
        with sqlite3.connect(folder / "r.sqlite") as lite:
            table.frame.to_sql("cells", lite, index=False)
        lite.close()
    written = [f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in
               (lines | said).items()]  # fmt: skip
    for name, ids in table.entities.items():
        pd.DataFrame({"id": ids}).to_csv(folder / f"{name}.csv", index=False)
        written.append(ENTITIES.format(name=name))
    (folder / "gcmf.toml").write_text("[relations.r]\n" + "\n".join(written))
    return gcmf.read_project(folder, folder=folder / "cells" if on_disk else None).collection


def csv(table, folder):
    return project(table, folder)


def sqlite(table, folder):
    return project(table, folder, kind="sqlite")


def parquet_project(table, folder):
    return project(table, folder, kind="parquet")


def on_disk(table, folder):
    return project(table, folder, on_disk=True)


LISTINGS = [triplets, from_frame, polars, csv, sqlite, parquet_project, on_disk]
#: These take ids and values, and nothing that is said of them.
PLAIN = [parquet, dask]


# --- doors of matrices --------------------------------------------------------------------------------------


def matrix(table):
    """The same cells as an array, between the ids that are declared or else mentioned, in order."""
    ids = [np.union1d(table.frame[c], table.entities.get(e, [])) for c, e in zip("ui", table.ends, strict=True)]
    at = [np.searchsorted(own, table.frame[c]) for own, c in zip(ids, "ui", strict=True)]
    x = np.full([len(own) for own in ids], 0.0 if table.said.get("blanks") == "zero" else np.nan)
    x[at[0], at[1]] = table.frame["x"]
    return x, *ids


def array(table, _):
    x, rows, cols = matrix(table)
    said = {key: value for key, value in table.said.items() if key != "blanks"}
    relation = gcmf.Relation("r", *table.ends, x, table.likelihood, row_ids=rows, col_ids=cols, **said)
    return table.collection(relation)


def wide_frame(table, _):
    x, rows, cols = matrix(table)
    said = {key: value for key, value in table.said.items() if key != "blanks"}
    return table.collection(gcmf.Relation("r", *table.ends, pd.DataFrame(x, rows, cols), table.likelihood, **said))


def sparse_matrix(table, _):
    x, rows, cols = matrix(table)
    i, j = np.nonzero(~np.isnan(x))
    stored = sparse.coo_array((x[i, j], (i, j)), shape=x.shape)
    said = {"blanks": "missing", **table.said}
    relation = gcmf.Relation("r", *table.ends, stored, table.likelihood, row_ids=rows, col_ids=cols, **said)
    return table.collection(relation)


def wide_csv(table, folder):
    x, rows, cols = matrix(table)
    pd.DataFrame(x, pd.Index(rows, name="id"), cols).iloc[::-1].to_csv(folder / "r.csv")
    lines = [f'source = "r.csv"\nlayout = "wide"\nrows = "{table.ends[0]}"\ncols = "{table.ends[1]}"']
    lines.append(f'likelihood = "{table.likelihood}"')
    lines += [f"symmetric = {str(table.said['symmetric']).lower()}"] if "symmetric" in table.said else []
    (folder / "gcmf.toml").write_text("[relations.r]\n" + "\n".join(lines))
    return gcmf.read_project(folder).collection


MATRICES = [array, wide_frame, sparse_matrix, wide_csv]


# --- equal collections --------------------------------------------------------------------------------------


def content(data):
    """All that a fit reads of a collection."""
    (relation,) = data.relations.values()
    i, j, x = relation.cells.triplets()
    weight = relation.cells.rows.weight
    return {
        "ids": {name: entities.ids.tolist() for name, entities in data.entities.items()},
        "cells": list(zip(i.tolist(), j.tolist(), np.asarray(x, np.float64).tolist(), strict=True)),
        "weight": None if weight is None else weight.tolist(),
        "relation": (relation.schema, relation.n_cells, relation.lead is None),
    }


def made(numbers):
    """A name per id: text, or a number."""
    return lambda kind, at: [int(a) if numbers else f"{kind}{a:02d}" for a in at]


def cells(*, numbers=False, density=0.4, seed=0, shape=(9, 7), value=None):
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(rng.random(shape) < density)
    order = rng.permutation(len(i))
    i, j, name = i[order], j[order], made(numbers)
    x = rng.normal(size=len(i)) if value is None else value(rng, len(i))
    return list(zip(name("u", i), name("i", j), x, strict=True))


def pairs(*, symmetric, seed=0, n=8):
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(rng.random((n, n)) < 0.5)
    kept = i < j if symmetric else i != j
    i, j = i[kept], j[kept]
    order = rng.permutation(len(i))
    name = made(False)
    return list(zip(name("u", i[order]), name("u", j[order]), rng.normal(size=len(i)), strict=True))


def ones(rng, n):
    return np.ones(n)


def zeros_and_ones(rng, n):
    return rng.integers(0, 2, n).astype(float)


def with_missing(lines):
    """The same, where some values are not known; their ids are mentioned all the same."""
    return [(u, i, np.nan if n in (0, 3) else x) for n, (u, i, x) in enumerate(lines)] + [("u99", "i99", np.nan)]


USERS, ITEMS = [f"u{k:02d}" for k in range(12)], [f"i{k:02d}" for k in range(9)]
DECLARED = {"user": USERS, "item": ITEMS}
CASES = {
    "values": (Table(cells()), [*LISTINGS, *PLAIN, *MATRICES]),
    "numbers as ids": (Table(cells(numbers=True)), [*LISTINGS, *PLAIN, array, wide_frame, sparse_matrix]),
    "dense": (Table(cells(density=1.1, shape=(70, 60))), [*LISTINGS, *PLAIN, *MATRICES]),
    "missing values": (Table(with_missing(cells())), [*LISTINGS, *PLAIN]),
    "zeros and ones": (Table(cells(value=zeros_and_ones), "bernoulli"), [*LISTINGS, *MATRICES]),
    "declared": (Table(cells(), entities=DECLARED), [*LISTINGS, array, wide_frame, sparse_matrix]),
    "blanks are zeros": (Table(cells(value=ones), "bernoulli", blanks="zero"), [*LISTINGS, sparse_matrix]),
    "listed zeros": (Table(cells(value=zeros_and_ones), "poisson", blanks="zero"), [*LISTINGS, sparse_matrix]),
    "declared zeros": (
        Table([("u01", "i02", 1.0), ("u00", "i01", 1.0)], "bernoulli", blanks="zero", entities=DECLARED),
        [*LISTINGS, sparse_matrix],
    ),
    "weights": (Table(cells(), weight=np.arange(1, len(cells()) + 1) / 4), LISTINGS),
    "symmetric": (Table(pairs(symmetric=True), symmetric=True), [*LISTINGS, array, wide_frame, sparse_matrix]),
    "directed": (Table(pairs(symmetric=False), symmetric=False), [*LISTINGS, array, wide_frame, sparse_matrix]),
    "links": (
        Table([(u, i, 1.0) for u, i, _ in pairs(symmetric=True)], "bernoulli", blanks="zero", symmetric=True,
              entities={"user": USERS}),
        LISTINGS,
    ),
    "who follows whom": (
        Table([(u, i, 1.0) for u, i, _ in pairs(symmetric=False)], "bernoulli", blanks="zero", symmetric=False),
        LISTINGS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_door_leads_to_the_same_collection(tmp_path, case):
    table, doors = CASES[case]
    expected = content(triplets(table, None)) if "missing" not in case else content(from_frame(table, None))
    for door in doors:
        if door is triplets and "missing" in case:
            continue  # every triplet counts as observed
        folder = tmp_path / door.__name__
        folder.mkdir()
        assert content(door(table, folder)) == expected, door.__name__


# --- equal faults -------------------------------------------------------------------------------------------

SOME = [("u00", "i00", 1.0), ("u01", "i01", 0.0), ("u02", "i02", 1.0)]
LOOPS = [("u00", "u01", 1.0), ("u03", "u03", 1.0), ("u02", "u00", 0.0)]
FAULTS = {
    "not 0 or 1": (Table([*SOME, ("u03", "i04", 7.0)], "bernoulli"), LISTINGS, ["u03", "i04", "7"]),
    "no count": (Table([*SOME, ("u03", "i04", 0.5)], "poisson"), LISTINGS, ["u03", "i04", "0.5"]),
    "negative": (Table([*SOME, ("u03", "i04", -2.0)], "poisson", blanks="zero"), LISTINGS, ["u03", "i04", "-2"]),
    "infinite": (Table([*SOME, ("u03", "i04", np.inf)]), [*LISTINGS, *PLAIN], ["u03", "i04", "inf"]),
    "a zero that is not known": (
        Table([*SOME, ("u03", "i04", np.nan)], "bernoulli", blanks="zero"), LISTINGS, ["u03", "i04"]
    ),
    "twice": (Table([*SOME, ("u01", "i01", 1.0)], "bernoulli"), LISTINGS, ["u01", "i01"]),
    "twice, real": (Table([*SOME, ("u01", "i01", 1.5)]), [*LISTINGS, *PLAIN], ["u01", "i01"]),
    "twice, with zeros": (Table([*SOME, ("u02", "i02", 1.0)], "bernoulli", blanks="zero"), LISTINGS, ["u02", "i02"]),
    "a zero and a one": (Table([*SOME, ("u02", "i02", 0.0)], "bernoulli", blanks="zero"), LISTINGS, ["u02", "i02"]),
    "no user": (Table([*SOME, (None, "i04", 1.0)]), [*LISTINGS, *PLAIN], ["null"]),
    "weight 0": (Table(SOME, weight=[1.0, 0.0, 2.0]), LISTINGS, ["u01", "i01", "0"]),
    "loops": (Table(LOOPS, symmetric=True), LISTINGS, ["u03"]),
    "loops of links": (Table(LOOPS, "bernoulli", blanks="zero", symmetric=False), LISTINGS, ["u03"]),
    "two values": (
        Table([("u00", "u01", 1.0), ("u02", "u01", 2.0), ("u01", "u00", 3.0)], symmetric=True),
        LISTINGS,
        ["u00", "u01", "1", "3"],
    ),
    "weights of zeros": (Table(SOME, weight=[1.0, 1.0, 2.0], blanks="zero"), LISTINGS, ["weight", "zero"]),
    "nothing": (Table([("u00", "i00", np.nan)]), [from_frame, polars, csv, sqlite, parquet_project, on_disk, *PLAIN],
                []),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_every_door_has_the_same_fault(tmp_path, case):
    table, doors, parts = FAULTS[case]
    for door in doors:
        folder = tmp_path / door.__name__
        folder.mkdir()
        with pytest.raises(DataError) as caught:
            door(table, folder)
        (fault,) = caught.value.faults
        relation = "[relations.r]" if "gcmf.toml" in fault else "relation 'r'"
        assert relation in fault, door.__name__
        for part in parts:
            assert part in fault, (door.__name__, fault)


@pytest.mark.parametrize("door", LISTINGS)
def test_a_zero_of_an_entity_with_itself_is_left_out_where_blanks_are_zeros(tmp_path, door):
    """It says what is said of all blanks."""
    table = Table([("u00", "u01", 1.0), ("u02", "u02", 0.0)], "bernoulli", blanks="zero", symmetric=False)
    found = content(door(table, tmp_path))
    assert found["ids"]["user"] == ["u00", "u02", "u01"]
    assert found["cells"] == [(0, 1, 0.0), (0, 2, 1.0), (1, 0, 0.0), (1, 2, 0.0), (2, 0, 0.0), (2, 1, 0.0)]
