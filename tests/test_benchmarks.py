"""The benchmark harness, without its peers: clocks, errors, ratios, targets."""

import numpy as np
import pytest

from benchmarks import cases, machine, measure, plan, problem, report, rows, run, scaling, targets
from benchmarks.peers import base, make


@pytest.fixture
def small():
    built = cases.build("f", quick=True)
    assert built is not None
    return problem.toy(built, size=8)


@pytest.fixture
def results():
    own = {
        "label": "gcmf", "peer": "gcmf", "words": "defaults", "settings": {"n_factors": 3}, "error": 0.5,
        "seconds": [4.0, 5.0, 3.0], "prepare_seconds": 0.1, "peak_bytes": 3000, "prepare_bytes": 1000,
        "marks": [[1.0, 2.0, 3.5], [1.0, 2.2, 4.0], [0.5, 2.0, 2.5]], "errors": [0.9, None, 0.5],
        "way": [[1.0, 0.9], [3.5, 0.5]],
        "facts": {"iterations": 3, "status": "CONVERGED", "factors": 2, "factors_alive": [3, 3, 2],
                  "elbo_trace": [-200.0, -101.0, -100.001, -100.0], "factor_bytes": 600},
    }  # fmt: skip
    peer = {**own, "label": "mofapy2", "peer": "mofapy2", "seconds": [200.0], "error": 0.6, "marks": [], "errors": []}
    head = {"when": "2026-01-01 00:00 UTC", "quick": False, "threads": 2, "repeats": 3}
    case = {"title": "t", "measure": "RMSE", "floor": None, "n_cells": 100, "main_cells": 50, "rows": [own, peer]}
    absent = {"label": "cmfrec", "words": "defaults", "failed": "not installed"}
    return {"d1": {**head, **case}, "c": {**head, **case, "rows": [own, absent]}}


def test_the_watch_stands_still_while_it_looks(monkeypatch):
    now = iter([0.0, 3.0, 10.0, 12.0, 12.0, 15.0])
    monkeypatch.setattr(base.time, "perf_counter", lambda: next(now))
    watch = base.Watch(lambda predicted: predicted["x"])
    watch(lambda: {"x": 0.5})  # looks from second 3 to second 10
    watch(lambda: {"x": 0.4})
    assert watch.seconds == [3.0, 5.0]
    assert watch.elapsed() == 8.0
    assert watch.points() == [(3.0, 0.5), (5.0, 0.4)]


def test_a_problem_survives_its_file(small, tmp_path):
    problem.save(small, tmp_path / "x.npz")
    again = problem.load(tmp_path / "x.npz")
    assert (again.case, again.sizes, again.measure) == (small.case, small.sizes, small.measure)
    for one, other in zip(small.tables, again.tables, strict=True):
        assert (one.name, one.rows, one.cols, one.weight) == (other.name, other.rows, other.cols, other.weight)
        np.testing.assert_array_equal(one.train.x, other.train.x)
        np.testing.assert_array_equal(one.test.i, other.test.i)


def test_errors_are_weighted_and_clipped():
    cells = problem.Triplets(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.array([1.0, 5.0]))
    table = problem.Table("r", "a", "b", "gaussian", cells, cells, 0.5)
    given = problem.Problem("x", "x", {"a": 1, "b": 2}, (table,), "RMSE", clip=(1.0, 5.0))
    assert given.error({"r": np.array([0.0, 3.0])}) == pytest.approx(np.sqrt(2.0))


def test_simulated_cases_have_the_shape_they_promise():
    views = cases.build("d1", quick=True)
    assert [np.isnan(t.train).mean() == pytest.approx(0.2, abs=0.02) for t in views.tables] == [True] * 3
    assert all(np.isnan(t.train[t.test.i, t.test.j]).all() for t in views.tables)
    complete = cases.build("d2", quick=True)
    assert complete.n_cells == sum(t.train.size for t in complete.tables)
    cells = cases.build("c", quick=True)["ratings"]
    trained, tested = ({*zip(part.i.tolist(), part.j.tolist(), strict=True)} for part in (cells.train, cells.test))
    assert len(trained) == 40_000
    assert not trained & tested


def test_gcmf_is_watched_sweep_by_sweep(small):
    settings = {"n_factors": 2, "max_iter": 4, "device": "reference"}
    peer = make("gcmf", small, settings=settings, threads=1)
    peer.prepare()
    watch = measure._fit(peer, problem=small)
    assert len(watch.errors) == peer.facts()["iterations"] == 4
    # When the fit is done, variances are widened, which moves predictions of 0/1 cells and counts a little.
    assert watch.errors[-1] == pytest.approx(small.error(peer.predict()), rel=0.02)


def test_time_to_an_error_is_the_median_over_repeats(results):
    own = rows.row(results, "d1", "gcmf")
    assert rows.reaches(own, 0.6) == 3.5
    assert rows.reaches(own, 0.9) == 1.0
    assert rows.reaches(own, 0.4) is None


def test_sweeps_with_all_factors_alive(results):
    own = rows.row(results, "d1", "gcmf")
    assert rows.sweep_seconds(own, factors=3) == pytest.approx(1.2)
    assert rows.sweep_seconds(own) == pytest.approx(4.0 / 3)


def test_iterations_count_until_the_bound_stays_near():
    assert rows.iterations_to([-200.0, -100.0, -150.0, -100.0]) == 4
    assert rows.iterations_to([-100.001, -100.0]) == 1


def test_targets_are_judged_or_left_open(results):
    found = {target.number: target for target in targets.targets(results)}
    assert found["2a"].met is True  # 3.5 s of 200 s
    assert found["4 c"].measured == "3"
    assert found["5a"].met is True  # (3000 − 600)/100 bytes
    assert found["1a"].met is None
    assert found["7"].met is None
    assert len(found) == 20


def test_the_report_names_what_is_absent(results, tmp_path):
    report.write(results, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "not installed" in page
    assert "| mofapy2 | defaults | 0.1 | 200 | 0.6000 | 0 | 50 | 3.5 | 1.8% |" in page
    assert (tmp_path / "benchmarks" / "d1.png").stat().st_size > 1000


def test_parts_are_chosen_by_name():
    assert run.chosen(("d", "tiny", "a")) == ["a", "d1", "d2", "tiny"]
    with pytest.raises(SystemExit, match="no part 'z'"):
        run.chosen(("z",))


def test_every_case_starts_with_gcmf():
    assert set(plan.RUNS) == set(cases.CASES)
    assert {runs[0].label for runs in plan.RUNS.values()} == {"gcmf"}


def test_exponents_and_absent_packages():
    assert scaling.exponent([1, 10, 100], [2, 20, 200]) == pytest.approx(1.0)
    assert machine.version("no-such-package") is None
