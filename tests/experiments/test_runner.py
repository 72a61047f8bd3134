import re

import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from gcmf.cli.main import app
from gcmf.errors import OptionError
from gcmf.experiments import registry, runner
from gcmf.experiments.base import Claim, Experiment, Outcome, Progress, Size

CLAIMS = (
    Claim("Water | is wet.", "wet", "wet", holds=True),
    Claim("Fire is cold.", "cold", "hot", holds=False, note="Seen on ten seeds."),
    Claim("Air is blue.", "blue", "unknown", holds=None),
)


def tiny(size, progress, *, seed=0):
    progress.start(2, "steps")
    progress.step("one")
    progress.step("two")
    table = pd.DataFrame({"seed": [seed], "size": [size.value], "error": [1 / 3]})
    return Outcome(table, CLAIMS, Figure(), notes=("A note.",))


def never(size, progress, *, seed=0):
    pytest.fail("its data is not there")


def stopped(size, progress, *, seed=0):
    raise KeyboardInterrupt


STOPPED = Experiment("stopped", "Figure 8: Ctrl-C", (), stopped)
TINY = Experiment("tiny", "Figure 0: nothing much", (), tiny)
LACKING = Experiment("lacking", "Figure 9: no data", ("unobtainium",), never)


@pytest.fixture(autouse=True)
def only_tiny(monkeypatch):
    for place in ("gcmf.experiments.registry.experiments", "gcmf.cli.reproduce_screen.experiments"):
        monkeypatch.setattr(place, lambda: (TINY, LACKING))


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "120"})


def words(result):
    return " ".join(result.output.split())


def test_the_list_says_which_data_is_missing():
    result = call()
    assert result.exit_code == 0
    assert re.search(r"tiny +Figure 0: nothing much +simulated", result.output)
    assert re.search(r"lacking +Figure 9: no data +missing: unobtainium", result.output)


def test_one_experiment_is_written(tmp_path):
    result = call("tiny", "--out", str(tmp_path / "out"), "--seed", "5", "--full")
    assert result.exit_code == 0, result.output
    assert "cannot be judged" in words(result)
    written = pd.read_csv(tmp_path / "out" / "tiny.csv")
    assert written.to_dict("records") == [{"seed": 5, "size": "full", "error": 0.333333}]
    assert (tmp_path / "out" / "tiny.png").read_bytes().startswith(b"\x89PNG")
    results = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert "## Figure 0: nothing much" in results
    assert "`gcmf reproduce tiny --full --seed 5`, 0 s" in results
    assert r"| Water \| is wet. | wet | wet | **yes** |" in results
    assert "| Fire is cold. | cold | hot. *Seen on ten seeds.* | **no** |" in results
    assert "| Air is blue. | blue | unknown | **cannot be judged** |" in results
    assert "- A note." in results
    assert "- lacking: Figure 9: no data (needs the data folder unobtainium, which is not there)" in results


def test_all_runs_what_it_can_and_says_what_it_skipped(tmp_path):
    result = call("all", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "Skipped: lacking needs the data folder unobtainium" in words(result)
    assert pd.read_csv(tmp_path / "tiny.csv")["size"].item() == "quick"


def test_one_whose_data_is_missing_is_an_error(tmp_path):
    result = call("lacking", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "GCMF_DATA" in result.stderr


def test_a_name_that_does_not_exist():
    with pytest.raises(OptionError, match="there are tiny, lacking, and all"):
        registry.find("tinny")
    assert call("tinny").exit_code == 1


def test_sections_of_earlier_runs_are_kept(tmp_path):
    (tmp_path / "lacking.md").write_text("## Figure 9: from another machine\n", encoding="utf-8")
    results = runner.write_results(tmp_path, (TINY, LACKING)).read_text(encoding="utf-8")
    assert "from another machine" in results
    assert "- tiny: Figure 0: nothing much\n" in results


def test_the_clock_is_read(monkeypatch):
    ticks = iter([10.0, 135.4])
    monkeypatch.setattr(runner.time, "perf_counter", lambda: next(ticks))
    outcome = runner.run_one(TINY, Size.QUICK, progress=Progress())
    assert runner.say_time(outcome.seconds) == "2 min 5 s"


@pytest.mark.parametrize("chosen", [(TINY, STOPPED), (STOPPED, TINY)])
def test_ctrl_c_says_what_was_written(tmp_path, monkeypatch, chosen):
    monkeypatch.setattr("gcmf.experiments.registry.experiments", lambda: chosen)
    result = call("all", "--out", str(tmp_path))
    assert result.exit_code == 130
    written = (tmp_path / "tiny.csv").exists()
    assert written == (chosen[0] is TINY)
    said = f"{tmp_path} has what was done before: tiny; results.md is not up to date."
    assert result.stderr.splitlines()[-1] == f"Stopped: {said if written else 'nothing was written.'}"


def test_only_files_of_earlier_runs_are_replaced(tmp_path):
    assert call("tiny", "--out", str(tmp_path)).exit_code == 0
    assert call("tiny", "--out", str(tmp_path)).exit_code == 0
    for name in ("tiny.md", "results.md"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text("mine")
        result = call("tiny", "--out", str(tmp_path))
        assert result.exit_code == 1
        assert "Give --force" in result.stderr
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).write_text(before)
    (tmp_path / "tiny.md").unlink()
    assert call("tiny", "--out", str(tmp_path)).exit_code == 1, "nothing says that the table is one of ours"
    assert call("tiny", "--out", str(tmp_path), "--force").exit_code == 0
