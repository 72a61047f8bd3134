import io
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import gcmf
from gcmf import datasets, plot
from gcmf.data.schema import RelationSchema, Schema
from gcmf.plot.schema import layout

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def truth():
    return datasets.simulate_cycle(3, shared=2, private=1, sizes=(30, 40), missing=0.2, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def model(truth):
    return gcmf.GCMF(6, random_state=0, max_iter=200, tol=1e-5).fit(truth.train)


@pytest.fixture(scope="module")
def empty():
    noise = np.random.default_rng(0).normal(size=(30, 20))
    return gcmf.GCMF(1, random_state=0, bias=False).fit({("a", "b"): noise})


def texts(figure):
    figure.draw_without_rendering()
    return {t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_visible() and t.get_text()}


FIGURES = [plot.schema, plot.structure, plot.convergence, plot.variance_explained]


@pytest.mark.parametrize("draw", FIGURES)
def test_each_returns_a_figure_that_can_be_written(draw, model):
    before = dict(matplotlib.rcParams)
    figure = draw(model)
    assert isinstance(figure, Figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("draw", FIGURES)
def test_models_without_factors_are_drawn_too(draw, empty):
    assert empty.n_factors_active_ == 0
    draw(empty).savefig(io.BytesIO(), format="png")


def test_pyplot_is_never_imported():
    import subprocess  # noqa: PLC0415

    code = "import sys, gcmf.plot; assert 'matplotlib.pyplot' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_schema_names_everything(truth, model):
    shown = texts(plot.schema(truth.train))
    n = truth.train.entities["A2"].size
    cells = truth.train.relations["X3"].n_cells
    assert {f"A2\n{n}", f"X3\ngaussian\n{cells:,} cells"} <= shown
    total = model.variance_explained().loc["X1", "total"]
    assert f"X1\ngaussian\n{total:.0%} explained" in texts(plot.schema(model))


def test_the_structure_groups_factors_by_role(model):
    roles = model.structure()["role"].value_counts()
    shown = texts(plot.structure(model))
    assert {"A1", "A2", "A3", "X1", "X2", "X3", "entity sets", "relations", *model.structure().index} <= shown
    for role, count in roles.items():
        assert (f"{count} {role}" if count > 1 else role) in shown


def test_switched_off_cells_are_gray(model):
    figure = plot.structure(model)
    off = int((model.structure()[["A1", "A2", "A3"]] == 0).to_numpy().sum())
    reached = sum(len(found) for found in model.structure()["relations"])
    off += 3 * model.n_factors_active_ - reached
    gray = matplotlib.colors.to_rgba("#e6eaee", 0.6)
    drawn = [patch.get_facecolor() for patch in figure.axes[0].patches]
    assert len(drawn) == 6 * model.n_factors_active_
    assert sum(np.allclose(color, gray) for color in drawn) == off > 0


def test_convergence_shows_every_sweep(model):
    bound, gap = plot.convergence(model).axes
    assert np.array_equal(bound.lines[0].get_ydata(), model.elbo_trace_)
    assert (gap.lines[0].get_ydata() > 0).all()


def test_variance_explained_shows_totals(model):
    total = model.variance_explained()["total"]
    assert {f"{value:.0%}" for value in total} <= texts(plot.variance_explained(model))


def schema_of(*pairs):
    entities = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    return Schema(entities, tuple(RelationSchema(a + b, a, b, "gaussian") for a, b in pairs))


def distances(places):
    return np.linalg.norm(places[:, None] - places[None], axis=-1)


def test_cycles_become_polygons():
    places = layout(schema_of("ab", "bc", "cd", "da"))
    far = distances(places)
    sides = [far[0, 1], far[1, 2], far[2, 3], far[3, 0]]
    assert np.allclose(sides, sides[0], rtol=1e-3)
    assert np.allclose([far[0, 2], far[1, 3]], np.sqrt(2) * sides[0], rtol=1e-2)
    assert places[0, 1] == places[:, 1].max()


def test_chains_lie_flat_from_the_left():
    places = layout(schema_of("ab", "bc", "cd"))
    assert np.allclose(np.diff(places[:, 0]), 1, atol=0.1)
    assert np.ptp(places[:, 1]) < 0.3


def test_places_are_apart_even_without_a_way_between():
    far = distances(layout(schema_of("ab", "cd")))
    assert far[~np.eye(4, dtype=bool)].min() > 0.5
    assert layout(schema_of("ab")).shape == (2, 2)


def test_loops_and_repeated_relations_are_drawn_apart():
    x = np.arange(36.0).reshape(6, 6)
    relations = [gcmf.Relation("follows", "p", "p", x, symmetric=False),
                 gcmf.Relation("alike", "p", "p", np.tril(x, -1) + np.tril(x, -1).T, symmetric=True),
                 gcmf.Relation("first", "p", "q", x), gcmf.Relation("second", "p", "q", x)]  # fmt: skip
    figure = plot.schema(gcmf.Collection(relations))
    shown = {t.get_text(): t.get_position() for t in figure.axes[0].texts}
    assert {"follows\ngaussian, directed\n30 cells", "alike\ngaussian, symmetric\n15 cells"} < set(shown)
    places = np.array(list(shown.values()))
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + np.eye(len(places))
    assert apart.min() > 0.25
    assert len(figure.axes[0].lines) == 4


def test_many_relations_between_the_same_sets_share_a_line():
    x = np.arange(36.0).reshape(6, 6)
    many = gcmf.Collection([gcmf.Relation(f"r{k}", "p", "p", x, symmetric=False) for k in range(30)])
    figure = plot.schema(many)
    assert "30 relations\nr0, r1, r2, ..." in texts(figure)
    assert len(figure.axes[0].lines) == 1
