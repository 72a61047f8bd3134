"""The project file: what it may say, and how it is refused."""

import numpy as np
import pandas as pd
import pytest

import gcmf
from gcmf.errors import DataError, OptionError

RATINGS = """
[relations.ratings]
source = "ratings.csv"
rows = "user"
cols = "film"
row = "u"
col = "f"
value = "x"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "ratings.csv").write_text("u,f,x\nann,heat,5\nann,up,3\nbob,up,1.5\n")

    def write(text):
        (tmp_path / "gcmf.toml").write_text(text)
        return tmp_path / "gcmf.toml"

    return write


def faults(path):
    with pytest.raises(DataError) as caught:
        gcmf.read_project(path)
    return caught.value.faults


def test_a_project_is_a_collection_and_options(project):
    path = project(
        RATINGS + "[fit]\nn_factors = 3\nmax_iter = 7\nbias = {ratings = 'rows'}\n[fit.priors]\ntau_rate = 0.5\n"
    )
    found = gcmf.read_project(path)
    assert found.collection.entities["user"].ids.tolist() == ["ann", "bob"]
    assert found.collection.relations["ratings"].cells.triplets().x.tolist() == [5, 3, 1.5]
    assert found.options == {"n_factors": 3, "max_iter": 7, "bias": {"ratings": "rows"},
                             "priors": gcmf.Priors(tau_rate=0.5)}  # fmt: skip
    assert gcmf.GCMF(**found.options).max_iter == 7
    assert gcmf.read_project(path.parent).path == path


def test_unknown_keys_are_refused_with_the_nearest_known_all_at_once(project):
    path = project(RATINGS.replace("value", "vaule") + "[fti]\nx = 1\n[fit]\nmax_iters = 3\n[output]\nmodle = 'x'\n")
    found = faults(path)
    for wrong, near in (("vaule", "value"), ("fti", "fit"), ("max_iters", "max_iter"), ("modle", "model")):
        [fault] = [one for one in found if repr(wrong) in one]
        assert f"Did you mean {near!r}?" in fault
        assert "gcmf.toml" in fault


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('rows = "user"', "rows = 3", "rows must be a text, not 3"),
        ('row = "u"\n', "", "the key 'row' is missing"),
        ('rows = "user"\n', "", "the key 'rows' is missing"),
        ('value = "x"\n', "", "blanks must say"),
        ('value = "x"', 'value = "x"\nblanks = "zeros"', "Did you mean 'zero'?"),
        ('value = "x"', 'value = "y"', "ratings.csv has no column 'y'; it has u, f, x"),
        ('"ratings.csv"', '"rating.csv"', "Did you mean 'ratings.csv'?"),
        ('value = "x"', 'value = "x"\ntable = "t"', "table is for databases"),
        ('value = "x"', 'value = "x"\nwhere = "x > 99"', "no rows that meet where"),
        ('value = "x"', 'value = "x"\nwhere = "nonsense > 99"', "nonsense"),
        ("[relations.ratings]", "[relations.ratings", "not valid TOML"),
        ("[relations.ratings]", "[relations]", "must be sections of their own"),
        ("[relations.ratings]", "fit = 3\n[relations.ratings]", "gcmf.toml, [fit] must be a table, not 3"),
        ('rows = "user"', 'rows = ["user"]', "rows must be a text, not ['user']"),
    ],
)
def test_what_is_wrong_is_said(project, old, new, said):
    assert old in RATINGS
    assert said in " ".join(faults(project(RATINGS.replace(old, new))))


def test_options_are_checked_before_data_is_read(project):
    with pytest.raises(OptionError, match="n_factors"):
        gcmf.read_project(project(RATINGS.replace("ratings.csv", "nowhere.csv") + "[fit]\nn_factors = 0\n"))
    with pytest.raises(OptionError, match=r"\[fit\]: The 'device' parameter must be one of 'auto', 'cpu'"):
        gcmf.read_project(project(RATINGS.replace("ratings.csv", "nowhere.csv") + "[fit]\ndevice = 'tpu'\n"))
    [fault] = faults(project(RATINGS + 'likelihood = "gausian"\n'))
    assert fault.endswith("is not one of gaussian, bernoulli, poisson, negative_binomial. Did you mean 'gaussian'?")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("max_iter = true", "max_iter must be an integer, not True"),
        ("max_iter = 2.0", "max_iter must be an integer, not 2.0"),
        ("tol = '1e-3'", "tol must be a number, not '1e-3'"),
        ("bias = 3", "bias must be true or false or a table, not 3"),
        ("priors = 3", "priors must be a table, not 3"),
        ("solver = 'newton'", "unknown key 'solver'"),
        ("pattern = {}", "unknown key 'pattern'"),
    ],
)
def test_options_have_the_types_that_a_fit_wants(project, line, said):
    [fault] = faults(project(f"{RATINGS}[fit]\n{line}\n"))
    assert fault.startswith("gcmf.toml, [fit]: ")
    assert said in fault


def test_a_missing_project_says_how_to_get_one(tmp_path):
    assert "gcmf init" in faults(tmp_path)[0]


def test_ids_of_different_kinds_are_refused(project, tmp_path):
    (tmp_path / "genres.csv").write_text("f,g,y\n1,a,1\n2,b,0\n")
    more = RATINGS.replace("ratings", "genres").replace('rows = "user"', 'rows = "genre"')
    more = more.replace('row = "u"', 'row = "g"').replace('"x"', '"y"')
    [fault] = faults(project(RATINGS + more))
    assert "text in ratings.csv, column 'f', and whole numbers in genres.csv, column 'f' (such as 1)" in fault


def test_declared_entities_are_there_without_cells(project, tmp_path):
    (tmp_path / "films.csv").write_text("id,title\nzorro,Z\nheat,H\n")
    found = gcmf.read_project(project(RATINGS + '[entities.film]\nsource = "films.csv"\nid = "id"\n'))
    assert found.collection.entities["film"].ids.tolist() == ["heat", "zorro", "up"]


FILMS = '[entities.film]\nsource = "films.csv"\nid = "id"\n'


def test_an_entity_set_names_its_covariates(project, tmp_path):
    (tmp_path / "films.csv").write_text(
        "id,year,kind,color,since\nzorro,1998,action,true,1998-07-17\nheat,1995,crime,yes,\nup,,action,no,2009-05-29\n"
        "it,1990,crime,1,1990-11-18\n"
    )
    keys = 'numeric = ["year"]\ncategories = ["kind"]\nbooleans = ["color"]\ndates = ["since"]\n'
    films = gcmf.read_project(project(RATINGS + FILMS + keys)).collection.entities["film"]
    assert films.ids.tolist() == ["heat", "it", "up", "zorro"]
    known = films.covariates
    assert list(map(str, known.features)) == ["year", "color", "since", "kind=action", "kind=crime"]
    days = pd.to_datetime(["1998-07-17", "2009-05-29", "1990-11-18"]) - pd.Timestamp("1970-01-01")
    np.testing.assert_allclose(known.center[:3], [(1998 + 1995 + 1990) / 3, 0.75, np.mean(days.days)])
    np.testing.assert_allclose(known.values[:, 3], [-0.5, -0.5, 0.5, 0.5])
    assert known.values[2, 0] == known.values[0, 2] == 0.0, "what is missing is at the mean"


@pytest.mark.parametrize(("lines", "said"), [
    ("heat,1995,1995-01-01\nheat,1996,1995-01-01\nup,2009,", "the id 'heat' comes more than once"),
    ("heat,1995,1995-01-01\nit,1990,\nup,many,", "column 'year', row 3: 'many' is not a number"),
    ("heat,1995,soon\nup,2009,2009-01-01", "films.csv, column 'since', row 1: 'soon' is no date"),
])  # fmt: skip
def test_faults_of_covariates_say_where(project, tmp_path, lines, said):
    (tmp_path / "films.csv").write_text(f"id,year,since\n{lines}\n")
    [fault] = faults(project(RATINGS + FILMS + 'numeric = ["year"]\ndates = ["since"]\n'))
    assert said in fault
    [fault] = faults(project(RATINGS + FILMS + 'numeric = ["yaer"]\n'))
    assert "'yaer'" in fault


def test_a_relation_names_its_weights(project, tmp_path):
    lines = ["u,f,x,times", "ann,heat,4,2", "bob,heat,,1", "bob,up,1,3"]
    (tmp_path / "ratings.csv").write_text("\n".join(lines) + "\n")
    cells = gcmf.read_project(project(RATINGS + 'weight = "times"\n')).collection.relations["ratings"].cells
    assert (cells.n_cells, cells.weight) == (2, 5.0)
    for bad, said in (("0", "the value is 0"), ("", "the value is empty"), ("x", "'x' is not a number")):
        (tmp_path / "ratings.csv").write_text("\n".join([*lines, f"cat,up,3,{bad}"]) + "\n")
        [fault] = faults(project(RATINGS + 'weight = "times"\n'))
        assert "column 'times', row 4" in fault
        assert said in fault
    [fault] = faults(project(RATINGS + 'weight = "times"\nblanks = "zero"\n'))
    assert "weight is for tables with a line per cell" in fault
