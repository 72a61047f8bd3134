"""Ctrl-C, as a real signal to a real process: one line, exit code 130, nothing written, or what there is kept."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.demo import run_demo
from gcmf.io.sources.duck import duck_errors
from io_samples import film_database

#: The signal is sent when a function is called the n-th time, so that no test depends on how fast anything is.
PRESSED = """
import importlib, os, signal, sys
place, name, at = {place!r}, {name!r}, {at}
*path, last = place.split(":")
holder = importlib.import_module(path[0]) if path else importlib.import_module(last)
holder = getattr(holder, last) if path else holder
real, calls = getattr(holder, name), []
def pressed(*arguments, **options):
    calls.append(1)
    if len(calls) == at:
        os.kill(os.getpid(), signal.{number})
    return real(*arguments, **options)
setattr(holder, name, pressed)
from gcmf.cli.main import app
app()
"""


def press(place, name, *arguments, at=1, number="SIGINT"):
    """Run a command and press Ctrl-C when `name` of `place` (module, or module:class) is called."""
    code = PRESSED.format(place=place, name=name, at=at, number=number)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    film_database(folder / "films.db")
    for arguments in (["init", folder / "films.db"], ["fit", folder, "--max-iter", 2, "--n-factors", 2]):
        assert CliRunner().invoke(main.app, [str(one) for one in arguments]).exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("place", "name", "arguments"),
    [
        ("gcmf.io.project.read", "read_project", ["fit", "{films}"]),
        ("gcmf.io.sources.relations", "id_sql", ["fit", "{films}"]),
        ("gcmf.estimators.gcmf:GCMF", "fit", ["fit", "{films}"]),
        ("gcmf.estimators.gcmf:GCMF", "fit", ["fit", "{films}", "--holdout", "0.2"]),
        ("gcmf.estimators.load", "load", ["predict", "{films}/model.gcmf", "--all"]),
        ("gcmf.estimators.gcmf:GCMF", "predict",
         ["predict", "{films}/model.gcmf", "--relation", "ratings", "--all", "-o", "{out}/p.csv"]),
        ("gcmf.io.results", "bias_table", ["export", "{films}/model.gcmf", "{out}"]),
        ("gcmf.io.evaluate", "score", ["evaluate", "{films}", "--folds", "2", "--max-iter", "1"]),
        ("gcmf.io.guess.discover", "discover", ["init", "{films}/films.db", "-o", "{out}/p.toml"]),
        ("gcmf.demo", "digits", ["demo", "--out", "{out}"]),
    ],
)  # fmt: skip
def test_nothing_is_written(films, tmp_path, place, name, arguments):
    before = (films / "model.gcmf").read_bytes()
    done = press(place, name, *(one.format(films=films, out=tmp_path) for one in arguments))
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "Stopped: nothing was written."
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (films / "model.gcmf").read_bytes() == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("said", "kind"), [("Query interrupted", KeyboardInterrupt), ("anything else", RuntimeError)])
def test_duckdb_interrupted_is_ctrl_c(said, kind):
    with pytest.raises(kind), duck_errors("a.csv"):
        raise RuntimeError(said)


def fit_and_press(films, target, *, at, place="gcmf.cli.fit:Live", name="__call__", more=()):
    done = press(place, name, "fit", films, "-o", target, "--max-iter", 100_000, "--json", *more, at=at)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fit_keeps_the_model_of_the_last_sweep(films, tmp_path):
    report = fit_and_press(films, tmp_path / "kept.gcmf", at=3)
    assert report["status"] == "interrupted"
    assert gcmf.load(tmp_path / "kept.gcmf").n_iter_ == report["iterations"] == 3


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_model_that_is_being_written_is_written(films, tmp_path, number):
    target = tmp_path / "kept.gcmf"
    done = press("gcmf.estimators.gcmf:GCMF", "save", "fit", films, "-o", target, "--max-iter", 1, number=number)
    assert (done.returncode, gcmf.load(target).n_iter_) == (0, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.gcmf"]


def test_sigterm_stops_a_fit_as_ctrl_c_does(films, tmp_path):
    target = tmp_path / "kept.gcmf"
    done = press("gcmf.cli.fit:Live", "__call__", "fit", films, "-o", target, "--max-iter", 100_000, "--json", at=3,
                 number="SIGTERM")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["status"], gcmf.load(target).n_iter_) == ("interrupted", 3)


def test_sigterm_elsewhere_ends_the_command(films, tmp_path):
    done = press("gcmf.io.project.read", "read_project", "fit", films, "-o", tmp_path / "m.gcmf", number="SIGTERM")
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr.splitlines()[-1] == "Stopped: nothing was written."
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_is_judged_is_not_fitted_again(films, tmp_path):
    report = fit_and_press(films, tmp_path / "kept.gcmf", at=3, more=("--holdout", 0.2))
    assert (report["status"], report["refitted"], report["iterations"]) == ("interrupted", False, 3)


def test_a_fit_that_was_judged_is_kept(films, tmp_path):
    """Ctrl-C at the start of the second fit leaves the first."""
    report = fit_and_press(films, tmp_path / "kept.gcmf", at=2, place="gcmf.estimators.gcmf:GCMF", name="fit",
                           more=("--holdout", 0.2, "--n-factors", 2))  # fmt: skip
    assert report["status"] != "interrupted"
    assert report["refitted"] is False
    assert gcmf.load(tmp_path / "kept.gcmf").elbo_ == pytest.approx(report["elbo"])


def test_predictions_on_the_screen_are_not_called_complete(films):
    done = press(
        "gcmf.estimators.gcmf:GCMF", "predict", "predict", films / "model.gcmf", "--relation", "ratings", "--all"
    )
    assert done.returncode == 130
    assert done.stderr.splitlines() == ["Stopped: the list above is not complete."]


def test_the_demonstration_ends_with_the_fit_that_is_stopped():
    asked = []

    def stop(name, info):
        asked.append(name)
        return info is not None

    with pytest.raises(KeyboardInterrupt):
        run_demo(report=stop)
    assert set(asked) == {"gCMF"}
