"""Every command on a file of every estimator: it works, or one sentence says why not; and never a traceback."""

from __future__ import annotations

import pytest

import gcmf
from commands import run
from gcmf.cli.main import app
from storage_samples import cca, gfa, pca

KINDS = {"PCA": pca, "CCA": cca, "GFA": gfa}
#: What follows the name of the model file.
OF_MODELS = {
    "update": ["."], "predict": ["--all"], "recommend": [], "similar": ["user"], "explain": ["1", "2"],
    "describe": [], "report": [], "export": ["out"],
}  # fmt: skip
OF_DATA = ("init", "fit", "evaluate")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, make in KINDS.items():
        make().save(folder / f"{name}.gcmf")
    return folder


def said(done):
    assert isinstance(done.exception, SystemExit), done.exception
    return " ".join(done.output.split())


@pytest.mark.parametrize("command", OF_MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_without_relations_is_refused(models, kind, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("user,film,stars\n1,a,2\n2,a,3\n1,b,4\n2,b,1\n")
    assert run("init", ".").exit_code == 0
    before = sorted(tmp_path.iterdir())
    file = models / f"{kind}.gcmf"
    done = run(command, file, *OF_MODELS[command])
    assert done.exit_code == 1
    assert f"{file} holds a {kind}, which knows samples by their position" in said(done)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", OF_DATA)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_no_data(models, kind, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(command, models / f"{kind}.gcmf")
    assert done.exit_code == 1
    assert f"{kind}.gcmf" in said(done)


def test_every_command_is_tried():
    named = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert named == {*OF_MODELS, *OF_DATA, "doctor", "demo"}  # the last two take no file


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_replaces_any_model(models, kind, tmp_path):
    (tmp_path / "data.csv").write_text(
        "user,film,stars\n" + "".join(f"{i},{j},{i * j % 5}\n" for i in range(8) for j in range(5))
    )
    assert run("init", tmp_path).exit_code == 0
    target = tmp_path / "model.gcmf"
    target.write_bytes((models / f"{kind}.gcmf").read_bytes())
    assert run("fit", tmp_path, "-o", target, "-q").exit_code == 0
    assert isinstance(gcmf.load(target), gcmf.GCMF)
