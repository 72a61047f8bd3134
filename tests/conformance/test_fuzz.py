"""The first cases of `make fuzz`: no fit has a fault, and a fault is seen when there is one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from fuzz import answers, refits
from fuzz.__main__ import main
from fuzz.cases import draw
from fuzz.checks import MARGINS, run, worst_fall
from fuzz.hostile import HOSTILE
from fuzz.laws import LAWS
from fuzz.worlds import FEATURES, draw_world
from gcmf import GCMF, fit
from gcmf.errors import DataError

#: Of each kind and precision; more than there are kinds of hostility.
N_SEEDS = 36
#: The first worlds whose answers are compared: each thing that a world may have is certain in one of them.
WORLDS = range(7)


@pytest.mark.parametrize("dtype", MARGINS)
@pytest.mark.parametrize("seed", range(N_SEEDS))
@pytest.mark.parametrize("kind", ["ordinary", "hostile"])
def test_no_fit_has_a_fault(kind, seed, dtype):
    outcome = run(kind, seed, dtype)
    assert not outcome.faults, f"{outcome.trace}\npython -m fuzz --kind {kind} --seed {seed} --dtype {dtype}"


def test_every_kind_of_hostility_is_among_them():
    assert {draw("hostile", seed)[0] for seed in range(N_SEEDS)} == set(HOSTILE)


def test_a_seed_is_always_the_same_case():
    a, b = draw("ordinary", 3)[1], draw("ordinary", 3)[1]
    assert str(a) == str(b) != str(draw("ordinary", 4)[1])
    for one, other in zip([*a.views, *(m.x for m in a.matrices)], [*b.views, *(m.x for m in b.matrices)], strict=True):
        np.testing.assert_array_equal(one, other)


def test_falls_are_measured_against_the_size_of_the_bound():
    assert worst_fall(np.array([-900.0, -100.0, -100.5, -90.0]), 10) == pytest.approx(0.005)
    assert worst_fall(np.array([-3.0, -1.0, -1.5]), 100) == pytest.approx(0.005)
    assert worst_fall(np.array([-3.0, -2.0]), 10) == 0.0
    assert worst_fall(np.array([-3.0]), 10) == 0.0


@pytest.fixture(scope="module")
def schema():
    """An ordinary seed that fits a GCMF."""
    return next(seed for seed in range(50) if not draw("ordinary", seed)[1].views)


def test_faults_are_seen(schema):
    one_line = list(HOSTILE).index("one line")
    with mock.patch.object(GCMF, "fit", side_effect=ZeroDivisionError("here")):
        assert run("ordinary", schema, "float64").faults == ("raised ZeroDivisionError: here",)
    with mock.patch.object(GCMF, "fit", side_effect=DataError("no")):
        assert run("ordinary", schema, "float64").faults == ("refused: no",)
        assert run("hostile", one_line, "float64").faults == (), "what is hostile may be refused"
    with mock.patch("gcmf.estimators.gcmf.fit", falling):
        assert [fault.split(" ")[0] for fault in run("ordinary", schema, "float64").faults] == ["fell"]
    with mock.patch.object(GCMF, "predict", return_value=(np.full(3, np.nan), np.ones(3))):
        assert run("ordinary", schema, "float64").faults[0].startswith("non-finite predictions of")


def falling(*args, **more):
    """A fit whose bound falls in its last step."""
    done = fit.fit(*args, **more)
    return replace(done, trace=(*done.trace, done.trace[-1] - 1e6))


def test_the_command_says_what_failed(capsys, schema):
    only = ["--seed", str(schema), "--kind", "ordinary", "--dtype", "float64"]
    with mock.patch.object(GCMF, "fit", side_effect=ZeroDivisionError("here")):
        assert main(only) == 1
    printed = capsys.readouterr().out
    assert "1 cases with faults" in printed
    assert f"--seed {schema} (ordinary): raised ZeroDivisionError: here" in printed
    assert "Traceback" in printed
    assert main(only) == 0
    assert "0 cases with faults" in capsys.readouterr().out


@pytest.mark.parametrize("seed", WORLDS)
def test_answers_go_together(seed):
    checked = answers.check(seed)
    assert not checked.faults, f"{checked.trace}\npython -m fuzz --kind answers --seed {seed}"


def test_worlds_have_everything_and_are_always_the_same():
    assert {name for seed in WORLDS for name in draw_world(seed).features} == set(FEATURES)
    share = np.mean([[name in draw_world(seed).features for name in FEATURES] for seed in range(200)], axis=0)
    assert (share > 0.35).all(), "half of all worlds have it: 1,000 seeds are 500 of each"
    a, b = draw_world(WORLDS[0]), draw_world(WORLDS[0])
    assert str(a) == str(b) != str(draw_world(WORLDS[0] + 1))
    for one, other in zip(a.tables, b.tables, strict=True):
        np.testing.assert_array_equal(one.x, other.x)


def test_a_world_in_another_order_or_turned_has_the_same_cells():
    world = draw_world(WORLDS[0])
    plain, permuted = world.collection(), world.collection(np.random.default_rng(0))
    turned = world.collection(turned=True)
    for name, bound in plain.relations.items():
        assert permuted.relations[name].cells.n_cells == turned.relations[name].cells.n_cells == bound.cells.n_cells
        assert (turned.relations[name].rows, turned.relations[name].cols) == (bound.cols, bound.rows)
    assert any(list(permuted.entities[e].ids) != list(plain.entities[e].ids) for e in plain.entities)


def test_answers_that_do_not_go_together_are_seen(capsys):
    seed, predict = WORLDS[0], GCMF.predict

    def doubled(self, *args, **more):
        """Predictions that no other answer knows of."""
        found = predict(self, *args, **more)
        return tuple(100.0 * part for part in found) if isinstance(found, tuple) else 100.0 * found

    with mock.patch.object(GCMF, "predict", doubled):
        faults = answers.check(seed).faults
    assert {"sizes", "drawn cells", "recommend"} <= set(faults)
    with mock.patch.object(GCMF, "fit", side_effect=ZeroDivisionError("here")):
        assert main(["--kind", "answers", "--seed", str(seed)]) == 1
    printed = capsys.readouterr().out
    assert f"answers --seed {seed} (fit): raised ZeroDivisionError: here" in printed
    assert "Traceback" in printed
    assert "1/1" in printed


def test_every_law_is_listed_in_the_table():
    text = answers.table([answers.Checked(3, ("gibbs",), {"fit": "", "save": "not alike"})])
    assert all(law in text for law in LAWS)
    assert "answers --seed 3 (save): not alike" in text


def test_another_optimum_is_a_fault_if_its_bound_and_its_error_are_worse():
    fitted, sampled = SimpleNamespace(sampled=False), SimpleNamespace(sampled=True)
    starts = [(-10.0, 0.5), (-12.0, 0.4)]
    assert refits._is_worse(fitted, (-13.0, 0.6), starts)
    assert not refits._is_worse(fitted, (-11.0, 0.6), starts), "others have a lower bound"
    assert not refits._is_worse(fitted, (-13.0, 0.5), starts), "others are as far from the truth"
    assert refits._is_worse(sampled, (0.0, 0.7), starts), "draws have no bound"
