"""Every kind of source gives the same cells; every refusal names file, column, row number and value."""

import json
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from scipy import io, sparse

import gcmf
from gcmf.errors import DataError
from gcmf.io.sources import tables

USERS, FILMS, VALUES = ["ann", "ann", "bob", "cid"], [7, 9, 9, 7], [5.0, 3.0, 0.0, 1.5]
TABLE = pa.table({"u": USERS, "f": FILMS, "x": VALUES})


def write_source(folder, kind):
    """Write the same cells as one kind of source; return the lines of the project file that name it."""
    path = folder / f"cells.{kind}"
    if kind in ("csv", "tsv", "dat"):
        TABLE.to_pandas().to_csv(path, index=False, sep={"csv": ",", "tsv": "\t", "dat": "|"}[kind])
    elif kind == "parquet":
        parquet.write_table(TABLE, path)
    elif kind == "arrow":
        feather.write_feather(TABLE, path)
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in TABLE.to_pylist()))
    elif kind == "sqlite":
        with sqlite3.connect(path) as lite:
            lite.execute("CREATE TABLE cells (u TEXT, f INTEGER, x REAL)")
            lite.executemany("INSERT INTO cells VALUES (?, ?, ?)", zip(USERS, FILMS, VALUES, strict=True))
        lite.close()
        return f'source = "{path.name}"\ntable = "cells"'
    elif kind == "duckdb":
        with duckdb.connect(str(path)) as duck:
            duck.register("made", TABLE)
            duck.execute("CREATE TABLE cells AS SELECT * FROM made")
        return f'source = "{path.name}"\nquery = "SELECT u, f, x FROM cells;"'
    return f'source = "{path.name}"'


def read(folder, source, more="", likelihood="gaussian", value="x"):
    text = f"""[relations.seen]
{source}
rows = "user"
cols = "film"
row = "u"
col = "f"
likelihood = "{likelihood}"
{f'value = "{value}"' if value else ""}
{more}
"""
    (folder / "gcmf.toml").write_text(text)
    return gcmf.read_project(folder).collection


def cells(collection, name="seen"):
    own = collection.relations[name]
    i, j, x = own.cells.triplets()
    rows, cols = collection.entities[own.rows].ids, collection.entities[own.cols].ids
    return {(rows[a], cols[b]): float(v) for a, b, v in zip(i, j, x, strict=True)}


KINDS = ["csv", "tsv", "dat", "parquet", "arrow", "jsonl", "sqlite", "duckdb"]
WHOLE = dict(zip(zip(USERS, FILMS, strict=True), VALUES, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_all_sources_give_the_same_cells(tmp_path, kind):
    source = write_source(tmp_path, kind)
    whole = read(tmp_path, source)
    assert cells(whole) == WHOLE
    assert whole.entities["film"].ids.dtype == np.int64
    assert cells(read(tmp_path, source, "where = \"u <> 'ann'\"")) == {("bob", 9): 0.0, ("cid", 7): 1.5}


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_what_blanks_are(tmp_path, kind):
    source = write_source(tmp_path, kind)
    filled = read(tmp_path, source, 'blanks = "zero"')
    assert filled.n_cells == 6
    assert cells(filled) == {**{(u, f): 0.0 for u in ("ann", "bob", "cid") for f in (7, 9)}, **WHOLE}
    pairs = read(tmp_path, source, 'blanks = "zero"', likelihood="bernoulli", value=None)
    assert sum(cells(pairs).values()) == 4
    assert pairs.n_cells == 6


def test_many_batches_are_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH", 2048)
    rng = np.random.default_rng(0)
    number = rng.permutation(9000)
    made = pa.table({"u": [f"u{n // 90}" for n in number], "f": number % 90, "x": number / 7})
    parquet.write_table(made, tmp_path / "cells.parquet")
    found = cells(read(tmp_path, 'source = "cells.parquet"'))
    assert found == {(f"u{n // 90}", n % 90): n / 7 for n in number.tolist()}


def test_a_query_on_a_file(tmp_path):
    (tmp_path / "a.csv").write_text("u,f,y\n1,2,3\n1,2,5\n2,2,1\n")
    found = read(tmp_path, 'source = "a.csv"\nquery = "SELECT u, f, avg(y) AS x FROM source GROUP BY u, f"')
    assert cells(found) == {(1, 2): 4.0, (2, 2): 1.0}


def test_wide_tables_and_matrices(tmp_path):
    (tmp_path / "wide.csv").write_text("gene,s1,s2\na,1.5,\nb,2,3\n")
    io.mmwrite(tmp_path / "m.mtx", sparse.coo_array(([2.0, 4.0], ([0, 1], [1, 2])), shape=(2, 3)))
    (tmp_path / "gcmf.toml").write_text("""
[relations.wide]
source = "wide.csv"
layout = "wide"
rows = "gene"
cols = "sample"
[relations.matrix]
source = "m.mtx"
layout = "matrix"
rows = "p"
cols = "q"
blanks = "zero"
""")
    found = gcmf.read_project(tmp_path).collection
    assert cells(found, "wide") == {("a", "s1"): 1.5, ("b", "s1"): 2.0, ("b", "s2"): 3.0}
    assert found.relations["matrix"].n_cells == 6
    assert cells(found, "matrix")[1, 2] == 4.0


def test_latin_1_and_names_with_quotes(tmp_path):
    (tmp_path / "a.csv").write_bytes('u,f,x,it\'s "odd"\nJosé,1,2,3\n'.encode("latin-1"))
    assert cells(read(tmp_path, 'source = "a.csv"')) == {("José", 1): 2.0}


REFUSALS = [
    ("gaussian", "bob,8,many", "'x', row 3: 'many' is not a number"),
    ("bernoulli", "bob,8,7", "'x', row 1: the value is 0.5 (and 1 more), but bernoulli cells must be 0 or 1"),
    ("poisson", "bob,8,-2", "'x', row 1: the value is 0.5 (and 1 more), but poisson cells must be integers >= 0"),
    ("gaussian", "bob,8,inf", "'x', row 3: the value is inf, but an observed cell must be a finite number"),
    ("gaussian", ",8,2", "'u', row 3: the id is null"),
    ("gaussian", "bob,,2", "'f', row 3: the id is null"),
]


@pytest.mark.parametrize(("likelihood", "line", "said"), REFUSALS)
def test_refusals_name_file_column_row_and_value(tmp_path, likelihood, line, said):
    (tmp_path / "a.csv").write_text(f"u,f,x\nann,7,0.5\nann,9,1\n{line}\n")
    with pytest.raises(DataError) as caught:
        read(tmp_path, 'source = "a.csv"', likelihood=likelihood)
    assert f"a.csv, column {said}" in str(caught.value)


def test_a_repeated_cell_names_both_rows(tmp_path):
    (tmp_path / "a.csv").write_text("u,f,x\nzed,1,9\nann,7,0.5\nann,9,1\nann,7,4\n")
    with pytest.raises(DataError, match=r"a.csv: row 2 and row 4 .*'ann', f = 7 .* the values 0.5 and 4.0"):
        read(tmp_path, 'source = "a.csv"')
    # Rows are counted in the file, whatever is filtered out.
    with pytest.raises(DataError, match="row 2 and row 4"):
        read(tmp_path, 'source = "a.csv"', "where = \"u <> 'zed'\"")


def test_text_among_numbers_of_sqlite_is_found(tmp_path):
    source = write_source(tmp_path, "sqlite")
    with sqlite3.connect(tmp_path / "cells.sqlite") as lite:
        lite.execute("INSERT INTO cells VALUES ('dan', 7, 'much')")
    lite.close()
    with pytest.raises(DataError, match=r"cells.sqlite \(table cells\), column 'x', row 5: 'much' is not a number"):
        read(tmp_path, source)


def test_faults_of_all_sources_come_together(tmp_path):
    (tmp_path / "a.csv").write_text("u,f,x\nann,7,oops\n,8,1\n")
    (tmp_path / "gcmf.toml").write_text("""
[relations.one]
source = "a.csv"
rows = "user"
cols = "film"
row = "u"
col = "f"
value = "x"
[features.users]
source = "nowhere.csv"
rows = "user"
row = "u"
numeric = ["age"]
""")
    with pytest.raises(DataError) as caught:
        gcmf.read_project(tmp_path)
    assert len(caught.value.faults) == 3


def test_features_are_standardized_and_one_hot(tmp_path):
    write_source(tmp_path, "csv")
    (tmp_path / "users.csv").write_text("id,age,city,member\nann,20,Rome,yes\nbob,30,Oslo,no\ncid,70,,yes\n")
    features = """[features.users]
source = "users.csv"
rows = "user"
row = "id"
numeric = ["age"]
categories = ["city"]
booleans = ["member"]
"""
    found = read(tmp_path, 'source = "cells.csv"', features)
    assert [str(own) for own in found.schema.relations[1:]] == [
        "users_numbers: user × users_number (gaussian)", "users_traits: user × users_trait (bernoulli)",
    ]  # fmt: skip
    ages = cells(found, "users_numbers")
    expected = (np.array([20, 30, 70]) - 40) / np.std([20, 30, 70])
    np.testing.assert_allclose([ages[name, "age"] for name in ("ann", "bob", "cid")], expected, rtol=1e-6)
    assert cells(found, "users_traits") == {
        ("ann", "member"): 1, ("bob", "member"): 0, ("cid", "member"): 1, ("ann", "city=Rome"): 1,
        ("ann", "city=Oslo"): 0, ("bob", "city=Rome"): 0, ("bob", "city=Oslo"): 1,
    }  # fmt: skip
    # Nothing missing: only the ones are listed.
    (tmp_path / "users.csv").write_text("id,age,city,member\nann,20,Rome,yes\nbob,30,Oslo,no\n")
    whole = read(tmp_path, 'source = "cells.csv"', features).relations["users_traits"]
    assert whole.cells.filled
    assert whole.n_cells == 6


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("ann,20,x\nann,30,y", "users.csv, column 'id', row 1: the id 'ann' comes more than once"),
        ("ann,old,x\nbob,30,y", "users.csv, column 'age', row 1: 'old' is not a number"),
        ("ann,30,x\nbob,30,y", "users.csv, column 'age' holds only 30"),
    ],
)
def test_features_are_refused_with_their_row(tmp_path, lines, said):
    (tmp_path / "users.csv").write_text(f"id,age,city\n{lines}\n")
    (tmp_path / "gcmf.toml").write_text(
        '[features.users]\nsource = "users.csv"\nrows = "user"\nrow = "id"\nnumeric = ["age"]\ncategories = ["city"]\n'
    )
    with pytest.raises(DataError) as caught:
        gcmf.read_project(tmp_path)
    assert said in str(caught.value)
