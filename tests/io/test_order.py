"""The same content is the same collection and the same model, in whatever order its rows come."""

import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

import gcmf

LONG = '[relations.r]\nrows = "user"\ncols = "item"\nrow = "user"\ncol = "item"\nvalue = "x"\n'
WIDE = '[relations.r]\nrows = "user"\ncols = "item"\nlayout = "wide"\n'
FEATURES = """[features.f]
source = "f.csv"
rows = "user"
row = "user"
numeric = ["age"]
categories = ["city"]
booleans = ["old"]
[entities.item]
source = "items.csv"
id = "item"
"""


def frames(kind):
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((40, 30)) < 0.5)
    name = "u{}".format if kind == "text" else int
    cells = pd.DataFrame({"user": [name(one) for one in i], "item": j, "x": rng.normal(size=len(i))})
    users = pd.DataFrame({"user": [name(one) for one in range(45)], "age": rng.normal(40, 9, 45)})
    users["city"], users["old"] = rng.choice(["Rome", "Oslo", "Bern"], 45), rng.random(45) < 0.5
    return cells, users, pd.DataFrame({"item": np.arange(35)})


def write(path, frame, *, seed):
    """Write a table; any seed but 0 shuffles it."""
    frame = frame.sample(frac=1, random_state=seed) if seed else frame
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False, row_group_size=50)
    elif path.suffix == ".db":
        lite = sqlite3.connect(path)
        frame.to_sql("cells", lite, index=False, if_exists="replace")
        lite.close()
    else:
        frame.to_csv(path, index=False)


def fitted(folder):
    """The means of all factors, and all that was read, as bytes."""
    data = gcmf.read_project(folder).collection
    model = gcmf.GCMF(3, max_iter=5, random_state=0, progress=False, n_threads=1).fit(data)
    parts = [model.factors(name).to_numpy().tobytes() for name in data.entities]
    parts += [part.tobytes() for own in data.relations.values() for part in own.cells.triplets()]
    return [[own.ids.tolist() for own in data.entities.values()], *parts]


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["text", "number"])
@pytest.mark.parametrize("source", ["a.csv", "a.parquet", "a.db"])
def test_rows_in_any_order(tmp_path, source, kind):
    cells, users, items = frames(kind)
    table = 'table = "cells"\n' if source == "a.db" else ""
    (tmp_path / "gcmf.toml").write_text(LONG + f'source = "{source}"\n{table}' + FEATURES)
    answers = []
    for seed in (0, 1, 2):
        write(tmp_path / source, cells, seed=seed)
        write(tmp_path / "f.csv", users, seed=seed)
        write(tmp_path / "items.csv", items, seed=seed)
        answers.append(fitted(tmp_path))
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]


@pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
@pytest.mark.parametrize("source", ["a.csv", "a.parquet"])
def test_lines_of_wide_tables_in_any_order(tmp_path, source):
    x = np.random.default_rng(0).normal(size=(20, 12))
    x[3, 4] = np.nan
    frame = pd.DataFrame(x, columns=[f"i{j}" for j in range(12)])
    frame.insert(0, "user", [f"u{i}" for i in range(20)])
    (tmp_path / "gcmf.toml").write_text(WIDE + f'source = "{source}"\n')
    answers = []
    for seed in (0, 1):
        write(tmp_path / source, frame, seed=seed)
        answers.append(fitted(tmp_path))
    assert answers[1] == answers[0]


@pytest.mark.parametrize("source", ["a.parquet", "a.duckdb"])
def test_a_query_without_an_order_gives_the_same_numbers_every_time(tmp_path, source):
    """Sums of many threads depend on who comes first; groups come in any order."""
    rng = np.random.default_rng(0)
    n = 400_000
    frame = pd.DataFrame({"user": rng.integers(0, 300, n), "item": rng.integers(0, 20, n), "y": rng.normal(size=n)})
    if source == "a.parquet":
        frame.to_parquet(tmp_path / source, row_group_size=5000)
        name = "source"
    else:
        name = "cells"
        with duckdb.connect(str(tmp_path / source)) as duck:
            duck.register("made", frame)
            duck.execute("CREATE TABLE cells AS SELECT * FROM made")
    query = f"SELECT user, item, avg(y) AS x FROM {name} GROUP BY user, item"
    (tmp_path / "gcmf.toml").write_text(LONG + f'source = "{source}"\nquery = "{query}"\n')
    read = [gcmf.read_project(tmp_path).collection for _ in range(3)]
    first = [part.tobytes() for part in read[0].relations["r"].cells.triplets()]
    for other in read[1:]:
        assert [part.tobytes() for part in other.relations["r"].cells.triplets()] == first
        assert other.entities["user"].ids.tolist() == list(range(300))


def test_ids_are_sorted_as_what_they_are(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,x\n10,é,1\n9,z,2\n-3,Z,3\n10,a,4\n")
    (tmp_path / "gcmf.toml").write_text(LONG + 'source = "a.csv"\n')
    found = gcmf.read_project(tmp_path).collection
    assert found.entities["user"].ids.tolist() == [-3, 9, 10]
    assert found.entities["item"].ids.tolist() == ["Z", "a", "z", "é"]
