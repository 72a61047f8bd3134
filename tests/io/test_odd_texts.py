"""Text files as people have them: missing words, decimal commas, other separators, encodings and compressions."""

import gzip
import sqlite3

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.errors import DataError
from gcmf.io.guess.discover import discover
from gcmf.io.guess.draft import to_toml, write_project
from gcmf.io.sources import texts
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table
from io_samples import write_csv

HEAD = '[relations.r]\nrows = "user"\ncols = "item"\nrow = "user"\ncol = "item"\nvalue = "x"\n'
PLAIN = ["1,1,3.5", "1,2,4", "2,1,5.25", "3,2,1200.5"]
VALUES = {(1, 1): 3.5, (1, 2): 4.0, (2, 1): 5.25, (3, 2): 1200.5}


def read(folder, source, more=""):
    (folder / "gcmf.toml").write_text(HEAD + f'source = "{source}"\n{more}')
    return triplets(gcmf.read_project(folder).collection)


def triplets(data):
    (own,) = data.relations.values()
    rows, cols = data.entities[own.rows].ids, data.entities[own.cols].ids
    return {(rows[a], cols[b]): float(v) for a, b, v in zip(*own.cells.triplets(), strict=True)}


def found_and_read(folder, file):
    """What init makes of a file, and the cells of the project that it writes."""
    found = discover(folder / file, base=folder)
    write_project(found, folder / "gcmf.toml", replace=True)
    return found, triplets(gcmf.read_project(folder).collection)


@pytest.mark.parametrize("word", ["NA", "N/A", "n/a", "null", "NULL", "NaN", "", '"NA"', '""'])
def test_a_missing_value_is_missing(tmp_path, word):
    (tmp_path / "a.csv").write_text("\n".join(["user,item,x", *PLAIN, f"3,1,{word}", ""]))
    assert read(tmp_path, "a.csv") == VALUES
    found, cells = found_and_read(tmp_path, "a.csv")
    assert (found.relations[0].value, found.relations[0].likelihood) == ("x", "gaussian")
    assert cells == VALUES


@pytest.mark.parametrize("word", ["NA", "N/A", "null", "", None])
def test_a_missing_value_of_sqlite_is_missing(tmp_path, word):
    with sqlite3.connect(tmp_path / "a.db") as lite:
        lite.execute("CREATE TABLE t (user INTEGER, item INTEGER, x)")
        lite.executemany("INSERT INTO t VALUES (?, ?, ?)", [(*pair, x) for pair, x in VALUES.items()] + [(3, 1, word)])
    lite.close()
    found, cells = found_and_read(tmp_path, "a.db")
    assert found.relations[0].value == "x"
    assert cells == VALUES


def test_a_missing_id_is_refused_and_a_missing_category_is_missing(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,x\n1,1,2\nNA,1,3\n")
    with pytest.raises(DataError, match=r"a.csv, column 'user', row 2: the id is null.*where = 'user IS NOT NULL'"):
        read(tmp_path, "a.csv")
    assert read(tmp_path, "a.csv", "where = 'user IS NOT NULL'") == {(1, 1): 2.0}
    (tmp_path / "b.csv").write_text("id,city\n1,Rome\n2,NA\n3,Oslo\n")
    (tmp_path / "gcmf.toml").write_text(
        '[features.b]\nsource = "b.csv"\nrows = "user"\nrow = "id"\ncategories = ["city"]'
    )
    found = gcmf.read_project(tmp_path).collection
    assert found.entities["b_trait"].ids.tolist() == ["city=Oslo", "city=Rome"]
    assert found.n_cells == 4


@pytest.mark.parametrize(
    ("lines", "decimal"),
    [
        (["user;item;x", "1;1;3,5", "1;2;4", "2;1;5,25", "3;2;1200,5"], ","),
        (["user;item;x", "1;1;3,5", "1;2;4", "2;1;5,25", "3;2;1.200,5"], ","),
        (["user,item,x", '1,1,"3,5"', "1,2,4", '2,1,"5,25"', '3,2,"1200,5"'], ","),
        (["user,item,x", "1,1,3.5", "1,2,4", "2,1,5.25", '3,2,"1,200.5"'], "."),
        (["user\titem\tx", "1\t1\t3,5", "1\t2\t4,0", "2\t1\t5,25", "3\t2\t1200,5"], ","),
    ],
)
def test_commas_in_numbers_are_recognized(tmp_path, lines, decimal):
    (tmp_path / "a.csv").write_text("\n".join([*lines, ""]))
    with pytest.raises(DataError, match=r"is not a number.*say decimal = "):
        read(tmp_path, "a.csv")
    assert read(tmp_path, "a.csv", f'decimal = "{decimal}"\n') == VALUES
    found, cells = found_and_read(tmp_path, "a.csv")
    assert cells == VALUES
    assert f'decimal = "{decimal}"' in to_toml(found)
    assert any(f'decimal = "{decimal}"' in note for note in found.notes)


@pytest.mark.parametrize(("separator", "value"), [(";", 1.2), (",", 1200.0)])
def test_a_comma_that_may_be_either_is_guessed_and_listed(tmp_path, separator, value):
    write_csv(tmp_path / "a.csv", ("user", "item", "x"), [(1, 1, "1,200"), (1, 2, "3,450"), (2, 1, 7)], separator)
    found, cells = found_and_read(tmp_path, "a.csv")
    assert cells[1, 1] == value
    assert any("a guess" in note for note in found.notes)


def test_a_wrong_decimal_sign_is_no_factor_of_ten(tmp_path):
    (tmp_path / "a.csv").write_text('user,item,x\n1,1,"1,200"\n1,2,"3,5"\n')
    with pytest.raises(DataError, match=r"a.csv, column 'x', row 2: '3,5' is no number where '.' is the decimal sign"):
        read(tmp_path, "a.csv", 'decimal = "."\n')
    with pytest.raises(DataError, match="decimal = ':' is not one of"):
        read(tmp_path, "a.csv", 'decimal = ":"\n')
    pd.DataFrame({"user": [1], "item": [1], "x": [1.5]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="decimal is for text files"):
        read(tmp_path, "a.parquet", 'decimal = ","\n')


def test_every_ignored_column_is_named(tmp_path):
    rows = [(1, 1, 3.5, "fine", 99, "2020-01-01"), (1, 2, "many", "so so", 99, "2020-01-02"),
            (2, 1, 4.5, "bad", 99, "2020-01-03")]  # fmt: skip
    write_csv(tmp_path / "cells.csv", ("user_id", "item_id", "x", "remark", "same", "day"), rows)
    done = CliRunner().invoke(main.app, ["init", str(tmp_path)])
    for name in ("cells.x (text)", "cells.remark (text)", "cells.same (all alike)", "cells.day (neither"):
        assert name in done.stdout.replace("\n", " ")
    assert "cells.x was not used: it holds numbers, but for 'many'" in done.stdout
    assert "not used: x (text), remark (text), same (all alike), day (" in (tmp_path / "gcmf.toml").read_text()


def test_columns_beside_three_ids_are_named(tmp_path):
    rows = [(u, a, t, 0.5 * u) for u in range(3) for a in range(3) for t in range(2)]
    write_csv(tmp_path / "tags.csv", ("user_id", "film_id", "tag_id", "strength"), rows)
    assert discover(tmp_path, base=tmp_path).unused == ["tags.strength (only how often ids meet is used)"]


def wide(folder, x, name="w.csv"):
    frame = pd.DataFrame(x, columns=[f"gene{j}" for j in range(x.shape[1])])
    frame.insert(0, "patient", [f"p{i:03}" for i in range(len(x))])
    frame.to_csv(folder / name, index=False)
    return frame


@pytest.mark.parametrize("kind", [int, float])
def test_a_constant_column_leaves_a_0_1_table_binary(tmp_path, kind):
    x = np.random.default_rng(0).integers(0, 2, (12, 9)).astype(kind)
    x[:, 4] = 1
    if kind is float:
        x[3, 5] = np.nan
    wide(tmp_path, x)
    (relation,) = discover(tmp_path, base=tmp_path).relations
    assert relation.likelihood == "bernoulli"


def test_one_value_is_left_out_or_warned_about(tmp_path):
    wide(tmp_path, np.ones((12, 9), int))
    with pytest.raises(DataError, match="all of its numbers are the same"):
        discover(tmp_path, base=tmp_path)
    (tmp_path / "gcmf.toml").write_text('[relations.w]\nsource = "w.csv"\nlayout = "wide"\nrows = "p"\ncols = "g"\n')
    with pytest.warns(UserWarning, match=r"relation 'w': every cell that w.csv gives is 1, which says nothing"):
        gcmf.read_project(tmp_path)
    (tmp_path / "w.csv").unlink()
    write_csv(tmp_path / "c.csv", ("user", "item", "x"), [(1, 1, 5), (1, 2, 5), (2, 1, 5)])
    with pytest.warns(UserWarning, match=r"every cell that c.csv gives is 5"):
        assert len(read(tmp_path, "c.csv")) == 3
    found = discover(tmp_path / "c.csv", base=tmp_path)
    assert found.unused == ["c.x (all alike)"]
    assert (found.relations[0].value, found.relations[0].blanks) == (None, "zero")
    head = "%%MatrixMarket matrix coordinate pattern general\n3 2 2\n1 1\n3 2\n"
    (tmp_path / "m.mtx").write_text(head)
    (tmp_path / "gcmf.toml").write_text('[relations.m]\nsource = "m.mtx"\nrows = "p"\ncols = "g"\nblanks = "missing"\n')
    with pytest.warns(UserWarning, match=r"every cell that m.mtx gives is 1"):
        gcmf.read_project(tmp_path)


def test_a_space_before_na_changes_nothing(tmp_path):
    lines = "".join(f"{k % 4}, {k // 4},{' NA' if k == 5 else f' {k / 2}'}\n" for k in range(12))
    (tmp_path / "r.csv").write_text("user, item, x\n" + lines)
    (relation,) = discover(tmp_path, base=tmp_path).relations
    assert (relation.value, relation.likelihood) == ("x", "gaussian")
    assert len(read(tmp_path, "r.csv")) == 11


def test_a_column_with_an_infinity_is_named(tmp_path):
    write_csv(
        tmp_path / "r.csv", ("user", "item", "x"), [(k % 4, k // 4, "inf" if k == 0 else k % 5 / 2) for k in range(12)]
    )
    assert any(
        "r.x was not used: it holds numbers, but for 'inf'" in one for one in discover(tmp_path, base=tmp_path).notes
    )


def test_runs_of_spaces_are_refused(tmp_path):
    (tmp_path / "r.txt").write_text("user  item   x\n" + "".join(f"{k % 4}  {k // 4}   {k / 2}\n" for k in range(12)))
    with pytest.raises(DataError, match="replace runs of spaces by one separator"):
        discover(tmp_path, base=tmp_path)


def test_a_header_without_rows_is_left_out(tmp_path):
    (tmp_path / "empty.csv").write_text("user,item,x\n")
    done = CliRunner().invoke(main.app, ["init", str(tmp_path)])
    assert done.exit_code == 1
    assert "empty was left out: it has names of columns, and no rows" in done.stderr
    write_csv(tmp_path / "full.csv", ("user", "item", "x"), [(1, 1, 5), (1, 2, 4), (2, 1, 3)])
    assert any("no rows" in note for note in discover(tmp_path, base=tmp_path).notes)


def text(separator=","):
    return "\n".join(["user,item,x", *PLAIN, ""]).replace(",", separator)


FORMS = {
    "gzip.csv.gz": gzip.compress(text().encode()),
    "gzip.tsv.gz": gzip.compress(text("\t").encode()),
    "gzip_without_saying.csv": gzip.compress(text().encode()),
    "spaces.txt": text(" ").encode(),
    "semicolons.csv": text(";").encode(),
    "bars.dat": text("|").encode(),
    "mark.csv": text().encode("utf-8-sig"),
    "utf16.csv": text().encode("utf-16"),
    "utf16.tsv": text("\t").encode("utf-16"),
    "utf16be.csv": b"\xfe\xff" + text().encode("utf-16-be"),
    "windows.csv": text().replace("\n", "\r\n").encode(),
    "mac.csv": text().replace("\n", "\r").encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_text(tmp_path, name):
    (tmp_path / name).write_bytes(FORMS[name])
    assert read(tmp_path, name) == VALUES
    found, cells = found_and_read(tmp_path, name)
    assert cells == VALUES
    assert found.relations[0].name == name.split(".")[0]


def test_jsonl_and_matrices_may_be_gzipped(tmp_path):
    lines = pd.DataFrame([(u, i, x) for (u, i), x in VALUES.items()], columns=["user", "item", "x"])
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.to_json(orient="records", lines=True).encode()))
    assert found_and_read(tmp_path, "a.jsonl.gz")[1] == VALUES
    matrix = b"%%MatrixMarket matrix coordinate real general\n3 2 2\n1 1 2\n3 2 3\n"
    (tmp_path / "m.mtx.gz").write_bytes(gzip.compress(matrix))
    found, cells = found_and_read(tmp_path, "m.mtx.gz")
    assert (found.relations[0].name, cells) == ("m", {(0, 0): 2.0, (2, 1): 3.0})


@pytest.mark.parametrize("encoding", ["cp1252", "ISO-8859-1", "Latin1", "UTF8", "cp1251"])
def test_an_encoding_that_is_said(tmp_path, encoding):
    name = "Жук" if encoding == "cp1251" else "José"
    (tmp_path / "a.csv").write_bytes(f"user,item,x\n{name},1,2\nbob,1,3\n".encode(encoding))
    assert read(tmp_path, "a.csv", f'encoding = "{encoding}"') == {(name, 1): 2.0, ("bob", 1): 3.0}
    with pytest.raises(DataError, match="there is no encoding 'utf-88'"):
        read(tmp_path, "a.csv", 'encoding = "utf-88"')


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlsx", b"PK\x03\x04" + bytes(99), "it is a spreadsheet; save its sheet as CSV"),
        ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(99), "it is a spreadsheet"),
        ("a.ods", b"PK\x03\x04" + bytes(99), "it is a spreadsheet"),
        ("a.zip", b"PK\x03\x04" + bytes(99), "it is an archive; unpack it"),
        ("a.csv.bz2", b"BZh9" + bytes(99), "it is an archive"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd" + bytes(99), "it is an archive"),
        ("a.csv", bytes(range(256)), "it is no text"),
        (
            "a.csv.gz",
            gzip.compress("\n".join(map(str, np.random.default_rng(0).random(99999))).encode())[:9999],
            "cannot be",
        ),
        ("runs.txt", b"user   item  x\n1      1     3\n10 1     4\n", "replace runs of spaces by one separator"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read(tmp_path, name)
    (tmp_path / "gcmf.toml").unlink()
    done = CliRunner().invoke(main.app, ["init", str(tmp_path)])
    assert done.exit_code == 1
    assert said in done.stderr


def test_a_quote_left_open_is_said(tmp_path):
    (tmp_path / "open.csv").write_text('user,item,x\n1,1,"2\n' + "1,2,3\n" * 40_000)
    with pytest.raises(DataError, match=r"open.csv, column 'x', row 1: '\"2' is not a number"):
        read(tmp_path, "open.csv")


def test_wide_texts_are_read_as_narrow_ones_are(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(20, 30)).round(3)
    x[3, 4] = x[7, 0] = np.nan
    frame = wide(tmp_path, x)
    frame["gene5"] = np.arange(20) % 3
    frame["gene6"] = np.arange(20) % 2 == 0
    frame.loc[frame.index[::-1]].to_csv(tmp_path / "w.csv", index=False, na_rep="NA")
    (tmp_path / "gcmf.toml").write_text('[relations.w]\nsource = "w.csv"\nlayout = "wide"\nrows = "p"\ncols = "g"\n')
    narrow, types = (
        triplets(gcmf.read_project(tmp_path).collection),
        open_table(Source(source="w.csv"), tmp_path).columns,
    )
    monkeypatch.setattr(texts, "MANY", 5)
    table = open_table(Source(source="w.csv"), tmp_path)
    assert table.arrow is not None
    assert table.columns == types
    again = triplets(gcmf.read_project(tmp_path).collection)
    assert again == narrow
    assert list(again) == sorted(again, key=lambda cell: (cell[0], int(cell[1][4:])))
    (tmp_path / "gcmf.toml").write_text(
        '[relations.w]\nsource = "w.csv"\nlayout = "wide"\nrows = "p"\ncols = "g"\nwhere = "patient <> \'p003\'"\n'
    )
    kept = triplets(gcmf.read_project(tmp_path).collection)
    assert kept == {cell: value for cell, value in narrow.items() if cell[0] != "p003"}


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_thousands_of_columns(tmp_path, ending):
    x = np.random.default_rng(0).normal(size=(9, 3000)).round(4)
    frame = wide(tmp_path, x)
    (tmp_path / "w.csv").unlink()
    {"csv": lambda path: frame.to_csv(path, index=False), "parquet": frame.to_parquet, "feather": frame.to_feather}[
        ending
    ](tmp_path / f"w.{ending}")
    found, cells = found_and_read(tmp_path, f"w.{ending}")
    assert [(one.rows, one.cols, one.likelihood) for one in found.relations] == [("patient", "gene", "gaussian")]
    assert cells["p004", "gene2999"] == x[4, 2999]
    assert len(cells) == x.size


def test_faults_of_wide_texts_name_the_row_and_are_not_endless(tmp_path):
    frame = wide(tmp_path, np.arange(9 * 400.0).reshape(9, 400)).astype(object)
    frame.iloc[4, 1:] = "oops"
    frame.to_csv(tmp_path / "w.csv", index=False)
    (tmp_path / "gcmf.toml").write_text('[relations.w]\nsource = "w.csv"\nlayout = "wide"\nrows = "p"\ncols = "g"\n')
    with pytest.raises(DataError) as caught:
        gcmf.read_project(tmp_path)
    assert "w.csv, column 'gene0', row 5: 'oops' is not a number" in caught.value.faults[0]
    assert caught.value.faults[-1] == "w.csv: up to 390 more columns have such faults."
    assert len(caught.value.faults) == 11


def test_a_wide_text_of_latin_1_or_with_odd_lines(tmp_path):
    frame = wide(tmp_path, np.arange(9 * 400.0).reshape(9, 400))
    frame["patient"] = [f"é{i}" for i in range(9)]
    frame.to_csv(tmp_path / "w.csv", index=False, encoding="latin-1")
    assert found_and_read(tmp_path, "w.csv")[1]["é3", "gene7"] == 3 * 400 + 7
    lines = (tmp_path / "w.csv").read_bytes().splitlines()
    (tmp_path / "w.csv").write_bytes(b"\n".join([*lines[:4], lines[4] + b",9", *lines[5:]]))
    with pytest.raises(DataError, match=r"w.csv, row 4: it has 402 values and the header 401"):
        open_table(Source(source="w.csv"), tmp_path)


def test_a_wide_text_without_names_is_known_by_its_numbers(tmp_path):
    x = np.random.default_rng(0).normal(size=(9, 400))
    frame = wide(tmp_path, x)
    frame.to_csv(tmp_path / "w.csv", index=False, header=False)
    assert list(open_table(Source(source="w.csv"), tmp_path).columns)[:2] == ["column0", "column1"]
    frame.columns = ["user", *range(400)]
    frame.to_csv(tmp_path / "w.csv", index=False)
    assert list(open_table(Source(source="w.csv"), tmp_path).columns)[:3] == ["user", "0", "1"]


def test_a_database_beside_a_project_elsewhere(tmp_path):
    (tmp_path / "data").mkdir()
    with sqlite3.connect(tmp_path / "data" / "a.db") as lite:
        lite.execute("CREATE TABLE t (user INTEGER, item INTEGER, x REAL)")
        lite.executemany("INSERT INTO t VALUES (?, ?, ?)", [(*pair, x) for pair, x in VALUES.items()])
    lite.close()
    found = discover(tmp_path / "data" / "a.db", base=tmp_path)
    assert found.relations[0].source == "data/a.db"
