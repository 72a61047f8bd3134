from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from gcmf.data import Collection, Relation, cells
from gcmf.data.split import draw
from gcmf.errors import DataError, OptionError, UnknownIdError


@pytest.fixture(autouse=True, params=[1, 4096], ids=["dense", "listed"], scope="module")
def _layouts(request):
    """Small relations without blanks are held as large ones, or as small ones."""
    with mock.patch.object(cells, "MIN_DENSE", request.param):
        yield


def make(*, filled, likelihood="poisson", seed=0, shape=(8, 7)):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, size=shape) * rng.integers(0, 2, size=shape)
    if filled:
        relation = Relation("r", "row", "col", sparse.csr_array(x), likelihood, blanks="zero")
    else:
        relation = Relation("r", "row", "col", np.where(rng.random(shape) < 0.7, x, np.nan), likelihood)
    other = Relation("other", "row", "tag", rng.normal(size=(shape[0], 3)))
    return Collection([relation, other], entities={"col": range(shape[1], -1, -1)})


def table(data, name="r"):
    if name not in data.relations:
        return {}
    i, j, x = data.relations[name].cells.triplets()
    return {(a, b): v for a, b, v in zip(i.tolist(), j.tolist(), x.tolist(), strict=True)}


def check_sides(data, name="r"):
    """The column side says what the row side says."""
    held = data.relations[name].cells
    i, j, _ = held.triplets()
    np.testing.assert_array_equal(held.rows.counts(), np.bincount(i, minlength=held.shape[0]))
    np.testing.assert_array_equal(held.cols.counts(), np.bincount(j, minlength=held.shape[1]))
    assert held.n_cells == len(i)
    if held.dense:
        assert [own.tolist() for own in held.members()] == [np.unique(i).tolist(), np.unique(j).tolist()]


def check_partition(data, train, test, names=("r", "other")):
    for name in names:
        kept, held = table(train, name), table(test, name)
        assert kept.keys().isdisjoint(held)
        assert kept | held == table(data, name)
        check_sides(train, name)
        check_sides(test, name)
        assert not test.relations[name].cells.filled
        assert train.relations[name].cells.filled == data.relations[name].cells.filled


@settings(max_examples=60, deadline=None)
@given(
    st.booleans(),
    st.sampled_from(["poisson", "bernoulli"]),
    st.sampled_from(["cell", "row", "col"]),
    st.floats(0.25, 0.7),
    st.integers(0, 5),
)
def test_split_partitions_the_cells(filled, likelihood, by, size, seed):
    data = make(filled=filled, likelihood=likelihood, seed=seed)
    train, test = data.split(size, by, random_state=seed)
    check_partition(data, train, test)
    again, _ = train.split(0.4, "cell", random_state=seed)  # a part can be split again, holes and all
    check_partition(train, *train.split(0.4, "cell", random_state=seed))
    assert table(again).items() <= table(train).items()
    for part in (train, test):
        assert part.entities["col"].ids.tolist() == data.entities["col"].ids.tolist()
        assert part.schema.entities == data.schema.entities


@pytest.mark.parametrize("filled", [False, True])
def test_sizes(filled):
    data = make(filled=filled)
    _, test = data.split(0.3)
    assert test.relations["r"].n_cells == round(0.3 * data.relations["r"].n_cells)
    assert test.relations["other"].n_cells == round(0.3 * 24)


@pytest.mark.parametrize("filled", [False, True])
def test_by_row_and_by_col_take_whole_ones(filled):
    data = make(filled=filled)
    for by, side in (("row", "rows"), ("col", "cols")):
        train, test = data.split(0.5, by)
        before, left, held = (getattr(part.relations["r"].cells, side).counts() for part in (data, train, test))
        assert set(held[held > 0]) <= set(before)
        assert not np.any((left > 0) & (held > 0))
        assert np.sum(held > 0) == round(0.5 * np.sum(before > 0))


def test_what_is_left_of_a_dense_relation_is_dense_and_what_is_taken_may_be(monkeypatch):
    monkeypatch.setattr(cells, "MIN_DENSE", 50)
    data = Collection([Relation("r", "row", "col", np.random.default_rng(0).normal(size=(20, 10)))])
    for by, taken_is_dense in (("cell", False), ("row", True), ("col", True)):
        train, test = (part.relations["r"].cells for part in data.split(0.3, by))
        assert train.dense
        assert test.dense == taken_is_dense
        assert len(train.rows.value) == (200 if by == "cell" else 140)
    rest, most = (part.relations["r"].cells for part in data.split(0.6))
    assert not rest.dense
    assert most.dense


@pytest.mark.parametrize("filled", [False, True])
def test_relations_not_chosen_stay_whole(filled):
    data = make(filled=filled)
    train, test = data.split(relations=["r"])
    assert train.relations["other"].cells is data.relations["other"].cells
    assert list(test.relations) == ["r"]
    assert [own.name for own in test.schema.relations] == ["r"]
    assert list(data.split(relations="other")[1].relations) == ["other"]


def test_splits_are_reproducible():
    data = make(filled=False)
    assert table(data.split()[1]) == table(data.split(random_state=0)[1])
    assert table(data.split(random_state=1)[1]) != table(data.split(random_state=0)[1])
    rng = np.random.default_rng(0)
    assert table(data.split(random_state=rng)[1]) == table(data.split()[1])
    assert table(data.split(random_state=rng)[1]) != table(data.split()[1])
    assert len(table(data.split(random_state=None)[1])) == len(table(data.split()[1]))


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("by", ["cell", "row", "col"])
def test_folds_test_every_cell_once(filled, by):
    data = make(filled=filled)
    seen = {"r": {}, "other": {}}
    for train, test in data.folds(3, by):
        check_partition(data, train, test)
        for name, tested in seen.items():
            assert tested.keys().isdisjoint(table(test, name))
            tested.update(table(test, name))
    assert seen == {"r": table(data), "other": table(data, "other")}


def test_folds_are_even_and_default_to_five():
    sizes = [test.relations["r"].n_cells for _, test in make(filled=True).folds(relations=["r"])]
    assert sorted(sizes) == [11, 11, 11, 11, 12]


def test_large_filled_relation_is_not_enumerated():
    x = sparse.coo_array(([1.0, 2.0], ([5, 999], [7, 999_999])), shape=(1000, 1_000_000))
    data = Collection([Relation("r", "row", "col", x, "poisson", blanks="zero")])
    train, test = data.split(1e-6)
    assert test.n_cells == 1000
    assert train.n_cells == 10**9 - 1000
    assert train.relations["r"].cells.rows.counts().sum() == train.n_cells


@pytest.mark.parametrize("size", [0, 1, -0.5, 1.5, "half", None])
def test_size_must_be_a_share(size):
    with pytest.raises(OptionError, match=r"test_size=.* must be a share between 0 and 1"):
        make(filled=False).split(size)


def test_no_part_may_be_empty():
    with pytest.raises(DataError) as caught:
        make(filled=False).split(0.01)
    assert len(caught.value.faults) == 2
    assert caught.value.faults[1] == (
        "relation 'other' has 24 observed cells, and test_size=0.01 would leave the train or the test part"
        " without any; choose another size, or leave it whole by naming only the others in relations=."
    )
    with pytest.raises(DataError, match=r"has 3 observed columns, and n_folds=4 would leave"):
        make(filled=False).folds(4, "col")


def test_other_bad_options():
    data = make(filled=False)
    with pytest.raises(OptionError, match=r"by='cells' must be one of 'cell', 'row', 'col'\. Did you mean 'cell'"):
        data.split(by="cells")
    with pytest.raises(UnknownIdError, match=r"No relation is named 'othr'; .* Did you mean 'other'\?"):
        data.split(relations=["othr"])
    with pytest.raises(OptionError, match=r"relations=\[\] leaves nothing to split"):
        data.split(relations=[])
    with pytest.raises(OptionError, match=r"n_folds=1 must be an integer of at least 2"):
        data.folds(1)


@given(st.integers(1, 400), st.data())
def test_draw_gives_distinct_numbers_in_range(n, data):
    size = data.draw(st.integers(0, n))
    drawn = draw(np.random.default_rng(0), n, size)
    assert len(set(drawn.tolist())) == size
    assert np.all(np.diff(drawn) > 0)
    assert np.all((drawn >= 0) & (drawn < n))


def test_draw_is_uniform_where_it_does_not_enumerate():
    rng = np.random.default_rng(0)
    times = np.zeros(200)
    for _ in range(4000):
        times[draw(rng, 200, 12)] += 1
    expected = 4000 * 12 / 200
    assert np.sum((times - expected) ** 2 / (expected * (1 - 12 / 200))) < 270  # chi-square, 199 degrees


# --- cells that belong together -----------------------------------------------------------------------------


def one_hot(n=40, *, missing=(), seed=0):
    """Two categories, of three and of two levels, as 0/1 columns; rows that are missing are so in the first."""
    rng = np.random.default_rng(seed)
    x = np.hstack([np.eye(3)[rng.integers(0, 3, n)], np.eye(2)[rng.integers(0, 2, n)]])
    x[list(missing)] = np.nan
    return x


@pytest.mark.parametrize("kind", ["array", "sparse"])
@pytest.mark.parametrize("by", ["cell", "col"])
def test_columns_of_a_category_are_hidden_together(kind, by):
    x = one_hot(missing=[3, 4] if kind == "array" else [])
    held = Relation("r", "row", "col", x if kind == "array" else sparse.csr_array(x), "bernoulli",
                    blanks="zero" if kind == "sparse" else None)  # fmt: skip
    data = Collection([held], entities={"col": [4, 3, 2, 1, 0]})
    assert data.relations["r"].lead.tolist() in ([1, 1, 4, 4, 4], [0, 0, 2, 2, 2])
    train, test = data.split(0.3 if by == "cell" else 0.5, by)
    check_partition(data, train, test, ["r"])
    for part in (train, test):
        at = {(i, data.relations["r"].lead[j]) for i, j in table(part)}
        assert len(table(part)) == sum((data.relations["r"].lead == lead).sum() for _, lead in at)
    n = len(x) - (2 if kind == "array" else 0)
    assert len({(i, data.relations["r"].lead[j]) for i, j in table(test)}) == (
        round(0.3 * 2 * n) if by == "cell" else n
    )
    seen = {}
    for train, test in data.folds(4, "cell"):
        check_partition(data, train, test, ["r"])
        assert seen.keys().isdisjoint(table(test))
        seen.update(table(test))
    assert seen == table(data)


def test_columns_that_are_no_categories_are_not_taken_for_some():
    rng = np.random.default_rng(0)
    for x in (one_hot(19), rng.integers(0, 2, (40, 5)), np.zeros((40, 3)), np.ones((40, 2)), one_hot()[:, ::-2]):
        assert Collection([Relation("r", "row", "col", x, "bernoulli")]).relations["r"].lead is None
    counts = Collection([Relation("r", "row", "col", one_hot(), "poisson")])
    assert counts.relations["r"].lead is None
    network = Relation("r", "row", "row", np.roll(np.eye(30), 1, axis=1), "bernoulli", symmetric=False)
    assert Collection([network]).relations["r"].lead is None


def ratings(shape=(12, 9), *, share=0.6, seed=0):
    """Three ratings of the same visits, the third by place and person; of some visits one rating is missing."""
    rng = np.random.default_rng(seed)
    seen = rng.random(shape) < share
    parts = [np.where(seen & (rng.random(shape) < 0.9), rng.normal(size=shape), np.nan) for _ in range(3)]
    return Collection([
        Relation("food", "person", "place", parts[0]),
        Relation("service", "person", "place", parts[1]),
        Relation("overall", "place", "person", parts[2].T),
    ])  # fmt: skip


def hidden_pairs(data, *parts):
    """Pairs of entities by relation, person first, of each part."""
    names = {"food": slice(None), "service": slice(None), "overall": slice(None, None, -1)}
    return [{name: {pair[turn] for pair in table(part, name)} for name, turn in names.items()} for part in parts]


@pytest.mark.parametrize("seed", range(3))
def test_a_pair_of_entities_is_hidden_from_all_relations_or_none(seed):
    data = ratings(seed=seed)
    parts = [data.split(0.25, random_state=seed), *data.folds(3, random_state=seed)]
    for train, test in parts:
        check_partition(data, train, test, ["food", "service", "overall"])
        seen, hidden = hidden_pairs(data, train, test)
        assert not set().union(*seen.values()) & set().union(*hidden.values())
    for name in ("food", "service", "overall"):
        assert 0.15 < parts[0][1].relations[name].n_cells / data.relations[name].n_cells < 0.35
        assert sum(test.relations[name].n_cells for _, test in parts[1:]) == data.relations[name].n_cells
    train, test = data.split(relations=["food"])
    assert train.relations["service"].cells is data.relations["service"].cells, "the others stay whole"


@pytest.mark.parametrize("by", ["row", "col"])
def test_a_row_is_hidden_from_all_relations_of_the_same_two_sets_or_from_none(by):
    data = ratings(share=0.3)
    train, test = data.split(0.4, by, relations=["food", "service"])
    check_partition(data, train, test, ["food", "service"])
    at = 0 if by == "row" else 1
    seen, hidden = ({pair[at] for name in ("food", "service") for pair in table(part, name)} for part in (train, test))
    assert not seen & hidden


def test_a_listed_relation_beside_a_filled_one():
    rng = np.random.default_rng(0)
    counts = sparse.random_array((30, 20), density=0.1, rng=rng)
    i, j = np.nonzero(rng.random((30, 20)) < 0.2)
    data = Collection([
        Relation("count", "a", "b", sparse.csr_array(np.ceil(counts.toarray())), "poisson", blanks="zero"),
        Relation("rating", "a", "b", (i, j, rng.normal(size=len(i)))),
    ])  # fmt: skip
    train, test = data.split(0.2)
    check_partition(data, train, test, ["count", "rating"])
    assert test.relations["rating"].n_cells == round(0.2 * len(i))
    assert table(test, "rating").keys() <= table(test, "count").keys()
    assert table(train, "rating").keys().isdisjoint(table(test, "count"))
    assert 0.15 < test.relations["count"].n_cells / 600 < 0.25


def test_a_large_symmetric_relation_is_not_enumerated():
    n, rng = 30_000, np.random.default_rng(0)
    i, j = (rng.integers(0, n, 500) for _ in range(2))
    links = sparse.coo_array((np.ones(500), (np.minimum(i, j), np.maximum(i, j) + 1)), shape=(n + 1, n + 1))
    links.sum_duplicates()
    links.data[:] = 1.0
    network = Relation("r", "row", "row", links, "bernoulli", blanks="zero", symmetric=True)
    data = Collection([network])
    train, test = data.split(1e-6)
    assert test.relations["r"].n_cells == round(1e-6 * data.n_cells)
    held = table(test)
    assert {(b, a): x for (a, b), x in held.items()} == held
    again, more = train.split(1e-6, random_state=1)
    assert table(more).keys().isdisjoint(held)
    assert again.n_cells == data.n_cells - test.n_cells - more.n_cells
