import pytest

from gcmf.data.schema import RelationSchema, Schema, check_likelihood
from gcmf.errors import OptionError, UnknownIdError


def schema(*pairs):
    names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    return Schema(names, tuple(RelationSchema(f"{a}-{b}", a, b, "gaussian") for a, b in pairs))


def test_str_reads_as_lines():
    assert str(schema(("user", "movie"), ("movie", "genre"))) == (
        "user-movie: user \N{MULTIPLICATION SIGN} movie (gaussian)\n"
        "movie-genre: movie \N{MULTIPLICATION SIGN} genre (gaussian)"
    )


def test_entity_index():
    assert schema(("user", "movie")).entity_index("movie") == 1
    with pytest.raises(UnknownIdError) as caught:
        schema(("user", "movie")).entity_index("movies")
    assert str(caught.value) == "No entity set is named 'movies'; there are: user, movie. Did you mean 'movie'?"


def test_unknown_likelihood_names_the_nearest():
    with pytest.raises(OptionError, match=r"'r': unknown likelihood 'gausian'.*Did you mean 'gaussian'\?"):
        check_likelihood("gausian", relation="r")
    with pytest.raises(OptionError, match=r"or an object from gcmf.likelihoods, not 3"):
        check_likelihood(3, relation="r")
