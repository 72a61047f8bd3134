"""Every refusal arrives as one paragraph that names the file, the column, the row number and the value."""

import sqlite3

import duckdb
import pytest
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main

LONG = '[relations.seen]\nsource = "a.csv"\nrows = "user"\ncols = "film"\nrow = "u"\ncol = "f"\nvalue = "x"\n'
WIDE = '[relations.wide]\nsource = "w.csv"\nlayout = "wide"\nrows = "user"\ncols = "film"\n'
MATRIX = '[relations.mat]\nsource = "m.mtx"\nrows = "user"\ncols = "film"\n'
GENRES = '[relations.more]\nsource = "b.csv"\nrows = "film"\ncols = "genre"\nrow = "f"\ncol = "g"\nvalue = "y"\n'
MTX = "%%MatrixMarket matrix coordinate real general\n2 2 {n}\n{cells}"
BERNOULLI, POISSON = 'likelihood = "bernoulli"\n', 'likelihood = "poisson"\n'
FINE = {"a.csv": "u,f,x\nann,up,1\nbob,up,2\nann,heat,3\n"}


def long(*lines):
    return {"a.csv": "\n".join(["u,f,x", *lines, ""])}


def wide(*lines):
    return {"w.csv": "\n".join(["id,up,heat", *lines, ""])}


def matrix(*cells):
    return {"m.mtx": MTX.format(n=len(cells), cells="\n".join(cells))}


CASES = {
    # Values.
    "infinity": (LONG, long("ann,up,1", "bob,up,inf"), "a.csv, column 'x', row 2: the value is inf, but an observed"),
    "not 0 or 1": (LONG + BERNOULLI, long("ann,up,1", "bob,up,7"), "a.csv, column 'x', row 2: the value is 7, but ber"),
    "half": (LONG + BERNOULLI, long("ann,up,1", "bob,up,0.5"), "a.csv, column 'x', row 2: the value is 0.5, but bern"),
    "negative": (LONG + POISSON, long("ann,up,-1", "bob,up,1"), "a.csv, column 'x', row 1: the value is -1, but poiss"),
    "not whole": (LONG + POISSON, long("ann,up,1", "bob,up,2.5"), "a.csv, column 'x', row 2: the value is 2.5, but po"),
    "text": (LONG, long("ann,up,1", "bob,up,good"), "a.csv, column 'x', row 2: 'good' is not a number; correct it"),
    "no value": (LONG + 'blanks = "zero"\n', long("ann,up,1", "bob,up,"),
        "a.csv, column 'x', row 2: the value is empty"),
    # Ids and cells.
    "null id": (LONG, long("ann,up,1", ",up,2"), "a.csv, column 'u', row 2: the id is null, which empty, NA, N/A and"),
    "repeated cell": (LONG, long("ann,up,1", "bob,up,2", "ann,up,3"),
        "a.csv: row 1 and row 3 both give the cell u = 'a"),
    "numbers and text": (LONG + GENRES, {**FINE, "b.csv": "f,g,y\n1,a,1\n2,b,2\n"},
        "in b.csv, column 'f', and text in a"),
    # Nothing there.
    "empty file": (LONG, {"a.csv": ""}, "a.csv is empty"),
    "only a header": (LONG, long(), "relation 'seen': a.csv has no rows"),
    "all missing": (LONG, long("ann,up,", "bob,up,"), "every value in column 'x' of a.csv is missing"),
    "no header": (LONG.replace('"u"', '"column0"').replace('"f"', '"column1"'),
        {"a.csv": "1,2,3\n4,5,6\n7,8,9\n"}, "Its first line does not look like names"),
    "no such column": (LONG.replace('"u"', '"user"'), FINE, "a.csv has no column 'user'; it has u, f, x."),
    "no such file": (LONG.replace("a.csv", "aa.csv"), FINE, "aa.csv: there is no such file in"),
    "unused entity": (LONG + '[entities.flim]\nsource = "a.csv"\nid = "f"\n', FINE,
        "[entities.flim]: no relation uses"),
    # What the model does not cover.
    "itself": (LONG.replace('"film"', '"user"'), FINE, "it relates 'user' with itself, so symmetric must say which"),
    # Other layouts.
    "ragged": (LONG, long("ann,up,1", "bob,up,2,9", "ann,heat,3"), "a.csv, row 2: it has 4 values and the header 3"),
    "wide text": (WIDE, wide("ann,1,2", "bob,x,3"), "w.csv, column 'up', row 2: 'x' is not a number"),
    "wide infinity": (WIDE, wide("ann,1,2", "bob,3,inf"), "w.csv, column 'heat', row 2: the value is inf"),
    "wide not 0 or 1": (WIDE + BERNOULLI, wide("ann,1,3"), "w.csv, column 'heat', row 1: the value is 3, but bernoull"),
    "wide repeated id": (WIDE, wide("ann,1,2", "ann,2,3"), "w.csv, column 'id', row 1: the id 'ann' comes more than"),
    "wide null id": (WIDE, wide("ann,1,2", ",2,3"), "w.csv, column 'id', row 2: the id is null"),
    "wide repeated column": (WIDE, {"w.csv": "id,up,up\nann,1,2\n"}, "w.csv has two columns 'up'; rename one of them"),
    "wide empty": (WIDE, wide("ann,,", "bob,,"), "w.csv has only empty cells"),
    "wide no rows": (WIDE, wide(), "w.csv has no rows"),
    "blanks": (MATRIX, matrix("1 1 1.5"), "m.mtx: a sparse matrix must say in [relations.mat] what its blanks are"),
    "matrix value": (MATRIX + BERNOULLI + 'blanks = "zero"\n', matrix("1 2 1.5"),
        "m.mtx (rows and columns are counted f"),
    "matrix cut off": (MATRIX + 'blanks = "zero"\n', {"m.mtx": MTX.format(n=3, cells="1 1 2")},
        "m.mtx cannot be read as"),
    # The project file.
    "key": (LONG.replace("value", "vaule"), FINE, "gcmf.toml, [relations.seen]: unknown key 'vaule'. Did you mean 'va"),
    "likelihood": (LONG + 'likelihood = "gausian"\n', FINE, "likelihood = 'gausian' is not one of gaussian, bernoulli"),
    "option": (LONG + "[fit]\nn_factors = 0\n", FINE, "gcmf.toml, [fit]: The 'n_factors' parameter must be"),
    "prior": (LONG + "[fit.priors]\ntau_rat = 1\n", FINE, "gcmf.toml, [fit.priors]: unknown key 'tau_rat'. Did y"),
    "bias": (LONG + "[fit]\nbias = {sene = true}\n", FINE, "unknown key 'sene'. Did you mean 'seen'?"),
    "output": (LONG + '[output]\nmodel = "no/where.gcmf"\n', FINE, "there is no folder"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_paragraph(tmp_path, case):
    toml, files, said = CASES[case]
    (tmp_path / "gcmf.toml").write_text(toml)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = CliRunner().invoke(main.app, ["fit", str(tmp_path), "--max-iter", "1"])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    error = done.stderr[done.stderr.index("Error: ") :]
    assert said in error
    assert len(error.splitlines()) == 1
    assert error.rstrip().endswith((".", "?"))
    assert done.stdout == ""
    assert not (tmp_path / "model.gcmf").exists()


def test_several_faults_are_a_list(tmp_path):
    (tmp_path / "gcmf.toml").write_text(LONG + BERNOULLI)
    (tmp_path / "a.csv").write_text("u,f,x\nann,up,oops\n,up,7\n")
    done = CliRunner().invoke(main.app, ["fit", str(tmp_path)])
    assert "Error: 3 faults in the data:\n  1. a.csv, column 'u', row 2: the id is null" in done.stderr


def test_an_empty_cell_of_a_wide_table_is_what_blanks_says(tmp_path):
    (tmp_path / "w.csv").write_text("id,up,heat\nann,1,\nbob,,3\n")
    for blanks, cells in (("", 2), ('blanks = "zero"\n', 4)):
        (tmp_path / "gcmf.toml").write_text(WIDE + blanks)
        done = CliRunner().invoke(main.app, ["fit", str(tmp_path), "--max-iter", "1", "--json"])
        assert f'"cells": {cells}' in done.stdout


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """A folder with a model, and with what is none."""
    folder = tmp_path_factory.mktemp("things")
    data = gcmf.Collection([gcmf.Relation("seen", "user", "film", (["a", "b"], ["x", "y"], [1.0, 2.0]))])
    gcmf.GCMF(1, random_state=0, progress=False).fit(data).save(folder / "m.gcmf")
    (folder / "notes.txt").write_text("hello")
    (folder / "empty").write_text("")
    (folder / "cells.csv").write_text("user,film\na,x\n")
    (folder / "folder").mkdir()
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("CREATE TABLE seen (user TEXT, film TEXT)")
        database.execute("INSERT INTO seen VALUES ('café', ?)", (b"\xff\xfe",))
    database.close()
    duckdb.connect(str(folder / "shop.duckdb")).close()
    (folder / "noise").write_bytes(b"\xff\xfe\x00")
    return folder


COMMANDS = {
    "describe nothing": ("describe {}/none", "there is no such file"),
    "describe a folder": ("describe {}/folder", "it is a folder"),
    "describe a note": ("describe {}/notes.txt", "it is no model file"),
    "describe nothing in it": ("describe {}/empty", "it is no model file"),
    "export a note": ("export {}/notes.txt {}/t", "it is no model file"),
    "export into a file": ("export {}/m.gcmf {}/notes.txt", "it is a file; name a folder"),
    "predict no cells": ("predict {}/m.gcmf {}/cell.csv", "there is no such file in"),
    "predict an empty file": ("predict {}/m.gcmf {}/empty", "is empty"),
    "predict a folder": ("predict {}/m.gcmf {}/folder", "folder is a folder; name a file in it"),
    "predict no relation": ("predict {}/m.gcmf --all --relation sen", "Did you mean 'seen'?"),
    "predict into no folder": ("predict {}/m.gcmf --all -o {}/no/p.csv", "there is no folder"),
    "predict into a folder": ("predict {}/m.gcmf --all -o {}/folder", "it is a folder"),
    "predict over cells": ("predict {}/m.gcmf --all -o {}/cells.csv", "Give --force"),
    "fit nothing": ("fit {}/none", "There is no project file"),
    "fit a folder": ("fit {}/folder", "There is no project file"),
    "fit a note": ("fit {}/notes.txt", "is not valid TOML"),
    "fit SQLite": ("fit {}/shop.sqlite", "it is a database. Run `gcmf init shop.sqlite`"),
    "fit DuckDB": ("fit {}/shop.duckdb", "it is a database. Run `gcmf init shop.duckdb`"),
    "evaluate noise": ("evaluate {}/noise", "noise is no project file: it is not text"),
    "describe a database": ("describe {}/shop.sqlite", "it is no model file, or a piece of it is missing. A model"),
    "fit an empty file": ("fit {}/empty", "describes no relation"),
    "evaluate nothing": ("evaluate {}/none", "There is no project file"),
    "demo into a file": ("demo --out {}/notes.txt", "it is a file; name a folder"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_one_paragraph_from_every_command(things, case):
    command, said = COMMANDS[case]
    before = sorted(things.iterdir())
    done = CliRunner().invoke(main.app, command.replace("{}", str(things)).split())
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert said in done.stderr
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert sorted(things.iterdir()) == before
