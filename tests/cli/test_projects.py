"""From a source to tables through the real command, and every command's report."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gcmf
from commands import run
from gcmf.cli import main
from gcmf.cli.demo import FitBars
from gcmf.cli.evaluate import _show
from gcmf.cli.fit import Live
from gcmf.datasets import find_data_folder
from gcmf.options import FitOptions
from io_samples import film_database, lastfm, movielens, write_csv

COMMAND = [sys.executable, "-c", "from gcmf.cli.main import app; app()"]


def gcmf_command(*arguments):
    """Run the command as a person would; return what it wrote to stdout."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def end_to_end(source, folder):
    """Init, fit and export; return the project's folder, the report of the fit and the tables."""
    target = folder / "gcmf.toml"
    gcmf_command("init", source, "--out", target)
    fitted = json.loads(gcmf_command("fit", target, "--max-iter", 5, "--n-factors", 3, "--json"))
    gcmf_command("export", folder / "model.gcmf", folder / "tables")
    return fitted, {path.stem: pd.read_parquet(path) for path in (folder / "tables").glob("*.parquet")}


def test_a_movielens_folder(tmp_path):
    fitted, tables = end_to_end(movielens(tmp_path / "ml"), tmp_path)
    assert fitted["iterations"] == 5
    assert fitted["status"] == "max_iter"
    assert list(tables["factors_user"].columns[:2]) == ["user", "F1"]
    assert sorted(tables["factors_movie"]["movie"]) == list(range(1, 41))
    assert set(tables) >= {"structure", "variance_explained", "bias_u_data_user", "bias_u_data_movie"}


def test_a_lastfm_folder(tmp_path):
    _, tables = end_to_end(lastfm(tmp_path / "lf"), tmp_path)
    assert len(tables["factors_artist"]) == 32
    assert len(tables["factors_tag"]) == 12
    assert tables["variance_explained"]["relation"][0] == "user_artists"


def test_a_film_database(tmp_path):
    _, tables = end_to_end(film_database(tmp_path / "films.db"), tmp_path)
    assert {name for name in tables if name.startswith("factors_")} >= {"factors_user", "factors_film", "factors_actor"}


@pytest.mark.data
def test_real_lastfm(tmp_path):
    folder = find_data_folder()
    if folder is None or not (folder / "lastfm").is_dir():
        pytest.skip("no real data")
    fitted, tables = end_to_end(folder / "lastfm", tmp_path)
    # 17,632 in artists.dat, and 390 that were tagged and are not listed there.
    assert len(tables["factors_artist"]) == 18_022
    # 92,834 plays, the distinct pairs of user and tag and of artist and tag, and all pairs of 1,892 users.
    assert fitted["cells"] == 238_400 + 1_892 * 1_891 // 2


@pytest.mark.data
def test_real_movielens(tmp_path):
    folder = find_data_folder()
    if folder is None or not (folder / "ml-100k").is_dir():
        pytest.skip("no real data")
    genres = [line.split("|")[0] for line in (folder / "ml-100k/u.genre").read_text().splitlines() if line]
    films = ["movie id", "movie title", "release date", "video release date", "IMDb URL", *genres]
    headers = {
        "u.data": "\t".join(("user id", "item id", "rating", "timestamp")),
        "u.user": "user id|age|gender|occupation|zip code",
        "u.item": "|".join(films),
    }
    (tmp_path / "ml").mkdir()
    for name, header in headers.items():
        (tmp_path / "ml" / name).write_bytes(header.encode() + b"\n" + (folder / "ml-100k" / name).read_bytes())
    fitted, tables = end_to_end(tmp_path / "ml", tmp_path)
    assert (len(tables["factors_user"]), len(tables["factors_movie"])) == (943, 1682)
    assert fitted["cells"] > 100_000
    traits = tables["factors_u_user_trait"]["u_user_trait"].tolist()
    assert {"gender=F", "gender=M", "occupation=writer"} <= set(traits)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a film database, its project and its model."""
    folder = tmp_path_factory.mktemp("films")
    film_database(folder / "films.db")
    assert run("init", folder / "films.db").exit_code == 0
    done = run("fit", folder, "--max-iter", 5, "--n-factors", 3, "--holdout", 0.2)
    assert done.exit_code == 0, done.output
    assert "held-out ratings: RMSE" in done.stdout
    assert "held-out film_actor: log-loss" in done.stdout
    assert "The model that is written has seen them too" in done.stdout
    return folder


def test_init_reports(fitted, tmp_path):
    report = json.loads(run("init", fitted / "films.db", "-o", tmp_path / "p.toml", "--json").stdout)
    assert report["relations"] == ["ratings", "film_actor"]
    again = run("init", fitted / "films.db")
    assert again.exit_code == 1
    assert "--force" in again.stderr


def test_init_of_nothing_says_so_even_where_a_project_is(fitted, monkeypatch):
    monkeypatch.chdir(fitted)
    assert Path("gcmf.toml").exists()
    done = run("init", "nowhere")
    assert done.exit_code == 1
    assert "There is no file or folder nowhere" in done.stderr


def test_init_prints_doubts_first_and_counts_in_english(tmp_path):
    ratings = [("u1", "f1", 2.5), ("u1", "f1", 3.5), ("u2", "f1", 1), ("u2", "f2", 4), ("u1", "f2", 0.5)]
    write_csv(tmp_path / "r.csv", ("user", "film", "stars"), ratings)
    write_csv(tmp_path / "films.csv", ("film", "year"), [("f1", 1950), ("f2", 1999)])
    done = run("init", tmp_path)
    shown = " ".join(done.stdout.split())
    assert shown.startswith("to be checked: r.user was taken for ids of user, since")
    assert "if it holds something else, name another column as row or col." in shown
    assert "r lists 1 pair more than once; the avg of the values is used." in shown
    assert "features films: 1 column of film" in shown


def test_fit_reports_held_out_errors(fitted, tmp_path):
    done = run("fit", fitted, "-o", tmp_path / "m.gcmf", "--max-iter", 2, "--holdout", 0.2, "--seed", 3, "--json")
    report = json.loads(done.stdout)
    assert list(report["held_out"]["ratings"]) == ["rmse"]
    assert 0.5 < report["held_out"]["ratings"]["rmse"] < 3
    assert list(report["held_out"]["film_actor"]) == ["log_loss", "auc"]
    assert gcmf.load(tmp_path / "m.gcmf").n_iter_ == report["iterations"] == 2


def test_the_model_written_after_a_holdout_has_seen_all_cells(fitted, tmp_path):
    options = ("--max-iter", 2, "--seed", 3, "--json")
    reports = {}
    for name, more in {"all": (), "judged": ("--holdout", 0.2), "kept": ("--holdout", 0.2, "--no-refit")}.items():
        reports[name] = json.loads(run("fit", fitted, "-o", tmp_path / name, *options, *more).stdout)
    assert reports["judged"]["elbo"] == reports["all"]["elbo"]
    assert reports["kept"]["elbo"] != reports["all"]["elbo"]
    assert reports["judged"]["held_out"] == reports["kept"]["held_out"]
    assert [reports[name]["refitted"] for name in reports] == [None, True, False]
    assert reports["judged"]["cells"] == reports["all"]["cells"] > reports["kept"]["cells"]
    said = run("fit", fitted, "-o", tmp_path / "kept", *options[:-1], "--holdout", 0.2, "--no-refit").stdout
    assert "The model that is written has not seen them." in said
    nothing = run("fit", fitted, "-o", tmp_path / "kept", "--holdout", 1e-6)
    assert "hides no cell" in nothing.stderr


def test_the_last_line_of_progress_is_true_of_the_model(fitted, tmp_path):
    done = run("fit", fitted, "-o", tmp_path / "m", "--max-iter", 20, "--n-factors", 2, "--holdout", 0.2, "--no-refit")
    [last] = [line for line in done.stderr.splitlines() if line.startswith("sweep 20/20")]
    [final] = [line for line in done.stdout.splitlines() if line.startswith("held-out ratings")]
    assert f"held-out {final.removeprefix('held-out ').replace(':', '')}," in last


def test_describe(fitted):
    report = json.loads(run("describe", fitted / "model.gcmf", "--json").stdout)
    assert report["entities"]["film"] == 30
    assert [one["name"] for one in report["relations"]][:2] == ["ratings", "film_actor"]
    assert report["relations"][0]["noise_std"] > 0
    assert report["fit"]["iterations"] == 5
    shown = run("describe", fitted / "model.gcmf").stdout
    assert "user (30), film (30)" in shown
    assert "user × film" in shown
    assert "5 sweeps" in shown
    # The ratings' noise is in stars, that of the numbers about users and films is not.
    noise = {line.split()[0]: line for line in shown.splitlines() if " gaussian " in line}
    assert {name: "*" in line for name, line in noise.items()} == {
        one["name"]: one["standardized"] for one in report["relations"] if one["likelihood"] == "gaussian"
    }


def test_predict_pairs(fitted, tmp_path):
    (tmp_path / "cells.csv").write_text("film,user\n3,1\n4,2\n")
    model = gcmf.load(fitted / "model.gcmf")
    mean, std = model.predict("ratings", [1, 2], [3, 4], return_std=True)
    done = run(
        "predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--relation", "ratings", "-o", tmp_path / "o.parquet"
    )
    assert done.exit_code == 0, done.output
    found = pd.read_parquet(tmp_path / "o.parquet")
    assert found.columns.tolist() == ["user", "film", "mean", "std"]
    assert found["user"].tolist() == [1, 2]
    assert found["mean"].tolist() == pytest.approx(mean.tolist(), rel=1e-12)
    assert found["std"].tolist() == pytest.approx(std.tolist(), rel=1e-12)
    lines = run("predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--relation", "ratings").stdout.splitlines()
    assert lines[0] == "user,film,mean,std"
    assert len(lines) == 3
    first = json.loads(run("predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--relation", "ratings", "--json")
                       .stdout.splitlines()[0])  # fmt: skip
    assert first["film"] == 3


def test_columns_are_found_by_name_whatever_their_order(fitted, tmp_path):
    (tmp_path / "cells.csv").write_text("note,film_id,userID\nx,3,1\n")
    done = run("predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--json")
    wanted = gcmf.load(fitted / "model.gcmf").predict("ratings", [1], [3])
    assert json.loads(done.stdout)["mean"] == pytest.approx(wanted[0])


def test_columns_are_never_taken_by_position(fitted, tmp_path):
    cells, out = tmp_path / "cells.csv", tmp_path / "o.csv"
    command = ("predict", fitted / "model.gcmf", cells, "--relation", "ratings")
    for text, lacking in (
        ("movie,person\n1,2\n", "user and film; it has movie, person."),
        ("film,person\n1,2\n", "user; it has film, person."),
        ("1,2\n3,4\n", "user and film; it has column0, column1."),
        ("1,2\n", "user and film; it has 1, 2."),
    ):
        cells.write_text(text)
        done = run(*command, "-o", out)
        assert done.exit_code == 1
        assert f"cells.csv has no column for the ids of {lacking} Name its columns user and film" in done.stderr
        assert "If its first line holds no names, add one: user,film." in done.stderr
        assert (done.stdout, out.exists()) == ("", False)
    cells.write_text("movie,person\n3,1\n")
    told = run(*command, "--row", "person", "--col", "movie", "--json")
    wanted = gcmf.load(fitted / "model.gcmf").predict("ratings", [1], [3])
    assert json.loads(told.stdout)["mean"] == pytest.approx(wanted[0])
    assert "both name the column 'movie'" in run(*command, "--row", "movie", "--col", "movie").stderr
    cells.write_text("user_id,userID,film\n1,2,3\n")
    assert "several columns that may hold the ids of user: user_id, userID" in run(*command).stderr


def test_a_table_without_rows_has_no_predictions(fitted, tmp_path):
    (tmp_path / "cells.csv").write_text("user,film\n")
    command = ("predict", fitted / "model.gcmf", tmp_path / "cells.csv")
    assert run(*command).stdout == "user,film,mean,std\n"
    assert "0 predictions written" in run(*command, "-o", tmp_path / "o.parquet").stderr
    assert pd.read_parquet(tmp_path / "o.parquet").columns.tolist() == ["user", "film", "mean", "std"]
    assert run(*command, "--json").stdout == ""


def test_the_ending_is_refused_before_anything_is_read(fitted, tmp_path):
    for name in ("o.xlsx", "o.json", "o"):
        done = run("predict", tmp_path / "no model", "--all", "-o", tmp_path / name)
        assert done.exit_code == 1
        assert "Use .parquet, .csv, .tsv, or .jsonl" in done.stderr
    done = run("predict", fitted / "model.gcmf", "--relation", "ratings", "--all", "-o", tmp_path / "o.tsv")
    assert done.exit_code == 0
    assert pd.read_csv(tmp_path / "o.tsv", sep="\t").columns.tolist() == ["user", "film", "mean", "std"]


def test_unknown_ids_keep_their_names(fitted, tmp_path):
    (tmp_path / "cells.csv").write_text("user,film\n1,2\nx,3\n99,3\n")
    command = ("predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--unknown", "prior")
    run(*command, "-o", tmp_path / "o.parquet")
    found = pd.read_parquet(tmp_path / "o.parquet")
    assert found["user"].tolist() == ["1", "x", "99"]
    known = gcmf.load(fitted / "model.gcmf").predict("ratings", [1, -1, -1], [2, 3, 3], unknown="prior")
    assert found["mean"].tolist() == pytest.approx(known.tolist())
    (tmp_path / "cells.csv").write_text("user,film\n1,2\n,3\n")
    done = run(*command)
    assert done.exit_code == 1
    assert "cells.csv, column 'user', row 2: the user is empty" in done.stderr


def test_sets_called_mean_and_std_keep_their_ids(tmp_path):
    data = gcmf.Collection([gcmf.Relation("r", "mean", "std", (["a", "b"], ["x", "y"], [1.0, 2.0]))])
    gcmf.GCMF(1, random_state=0, progress=False).fit(data).save(tmp_path / "m.gcmf")
    assert run("predict", tmp_path / "m.gcmf", "--all").stdout.startswith("mean_id,std_id,mean,std\na,x,")


def test_predict_all(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("gcmf.io.predictions._CELLS", 100)
    done = run("predict", fitted / "model.gcmf", "--relation", "film_actor", "--all", "-o", tmp_path / "all.csv")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "all.csv").pivot_table(index="film", columns="actor", values="mean")
    model = gcmf.load(fitted / "model.gcmf")
    wanted = model.predict("film_actor", found.index, found.columns, grid=True)
    assert abs(found.to_numpy() - wanted).max() < 1e-9
    assert not list(tmp_path.glob("*.partial"))


def test_intervals_are_columns_too(fitted, tmp_path):
    (tmp_path / "cells.csv").write_text("user,film\n1,2\n2,3\n")
    command = ("predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--relation", "ratings", "--interval")
    run(*command, 0.8, "-o", tmp_path / "o.csv")
    found, model = pd.read_csv(tmp_path / "o.csv"), gcmf.load(fitted / "model.gcmf")
    assert found.columns.tolist() == ["user", "film", "mean", "std", "lower", "upper"]
    wanted = model.predict("ratings", [1, 2], [2, 3], interval=0.8)
    assert np.abs(found[["mean", "lower", "upper"]].to_numpy().T - wanted).max() < 1e-9
    run(
        "predict",
        fitted / "model.gcmf",
        "--all",
        "--relation",
        "film_actor",
        "--interval",
        0.8,
        "-o",
        tmp_path / "a.csv",
    )
    whole = pd.read_csv(tmp_path / "a.csv")
    assert (whole["lower"] <= whole["upper"]).all()
    assert "must be a probability between 0 and 1" in run(*command, 80).stderr
    (tmp_path / "cells.csv").write_text("user,film\n")
    assert run(*command, 0.8).stdout == "user,film,mean,std,lower,upper\n"


def test_unknown_ids_are_named(fitted, tmp_path):
    (tmp_path / "cells.csv").write_text("user,film\n1,2\n1,99\nx,1\n")
    command = ("predict", fitted / "model.gcmf", tmp_path / "cells.csv", "--relation", "ratings")
    done = run(*command)
    assert done.exit_code == 1
    assert "cells.csv, column 'user', row 3: the model has never seen the user 'x'" in done.stderr
    assert run(*command, "--unknown", "prior").exit_code == 0
    (tmp_path / "cells.csv").write_text("a,b\n1,2\n")
    assert "several relations" in run("predict", fitted / "model.gcmf", tmp_path / "cells.csv").stderr
    assert run("predict", fitted / "model.gcmf").exit_code == 2


def test_export_as_csv(fitted, tmp_path):
    report = json.loads(run("export", fitted / "model.gcmf", tmp_path / "out", "--format", "csv", "--json").stdout)
    assert all(Path(name).suffix == ".csv" for name in report["files"])
    factors = pd.read_csv(tmp_path / "out" / "factors_user.csv", index_col="user")
    model = gcmf.load(fitted / "model.gcmf")
    assert abs(factors["F1"] - model.factors("user")["F1"]).max() < 1e-6
    bias = pd.read_csv(tmp_path / "out" / "bias_ratings_film.csv", index_col="film")["bias"]
    assert abs(bias - model.biases("ratings", "cols")).max() < 1e-6


def test_evaluate(fitted, tmp_path):
    command = ("evaluate", fitted, "--relation", "ratings", "--folds", 2, "--max-iter", 12)
    done = run(*command, "--json")
    table = pd.DataFrame(json.loads(done.stdout)).set_index("method")
    assert table.index[:2].tolist() == ["gCMF", "CMF"]
    assert {"without film_actor", "alone", "biases only"} <= set(table.index)
    assert (table["error"] > 0.5).all()
    assert abs(table["error"] - table.loc["gCMF", "error"] - table["difference"]).max() < 1e-12
    assert (table["difference_se"].drop("gCMF") > 0).all()
    assert set(table["measure"]) == {"rmse"}
    assert table["auc"].isna().all()
    stopped = table["unconverged"].sum()
    assert 0 < stopped <= 2 * len(table)
    assert f"{stopped} of {2 * len(table)} fits stopped at max_iter before converging: raise --max-iter." in done.stderr
    with_factors = run(*command, "--factors", "--jobs", 2, "--plot", tmp_path / "e.png", "--json")
    again = pd.DataFrame(json.loads(with_factors.stdout)).set_index("method")
    assert again.loc[table.index, "error"].tolist() == table["error"].tolist()
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    assert "is there already" in run(*command, "--plot", tmp_path / "e.png").stderr
    wrong = run("evaluate", fitted, "--relation", "rating")
    assert wrong.exit_code == 1
    assert "Did you mean 'ratings'?" in wrong.stderr


def test_numbers_of_a_column_have_as_many_decimals(capsys):
    table = pd.DataFrame({
        "relation": "ratings", "method": ["gCMF", "CMF", "alone"], "measure": "rmse", "error": [0.51, 1.0, 0.5123456],
        "difference": [0, 0.49, 0.0023456], "difference_se": [0, 0.1, 0.000012], "auc": np.nan,
        "average_precision": np.nan, "folds": 2, "hidden": 9,
    })  # fmt: skip
    _show(table)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[3:6]]
    assert lines == [["gCMF", "0.510"], ["CMF", "1.000", "+0.4900", "0.1000"], ["alone", "0.512", "+0.0023", "0.0000"]]


def test_doctor():
    report = json.loads(run("doctor", "--json").stdout)
    assert report["self_test"]["passed"] is True
    assert report["packages"]["duckdb"]
    assert report["threads"] >= 1


def test_refusals_reach_the_command_line(tmp_path):
    (tmp_path / "a.csv").write_text("u,f,x\nann,1,0\nann,2,7\n")
    (tmp_path / "gcmf.toml").write_text(
        '[relations.seen]\nsource = "a.csv"\nrows = "user"\ncols = "film"\nrow = "u"\ncol = "f"\nvalue = "x"\n'
        'likelihood = "bernoulli"\n'
    )
    done = run("fit", tmp_path)
    assert done.exit_code == 1
    assert "Error: a.csv, column 'x', row 2: the value is 7" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "model.gcmf").exists()


def test_every_command_has_help():
    shown = run("--help").stdout
    for name in (
        "init",
        "fit",
        "predict",
        "recommend",
        "similar",
        "explain",
        "describe",
        "export",
        "evaluate",
        "doctor",
    ):
        assert name in shown
        assert run(name, "--help").exit_code == 0
    assert "Exit codes" in shown


def test_help_shows_flags_as_flags_and_where_defaults_come_from(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in (
        "init",
        "fit",
        "predict",
        "recommend",
        "similar",
        "explain",
        "describe",
        "export",
        "evaluate",
        "doctor",
        "demo",
    ):
        shown = run(name, "--help").stdout
        assert "<bool>" not in shown, name
        assert "list[" not in shown, name
    assert "<bool>" not in run("--help").stdout
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("fit", "--help").stdout
    defaults = FitOptions()
    for value in (defaults.max_iter, defaults.n_factors):
        assert f"else as the project file says, or {value}." in shown
    assert "the numbers of a\n" in re.sub(" +\n", "\n", shown)


def test_the_lines_of_the_first_help_fit_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in run("--help").stdout.splitlines()]
    start = lines.index("Exit codes:")
    codes = [line.split()[0] for line in lines[start + 1 : start + 8]]
    assert codes == ["0", "1", "2", "3", "4", "130", "143"]


def test_features_are_predicted_in_their_own_units(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=40)
    people = pd.DataFrame({"id": range(40), "age": 50 + 10 * z, "height": 170 + 8 * z}).round(3)
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "gcmf.toml").write_text(
        '[features.people]\nsource = "people.csv"\nrows = "person"\nrow = "id"\nnumeric = ["age", "height"]\n'
    )
    assert run("fit", tmp_path, "--n-factors", 2, "--max-iter", 50).exit_code == 0
    model = tmp_path / "model.gcmf"
    run("predict", model, "--all", "-o", tmp_path / "all.parquet")
    found = pd.read_parquet(tmp_path / "all.parquet").pivot_table(
        index="person", columns="people_number", values="mean"
    )
    assert abs(found["age"] - people["age"]).mean() < 2
    assert abs(found["height"] - people["height"]).mean() < 2
    (tmp_path / "cells.csv").write_text("person,people_number\n3,height\n4,age\n")
    run("predict", model, tmp_path / "cells.csv", "-o", tmp_path / "two.parquet")
    two = pd.read_parquet(tmp_path / "two.parquet")
    assert two["mean"].tolist() == pytest.approx([found.loc[3, "height"], found.loc[4, "age"]])
    mean, std = gcmf.load(model).predict("people_numbers", [3, 4], ["height", "age"], return_std=True)
    assert (two["mean"].tolist(), two["std"].tolist()) == (pytest.approx(mean), pytest.approx(std))
    shown = run("describe", model).stdout
    assert re.search(r"people_numbers .*gaussian +\S+\d\* ", shown)
    assert "* in standard deviations of each column" in shown
    run("export", model, tmp_path / "tables")
    units = pd.read_parquet(tmp_path / "tables" / "units_people_numbers.parquet").set_index("column")
    assert units.loc["age"].tolist() == pytest.approx([people["age"].mean(), people["age"].std(ddof=0)])
    assert (
        json.loads(run("describe", model, "--json").stdout)["relations"][0]["units"]["age"] == units.loc["age"].tolist()
    )


@pytest.mark.parametrize("width", [50, 80])
def test_a_narrow_terminal_loses_nothing(fitted, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("gcmf.cli.terminal._WIDTH", width)
    shown = run("describe", fitted / "model.gcmf").stdout
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "…" not in shown
    assert "bernoulli" in shown


def test_every_report_can_be_json(fitted, tmp_path):
    done = run("predict", fitted / "model.gcmf", "--relation", "ratings", "--all", "-o", tmp_path / "a.csv", "--json")
    assert json.loads(done.stdout) == {"predictions": 900, "file": str(tmp_path / "a.csv")}
    for name in (
        "init",
        "fit",
        "predict",
        "recommend",
        "similar",
        "explain",
        "describe",
        "export",
        "evaluate",
        "doctor",
        "demo",
    ):
        assert "--json" in run(name, "--help").stdout, name


class Errors:
    scores: ClassVar = {"ratings": {"rmse": 0.51234}, "seen": {"log_loss": 0.3}}
    sweep = 3


class Info:
    iteration, elbo, change, n_factors = 3, -1234.56, 0.5, 7
    n_sweeps, objective, sampled = 1000, "ELBO", False


def live_line(width, monkeypatch, *, errors=Errors, info=Info):
    """Return what is shown of a sweep when two sweeps have taken four seconds."""
    monkeypatch.setenv("COLUMNS", str(width))
    live = Live(errors())
    live(info())
    live._first -= 4
    live(info())
    [task] = live.tasks
    return task.description


def test_the_live_line_says_everything_where_there_is_room(monkeypatch):
    said, rest = live_line(160, monkeypatch).split(" left, ")
    assert said.startswith("sweep 3/1000, ≤ 0:33:")
    assert rest == "held-out ratings RMSE 0.5123, 7 factors, ELBO -1,235 (+0.5)"


def test_the_live_line_fits_into_79_columns(monkeypatch):
    class Late(Errors):
        sweep = 987

    class LateInfo(Info):
        iteration, elbo, n_factors = 998, -12345678.9, 1

    for scores in ({"ratings": {"rmse": 0.51234}}, {"a long name": {"log_loss": 0.51234}},
                   {"users_numbers": {"negative_log_likelihood": -1.51234}}):  # fmt: skip
        Late.scores = scores
        line = live_line(80, monkeypatch, errors=Late, info=LateInfo)
        assert len(line) <= 79
        # Measured eleven sweeps ago, and said so.
        assert re.search(r"^sweep 998/1000, .*held-out .* -?[01].\d+ @987, 1 factor, ELBO -12,345,679", line), line


def test_the_shell_completes_commands():
    environment = {"COMP_WORDS": "gcmf ev", "COMP_CWORD": "1", "_GCMF_COMPLETE": "complete_bash"}
    done = CliRunner().invoke(main.app, [], env=environment, prog_name="gcmf")
    assert done.stdout.split() == ["evaluate"]


def test_one_is_not_many(tmp_path):
    z = np.random.default_rng(0).normal(size=(2, 20))
    pd.DataFrame(np.outer(*z)).add_prefix("film").to_csv(tmp_path / "w.csv", index_label="user")
    (tmp_path / "gcmf.toml").write_text(
        '[relations.wide]\nsource = "w.csv"\nlayout = "wide"\nrows = "user"\ncols = "film"\n'
    )
    done = run("fit", tmp_path, "--n-factors", 1, "--max-iter", 1)
    assert "<Collection: 1 relation, 2 entity sets, 400 cells>" in done.stderr
    assert "1 factor," in done.stderr
    assert "1 sweep, " in done.stdout
    assert "1 active factor: 1 shared" in done.stdout
    assert "1 active factor: 1 shared\n  1 sweep, " in repr(gcmf.load(tmp_path / "model.gcmf"))


def test_the_first_bar_of_the_demonstration_claims_nothing_of_the_cache():
    bars = FitBars(300)
    for name in ("gCMF", "CMF"):
        bars.report(name, None)
    assert [task.fields["state"] for task in bars.tasks] == ["starting (may have to compile)", "starting"]


def test_a_project_with_covariates_is_described_and_exported(tmp_path):
    """Old people like what is long, whatever their shoes."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.normal(50, 10, 60), "shoe": rng.normal(40, 2, 60)}, index=range(60))
    length = rng.normal(size=30)
    i, j = np.nonzero(rng.random((60, 30)) < 0.4)
    x = (people["age"].to_numpy()[i] - 50) / 10 * length[j] + 0.3 * rng.normal(size=len(i))
    pd.DataFrame({"who": i, "film": j, "x": x}).query("who > 3").to_csv(tmp_path / "ratings.csv", index=False)
    people.rename_axis("id").to_csv(tmp_path / "people.csv")
    (tmp_path / "gcmf.toml").write_text(
        '[relations.ratings]\nsource = "ratings.csv"\nrows = "person"\ncols = "film"\nrow = "who"\ncol = "film"\n'
        'value = "x"\n[entities.person]\nsource = "people.csv"\nid = "id"\nnumeric = ["age", "shoe"]\n'
        "[fit]\nrandom_state = 0\n"
    )
    assert run("fit", tmp_path).exit_code == 0
    shown = run("describe", tmp_path / "model.gcmf").stdout
    assert "person has 2 covariates: its factors depend on age" in shown
    report = json.loads(run("describe", tmp_path / "model.gcmf", "--json").stdout)
    assert report["covariates"] == {"person": {"columns": ["age", "shoe"], "factors": ["age"], "biases": []}}
    run("export", tmp_path / "model.gcmf", tmp_path / "tables")
    table = pd.read_parquet(tmp_path / "tables" / "coefficients_person.parquet")
    assert list(table.columns) == ["feature", "of", "mean", "std"]
    new = gcmf.load(tmp_path / "model.gcmf").predict("ratings", [0, 1, 2, 3], sorted(set(j.tolist())), grid=True)
    truth = np.outer((people["age"].to_numpy()[:4] - 50) / 10, length[sorted(set(j.tolist()))])
    assert np.corrcoef(new.ravel(), truth.ravel())[0, 1] > 0.95
