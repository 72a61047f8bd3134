"""`gcmf init` gets common sources right without help."""

import sqlite3

import duckdb
import numpy as np
import pytest

import gcmf
from gcmf.errors import DataError
from gcmf.io.guess.discover import discover
from gcmf.io.guess.draft import to_toml, write_project
from gcmf.io.guess.summary import name_words, singular
from io_samples import GENRES, film_database, lastfm, movielens, write_csv


def joins(found):
    return {one.name: (one.rows, one.cols, one.likelihood, one.blanks) for one in found.relations}


def read_back(found, folder):
    """The collection of the file that would be written."""
    write_project(found, folder / "gcmf.toml", replace=False)
    return gcmf.read_project(folder).collection


def test_movielens(tmp_path):
    found = discover(movielens(tmp_path), base=tmp_path)
    assert joins(found) == {"u_data": ("user", "movie", "gaussian", "missing")}
    assert found.relations[0].value == "rating"
    (users,) = (one for one in found.features if one.rows == "user")
    assert (users.numeric, users.categories) == (("age",), ("gender", "occupation"))
    (films,) = (one for one in found.features if one.rows == "movie")
    assert (films.booleans, films.numeric, films.categories) == (GENRES, (), ())
    data = read_back(found, tmp_path)
    assert {name: len(own) for name, own in data.entities.items() if name in ("user", "movie")} == {
        "user": 30,
        "movie": 40,
    }


@pytest.mark.parametrize("item", ["item_id", "movieId", "movie_id"])
def test_items_are_found_by_their_values_where_names_differ(tmp_path, item):
    movielens(tmp_path)
    ratings = (tmp_path / "u.data").read_text().replace("item_id", item)
    (tmp_path / "u.data").unlink()
    (tmp_path / "ratings.csv").write_text(ratings)
    (tmp_path / "u.item").rename(tmp_path / "movies.csv")
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {"ratings": ("user", "movie", "gaussian", "missing")}
    assert any("different names and the same values" in note for note in found.notes) == (item == "item_id")


def test_lastfm(tmp_path):
    found = discover(lastfm(tmp_path), base=tmp_path)
    assert joins(found) == {
        "user_artists": ("user", "artist", "negative_binomial", "missing"),
        "user_taggedartists_user_tag": ("user", "tag", "poisson", "missing"),
        "user_taggedartists_artist_tag": ("artist", "tag", "poisson", "missing"),
        "user_friends": ("user", "user", "bernoulli", "zero"),
    }
    assert found.relations[0].value == "weight"
    assert [one.symmetric for one in found.relations if one.name == "user_friends"] == [True]
    assert [one.name for one in found.entities] == ["artist", "tag"]
    assert any("relates user with itself; every pair is listed both ways" in note for note in found.notes)
    data = read_back(found, tmp_path)
    assert len(data.entities["artist"]) == 32, "artists that nobody played are there too"


@pytest.mark.parametrize("declared", [True, False])
def test_a_normalized_database(tmp_path, declared):
    found = discover(film_database(tmp_path / "films.db", declared=declared), base=tmp_path)
    assert joins(found) == {
        "ratings": ("user", "film", "gaussian", "missing"), "film_actor": ("film", "actor", "bernoulli", "zero"),
    }  # fmt: skip
    assert {one.rows: (one.numeric, one.categories, one.booleans) for one in found.features} == {
        "user": (("age",), ("city",), ()), "film": (("year",), (), ("color",)),
    }  # fmt: skip
    assert [one.name for one in found.entities] == ["actor"]
    assert found.notes == []
    assert "database declares" in to_toml(found) if declared else "named as film" in to_toml(found)
    data = read_back(found, tmp_path)
    assert data.relations["film_actor"].n_cells == 30 * 20


def test_a_duckdb_database_is_looked_at_by_its_declared_keys(tmp_path):
    with duckdb.connect(str(tmp_path / "films.duckdb")) as duck:
        duck.execute("CREATE TABLE person (pk INTEGER PRIMARY KEY, age INTEGER)")
        duck.execute("CREATE TABLE film (film_id INTEGER PRIMARY KEY, year INTEGER)")
        duck.execute(
            "CREATE TABLE seen (who INTEGER REFERENCES person(pk), what INTEGER REFERENCES film(film_id), mark DOUBLE)"
        )
        duck.execute("INSERT INTO person VALUES (1, 20), (2, 30), (3, 50)")
        duck.execute("INSERT INTO film VALUES (1, 1999), (2, 1950)")
        duck.execute("INSERT INTO seen VALUES (1, 1, 2.5), (2, 1, 3.5), (3, 2, 1), (1, 2, 0.5)")
    found = discover(tmp_path / "films.duckdb", base=tmp_path)
    assert joins(found) == {"seen": ("person", "film", "gaussian", "missing")}
    assert {one.rows for one in found.features} == {"person", "film"}
    assert read_back(found, tmp_path).relations["seen"].n_cells == 4


def test_references_repeats_and_second_relations(tmp_path):
    with sqlite3.connect(tmp_path / "shop.sqlite") as lite:
        lite.executescript("""
            CREATE TABLE city (city_id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, city_id INTEGER REFERENCES city(city_id));
            CREATE TABLE purchase (customer_id INTEGER, product TEXT, quantity INTEGER);
            CREATE TABLE views (customer_id INTEGER, product TEXT, seconds REAL);
            INSERT INTO city VALUES (1, 'Rome'), (2, 'Oslo');
            INSERT INTO customer VALUES (1, 1), (2, 2), (3, NULL);
            INSERT INTO purchase VALUES (1, 'tea', 2), (1, 'tea', 3), (2, 'tea', 40), (3, 'rye', 1);
            INSERT INTO views VALUES (1, 'tea', 2.5), (2, 'rye', 1.5), (2, 'tea', 3.5);
        """)
    lite.close()
    found = discover(tmp_path / "shop.sqlite", base=tmp_path)
    assert joins(found)["purchase"] == ("customer", "product", "poisson", "missing")
    assert joins(found)["customer_city"] == ("customer", "city", "bernoulli", "zero")
    assert joins(found)["views"] == ("customer", "product", "gaussian", "missing")
    data = read_back(found, tmp_path)
    assert data.relations["views"].n_cells == 3
    assert sorted(data.relations["purchase"].cells.triplets().x.tolist()) == [1, 5, 40]
    assert data.relations["customer_city"].n_cells == 4


def test_columns_without_a_hint_are_guessed_and_listed(tmp_path):
    write_csv(tmp_path / "cells.csv", ("patient", "gene", "level"), [("p1", "a", 1.5), ("p1", "b", 2), ("p2", "a", 3)])
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {"cells": ("patient", "gene", "gaussian", "missing")}
    assert len(found.notes) == 2


def test_what_cannot_be_used_is_said(tmp_path):
    with pytest.raises(DataError, match="no file or folder"):
        discover(tmp_path / "nowhere", base=tmp_path)
    with pytest.raises(DataError, match="holds no table"):
        discover(tmp_path, base=tmp_path)
    write_csv(tmp_path / "one.csv", ("word",), [("a",), ("b",)])
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    with pytest.raises(DataError, match="it has one column only"):
        discover(tmp_path, base=tmp_path)


def test_a_project_is_not_replaced_unasked(tmp_path):
    found = discover(lastfm(tmp_path), base=tmp_path)
    write_project(found, tmp_path / "gcmf.toml", replace=False)
    with pytest.raises(DataError, match="--force"):
        write_project(found, tmp_path / "gcmf.toml", replace=False)
    write_project(found, tmp_path / "gcmf.toml", replace=True)


def test_words_of_names():
    assert name_words("userID") == name_words("user_id") == name_words("user id") == ("user", "id")
    assert [singular(word) for word in ("movies", "categories", "users", "series", "class")] == [
        "movie", "category", "user", "series", "class",
    ]  # fmt: skip


def write_wide(path, key, ids, names, x):
    write_csv(path, (key, *names), [(one, *row) for one, row in zip(ids, x.tolist(), strict=True)])


def test_wide_tables_share_their_lines_and_find_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    patients, genes = [f"p{i}" for i in range(12)], [f"gene{j}" for j in range(9)]
    write_wide(tmp_path / "expression.csv", "patient", patients, genes, rng.normal(size=(12, 9)))
    write_wide(tmp_path / "mutations.csv", "patient", patients, list("ABCDEFGH"), rng.integers(0, 2, (12, 8)))
    write_csv(tmp_path / "drugs.csv", ("drug_id", "dose"), [(f"d{j}", 2.5 * j) for j in range(8)])
    write_wide(tmp_path / "screen.csv", "patient", patients, [f"d{j}" for j in range(8)], rng.poisson(30, (12, 8)))
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {
        "expression": ("patient", "gene", "gaussian", None),
        "mutations": ("patient", "mutation_column", "bernoulli", None),
        "screen": ("patient", "drug", "poisson", None),
    }  # fmt: skip
    assert sum("was taken for a wide table" in note for note in found.notes) == 3
    data = read_back(found, tmp_path)
    assert data.relations["screen"].n_cells == 12 * 8
    assert data.relations["drugs_numbers"].rows == "drug"


def test_matrix_market_files_are_relations_to_be_named(tmp_path):
    head = "%%MatrixMarket matrix coordinate {} general\n3 2 2\n"
    (tmp_path / "links.mtx").write_text(head.format("pattern") + "1 1\n3 2\n")
    (tmp_path / "counts.mtx").write_text(head.format("integer") + "1 1 4\n3 2 9\n")
    (tmp_path / "levels.mtx").write_text(head.format("real") + "1 1 4.5\n3 2 9\n")
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {
        "links": ("links_row", "links_col", "bernoulli", "zero"),
        "counts": ("counts_row", "counts_col", "poisson", "zero"),
        "levels": ("levels_row", "levels_col", "gaussian", "missing"),
    }  # fmt: skip
    assert len(found.notes) == 3
    assert [own.n_cells for own in read_back(found, tmp_path).relations.values()] == [6, 2, 6]
    (tmp_path / "odd.mtx").write_text("no matrix")
    assert any("odd.mtx was left out" in note for note in discover(tmp_path, base=tmp_path).notes)


# --- tables without names of columns ------------------------------------------------------------------------


def nameless(folder, name, rows):
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    (folder / name).write_text(text + "\n")


def test_columns_without_names_are_not_joined_by_their_numbers(tmp_path):
    """As in FilmTrust: the second column of one table holds films, that of the other users."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((60, 90)) < 0.3)
    nameless(tmp_path, "ratings.txt", zip(i + 1, j + 1, rng.integers(1, 9, len(i)) / 2, strict=True))
    k, m = np.nonzero(rng.random((70, 70)) < 0.05)
    nameless(tmp_path, "trust.txt", [(a + 1, b + 1, 1) for a, b in zip(k, m, strict=True) if a != b and (a * b) % 3])
    draft = discover(tmp_path, base=tmp_path)
    ends = {relation.name: (relation.rows, relation.cols) for relation in draft.relations}
    assert ends == {"ratings": ("rating_column0", "rating_column1"), "trust": ("trust_column0", "trust_column1")}
    assert any(note.startswith("no line with the names of its columns: ratings, trust.") for note in draft.notes)
    write_project(draft, tmp_path / "gcmf.toml", replace=False)
    assert gcmf.read_project(tmp_path).collection.relations["ratings"].n_cells == len(i)


def test_columns_without_names_are_joined_by_their_values_and_that_is_said(tmp_path):
    """As in MovieLens 100K: ids of both kinds are counted from 1, and so are the stars."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((80, 130)) < 0.4)
    stars, when = rng.integers(1, 6, len(i)), rng.integers(8 * 10**8, 9 * 10**8, len(i))
    write = {"u.data": zip(i + 1, j + 1, stars, when, strict=True)}
    write["u.user"] = [(k, 20 + k % 40, "MF"[k % 2], ["artist", "writer", "other"][k % 3]) for k in range(1, 81)]
    write["u.item"] = [(k, f"title-{k}", *rng.integers(0, 2, 3)) for k in range(1, 131)]
    write["u1.base"] = [row for n, row in enumerate(zip(i + 1, j + 1, stars, when, strict=True)) if n % 5]
    for name, rows in write.items():
        nameless(tmp_path, name, rows)
    draft = discover(tmp_path, base=tmp_path)
    ends = {relation.name: (relation.rows, relation.cols, relation.value) for relation in draft.relations}
    assert ends == {"u_data": ("user", "item", "column2"), "u1_base": ("user", "item", "column2")}
    assert {feature.name: feature.rows for feature in draft.features} == {"u_item": "item", "u_user": "user"}
    for column, other in (("u_data.column0", "u_user.column0"), ("u_data.column1", "u_item.column0")):
        assert any(note.startswith(f"{column} and {other} have the same values") for note in draft.notes)
    write_project(draft, tmp_path / "gcmf.toml", replace=False)
    data = gcmf.read_project(tmp_path).collection
    assert data.entities["item"].size == 130
    assert data.relations["u_data"].n_cells == len(i)


def test_two_tables_of_cells_without_names_and_without_keys(tmp_path):
    rng = np.random.default_rng(0)
    for name, width in (("clicks.txt", 50), ("plays.txt", 33)):
        i, j = np.nonzero(rng.random((200, width)) < 0.3)
        nameless(tmp_path, name, [(f"u{a}", f"{name[0]}{b}", a * b % 7 / 2) for a, b in zip(i, j, strict=True)])
    draft = discover(tmp_path, base=tmp_path)
    rows = {relation.rows for relation in draft.relations}
    assert len(rows) == 1
    assert len({relation.cols for relation in draft.relations}) == 2
    assert any("plays.column0 and clicks.column0 have the same values" in note for note in draft.notes)
