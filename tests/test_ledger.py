"""The ledger without its peers: scores, baselines, lines that are not computed twice, verdicts."""

import numpy as np
import pytest
from scipy.special import expit

from benchmarks import run
from benchmarks.ledger import methods, own, paired, report, ridge, runner, scores, shapes
from benchmarks.ledger.__main__ import chosen
from benchmarks.ledger.biases import biases
from benchmarks.ledger.losses import log_normal
from benchmarks.ledger.tasks import TASKS, base, simulated
from benchmarks.problem import Table, Triplets, toy


@pytest.fixture(scope="module")
def cycle():
    return simulated.cycle(0, likelihood="gaussian", sizes=(12, 15))


def views(rng, *, kind="gaussian", n=60, whole=False):
    """Two views of the same samples, the first to be predicted from the second."""
    z = rng.normal(size=(n, 2))
    theta = z @ rng.normal(size=(2, 8)) + rng.normal(size=8)
    x = theta + 0.3 * rng.normal(size=theta.shape) if kind == "gaussian" else rng.random(theta.shape) < expit(theta)
    out = np.repeat(rng.random((n, 1)) < 0.3, 8, axis=1) if whole else rng.random(x.shape) < 0.2
    main = base.target("x", "sample", "feature", kind, x.astype(float), out)
    side = Table("y", "sample", "other", "gaussian", z @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(n, 5)))
    return base.problem("views", [main, side], {"sample": n, "feature": 8, "other": 5})


def asked(kind, x, **more):
    test = Triplets(np.zeros(len(x), np.int32), np.arange(len(x), dtype=np.int32), x)
    table = Table("t", "a", "b", kind, test, test, **more)
    return base.problem("p", [table], {"a": 1, "b": len(x)})


def test_real_values_are_scored_by_error_and_coverage():
    x = np.random.default_rng(0).normal(size=20_000)
    found = scores.score(asked("gaussian", x), {"t": scores.Answer(np.zeros(len(x)), np.ones(len(x)), -1.4)})
    assert found["rmse"] == pytest.approx(1.0, abs=0.02)
    assert found["neg_log_lik"] == 1.4
    assert [found[f"cover{level}"] for level in scores.LEVELS] == pytest.approx([0.5, 0.8, 0.95], abs=0.01)


def test_binary_cells_are_scored_as_probabilities_or_as_ranks():
    problem, p = asked("bernoulli", np.array([0.0, 1.0, 1.0])), np.array([0.2, 0.5, 0.9])
    found = scores.score(problem, {"t": scores.Answer(p)})
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.5, 0.9]).mean())
    assert (found["auc"], found["average_precision"]) == (1.0, 1.0)
    assert "log_loss" not in scores.score(problem, {"t": scores.Answer(10 * p, ranks_only=True)})


def test_counts_lie_in_intervals_of_their_own_distribution():
    mean = np.full(20_000, 40.0)
    x = np.random.default_rng(0).poisson(mean).astype(float)
    found = scores.score(asked("poisson", x), {"t": scores.Answer(mean, np.sqrt(mean), -3.0)})
    assert [found[f"cover{level}"] for level in scores.LEVELS] == pytest.approx([0.5, 0.8, 0.95], abs=0.07)


def test_predictions_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="1 of 2 predictions are not finite"):
        scores.score(asked("gaussian", np.zeros(2)), {"t": scores.Answer(np.array([0.0, np.nan]))})


def test_log_normal_counts_have_probabilities_that_sum_to_one():
    x = np.arange(3000.0)
    each = [log_normal(x[n : n + 1], np.array([2.0]), 0.8).log_lik for n in range(len(x))]
    assert np.exp(each).sum() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "poisson"])
def test_biases_find_biases(kind):
    rng = np.random.default_rng(1)
    theta = 1.0 + 0.7 * rng.normal(size=(150, 1)) + 0.7 * rng.normal(size=(1, 120))
    x = {"gaussian": theta + rng.normal(size=theta.shape), "bernoulli": rng.random(theta.shape) < expit(theta),
         "poisson": rng.poisson(np.exp(theta))}[kind].astype(float)  # fmt: skip
    table = base.target("x", "a", "b", kind, x, rng.random(x.shape) < 0.3)
    found = biases(base.problem("p", [table], {"a": 150, "b": 120}), split=0)["x"].mean
    truth = {"gaussian": theta, "bernoulli": expit(theta), "poisson": np.exp(theta)}[kind][table.test.i, table.test.j]
    assert np.corrcoef(found, truth)[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("whole", [False, True])
def test_ridge_uses_the_other_view(kind, whole):
    problem = views(np.random.default_rng(2), kind=kind, n=150, whole=whole)
    with_side, without = ridge.ridge(problem, "x", split=0), biases(problem, split=0)["x"]
    measure = scores.MAIN[kind]
    ours, plain = (scores.score(problem, {"x": answer})[measure] for answer in (with_side, without))
    assert ours < 0.9 * plain


def test_a_relation_with_what_touches_it(cycle):
    found = shapes.around(cycle, "X2")  # A2 × A3, between X1 and X3
    assert [(t.name, t.rows) for t in found.tables] == [("X2", "A2"), ("about A2", "A2"), ("about A3", "A3")]
    assert found.tables[1].train.shape == (cycle.sizes["A2"], cycle.sizes["A1"])
    assert found.tables[2].train.shape == (cycle.sizes["A3"], cycle.sizes["A4"])
    x1, side = shapes.matrix(cycle["X1"], cycle.sizes).T, found.tables[1].train
    np.testing.assert_array_equal(np.isnan(side), np.isnan(x1))
    np.testing.assert_allclose(np.nanmean(side, axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(np.nanstd(side, axis=0), 1.0, atol=1e-5)
    np.testing.assert_array_equal(shapes.unit(np.array([[0.0, 1.0], [np.nan, 1.0]])), [[0.0, 1.0], [np.nan, 1.0]])
    assert [t.name for t in shapes.alone(cycle, "X2").tables] == ["X2"]


def test_forms_keep_the_cells(cycle):
    table = cycle["X1"]
    again = shapes.cells(Table("X1", "A1", "A2", "gaussian", shapes.matrix(table, cycle.sizes)))
    assert sorted(zip(again.i, again.j, again.x, strict=True)) == sorted(
        zip(table.train.i, table.train.j, table.train.x.astype(np.float32), strict=True)
    )


def test_pairs_are_hidden_both_ways():
    x = np.random.default_rng(0).integers(0, 2, (30, 30))
    off, out = base.pairs(x + x.T, 3)
    np.testing.assert_array_equal(out, out.T)
    assert np.isnan(np.diag(off)).all()
    assert not np.diag(out).any()


@pytest.mark.parametrize("name", ["gcmf", "common", "alone", "bias", "truth"])
def test_every_method_of_our_own_answers(name, cycle):
    job = methods.Job(0, 1, {"n_factors": 3, "max_iter": 5, "device": "reference"})
    answers, seconds, _ = methods.measure(methods.METHODS[name], cycle, job)
    found = scores.score(cycle, answers)
    assert seconds > 0
    assert {"rmse", "neg_log_lik", "cover50"} <= found.keys()
    assert len(answers) == 5


def test_what_cannot_be_compared_is_left_out(cycle):
    single = shapes.alone(cycle, "X1")
    assert not methods.METHODS["alone"].can(single)
    assert not methods.METHODS["truth"].can(toy(cycle))


def test_versions_follow_what_computes(monkeypatch):
    before = own.version()
    monkeypatch.setattr(own, "COMPUTES", own.COMPUTES[:-1])
    assert own.version() != before


@pytest.fixture
def counted(monkeypatch):
    """A ledger whose cells are not computed but counted."""
    done = []

    def work(job, answer, **options):
        done.append((job["method"], job["split"]))
        return {"seconds": 1.0, "rmse": 1.0 + job["split"]} if job["method"] != "bias" else {"failed": "timeout"}

    monkeypatch.setattr(runner, "work", work)
    return done


def test_lines_that_are_there_are_not_computed_again(tmp_path, counted):
    ledger = runner.Ledger(tmp_path / "ledger.csv")
    some = chosen(TASKS, "cycle-real-small"), chosen(methods.METHODS, "gcmf,bias")
    ledger.run(*some, range(2))
    assert counted == [("gcmf", 0), ("bias", 0), ("gcmf", 1), ("bias", 1)]
    ledger.run(*some, range(2))
    assert len(counted) == 4
    ledger.run(*some, range(2), ["bias"])
    assert counted[4:] == [("bias", 0), ("bias", 1)]
    lines = runner.read(ledger.path)
    assert [(line["method"], line["split"], line["note"]) for line in lines] == [
        ("gcmf", "0", ""), ("gcmf", "1", ""), ("bias", "0", "timeout"), ("bias", "1", "timeout"),
    ]  # fmt: skip


def test_other_data_or_options_are_other_lines(tmp_path, counted, cycle):
    some = chosen(TASKS, "cycle-real-small"), chosen(methods.METHODS, "gcmf")
    runner.Ledger(tmp_path / "ledger.csv").run(*some, range(1))
    runner.Ledger(tmp_path / "ledger.csv", options={"n_factors": 3}).run(*some, range(1))
    assert len(counted) == 2
    other = simulated.cycle(1, likelihood="gaussian", sizes=(12, 15))
    assert runner.digest(cycle) == runner.digest(simulated.cycle(0, likelihood="gaussian", sizes=(12, 15)))
    assert runner.digest(cycle) != runner.digest(other)


def test_a_cell_without_end_is_ended(tmp_path):
    job = {"task": "ledger", "threads": 1}
    found = run.work(job, tmp_path / "answer.json", blas_threads=1, cache=tmp_path, limit=0.01)
    assert found == {"failed": "timeout"}


def lines(task, **values):
    """A line per method and split."""
    return [
        {"task": task, "split": str(split), "method": name, "version": "gcmf x", "when": "2026-01-01 00:00",
         "note": "" if value else "timeout", "seconds": "1" if value else "", "rmse": str(value)}
        for name, own_values in values.items()
        for split, value in enumerate(own_values)
    ]  # fmt: skip


def test_differences_are_paired_and_judged():
    values = paired.Values(
        lines("ml-1m", gcmf=(1.0, 2.0), common=(0.98, 1.96), alone=(0.9, 2.2), bias=(0.999, 1.998), myfm=(1.1, 2.2))
    )
    found = {one.method: one for one in values.differences("own", "sampler")}
    assert found["common"].mean == pytest.approx(-2.0)
    assert found["common"].error == pytest.approx(0.0, abs=1e-9)
    assert {name for name, one in found.items() if one.beaten} == {"common"}  # alone: 0 ± 10, bias: 0.1% is little
    assert found["myfm"].mean == pytest.approx(10.0)


def test_the_report_says_who_is_beaten_and_who_had_no_time(tmp_path):
    given = lines("ml-1m", gcmf=(1.0, 2.0), common=(0.98, 1.96), cmfrec=(0.9, 1.8), myfm=("", ""))
    report.write([*given, *lines("digits", gcmf=(1.0, 1.0), common=(1.1, 1.1))], tmp_path)
    page = (tmp_path / "ledger.md").read_text(encoding="utf-8")
    assert "**not met** on 1 of 2 tasks" in page
    assert "- ml-1m: common -2.00 ± 0.00%" in page
    assert "cmfrec, **not met**: better on 1 of 1" in page
    assert "- ml-1m, split 0, myfm: timeout" in page
    assert (tmp_path / "ledger" / "ledger.png").stat().st_size > 1000
    assert "ml-1m,rmse,common,2,1.47,-2.0000" in (tmp_path / "ledger" / "summary.csv").read_text()


def test_names_are_chosen_by_how_they_start():
    assert [task.name for task in chosen(TASKS, "cycle-real,digits-view", prefix=True)] == ["cycle-real", "digits-view"]
    assert len(chosen(TASKS, "deepdtnet", prefix=True)) == 4
    with pytest.raises(SystemExit, match="no 'z'"):
        chosen(TASKS, "z")


@pytest.mark.data
@pytest.mark.parametrize("name", ["ml-100k", "lastfm-listens", "genes-expression", "faces-view", "deepdtnet-drug-drug"])
def test_nothing_tested_was_trained_on(name):
    if not TASKS[name].there:
        pytest.skip("no data folder (set GCMF_DATA)")
    problem = TASKS[name].build(1)
    [table] = problem.tested
    x = shapes.matrix(table, problem.sizes)
    assert np.isnan(x[table.test.i, table.test.j]).all()
    assert np.isfinite(x).any()
