import subprocess
import sys

import pytest
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.errors import DataError

run = CliRunner().invoke


def test_version():
    result = run(main.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"gcmf {gcmf.__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help(arguments):
    result = run(main.app, arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output
    assert "demo" in result.output
    assert result.output.count("Usage") == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys, gcmf.cli.main;"
        "heavy = {'numpy', 'numba', 'pandas', 'sklearn', 'matplotlib', 'scipy'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def failing(monkeypatch):
    def fail(**_):
        msg = "the id [7] comes more than once; make the ids distinct."
        raise DataError(msg)

    monkeypatch.setattr("gcmf.demo.run_demo", fail)


@pytest.mark.usefixtures("failing")
def test_errors_are_a_paragraph(tmp_path):
    result = run(main.app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 1
    # In one piece, its brackets kept: an id is no markup.
    assert " ".join(result.stderr.split()) == "Error: the id [7] comes more than once; make the ids distinct."
    assert result.stdout == ""


@pytest.mark.usefixtures("failing")
def test_debug_shows_the_traceback(tmp_path):
    result = run(main.app, ["--debug", "demo", "--out", str(tmp_path)])
    assert isinstance(result.exception, DataError)


def test_a_folder_that_cannot_be_made_is_refused_before_fitting(tmp_path, monkeypatch):
    def forbidden(**_):
        pytest.fail("nothing should be fitted")

    monkeypatch.setattr("gcmf.demo.run_demo", forbidden)
    (tmp_path / "file").write_text("")
    result = run(main.app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "Cannot make the folder" in result.stderr


def test_bad_options_are_refused():
    assert run(main.app, ["demo", "--seed", "-1"]).exit_code == 2
    assert run(main.app, ["dance"]).exit_code == 2
