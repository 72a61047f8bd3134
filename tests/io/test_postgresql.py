"""PostgreSQL as a source and a sink, against a server that the tests start."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.data.fingerprint import fingerprint
from gcmf.errors import DataError, StorageError
from gcmf.io.database import DatabaseTable, write_rows
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table
from postgres_server import SECRET, server

PAGE = (Path(__file__).parents[2] / "docs" / "guide-database.md").read_text(encoding="utf-8")
PROJECT = """
[relations.ratings]
source = "{address}"
table = "ratings"
rows = "user"
cols = "film"
row = "user_id"
col = "film_id"
value = "rating"

[relations.casts]
source = "{address}"
query = "SELECT film, actor FROM casts WHERE actor <> 'nobody'"
rows = "film"
cols = "actor"
row = "film"
col = "actor"
likelihood = "bernoulli"
blanks = "zero"

[entities.user]
source = "{address}"
table = "Users of the shop"
id = "id"
numeric = ["age"]
dates = ["joined"]
"""
TABLES = """
CREATE TABLE ratings (
    user_id integer, review text, film_id uuid, rating numeric(3, 1), at timestamptz DEFAULT now()
);
CREATE TABLE casts (film uuid, actor varchar(20));
CREATE TABLE "Users of the shop" (id bigint, age smallint, joined timestamptz);
INSERT INTO "Users of the shop" SELECT u, 20 + u % 31, '2020-01-01'::timestamptz + u * interval '1 day'
    FROM generate_series(0, 59) u;
INSERT INTO casts SELECT md5(f::text)::uuid, 'actor ' || (f * 7 + k * 5) % 15
    FROM generate_series(0, 39) f, generate_series(0, 2) k;
INSERT INTO casts VALUES (md5('0')::uuid, 'nobody');
"""


@pytest.fixture(scope="module")
def shop():
    """A server with a shop in it, and what its ratings are."""
    rng = np.random.default_rng(0)
    x = (3 + rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40)) + 0.3 * rng.normal(size=(60, 40))).clip(0, 9).round(1)
    i, j = np.nonzero(rng.random(x.shape) < 0.5)
    lines = ", ".join(f"({u}, md5('{f}')::uuid, {x[u, f]})" for u, f in zip(i, j, strict=True))
    with server() as at:
        at.sql(TABLES)
        at.sql(f"INSERT INTO ratings (user_id, film_id, rating) VALUES {lines}")
        yield at


@pytest.fixture(autouse=True)
def _password(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)


@pytest.fixture
def project(shop, tmp_path):
    (tmp_path / "gcmf.toml").write_text(PROJECT.format(address=shop.address))
    return tmp_path


@pytest.fixture(scope="module")
def model(shop, tmp_path_factory):
    """A model of the shop."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "gcmf.toml").write_text(PROJECT.format(address=shop.address))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", SECRET)
        done = run("fit", folder, "--n-factors", 2, "--max-iter", 20)
    assert done.exit_code == 0, done.stderr
    return folder / "model.gcmf"


def run(*arguments):
    return CliRunner().invoke(main.app, [str(one) for one in arguments])


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 1, done.output
    assert SECRET not in done.output
    return " ".join(done.stderr.split())


def opened(shop, **what):
    return open_table(Source(source=shop.address, **what), None)


# --- a source -------------------------------------------------------------------------------------------------------


def test_a_project_reads_what_files_would_give(shop, project, tmp_path):
    """The same collection as from CSV files that the server's own client writes."""
    texts = tmp_path / "texts"
    texts.mkdir()
    toml = (project / "gcmf.toml").read_text().replace(shop.address, "{file}")
    for table, where in (("ratings", ""), ("casts", " WHERE actor <> 'nobody'"), ("Users of the shop", "")):
        columns = {"ratings": "user_id, film_id, rating"}.get(table, "*")
        answer = shop.sql(f"SET timezone = 'UTC'; COPY (SELECT {columns} FROM \"{table}\"{where}) TO STDOUT CSV HEADER")
        (texts / f"{table}.csv").write_text("\n".join(answer).replace("+00", "") + "\n")
        toml = toml.replace("{file}", f"{table}.csv", 1)
    for line in ('table = "ratings"\n', 'table = "Users of the shop"\n',
                 "query = \"SELECT film, actor FROM casts WHERE actor <> 'nobody'\"\n"):  # fmt: skip
        assert line in toml
        toml = toml.replace(line, "")
    (texts / "gcmf.toml").write_text(toml)
    ours, theirs = gcmf.read_project(project).collection, gcmf.read_project(texts).collection
    assert ours.n_cells > 1000
    assert shop.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gcmf'") == ["0"]
    assert fingerprint(ours) == fingerprint(theirs)


def test_cells_on_disk_are_read_anew_each_time(shop, project, tmp_path):
    """A server does not say whether its tables have changed."""
    held, told = fingerprint(gcmf.read_project(project).collection), []
    for _ in range(2):
        made = gcmf.read_project(project, folder=tmp_path / "cells", report=lambda *said: told.append(said))
        assert fingerprint(made.collection) == held
    assert len(told) == 6
    assert shop.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gcmf'") == ["0"]


def test_kinds_of_columns(shop):
    kinds = {
        "a": "1::smallint", "b": "2.5::real", "c": "3::numeric(12, 0)", "d": "4.25::numeric", "e": "true",
        "g": "md5('')::uuid", "h": "'{1}'::int[]", "i": "timestamptz '2020-01-01 12:00+02'", "j": "'{\"k\": 1}'::jsonb",
        "f": "'x'::char(2)", "k": "NULL::text", "l": "7::oid",
    }  # fmt: skip
    table = opened(shop, query="SELECT " + ", ".join(f"{sql} AS {name}" for name, sql in kinds.items()))
    kinds = table.columns
    assert [kinds[name] for name in "abcde"] == ["SMALLINT", "FLOAT", "BIGINT", "DOUBLE", "BOOLEAN"]
    row = dict(zip(kinds, table.ask(f"SELECT {', '.join(kinds)} FROM {table.sql}")[0], strict=True))
    assert (row["a"], row["b"], row["c"], row["d"], row["e"], row["l"]) == (1, 2.5, 3, 4.25, True, 7)
    assert (row["f"], row["h"], row["k"]) == ("x", "{1}", None)
    assert row["g"] == "d41d8cd9-8f00-b204-e980-0998ecf8427e"
    assert str(row["i"]) == "2020-01-01 10:00:00"


def test_rows_come_in_order_and_only_those_meant(shop):
    table = opened(shop, query="SELECT i, -i AS n FROM generate_series(1, 600000) i", where="n < -10")
    numbers = np.concatenate([batch.column(0).to_numpy() for batch in table.batches('"i"')])
    assert (numbers == np.arange(11, 600_001)).all()
    assert table.first('"i" > 99999', "i") == (100_000, 100_000, 500_001)


def test_a_snapshot(shop):
    """What others write while a table is read is not seen in one pass and missed in the next."""
    table = opened(shop, table="ratings")
    count = f"SELECT count(*) FROM {table.sql}"
    before = table.ask(count)
    shop.sql("INSERT INTO ratings VALUES (0, NULL, md5('x')::uuid, 1)")
    try:
        assert table.ask(count) == before
        assert opened(shop, table="ratings").ask(count) != before
    finally:
        shop.sql("DELETE FROM ratings WHERE film_id = md5('x')::uuid")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"table": "rating"}, 'relation "rating" does not exist'),
        ({"query": "DELETE FROM ratings"}, "syntax error"),
        ({"query": "SELECT 1) AS a; DROP TABLE casts; SELECT * FROM (SELECT 2"}, "cannot insert multiple commands"),
        ({"query": "SELECT * FROM writes()"}, "cannot execute INSERT in a read-only transaction"),
        ({"query": "SELECT set_config('transaction_read_only', 'off', true), writes()"}, "read-write mode"),
        ({"query": "SELECT 1 AS a, 2 AS a"}, "two of its columns have the same name"),
        ({}, "say which table, or give a query"),
        ({"table": "ratings", "encoding": "utf-8"}, "encoding is for files"),
    ],
)
def test_refusals(shop, what, said):
    shop.sql("CREATE OR REPLACE FUNCTION writes() RETURNS integer LANGUAGE sql AS"
             " 'INSERT INTO casts VALUES (NULL, ''me'') RETURNING 1'")  # fmt: skip
    with pytest.raises(DataError, match=r"postgresql://") as refusal:
        list(opened(shop, **what).batches("1"))
    assert said in str(refusal.value)
    assert shop.sql("SELECT count(*) FROM casts WHERE actor = 'me'") == ["0"]


def test_faults_name_rows(shop, project):
    shop.sql("INSERT INTO ratings VALUES (NULL, NULL, md5('1')::uuid, 1), (3, '', md5('9')::uuid, 'NaN');"
             " INSERT INTO \"Users of the shop\" VALUES (7, 1, now())")  # fmt: skip
    try:
        said = refused("fit", project)
    finally:
        shop.sql("DELETE FROM ratings WHERE user_id IS NULL OR rating = 'NaN';"
                 ' DELETE FROM "Users of the shop" WHERE age = 1')  # fmt: skip
    assert "column 'user_id', row 1" in said
    assert "the id is null" in said
    assert "row 8: the id 7 comes more than once" in said


def test_a_connection_that_is_cut_while_reading(shop):
    table = opened(shop, query="SELECT i, i % 7 AS j, md5(i::text) AS k FROM generate_series(1, 5000000) i")
    rows = table.batches('"i"', '"j"', '"k"')
    next(rows)
    assert shop.cut()
    with pytest.raises(DataError, match=r"\(query\) cannot be read: the connection was lost") as lost:
        for _ in rows:
            pass
    assert len(lost.value.faults) == 1


def test_no_server(tmp_path, shop):
    address = shop.address.replace(str(shop.folder), str(tmp_path))
    (tmp_path / "gcmf.toml").write_text(PROJECT.format(address=address))
    said = refused("fit", tmp_path)
    assert f"{address} (table ratings) cannot be reached: connection to server" in said
    assert "No such file or directory" in said


# --- passwords ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://tester:hunter2@{host}/shop",
        "postgres://tester@{host}/shop?password=hunter2",
        "postgresql://tester@{host}/shop?sslmode=disable&pass%77ord=hunter2",
        "POSTGRESQL://tester:hunter2@[{host}/shop",
        "postgresql://tester:hunter%32@@{host}/shop",
        "postgresql://tester:hunter2/x@{host}/shop",
        "postgresql://tester:hunter2?x@{host}/shop",
        "postgresql://tester:hunter2#x@{host}/shop",
    ],
)
def test_a_password_in_a_project_file(address, tmp_path, model):
    address = address.format(host="db.example.org")
    (tmp_path / "gcmf.toml").write_text(PROJECT.format(address=address))
    for arguments in (("fit", tmp_path), ("--debug", "fit", tmp_path), ("export", model, address),
                      ("recommend", model, "-o", address, "--table", "t")):  # fmt: skip
        done = run(*arguments)
        assert done.exit_code == 1
        said = f"{done.output} {done.exception!r}"
        assert "hunter" not in said
        assert "PGPASSWORD" in said or "USER@HOST" in said
    assert "gcmf.toml, section 'ratings': An address" in " ".join(run("fit", tmp_path).stderr.split())


def test_addresses_where_files_are_read(model, tmp_path):
    address = "postgresql://tester:hunter2@db.example.org/shop"
    for command in (
        ("init", address),
        ("predict", model, address),
        ("recommend", model, "--relation", "ratings", "--new", address),
    ):
        said = refused(*command)
        assert "is a file. Tables of a PostgreSQL server are named in a project file" in said
        assert "hunter2" not in said


def test_where_passwords_come_from(shop, monkeypatch, tmp_path):
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(DataError, match="no password supplied"):
        opened(shop, table="ratings")
    (tmp_path / "pass").write_text(f"*:*:shop:tester:{SECRET}\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    assert opened(shop, table="ratings").columns["user_id"] == "INTEGER"
    monkeypatch.delenv("PGPASSFILE")
    service = f"[nightly]\nhost={shop.folder}\nuser=tester\ndbname=shop\npassword={SECRET}\n"
    (tmp_path / "service").write_text(service)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "service"))
    table = open_table(Source(source="postgresql:///?service=nightly", table="ratings"), None)
    assert table.columns["user_id"] == "INTEGER"
    monkeypatch.setenv("PGPASSWORD", "no such secret")
    with pytest.raises(DataError, match="password authentication failed") as wrong:
        opened(shop, table="ratings")
    assert "no such secret" not in str(wrong.value)


def test_passwords_are_written_nowhere(shop, project, tmp_path):
    """Not into what a command says, with all it can say, nor into any file; and no process is started with it."""
    shop.sql("DROP TABLE IF EXISTS told")
    code = ("import sys, gcmf.cli.main as m\n"
            "import subprocess\nsubprocess.Popen = None\n"  # nobody is started who could be given it
            "m.app(sys.argv[1:])")  # fmt: skip
    told = {**os.environ, "PGPASSWORD": SECRET}
    commands = (
        ("--debug", "fit", project, "--max-iter", 5, "--checkpoint", tmp_path / "c.gcmf", "--checkpoint-every", 0),
        (
            "--debug",
            "recommend",
            project / "model.gcmf",
            "--relation",
            "ratings",
            "-o",
            shop.address,
            "--table",
            "told",
        ),
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, command)], capture_output=True, env=told, check=False
        )
        assert done.returncode == 0, done.stderr
        assert SECRET.encode() not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"model.gcmf", "c.gcmf"} <= {path.name for path in files}
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


# --- a sink ---------------------------------------------------------------------------------------------------------


def test_recommendations_into_a_table(shop, model):
    shop.sql("DROP TABLE IF EXISTS best")
    job = ("recommend", model, "--relation", "ratings", "-n", 3, "-o", shop.address, "--table", "best")
    done = run(*job, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"recommendations": 180, "table": f"table best of {shop.address}"}
    loaded = gcmf.load(model).recommend("ratings", None, 3)
    rows = shop.sql("SELECT * FROM best")
    assert [line.split("|")[:3] for line in rows] == loaded.iloc[:, :3].astype(str).to_numpy().tolist()
    assert "is there already. Give --force" in refused(*job)


def test_a_table_that_is_there_keeps_what_it_is(shop, model):
    shop.sql("DROP TABLE IF EXISTS kept; CREATE TABLE kept (made timestamptz DEFAULT now(), film uuid, "
             '"user" integer, mean real, std real); CREATE VIEW seen AS SELECT * FROM kept;'
             " INSERT INTO kept (film) VALUES (md5('old')::uuid)")  # fmt: skip
    job = ("predict", model, "--all", "--relation", "ratings", "-o", shop.address, "--table", "public.kept", "--force")
    done = run(*job)
    assert done.exit_code == 0, done.stderr
    assert shop.sql('SELECT count(*), count(made), min("user"), max("user") FROM seen') == ["2400|2400|0|59"]
    assert shop.sql("SELECT count(*) FROM seen WHERE film = md5('old')::uuid") == ["0"]
    shop.sql('DROP VIEW seen; ALTER TABLE kept DROP COLUMN std; DELETE FROM kept WHERE "user" > 0')
    assert "has no column std; it has made, film, user, mean." in refused(*job)
    assert shop.sql("SELECT count(*) FROM kept") == ["40"]


def test_factors_and_structure_into_tables(shop, model):
    shop.sql("DROP TABLE IF EXISTS of_users, what; DROP SCHEMA IF EXISTS found CASCADE; CREATE SCHEMA found")
    tables = ("--table", "factors_user=of_users", "--table", "structure=found.what")
    done = run("export", model, shop.address, *tables)
    assert done.exit_code == 0, done.stderr
    assert shop.sql("SELECT count(*) FROM of_users") == ["60"]
    n = gcmf.load(model).n_factors_active_
    assert shop.sql("SELECT count(*) FROM found.what") == [str(n)]
    again = refused("export", model, shop.address, "--table", "factors_film=films", *tables)
    assert "of_users of" in again
    assert "is there already" in again
    assert shop.sql("SELECT to_regclass('films')") == [""]
    assert "Did you mean" in refused("export", model, shop.address, "--table", "factors_usr=x")
    assert "name tables with --table" in refused("export", model, shop.address)


def test_nothing_is_half_written_when_the_connection_is_cut(shop):
    shop.sql("DROP TABLE IF EXISTS half, whole; CREATE TABLE half AS SELECT 1 AS id, 0.5::float8 AS mean")
    part = pd.DataFrame({"id": np.arange(1000), "mean": 0.0})

    def parts():
        yield part
        assert shop.cut() == 1
        yield part

    targets = [DatabaseTable(shop.address, name, force=True) for name in ("whole", "half")]
    with pytest.raises(
        StorageError, match="cannot be written to: the connection was lost, and what was begun is undone"
    ):
        write_rows([([part], targets[0]), (parts(), targets[1])])
    assert shop.sql("SELECT * FROM half") == ["1|0.5"]
    assert shop.sql("SELECT to_regclass('whole')") == [""]


def test_ctrl_c_while_writing_leaves_what_was(shop):
    shop.sql("DROP TABLE IF EXISTS half; CREATE TABLE half AS SELECT 1 AS id, 0.5::float8 AS mean")

    def parts():
        yield pd.DataFrame({"id": np.arange(1000), "mean": 0.0})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows([(parts(), DatabaseTable(shop.address, "half", force=True))])
    assert shop.sql("SELECT * FROM half") == ["1|0.5"]


def test_the_nightly_job_of_the_guide(shop, tmp_path):
    """It runs as printed: a fit, and the next night an update with a user that had no rating before."""
    toml, script = (
        re.search(rf"^```{begins}.*?^```$", PAGE, re.MULTILINE | re.DOTALL)[0].partition("\n")[2][:-3]
        for begins in (r"toml\n\[relations.ratings\]\nsource = \"postgresql", "sh\n#!")
    )
    (tmp_path / "nightly.toml").write_text(toml.replace("n_factors = 10", "n_factors = 2\nmax_iter = 50"))
    service = f"[shop]\nhost={shop.folder}\nuser=tester\ndbname=shop\npassword={SECRET}\n"
    (tmp_path / "pg_service.conf").write_text(service)
    (tmp_path / "date").write_text("#!/bin/sh\necho 1\n")  # a Monday
    (tmp_path / "date").chmod(0o755)
    shop.sql("DROP TABLE IF EXISTS recommendations")
    script = script.replace("/srv/gcmf", str(tmp_path))
    here = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    told = {**{name: value for name, value in os.environ.items() if name != "PGPASSWORD"}, "PATH": here}

    def night():
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, env=told)
        assert done.returncode == 0, done.stderr
        return shop.sql("SELECT count(*), count(DISTINCT id) FROM recommendations")

    assert night() == ["600|60"]
    assert json.loads((tmp_path / "fit.json").read_text())["fitted"]
    shop.sql(
        "INSERT INTO ratings (user_id, film_id, rating) SELECT 99, md5(f::text)::uuid, 5 FROM generate_series(0, 6) f"
    )
    try:
        assert night() == ["610|61"]
        assert json.loads((tmp_path / "update.json").read_text())["new_cells"] == 7
    finally:
        shop.sql("DELETE FROM ratings WHERE user_id = 99")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("-o", "{address}"), "say with --table"),
        (("-o", "x.csv", "--table", "t"), "--table names a table of a database"),
        (("-o", "{address}", "--table", "nowhere.t"), 'schema "nowhere" does not exist'),
    ],
)
def test_refused_targets(shop, model, more, said):
    more = [part.format(address=shop.address) for part in more]
    assert said in refused("recommend", model, "--relation", "ratings", *more)
