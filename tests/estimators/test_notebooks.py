"""What notebooks show of relations, collections and models."""

from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn

import gcmf

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
EVIL = "<script>alert('x')</script>"


class Seen(HTMLParser):
    """The tags and the text of some HTML; refuses tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._open = set(), "", []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, _):
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(14, 2))
    x, y = u @ rng.normal(size=(2, 9)), u @ rng.normal(size=(2, 7))
    return gcmf.Collection([gcmf.Relation("x", "a", "b", x), gcmf.Relation(EVIL, "a", "<i>c</i>", y)])


TAGS = {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}


def test_relations_and_collections_say_their_sizes(data):
    relation = gcmf.Relation(EVIL, "a", "a", np.ones((3, 3)), symmetric=True)
    seen = Seen(relation._repr_html_())
    assert seen.tags <= TAGS
    for part in (EVIL, "gaussian, symmetric", "3 × 3"):
        assert part in seen.text
    whole = Seen(data._repr_html_())
    assert whole.tags <= TAGS
    for part in (
        "Collection: 2 relations, 3 entity sets, 224 cells",
        EVIL,
        "a × <i>c</i>",
        "14 × 9, 126 cells",
        "a 14",
    ):
        assert part in whole.text


def test_many_relations_are_counted():
    x = np.arange(12.0).reshape(4, 3)
    many = gcmf.Collection([gcmf.Relation(f"r{k}", "a", "b", x) for k in range(15)])
    assert "and 3 more" in Seen(many._repr_html_()).text


def test_a_model_says_what_it_found_once_it_is_fitted(data):
    model = gcmf.GCMF(2, random_state=0, max_iter=50, n_threads=1, progress=False)
    assert "n_factors" in model._repr_html_()
    model.fit(data)
    bundle = model._repr_mimebundle_(include=None, exclude=None)
    seen = Seen(bundle["text/html"])
    assert seen.tags <= TAGS
    total = model.variance_explained().loc[EVIL, "total"]
    for part in ("GCMF", "2 relations over 3 entity sets", f"{total:.1%}", EVIL):
        assert part in seen.text
    assert bundle["text/plain"] == repr(model)
    with sklearn.config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}


def test_halves_of_characters_are_shown_as_something():
    relation = gcmf.Relation("\ud83d", "a", "b", np.eye(2))
    assert "Relation ?" in Seen(relation._repr_html_()).text
