import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gcmf.data import Collection, Relation
from gcmf.errors import DataError, UnknownIdError


def frame(index, columns):
    values = np.arange(len(index) * len(columns), dtype=float).reshape(len(index), -1)
    return pd.DataFrame(values, index=list(index), columns=list(columns))


@pytest.fixture
def data():
    return Collection(
        [
            Relation("ratings", "user", "movie", frame("ba", "xyz")),
            Relation("genres", "movie", "genre", (["w", "x", "x"], ["g", "g", "h"], [1, 0, 1]), "bernoulli"),
        ],
        entities={"movie": ["z", "q"]},
    )


def test_ids_are_aligned(data):
    assert data.schema.entities == ("user", "movie", "genre")
    assert list(data.entities["user"].ids) == ["b", "a"]
    assert list(data.entities["movie"].ids) == ["z", "q", "x", "y", "w"]
    assert data.entities["movie"].size == len(data.entities["movie"]) == 5
    i, j, x = data.relations["ratings"].cells.triplets()
    assert list(zip(i, j, x, strict=True)) == [
        (0, 0, 2),
        (0, 2, 0),
        (0, 3, 1),
        (1, 0, 5),
        (1, 2, 3),
        (1, 3, 4),
    ]
    i, j, x = data.relations["genres"].cells.triplets()
    assert list(zip(i, j, x, strict=True)) == [(2, 0, 0), (2, 1, 1), (4, 0, 1)]


def test_what_it_knows(data):
    ratings = data.relations["ratings"]
    assert (ratings.name, ratings.rows, ratings.cols, ratings.likelihood) == (
        "ratings",
        "user",
        "movie",
        "gaussian",
    )
    assert (ratings.shape, ratings.n_cells, data.n_cells) == ((2, 5), 6, 9)
    assert data.observed("movie").tolist() == [True, False, True, True, True]
    with pytest.raises(UnknownIdError, match="Did you mean 'movie'"):
        data.observed("movies")


def test_repr(data):
    text = repr(data).replace("\N{MULTIPLICATION SIGN}", "x")
    assert text == (
        "<Collection: 2 relations, 3 entity sets, 9 cells>\n"
        "  ratings: user x movie (gaussian), 2 x 5, 6 cells (60% observed)\n"
        "  genres: movie x genre (bernoulli), 5 x 2, 3 cells (30% observed)\n"
        "  entities: user 2, movie 5, genre 2"
    )
    alone = Collection([Relation("r", "a", "b", np.eye(2))])
    assert repr(alone).startswith("<Collection: 1 relation, 2 entity sets, 4 cells>")
    shown = repr(data.relations["ratings"]).replace("\N{MULTIPLICATION SIGN}", "x")
    assert shown == "<BoundRelation ratings: user x movie (gaussian), 2 x 5, 6 cells (60% observed)>"


def test_filled_relation_covers_only_its_own_ids():
    counts = sparse.csr_array([[0, 2], [0, 0]])
    data = Collection(
        [
            Relation("counts", "doc", "word", counts, "poisson", blanks="zero"),
            Relation("labels", "doc", "label", pd.DataFrame({"l": [1.0]}, index=[1])),
        ],
        entities={"doc": [2, 1, 0]},
    )
    i, j, x = data.relations["counts"].cells.triplets()
    assert list(zip(i, j, x, strict=True)) == [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 2)]
    assert data.relations["counts"].shape == (3, 2)
    assert data.relations["counts"].n_cells == 4
    assert data.observed("doc").tolist() == [False, True, True]


def test_positions_meet_integers_within_range():
    data = Collection(
        [
            Relation("traits", "user", "trait", ([2, 0], ["t", "t"], [1.0, 2.0])),
            Relation("ratings", "user", "movie", np.arange(6.0).reshape(3, 2)),
        ]
    )
    assert data.entities["user"].ids.tolist() == [0, 2, 1]
    i, _, x = data.relations["ratings"].cells.triplets()
    assert list(zip(i, x, strict=True)) == [(0, 0), (0, 1), (1, 4), (1, 5), (2, 2), (2, 3)]


def test_declared_positions_may_go_further():
    data = Collection([Relation("r", "user", "movie", np.ones((2, 2)))], entities={"user": iter(range(4))})
    assert data.relations["r"].shape == (4, 2)
    assert data.observed("user").tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (["1", "2"], r"numbers in relation 'r', such as 1; text in relation 's', such as '1'\. Make them one kind"),
        ([False, True], "True or False in relation 's', such as False"),
        ([(1, 2), (2, 3)], r"tuples in relation 's', such as \(1, 2\)"),
    ],
)
def test_ids_of_two_kinds_are_not_two_entities(other, words):
    ratings = Relation("r", "user", "movie", ([1, 2], ["a", "a"], [1.0, 2.0]))
    with pytest.raises(DataError, match=words):
        Collection([ratings, Relation("s", "user", "trait", (other, ["t", "t"], [1.0, 2.0]))])
    with pytest.raises(DataError, match=words.replace("relation 's'", "entities={'user': ...}")):
        Collection([ratings], entities={"user": other})


def test_numbers_of_any_type_are_one_kind():
    data = Collection(
        [
            Relation("r", "user", "movie", ([1, 2], ["a", "a"], [1.0, 2.0])),
            Relation("s", "user", "trait", (np.array([2.0, 3.0]), ["t", "t"], [1.0, 2.0])),
        ]
    )
    assert data.entities["user"].ids.tolist() == [1, 2, 3]


def test_zeros_of_a_listing_reach_the_declared_ids():
    clicks = Relation("clicks", "user", "page", (["ann", "bob"], ["p", "q"], [1, 1]), "bernoulli", blanks="zero")
    tags = Relation("tags", "page", "tag", (["p", "z"], ["t", "t"], [1.0, 2.0]))
    data = Collection([clicks, tags], entities={"user": ["cat", "ann"]})
    bound = data.relations["clicks"]
    i, j, x = bound.cells.triplets()
    assert data.entities["user"].ids.tolist() == ["cat", "ann", "bob"]
    listed = dict(zip(zip(i.tolist(), j.tolist(), strict=True), x.tolist(), strict=True))
    assert listed == {(0, 0): 0, (0, 1): 0, (1, 0): 1, (1, 1): 0, (2, 0): 0, (2, 1): 1}, "page z is of tags alone"
    assert "3 × 3, 6 cells (66.7% observed, blanks are zeros between 3 × 2 of them)" in repr(data)
    assert repr(clicks).endswith("2 × 2, 4 cells (100% observed, blanks are zeros)>")


def test_relations_may_be_one():
    assert Collection(Relation("r", "user", "movie", np.ones((2, 2)))).n_cells == 4


def test_from_mapping():
    data = Collection.from_mapping(
        {
            ("user", "movie"): np.array([[1.0, np.nan]]),
            ("user", "trait", "traits"): np.array([[True, False]]),
        }
    )
    assert list(data.relations) == ["user-movie", "traits"]
    assert data.relations["user-movie"].likelihood == "gaussian"
    assert data.relations["traits"].likelihood == "bernoulli"


def test_from_mapping_refuses():
    with pytest.raises(DataError, match=r"'a-b': a scipy.sparse matrix must say.*use Relation\(\.\.\., blanks="):
        Collection.from_mapping({("a", "b"): sparse.eye_array(2)})
    with pytest.raises(DataError, match=r"the key 'ab' does not name a relation; use \(rows, cols\)"):
        Collection.from_mapping({"ab": np.eye(2)})
    with pytest.raises(DataError, match=r"needs at least one relation"):
        Collection.from_mapping({})
