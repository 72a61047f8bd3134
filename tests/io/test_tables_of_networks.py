"""Tables that relate a set with itself, from a folder to predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

import gcmf
from gcmf.errors import DataError
from gcmf.io.guess.discover import discover
from gcmf.io.guess.draft import write_project
from gcmf.io.predictions import find_columns, find_relation, predict_all, predict_table
from gcmf.io.results import describe, tables
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table

RNG = np.random.default_rng(0)
PEOPLE = [f"p{k:02d}" for k in range(20)]


def network(*, both=False):
    """Pairs of people, each one way round or both, in a shuffled order."""
    pairs = [(PEOPLE[i], PEOPLE[j]) for i in range(20) for j in range(i) if (3 * i + 5 * j) % 7 < 2]
    turned = [(b, a) if k % 2 else (a, b) for k, (a, b) in enumerate(pairs)]
    return turned + [(b, a) for a, b in turned] if both else turned


def write(folder, name, columns, rows):
    pd.DataFrame(rows, columns=list(columns)).to_csv(folder / name, index=False)


def found_in(folder):
    """The draft of a folder, and its only relation."""
    draft = discover(folder, base=folder)
    (relation,) = draft.relations
    return draft, relation


def count_links(data):
    (relation,) = data.relations.values()
    return sum(part.x.sum() for part in relation.chunks(100))


@pytest.mark.parametrize("columns", [("person1", "person2"), ("person_a", "person_b"), ("person_id", "friend_id")])
@pytest.mark.parametrize("both", [False, True])
def test_a_list_of_pairs_is_a_symmetric_relation(tmp_path, columns, both):
    write(tmp_path, "friends.csv", columns, network(both=both))
    draft, relation = found_in(tmp_path)
    assert (relation.rows, relation.cols, relation.symmetric) == ("person", "person", True)
    assert any("relates person with itself" in note for note in draft.notes)
    write_project(draft, tmp_path / "gcmf.toml", replace=False)
    data = gcmf.read_project(tmp_path / "gcmf.toml").collection
    assert data.n_cells == 20 * 19 / 2
    assert count_links(data) == len(network())


@pytest.mark.parametrize("columns", [("from", "to"), ("parent_id", "child_id"), ("follower", "followee")])
def test_names_tell_the_direction(tmp_path, columns):
    write(tmp_path, "links.csv", columns, network())
    _, relation = found_in(tmp_path)
    assert (relation.rows, relation.cols, relation.symmetric) == ("node", "node", False)


def test_numbers_in_common_do_not_make_a_network(tmp_path):
    """Users and items are both counted from 1."""
    rows = [(i, j, (i * j) % 5 + 1) for i in range(1, 20) for j in range(1, 20) if (i + j) % 3]
    write(tmp_path, "ratings.csv", ("user_id", "item_id", "rating"), rows)
    _, relation = found_in(tmp_path)
    assert (relation.rows, relation.cols, relation.symmetric) == ("user", "item", None)


def test_other_values_the_other_way_have_a_direction(tmp_path):
    pairs = network(both=True)
    write(tmp_path, "trust.csv", ("person1", "person2", "trust"), [(*pair, k / 7) for k, pair in enumerate(pairs)])
    draft, relation = found_in(tmp_path)
    assert relation.symmetric is False
    assert any("every pair is listed both ways, some with another value" in note for note in draft.notes)
    same = [(a, b, (int(a[1:]) + int(b[1:])) / 7) for a, b in pairs]
    write(tmp_path, "trust.csv", ("person1", "person2", "trust"), same)
    assert found_in(tmp_path)[1].symmetric is True


def test_lines_of_an_entity_with_itself_are_left_out_and_said(tmp_path):
    write(tmp_path, "links.csv", ("from", "to"), [*network(), ("p03", "p03"), ("p04", "p04")])
    draft, relation = found_in(tmp_path)
    assert "links relates a node with itself in 2 lines: left out, there is no such cell." in draft.notes
    assert relation.where == '"from" <> "to"'
    write_project(draft, tmp_path / "gcmf.toml", replace=False)
    gcmf.read_project(tmp_path / "gcmf.toml")
    text = (tmp_path / "gcmf.toml").read_text().replace(r'where = "\"from\" <> \"to\""', "")
    (tmp_path / "gcmf.toml").write_text(text)
    n = len(network())
    with pytest.raises(DataError, match=rf"row {n + 1}: it relates 'p03' with itself \(and 1 more\), but .*where ="):
        gcmf.read_project(tmp_path / "gcmf.toml")


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_square_table_relates_its_lines_with_themselves(tmp_path, symmetric):
    x = RNG.normal(size=(20, 20))
    x = (x + x.T) / 2 if symmetric else x
    frame = pd.DataFrame(x, index=pd.Index(PEOPLE, name="person_id"), columns=PEOPLE).iloc[::-1]
    frame.to_csv(tmp_path / "alike.csv")
    draft, relation = found_in(tmp_path)
    assert (relation.rows, relation.cols, relation.symmetric) == ("person", "person", symmetric)
    write_project(draft, tmp_path / "gcmf.toml", replace=False)
    data = gcmf.read_project(tmp_path / "gcmf.toml").collection
    assert data.n_cells == 20 * 19 / (2 if symmetric else 1)


def test_a_symmetric_matrix_market_file_is_a_symmetric_relation(tmp_path):
    x = np.triu((RNG.random((12, 12)) < 0.4) * RNG.normal(size=(12, 12)), 1)
    mmwrite(tmp_path / "alike.mtx", sparse.coo_array(x + x.T), symmetry="symmetric")
    draft, relation = found_in(tmp_path)
    assert (relation.rows, relation.cols, relation.symmetric) == ("alike_item", "alike_item", True)
    write_project(draft, tmp_path / "gcmf.toml", replace=False)
    assert gcmf.read_project(tmp_path / "gcmf.toml").collection.n_cells == np.count_nonzero(x)


@pytest.fixture(scope="module")
def model():
    links = RNG.random((20, 20)) < 0.3
    return gcmf.GCMF(3, random_state=0, max_iter=30, tol=1e-2, progress=False).fit([
        gcmf.Relation("follows", "person", "person", links, "bernoulli", row_ids=PEOPLE, col_ids=PEOPLE,
                      symmetric=False),
        gcmf.Relation("likes", "person", "page", RNG.normal(size=(20, 9)), row_ids=PEOPLE),
    ])  # fmt: skip


def cells(folder, columns, rows):
    write(folder, "cells.csv", columns, rows)
    return open_table(Source(source="cells.csv"), folder)


def test_pairs_of_one_set_are_predicted(tmp_path, model):
    (every,) = predict_all(model, model.schema_.relations[0])
    assert list(every.columns) == ["person", "person_other", "mean", "std"]
    assert len(every) == 20 * 19
    assert (every["person"] != every["person_other"]).all()
    follows = find_relation(model, "follows")
    for columns in (("person", "person_other"), ("person_id", "friend"), ("friend", "person_other")):
        table = cells(tmp_path, columns, [("p01", "p02"), ("p02", "p01")])
        (answer,) = predict_table(model, follows, table, columns=(None, None), unknown="error")
        np.testing.assert_allclose(answer["mean"], model.predict("follows", ["p01", "p02"], ["p02", "p01"]))
    with pytest.raises(DataError, match="Name its columns person and person_other"):
        find_columns(cells(tmp_path, ("a", "b"), [("p01", "p02")]), follows, (None, None))


def test_the_columns_of_a_table_tell_the_relation(model):
    assert find_relation(model, None, ["person", "page"]).name == "likes"
    assert find_relation(model, None, ["person", "person_other"]).name == "follows"


def test_what_is_said_of_a_directed_relation(model):
    report = describe(model)
    by_name = {relation["name"]: relation for relation in report["relations"]}
    assert by_name["follows"]["symmetric"] is False
    strengths = model.strengths()
    for factor in report["factors"]:
        assert factor["mate"] == model.mates().loc[factor["name"], "mate"]
        assert by_name["likes"]["strength"][factor["name"]] == strengths.loc["likes", factor["name"]]
    assert ("mates",) in tables(model)
