import numpy as np
import pytest

from gcmf.datasets import find_data_folder, load_lastfm, load_movielens_1m, load_movielens_100k
from gcmf.errors import DataError, OptionError

FOLDER = find_data_folder()
with_data = [
    pytest.mark.data,
    pytest.mark.skipif(FOLDER is None, reason="no data folder: set GCMF_DATA to run this"),
]


def test_the_variable_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("GCMF_DATA", str(tmp_path))
    assert find_data_folder() == tmp_path
    monkeypatch.setenv("GCMF_DATA", str(tmp_path / "absent"))
    assert find_data_folder() is None


@pytest.mark.parametrize("loader", [load_movielens_1m, load_movielens_100k, load_lastfm])
def test_an_empty_folder_is_refused(loader, tmp_path):
    with pytest.raises(DataError, match=r"does not hold .*\. Get the set from https://grouplens\.org"):
        loader(tmp_path)


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"are u1, .*, ub, not 'u9'\."):
        load_movielens_100k(tmp_path, split="u9")


def write_100k(folder):
    (folder / "u.user").write_text("1|24|M|technician|85711\n2|53|F|other|94043\n")
    (folder / "u.genre").write_text("unknown|0\nAction|1\nDrama|2\n\n")
    movies = [
        "1|Toy Story (1995)|01-Jan-1995||http://x|0|1|0",
        "2|Éloge|||http://x|0|1|1",
        "3|unknown||||1|0|0",
    ]
    (folder / "u.item").write_text("\n".join(movies), "latin-1")
    (folder / "u1.base").write_text("1\t1\t5\t874965758\n2\t2\t3\t876893171\n")
    (folder / "u1.test").write_text("1\t3\t4\t878542960\n")


def test_movielens_100k_in_small(tmp_path):
    write_100k(tmp_path)
    train, test = load_movielens_100k(tmp_path)
    assert list(train.entities["movie"].ids) == list(test.entities["movie"].ids) == [1, 2, 3]
    assert train.relations["genres"].n_cells == 4  # the movie of no known genre has none
    assert train.relations["traits"].n_cells == 2 * train.entities["trait"].size
    traits = train.entities["trait"].ids
    i, j, x = train.relations["traits"].cells.triplets()
    assert sorted(traits[j[(i == 0) & (x == 1)]]) == ["age_18", "gender_M", "occupation_technician"]
    assert sorted(traits[j[(i == 1) & (x == 1)]]) == ["age_50", "gender_F", "occupation_other"]
    i, j, x = test.relations["ratings"].cells.triplets()
    assert (i.tolist(), j.tolist(), x.tolist()) == ([0], [2], [4.0])


def test_movielens_1m_in_small(tmp_path):
    lines = [f"{user}::{movie}::{(user + movie) % 5 + 1}" for user in (1, 2) for movie in (1, 2, 4, 5, 6)]
    (tmp_path / "ratings.dat").write_text("\n".join(lines))
    (tmp_path / "users.dat").write_text("1::F::1::10::48067\n2::M::56::16::70072\n")
    (tmp_path / "movies.dat").write_text("1::A: B (1995)::Action|Drama\n2::C::Drama\n4::Ü::War\n", "latin-1")
    train, test = load_movielens_1m(tmp_path, train_size=0.8)
    assert list(train.entities["movie"].ids) == [1, 2, 4, 5, 6]
    assert list(train.entities["genre"].ids) == ["Action", "Drama", "War"]
    assert (train.relations["genres"].n_cells, train.relations["ratings"].n_cells) == (9, 8)
    i, j, x = train.relations["traits"].cells.triplets()
    ones = set(zip(i[x == 1], train.entities["trait"].ids[j[x == 1]], strict=True))
    assert {(0, "age_1"), (1, "age_56"), (0, "gender_F"), (1, "occupation_16")} <= ones
    first = np.random.default_rng(0).permutation(10)[8:]
    i, j, x = test.relations["ratings"].cells.triplets()
    movies = test.entities["movie"].ids[j]
    found = {f"{a + 1}::{b}::{c:g}" for a, b, c in zip(i, movies, x, strict=True)}
    assert found == {lines[n] for n in first}


def test_lastfm_in_small(tmp_path):
    (tmp_path / "user_artists.dat").write_bytes(b"userID\tartistID\tweight\r\n2\t51\t13883\r\n3\t51\t2\r\n")
    data = load_lastfm(tmp_path)
    assert (data.entities["user"].ids.tolist(), data.entities["artist"].ids.tolist()) == ([2, 3], [51])
    assert data.schema.relations[0].likelihood == "poisson"
    assert data.relations["plays"].cells.triplets().x.tolist() == [13883, 2]


def sizes(data):
    return {name: one.n_cells for name, one in data.relations.items()}


class TestReal:
    pytestmark = with_data

    def test_movielens_1m(self):
        train, test = load_movielens_1m(FOLDER / "ml-1m")
        assert sizes(train) == {"ratings": 900_188, "traits": 6040 * 30, "genres": 3883 * 18}
        assert sizes(test) == {"ratings": 100_021}

    def test_movielens_100k(self):
        train, test = load_movielens_100k(FOLDER / "ml-100k")
        assert sizes(train) == {"ratings": 80_000, "traits": 943 * 30, "genres": 1680 * 18}
        assert sizes(test) == {"ratings": 20_000}
        assert train.entities["movie"].size == test.entities["movie"].size == 1682

    def test_lastfm(self):
        assert sizes(load_lastfm(FOLDER / "lastfm")) == {"plays": 92_834}
