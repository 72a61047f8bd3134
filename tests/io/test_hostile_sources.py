"""Data is data: no header, id, file name, query or filter writes, or reads another file than the one it names."""

import os
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.errors import DataError
from gcmf.io.guess.discover import discover
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table

PAYLOAD = "x': 'DOUBLE'}}); COPY (SELECT 42) TO '{target}'; SELECT * FROM (VALUES (1)) t(a) --"
HEAD = '[relations.r]\nrows = "user"\ncols = "item"\nrow = "user"\ncol = "item"\n'


def read(folder, source, more='value = "x"\n', **keys):
    given = "".join(f"{key} = {toml(value)}\n" for key, value in {"source": source, **keys}.items())
    (folder / "gcmf.toml").write_text(HEAD + given + more, encoding="utf-8")
    return gcmf.read_project(folder).collection


def toml(text):
    """Any text as TOML."""
    return (
        '"'
        + "".join(f"\\U{ord(letter):08x}" if letter in '"\\' or ord(letter) < 32 else letter for letter in text)
        + '"'
    )


def refused(folder, source, **keys):
    with pytest.raises(DataError) as caught:
        read(folder, source, **keys)
    return str(caught.value)


def cells(n=12):
    return "\n".join(f"{k % 4},{k // 4},{k / 2}" for k in range(n)) + "\n"


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("command", ["init", "fit", "predict"])
def test_a_header_runs_nothing(tmp_path, command):
    target = tmp_path / "pwned.csv"
    (tmp_path / "h.csv").write_text(f"user,item,{PAYLOAD.format(target=target)}\n" + cells())
    (tmp_path / "g.toml").write_text(HEAD + 'source = "h.csv"\nblanks = "missing"\nvalue = "item"\n')
    data = gcmf.Collection([gcmf.Relation("r", "user", "item", np.random.default_rng(0).normal(size=(4, 3)))])
    gcmf.GCMF(1, max_iter=1, tol=1.0, random_state=0, progress=False).fit(data).save(tmp_path / "m.gcmf")
    arguments = {
        "init": ["init", str(tmp_path / "h.csv"), "-o", str(tmp_path / "new.toml")],
        "fit": ["fit", str(tmp_path / "g.toml"), "--max-iter", "1"],
        "predict": ["predict", str(tmp_path / "m.gcmf"), str(tmp_path / "h.csv"), "-o", str(tmp_path / "p.parquet")],
    }
    done = CliRunner().invoke(main.app, arguments[command])
    assert done.exit_code == 0, done.stderr
    assert not target.exists()


@pytest.mark.parametrize(
    "name",
    [
        "it's",
        'say "x"',
        "a\nb",
        "100%",
        "{x}",
        "[x]",
        "x; DROP TABLE source --",
        "naïve ☃",
        "\\",
        "$1",
        "?",
        "x'}); --",
    ],
)
def test_any_header_is_a_name(tmp_path, name):
    quoted = '"' + name.replace('"', '""') + '"'
    (tmp_path / "a.csv").write_text(f"user,item,{quoted}\n" + cells(), encoding="utf-8")
    found = read(tmp_path, "a.csv", more=f"value = {toml(name)}\n")
    assert found.relations["r"].cells.triplets().x.tolist() == [k / 2 for i in range(4) for k in (i, i + 4, i + 8)]
    init = discover(tmp_path / "a.csv", base=tmp_path).relations[0]
    assert init.value == name


ODD_NAMES = [
    "u[1]",
    "a*",
    "?1",
    "it's",
    'say "x"',
    "a b",
    "100%20",
    "{u1,u2}",
    "new\nline",
    "ünï",
    "x=1",
    "~",
    "-",
    "u\\1",
]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "arrow", "sqlite", "duckdb"])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_name_is_no_pattern(tmp_path, ending, name):
    write(tmp_path / "plain", ending, 222)
    (tmp_path / "plain").rename(tmp_path / f"{name}.{ending}")
    for decoy in ("u1", "a1", "11"):
        write(tmp_path / f"{decoy}.{ending}", ending, 111)
    keys = {"table": "t"} if ending in ("sqlite", "duckdb") else {}
    if ending == "duckdb" and set(name) & set("?\\"):
        assert "rename the file" in refused(tmp_path, f"{name}.{ending}", **keys)
        return
    found = read(tmp_path, f"{name}.{ending}", **keys)
    assert set(found.relations["r"].cells.triplets().x) == {222, 223}
    assert set(found.entities["user"].ids) == {1, 2}, "and a folder or a file named x=1 makes no column"


def write(path, ending, value):
    table = pa.table({"user": [1, 2], "item": [1, 1], "x": [value, value + 1]})
    if ending == "csv":
        path.write_text(table.to_pandas().to_csv(index=False))
    elif ending == "parquet":
        parquet.write_table(table, path)
    elif ending == "arrow":
        feather.write_feather(table, path)
    elif ending == "jsonl":
        path.write_text(table.to_pandas().to_json(orient="records", lines=True))
    elif ending == "sqlite":
        lite = sqlite3.connect(path)
        table.to_pandas().to_sql("t", lite, index=False)
        lite.close()
    else:
        with duckdb.connect(str(path)) as duck:
            duck.register("made", table)
            duck.execute("CREATE TABLE t AS SELECT * FROM made")


def test_a_folder_named_as_a_column_is_none(tmp_path):
    (tmp_path / "user=9").mkdir()
    for ending in ("csv", "parquet", "jsonl"):
        write(tmp_path / "user=9" / f"a.{ending}", ending, 5)
        assert read(tmp_path, f"user=9/a.{ending}").entities["user"].ids.tolist() == [1, 2]


QUERIES = [
    "COPY (SELECT 1) TO '{folder}/pwned.csv'",
    "COPY (SELECT 1) TO '{folder}/a.csv' (USE_TMP_FILE false)",
    "SELECT * FROM source; COPY (SELECT 1) TO '{folder}/pwned.csv'",
    "SELECT 1) AS q; COPY (SELECT 1) TO '{folder}/pwned.csv'; SELECT * FROM (SELECT 1",
    "ATTACH '{folder}/pwned.db'",
    "INSERT INTO source VALUES (1, 2, 3)",
    "PRAGMA database_list",
    "SET threads = 7",
    "INSTALL httpfs",
    "CREATE TABLE t AS SELECT 1",
    "EXPORT DATABASE '{folder}/pwned'",
    "SELECT * FROM read_csv('{folder}/secret.csv')",
    "SELECT * FROM '{folder}/secret.csv'",
    "SELECT content AS user, 1 AS item, 1 AS x FROM read_text('{folder}/secret.csv')",
    "SELECT file AS user, 1 AS item, 1 AS x FROM glob('{folder}/*')",
    "SELECT * FROM read_csv('https://example.org/a.csv')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{folder}/pwned.csv''')",
    "",
]


@pytest.mark.parametrize("kind", ["csv", "sqlite", "duckdb"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_can_only_read_its_source(tmp_path, kind, query):
    write(tmp_path / f"a.{kind}", kind, 5)
    (tmp_path / "secret.csv").write_text("user,item,x\n1,2,3\n2,2,4\n")
    (tmp_path / "gcmf.toml").touch()
    before = everything(tmp_path)
    said = refused(tmp_path, f"a.{kind}", query=query.format(folder=tmp_path))
    assert f"a.{kind}" in said
    assert {**everything(tmp_path), "gcmf.toml": b""} == before


@pytest.mark.parametrize("kind", ["csv", "sqlite", "duckdb"])
@pytest.mark.parametrize(
    "where",
    [
        "x > 0); COPY (SELECT 1) TO '{folder}/pwned.csv'; SELECT (1",
        "x > 0) UNION SELECT 1, 2, 3 --",
        "x > (SELECT max(x) FROM read_csv('{folder}/secret.csv'))",
        "x > 0; DROP TABLE t",
        "",
    ],
)
def test_a_filter_is_one_condition(tmp_path, kind, where):
    write(tmp_path / f"a.{kind}", kind, 5)
    (tmp_path / "secret.csv").write_text("x\n1\n")
    (tmp_path / "gcmf.toml").touch()
    before = everything(tmp_path)
    keys = {} if kind == "csv" else {"table": "t"}
    assert f"a.{kind}" in refused(tmp_path, f"a.{kind}", where=where.format(folder=tmp_path), **keys)
    assert {**everything(tmp_path), "gcmf.toml": b""} == before


def test_comments_and_semicolons_at_the_end_are_fine(tmp_path):
    for kind in ("csv", "sqlite", "duckdb"):
        write(tmp_path / f"a.{kind}", kind, 5)
        name = "source" if kind == "csv" else "t"
        found = read(tmp_path, f"a.{kind}", query=f"SELECT * FROM {name} -- all of it", where="x > 0 -- positive")
        assert found.n_cells == 2
        assert read(tmp_path, f"a.{kind}", query=f"SELECT * FROM {name};\n").n_cells == 2


def test_a_view_in_a_database_reads_no_file(tmp_path):
    (tmp_path / "secret.csv").write_text("user,item,x\n1,2,3\n2,2,4\n")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as duck:
        duck.execute(f"CREATE VIEW t AS SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")
    assert "file system operations are disabled" in refused(tmp_path, "a.duckdb", table="t")


def test_table_names_are_names(tmp_path):
    name = "t\"; DROP TABLE t; --'"
    lite = sqlite3.connect(tmp_path / "a.sqlite")
    table = pa.table({"user": [1, 2, 2], "item": [1, 1, 2], "x": [5.5, 6, 7]})
    table.to_pandas().to_sql(name, lite, index=False)
    lite.close()
    assert read(tmp_path, "a.sqlite", table=name).n_cells == 3
    assert discover(tmp_path / "a.sqlite", base=tmp_path).relations[0].table == name


def test_ids_are_ids(tmp_path):
    ids = ["it's", 'say "x"', "a\nb", "=cmd()", "[red]x[/red]", "{x}", "%s", "☃", "--", "'; DROP TABLE source; --"]
    lines = "".join('"' + one.replace('"', '""') + f'",{k % 2},{k}\n' for k, one in enumerate(ids))
    (tmp_path / "a.csv").write_text("user,item,x\n" + lines, encoding="utf-8")
    assert set(read(tmp_path, "a.csv").entities["user"].ids) == set(ids)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("https://example.org/a.csv", "not an address; download it"),
        ("s3://bucket/a.parquet", "not an address"),
        ("file:///etc/passwd", "not an address"),
        ("folder", "folder is a folder; name a file in it"),
        (".", "is a folder"),
        ("/dev/stdin", "pipe or a device"),
        ("/dev/null", "pipe or a device"),
        ("pipe", "pipe or a device"),
        ("a\x00b", "is no name of a file"),
        ("", "is no name of a file"),
        ("*.csv", "there is no such file"),
    ],
)
@pytest.mark.parametrize("layout", ["long", "wide", "matrix"])
def test_what_is_no_file_is_refused(tmp_path, source, said, layout):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "a.csv", "csv", 5)
    assert said in refused(tmp_path, source, layout=layout)


def test_a_link_that_the_user_names_is_followed(tmp_path):
    write(tmp_path / "real.csv", "csv", 5)
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert read(tmp_path, "link.csv").n_cells == 2


def test_init_does_not_follow_links_out_of_its_folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "outside").mkdir()
    write(tmp_path / "data" / "cells.csv", "csv", 5)
    write(tmp_path / "outside" / "secret.csv", "csv", 7)
    (tmp_path / "data" / "other.csv").symlink_to(tmp_path / "outside" / "secret.csv")
    (tmp_path / "data" / "again.csv").symlink_to("cells.csv")
    (tmp_path / "data" / "matrix.mtx").symlink_to(tmp_path / "outside" / "secret.csv")
    done = CliRunner().invoke(main.app, ["init", str(tmp_path / "data")])
    assert done.exit_code == 0, done.stderr
    assert "other.csv was left out: it is a link out of the folder" in done.stdout
    assert "again.csv was left out: it is a link to cells.csv" in done.stdout
    assert "matrix.mtx was left out" in done.stdout
    text = (tmp_path / "data" / "gcmf.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith("source")] == ['source = "cells.csv"']


def test_reading_prints_nothing(tmp_path, capfd):
    parquet.write_table(pa.table({f"c{j}": np.arange(3.0) + j for j in range(400)}), tmp_path / "w.parquet")
    open_table(Source(source="w.parquet"), tmp_path)
    write(tmp_path / "a.csv", "csv", 5)
    read(tmp_path, "a.csv")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_no_extension_is_loaded_and_nothing_is_written(tmp_path, kind):
    write(tmp_path / f"a.{kind}", kind, 5)
    table = open_table(Source(source=f"a.{kind}", table="t" if kind == "duckdb" else None), tmp_path)
    settings = dict(table.ask("SELECT name, value FROM duckdb_settings()"))
    for name in ("enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions"):
        assert settings[name] == "false"
    with pytest.raises(DataError):
        table.ask("LOAD httpfs")
    with pytest.raises(DataError):
        table.ask("SET enable_external_access = true")
    with pytest.raises(DataError):
        table.ask(f"COPY (SELECT 1) TO '{tmp_path / 'pwned.csv'}'")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl", "sqlite", "duckdb", "mtx"])
def test_a_broken_file_is_a_paragraph(tmp_path, ending):
    if ending == "mtx":
        (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 7 3\n")
    else:
        write(tmp_path / f"a.{ending}", ending, 5)
        whole = (tmp_path / f"a.{ending}").read_bytes()
        kept = len(whole) // 2 if ending == "jsonl" else 120
        (tmp_path / f"a.{ending}").write_bytes(whole[:kept] + b"\xff{[" * 20)
    keys = {"table": "t"} if ending in ("sqlite", "duckdb") else {"blanks": "missing"}
    assert f"a.{ending}" in refused(tmp_path, f"a.{ending}", **keys)


def test_large_integers_beside_fractions_of_sqlite(tmp_path):
    lite = sqlite3.connect(tmp_path / "a.sqlite")
    lite.execute("CREATE TABLE t (user, item, x)")
    lite.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, 1, 2**60 + 1), (2, 1, 0.5)])
    lite.commit()
    lite.close()
    assert read(tmp_path, "a.sqlite", table="t").relations["r"].cells.triplets().x.tolist() == [2.0**60, 0.5]


def test_a_zero_byte_in_an_id_is_kept_or_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"user,item,x\nu,1,5\n" + b"w" * 5000 + b"\x00z,1,7\n")
    try:
        found = read(tmp_path, "a.csv")
    except DataError as error:
        assert "a.csv" in str(error)  # noqa: PT017 - either is fine
    else:
        assert found.entities["user"].ids.tolist() == ["u", "w" * 5000 + "\x00z"]


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("odd", ["\x1b[31m", "\x7f", "\x01", "\x85"])
def test_init_writes_toml_whatever_a_name_holds(tmp_path, odd):
    (tmp_path / f"r{odd}.csv").write_text(f"user,item,x{odd},y{odd}\n" + cells().replace("\n", ",text\n"))
    done = CliRunner().invoke(main.app, ["init", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    assert gcmf.read_project(tmp_path).collection.n_cells == 12


def test_init_leaves_out_a_file_whose_name_is_no_text(tmp_path):
    try:
        (tmp_path / "r\udcff.csv").write_text("user,item,x\n" + cells())
    except OSError:
        pytest.skip("this file system has no such names")
    done = CliRunner().invoke(main.app, ["init", str(tmp_path)])
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "is not UTF-8; rename it" in done.stderr


def test_init_writes_to_no_pipe_and_through_a_link(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,x\n" + cells())
    os.mkfifo(tmp_path / "pipe.toml")
    done = CliRunner().invoke(main.app, ["init", str(tmp_path), "-o", str(tmp_path / "pipe.toml"), "--force"])
    assert done.exit_code == 1
    assert "it is a device, a pipe or a socket" in done.stderr
    (tmp_path / "link.toml").symlink_to("gcmf.toml")
    assert CliRunner().invoke(main.app, ["init", str(tmp_path), "-o", str(tmp_path / "link.toml")]).exit_code == 0
    assert (tmp_path / "link.toml").is_symlink()
    assert gcmf.read_project(tmp_path).collection.n_cells == 12
