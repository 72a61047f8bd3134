"""Data is data: no name is obeyed by a terminal or a spreadsheet, and no file is replaced that was not meant to be."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main
from gcmf.cli.terminal import bar_text, console, show_json, visible
from gcmf.io.outputs import check_model

HOSTILE = "\x1b]0;pwned\x07\x9b2J\u202e"
RELATION, ROWS, COLS = f"seen{HOSTILE}", f"=user{HOSTILE}", ":x:[bold]film[/]"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
IDS = [f"=cmd{HOSTILE}", "+x", "-y", "[red]z", ":smile:", "-1.5"]


def run(*arguments):
    return CliRunner().invoke(main.app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model whose names and ids are full of what terminals, spreadsheets and markup obey."""
    rng = np.random.default_rng(0)
    rows, cols = np.repeat(IDS, 3), np.tile(["up", "=heat", f"dune{HOSTILE}"], len(IDS))
    data = gcmf.Collection([gcmf.Relation(RELATION, ROWS, COLS, (rows, cols, rng.normal(size=len(rows))))])
    path = tmp_path_factory.mktemp("hostile") / "m.gcmf"
    gcmf.GCMF(1, random_state=0, progress=False, max_iter=10_000).fit(data).save(path)
    return path


def gcmf_command(*arguments):
    """Run the command in a process of its own, where warnings are notes and no errors."""
    return subprocess.run(
        [sys.executable, "-m", "gcmf", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_python_runs_the_command():
    done = gcmf_command("--version")
    assert (done.returncode, done.stdout) == (0, f"gcmf {gcmf.__version__}\n")
    assert "Usage: gcmf " in gcmf_command("fit", "--help").stdout


def test_describe_shows_names_and_obeys_none(hostile):
    done = run("describe", hostile)
    assert done.exit_code == 0, done.output
    assert not CONTROLS.search(done.output)
    shown = "".join(done.output.split())
    assert r"seen\x1b]0;pwned\x07\x9b2J\u202e" in shown
    assert COLS in shown
    told = run("describe", hostile, "--json").stdout
    assert not CONTROLS.search(told)
    assert json.loads(told)["relations"][0]["name"] == RELATION


def test_predictions_show_names_and_obey_none(hostile, tmp_path):
    done = gcmf_command("predict", hostile, "--all")
    assert done.returncode == 0, done.stderr
    assert not CONTROLS.search(done.stdout + done.stderr)
    assert "such as \\x1b; -o writes them as they are" in done.stderr
    assert done.stderr.count("so that no spreadsheet runs them") == 1
    ids = pd.read_csv(pd.io.common.StringIO(done.stdout)).iloc[::3, 0].tolist()
    assert sorted(ids) == sorted(["'" + visible(IDS[0]), "'+x", "'-y", *IDS[3:]])
    lines = run("predict", hostile, "--all", "--json").stdout
    assert not CONTROLS.search(lines)
    assert [json.loads(line)[ROWS] for line in lines.splitlines()][::3] == sorted(IDS)
    run("predict", hostile, "--all", "-o", tmp_path / "p.parquet")
    assert pd.read_parquet(tmp_path / "p.parquet")[ROWS].tolist()[::3] == sorted(IDS)


def test_exports_hold_no_formulas_and_stay_in_their_folder(hostile, tmp_path):
    done = gcmf_command("export", hostile, tmp_path / "t", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Note: Ids or names that begin with =") == 1
    files = sorted((tmp_path / "t").iterdir())
    assert len(files) == 6
    assert not any(CONTROLS.search(file.name) for file in files)
    for file in files:
        text = file.read_text()
        assert not re.search(r'(^|,)"?[=+@]', text, re.MULTILINE)
        assert not re.search(r'(^|,)"?-[^\d]', text, re.MULTILINE)


def test_errors_and_paths_are_shown_and_not_obeyed(tmp_path):
    done = run("describe", tmp_path / "no\x1b[31m.gcmf")
    assert done.exit_code == 1
    assert "no\\x1b[31m.gcmf" in done.stderr
    done = run("fit", tmp_path / "[bold]:x:\udc80")
    assert "[bold]:x:\\udc80" in done.stderr
    (tmp_path / "c\x1b.csv").write_text(f"u{HOSTILE},f,x\n1,2,3\n")
    (tmp_path / "gcmf.toml").write_text(
        '[relations.seen]\nsource = "c\\u001b.csv"\nrows = "a"\ncols = "b"\nrow = "u"\ncol = "f"\n'
    )
    done = run("fit", tmp_path)
    assert done.exit_code == 1
    assert not CONTROLS.search(done.stderr)


def test_everything_printed_passes_one_place(capsys):
    """Strings, texts with a style, cells and heads of tables, and lines of progress."""
    table = Table(HOSTILE)
    table.add_row(HOSTILE + "[red]:x:")
    screen = console(wide=True)
    screen.print(HOSTILE, Text(HOSTILE, "bold"), Text.assemble("a", (HOSTILE, "red")))
    screen.print(table)

    class Task:
        description = f"{HOSTILE}[red]:x:"

    screen.print(bar_text("{task.description}").render(Task()))
    show_json({HOSTILE: HOSTILE})
    shown = capsys.readouterr().out
    assert not CONTROLS.search(shown)
    assert shown.count("[red]:x:") == 2
    assert shown.count("\\x9b") == 6
    assert visible("Zürich 東京 ünï") == "Zürich 東京 ünï"


# --- files that are there --------------------------------------------------------------------------------------------

PROJECT = '[relations.seen]\nsource = "a.csv"\nrows = "user"\ncols = "film"\nrow = "u"\ncol = "f"\nvalue = "x"\n'


@pytest.fixture
def project(tmp_path):
    (tmp_path / "a.csv").write_text("u,f,x\n1,1,1.5\n1,2,2\n2,1,3\n2,2,0.5\n")
    (tmp_path / "gcmf.toml").write_text(PROJECT)
    return tmp_path


def test_a_fit_replaces_models_and_nothing_else(project):
    fit = ("fit", project, "--max-iter", 1, "--n-factors", 1)
    assert run(*fit).exit_code == 0
    assert run(*fit).exit_code == 0, "its own model may be replaced"
    for name in ("a.csv", "gcmf.toml"):
        before = (project / name).read_bytes()
        done = run(*fit, "-o", project / name)
        assert done.exit_code == 1
        assert "is no gcmf model. Give --force" in done.stderr
        assert "Reading" not in done.stderr, "refused before anything is read"
        assert (project / name).read_bytes() == before
    (project / "gcmf.toml").write_text(PROJECT + '[output]\nmodel = "a.csv"\n')
    assert run(*fit).exit_code == 1
    (project / "mine").write_text("mine")
    assert run(*fit, "-o", project / "mine", "--force").exit_code == 0
    assert gcmf.load(project / "mine").n_iter_ == 1


def test_other_safetensors_are_no_models(tmp_path):
    from safetensors.numpy import save_file  # noqa: PLC0415 - only this test

    save_file({"x": np.ones(2)}, tmp_path / "weights", {"format": "pt"})
    with pytest.raises(gcmf.errors.StorageError, match="no gcmf model"):
        check_model(tmp_path / "weights", force=False)


@pytest.mark.parametrize("command", [["predict", "--all", "-o", "p.csv"], ["export", "t"]])
def test_other_files_are_replaced_only_by_force(hostile, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    mine = tmp_path / ("p.csv" if command[0] == "predict" else "t/structure.parquet")
    mine.write_text("mine")
    done = gcmf_command(command[0], hostile, *command[1:])
    assert done.returncode == 1
    assert "is there already. Give --force to replace it" in done.stderr
    assert mine.read_text() == "mine"
    assert [file for file in (tmp_path / "t").iterdir() if file != mine] == []
    assert gcmf_command(command[0], hostile, *command[1:], "--force").returncode == 0
    assert mine.read_bytes() != b"mine"


def test_the_demonstration_replaces_only_its_own_files(tmp_path, monkeypatch):
    def forbidden(**_):
        pytest.fail("nothing should be fitted")

    monkeypatch.setattr("gcmf.demo.run_demo", forbidden)
    for name in ("demo.png", "demo.gcmf"):
        (tmp_path / name).write_text("mine")
        done = run("demo", "--out", tmp_path)
        assert done.exit_code == 1
        assert "Give --force" in done.stderr
        (tmp_path / name).unlink()
