"""A key that only tells lines apart is no entity: the ids beside it are related."""

import sqlite3

import pytest

import gcmf
from gcmf.io.guess.discover import discover
from gcmf.io.guess.draft import to_toml, write_project
from io_samples import write_csv

PAIRS = [(f"u{k % 10}", f"m{k // 10}") for k in range(60) if k % 7]


def joins(found):
    return {one.name: (one.rows, one.cols, one.value, one.likelihood) for one in found.relations}


def read_back(found, folder):
    write_project(found, folder / "gcmf.toml", replace=False)
    return gcmf.read_project(folder).collection


def write_ratings(path, pairs=PAIRS):
    lines = [(k, *pair, 1 + k % 5, 1_700_000_000 + k) for k, pair in enumerate(pairs)]
    write_csv(path, ("id", "user_id", "movie_id", "stars", "timestamp"), lines)


def write_movies(path):
    write_csv(path, ("movie_id", "minutes"), [(f"m{k}", 90 + k) for k in range(6)])


@pytest.mark.parametrize("with_movies", [True, False])
def test_ratings_with_an_id_relate_users_with_movies(tmp_path, with_movies):
    write_ratings(tmp_path / "ratings.csv")
    if with_movies:
        write_movies(tmp_path / "movies.csv")
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {"ratings": ("user", "movie", "stars", "gaussian")}
    assert [one.name for one in found.features] == ["movies"] * with_movies
    assert "ratings.id (it only tells the lines apart)" in found.unused
    assert found.notes == []
    assert read_back(found, tmp_path).relations["ratings"].n_cells == len(PAIRS)


def write_shop(path, orders, *, declared):
    refers = "REFERENCES {0}({0}_id)".format if declared else lambda _: ""
    with sqlite3.connect(path) as lite:
        lite.executescript(f"""
            CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, age INTEGER);
            CREATE TABLE product (product_id INTEGER PRIMARY KEY, price REAL);
            CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER {refers("customer")},
                                 product_id INTEGER {refers("product")}, quantity INTEGER);
        """)
        lite.executemany("INSERT INTO customer VALUES (?, ?)", [(k, 20 + k) for k in range(10)])
        lite.executemany("INSERT INTO product VALUES (?, ?)", [(k, 1.5 * k) for k in range(6)])
        lite.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
    lite.close()


@pytest.mark.parametrize("declared", [True, False])
def test_orders_that_repeat_are_summed_and_the_other_reading_is_on_top(tmp_path, declared):
    orders = [(k, k % 10, k // 10, 1 + k % 13) for k in range(45)] + [(90, 0, 0, 20), (91, 1, 0, 30)]
    write_shop(tmp_path / "shop.db", orders, declared=declared)
    found = discover(tmp_path / "shop.db", base=tmp_path)
    assert joins(found) == {"orders": ("customer", "product", "quantity", "negative_binomial")}
    assert "taken for a relation of customer_id and product_id" in found.notes[0]
    assert "2 combinations" in found.notes[0]
    assert '[features.orders] with rows = "order" and row = "order_id"' in found.notes[0]
    assert "orders lists 2 pairs more than once; the sum of the values is used." in found.notes
    text = to_toml(found)
    assert text.index(found.notes[0]) < text.index("[relations.orders]")
    cells = read_back(found, tmp_path).relations["orders"]
    assert cells.n_cells == 45
    assert cells.cells.triplets().x.max() == 32


def test_three_references_are_counted_with_a_doubt(tmp_path):
    lines = [(k, f"c{k % 5}", f"p{k % 7}", f"s{k % 3}", 1 + k % 13) for k in range(60)]
    write_csv(tmp_path / "orders.csv", ("order_id", "customer_id", "product_id", "store_id", "quantity"), lines)
    found = discover(tmp_path, base=tmp_path)
    assert {one[:2] for one in joins(found).values()} == {
        ("customer", "product"), ("customer", "store"), ("product", "store"),
    }  # fmt: skip
    assert "To use its values, write a [relations.orders]" in found.notes[0]
    assert "entities of their own" in found.notes[0]


def test_a_table_that_others_refer_to_stays_one_of_entities(tmp_path):
    lines = [(k, f"c{k % 5}", f"s{k % 3}", 1 + k % 13) for k in range(30)]
    write_csv(tmp_path / "orders.csv", ("order_id", "customer_id", "store_id", "quantity"), lines)
    bought = [(k // 2, f"p{k % 7}", 1 + k % 17) for k in range(60)]
    write_csv(tmp_path / "lines.csv", ("order_id", "product_id", "n"), bought)
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {"lines": ("order", "product", "n", "poisson")}
    assert [(one.name, one.rows) for one in found.features] == [("orders", "order")]
    assert found.notes == []


@pytest.mark.parametrize("title", [("title",), ()])
def test_things_with_references_stay_things_with_a_doubt(tmp_path, title):
    lines = [(k, *(f"t{k}" for _ in title), f"d{k % 5}", f"s{k % 3}", 1950 + k) for k in range(30)]
    write_csv(tmp_path / "films.csv", ("film_id", *title, "director_id", "studio_id", "year"), lines)
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {}
    assert [one.rows for one in found.features] == ["film"]
    assert "If the table rather relates director_id and studio_id" in found.notes[0]


@pytest.mark.parametrize(("name", "first"), [("event_id", False), ("", True)])
def test_numbers_of_lines_are_neither_values_nor_entities(tmp_path, name, first):
    lines = [(*pair, 1.5 * (k % 4)) for k, pair in enumerate(PAIRS)]
    numbered = [(k, *line) if first else (*line, k) for k, line in enumerate(lines)]
    names = ("user_id", "movie_id", "level")
    write_csv(tmp_path / "levels.csv", (name, *names) if first else (*names, name), numbered)
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {"levels": ("user", "movie", "level", "gaussian")}
    assert len(found.unused) == 1
    assert found.notes == []


def test_lines_without_an_id_are_left_out_and_said(tmp_path):
    pairs = [("" if k in (3, 5) else user, movie) for k, (user, movie) in enumerate(PAIRS)]
    write_ratings(tmp_path / "ratings.csv", pairs)
    found = discover(tmp_path, base=tmp_path)
    assert found.notes == ["ratings.user_id is empty in 2 lines: left out."]
    assert read_back(found, tmp_path).relations["ratings"].n_cells == len(PAIRS) - 2


@pytest.mark.parametrize("n_lines", [2, 20])
def test_a_table_of_bits_without_ids_is_a_matrix_with_numbered_lines(tmp_path, n_lines):
    lines = [(k % 2, (k + 1) % 2, k // 2 % 2, int(k % 3 == 0)) for k in range(n_lines)]
    write_csv(tmp_path / "answers.csv", tuple("abcd"), lines)
    found = discover(tmp_path, base=tmp_path)
    assert joins(found) == {"answers": ("answer_row", "answer_column", None, "bernoulli")}
    assert "answers has no column of ids" in found.notes[0]
    data = read_back(found, tmp_path)
    assert data.relations["answers"].n_cells == 4 * n_lines
    assert data.entities["answer_row"].ids[0] == 1
    assert data.relations["answers"].cells.triplets().x[:4].tolist() == list(lines[0])


def test_tables_of_bits_without_header_have_columns_of_their_own(tmp_path):
    for name in ("drugs", "genes"):
        lines = [" ".join(str((k * j + k) % 3 % 2) for j in range(10)) for k in range(12)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    found = discover(tmp_path, base=tmp_path)
    assert [one[:2] for one in joins(found).values()] == [("drug_row", "drug_column"), ("gene_row", "gene_column")]
    assert read_back(found, tmp_path).relations["genes"].shape == (12, 10)
