"""`gcmf fit` as a job: checkpoints, a time limit, one job a file, nothing to do, and what scripts read."""

import json

import pytest

import gcmf
from commands import report, run
from gcmf.storage.files import claiming
from io_samples import film_database


@pytest.fixture
def films(tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    film_database(folder / "films.db")
    assert run("init", folder / "films.db").exit_code == 0
    return folder


def numbers(path):
    model = gcmf.load(path)
    return model.n_iter_, model.elbo_, model.fitted_.mean[0].tobytes()


def test_a_fit_goes_on_from_its_checkpoint(films, tmp_path):
    settings = ("fit", films, "--max-iter", 30, "--n-factors", 3)
    report(*settings, "-o", tmp_path / "whole.gcmf")
    job = (*settings, "-o", tmp_path / "m.gcmf", "--checkpoint", tmp_path / "c.gcmf")
    first = report(*job, "--timeout", 0)
    assert (first["status"], first["iterations"]) == ("interrupted", 1)
    assert gcmf.load(tmp_path / "c.gcmf").n_iter_ == 1
    again = report(*job, "--resume")
    assert again["fitted"], "a model that was stopped is not what was asked for"
    assert numbers(tmp_path / "m.gcmf") == numbers(tmp_path / "whole.gcmf")


def test_a_checkpoint_of_other_settings_is_refused(films, tmp_path):
    job = ("fit", films, "-o", tmp_path / "m.gcmf", "--checkpoint", tmp_path / "c.gcmf", "--n-factors", 3)
    assert run(*job, "--timeout", 0).exit_code == 0
    done = run(*job, "--resume", "--seed", 5)
    assert done.exit_code == 1
    assert "checkpoint of another fit: random_state was 0 and is 5." in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--resume"], "--resume goes on from a checkpoint"),
        (["--checkpoint", "c.gcmf", "--holdout", "0.2"], "--checkpoint is of one fit"),
        (["--checkpoint", "{target}"], "cannot both be"),
    ],
)
def test_options_that_do_not_go_together(films, tmp_path, options, said):
    target = tmp_path / "m.gcmf"
    done = run("fit", films, "-o", target, *(one.format(target=target) for one in options))
    assert done.exit_code == 1
    assert said in " ".join(done.stderr.split())


def test_nothing_to_do(films):
    settings = ("fit", films, "--max-iter", 5, "--n-factors", 2)
    assert report(*settings)["fitted"]
    written = (films / "model.gcmf").stat()
    second = report(*settings)
    assert (second["fitted"], second["iterations"]) == (False, 5)
    said = run(*settings)
    assert "Nothing to do: neither data nor settings have changed" in " ".join(said.stdout.split())
    assert (films / "model.gcmf").stat().st_mtime_ns == written.st_mtime_ns
    assert report(*settings, "--force")["fitted"]
    assert report("fit", films, "--max-iter", 6, "--n-factors", 2)["fitted"]
    (films / "films.db").unlink()
    film_database(films / "films.db", seed=1)
    assert report("fit", films, "--max-iter", 6, "--n-factors", 2)["fitted"]


def test_a_model_that_was_changed_since_is_fitted_again(films):
    """`update` and others make another model of a file: it is no longer that of the data alone."""
    settings = ("fit", films, "--max-iter", 5, "--n-factors", 2)
    report(*settings)
    model = gcmf.load(films / "model.gcmf")
    model._settle(model.fitted_, model.elbo_trace_, model.status_)
    model.save(films / "model.gcmf")
    assert report(*settings)["fitted"]


def test_one_job_a_file(films, tmp_path):
    target = tmp_path / "m.gcmf"
    with claiming(target):
        done = run("fit", films, "-o", target, "--max-iter", 1)
    assert done.exit_code == 3
    assert "Another process is writing to" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["films"]
    assert run("fit", films, "-o", target, "--max-iter", 1).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"films", "m.gcmf"}


def test_quiet_says_nothing(films, tmp_path):
    done = run("fit", films, "-o", tmp_path / "m.gcmf", "--n-factors", 2, "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    done = run("fit", films, "-o", tmp_path / "n.gcmf", "--n-factors", 2, "--quiet", "--json", "--holdout", 0.2)
    assert done.stderr == ""
    assert json.loads(done.stdout)["model"] == str(tmp_path / "n.gcmf")


def test_a_fit_says_what_it_will_take(films, tmp_path):
    done = run("fit", films, "-o", tmp_path / "m.gcmf", "--max-iter", 2, "--n-factors", 3)
    said = " ".join(done.stderr.split())
    assert "Takes about 0.0 MB of memory (cells 0.0 MB, parameters 0.0 MB), and at most about 0.01 s per sweep" in said
    again = run("fit", films, "-o", tmp_path / "m.gcmf", "--max-iter", 2, "--n-factors", 3)
    assert "Takes about" not in again.stderr, "there is nothing to do"
