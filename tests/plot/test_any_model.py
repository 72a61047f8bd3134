"""Whatever the collection and the names in it: every picture can be drawn, and every model has a report."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import gcmf
from gcmf import plot
from gcmf.report import page
from strategies import adversarial, collections

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning", "ignore::gcmf.errors.ModelWarning")
#: Names that are long, empty-looking, right to left, formulas, markup, or of several lines.
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40) | st.sampled_from(
    ["$x_{", "<b>", "a\nb", "…" * 90]
)


def renamed(data, names):
    """The same collection, with other names of relations and entity sets, and ids made of them."""
    sets = dict(zip(data.entities, names, strict=False))
    ids = {old: [(names[-1], k) for k in range(len(entity.ids))] for old, entity in data.entities.items()}
    relations = []
    for k, bound in enumerate(data.relations.values()):
        i, j, x = bound.cells.triplets()
        cells = ([ids[bound.rows][a] for a in i], [ids[bound.cols][b] for b in j], x)
        self_related = {"symmetric": False} if bound.rows == bound.cols else {}
        made = gcmf.Relation(
            f"{k} {names[k]}", sets[bound.rows], sets[bound.cols], cells, bound.likelihood, **self_related
        )
        relations.append(made)
    return gcmf.Collection(relations)


def pictures(model, data):
    """Every picture that a single model has."""
    yield plot.schema(data)
    for draw in (plot.schema, plot.structure, plot.variance_explained, plot.convergence):
        yield draw(model)
    for factor in model.structure().index[:1]:
        yield plot.loadings(model, factor, n=3)
    for entity in model.schema_.entities:
        yield plot.embedding(model, entity)
    for relation in data.relations:
        for draw in (plot.predicted_vs_observed, plot.calibration, plot.reconstruction):
            yield draw(model, data, relation)
    yield plot.stability({"one": model, "the same": model})
    yield plot.compare({"one": model, "the same": model}, data)


@adversarial(8)
@given(
    drawn=st.data(), names=st.lists(NAMES, min_size=6, max_size=6, unique=True), n_factors=st.sampled_from([1, 2, 7])
)
def test_every_picture_and_the_report(drawn, names, n_factors):
    data = renamed(drawn.draw(collections(max_size=6, covariate_kinds=("none",))), names)
    model = gcmf.GCMF(n_factors, random_state=0, max_iter=6, device="reference", n_threads=1, progress=False).fit(data)
    for picture in pictures(model, data):
        assert isinstance(picture, Figure)
        picture.canvas.draw()
    text = page.render(model, data)
    assert len(re.findall("<script", text)) == 2
    told = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [part["name"] for part in told["sets"]] == list(model.schema_.entities)
    assert len(told["factors"]) == model.n_factors_active_
