import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from matplotlib.figure import Figure

from reproduction import __main__ as command
from reproduction import runner
from reproduction.base import Claim, Experiment, Outcome, Progress, Size

ALL = command.EXPERIMENTS
PAGES = Path(__file__).parents[2] / "docs" / "reproduction"
CLAIMS = (
    Claim("Water | is wet.", "wet", "wet", holds=True),
    Claim("Fire is cold.", "cold", "hot", holds=False, note="Seen on ten seeds."),
    Claim("Air is blue.", "blue", "unknown", holds=None),
)


def tiny(settings, progress, *, seed=0):
    progress.start(2, "steps")
    progress.step("one")
    progress.step("two")
    table = pd.DataFrame({"seed": [seed], "size": [settings], "error": [1 / 3]})
    return Outcome(table, CLAIMS, Figure(), notes=("A note.",))


def never(settings, progress, *, seed=0):
    pytest.fail("its data is not there")


def stopped(settings, progress, *, seed=0):
    raise KeyboardInterrupt


SIZES = {size: size.value for size in Size}
STOPPED = Experiment("stopped", "Figure 8: Ctrl-C", (), SIZES, stopped)
TINY = Experiment("tiny", "Figure 0: nothing much", (), SIZES, tiny)
LACKING = Experiment("lacking", "Figure 9: no data", ("unobtainium",), SIZES, never)


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True)
def only_tiny(monkeypatch):
    monkeypatch.setattr(command, "EXPERIMENTS", (TINY, LACKING))
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def call(capsys):
    def run(*arguments):
        code = command.main([str(one) for one in arguments])
        return Done(code, *capsys.readouterr())

    return run


def words(text):
    return " ".join(text.split())


def test_the_list_says_which_data_is_missing(call):
    result = call()
    assert result.exit_code == 0
    assert re.search(r"tiny +Figure 0: nothing much +simulated", result.stdout)
    assert re.search(r"lacking +Figure 9: no data +missing: unobtainium", result.stdout)


def test_one_experiment_is_written(call, tmp_path):
    result = call("tiny", "--out", tmp_path / "out", "--seed", "5", "--full")
    assert result.exit_code == 0, result.stderr
    assert "cannot be judged" in words(result.stdout)
    written = pd.read_csv(tmp_path / "out" / "tiny.csv")
    assert written.to_dict("records") == [{"seed": 5, "size": "full", "error": 0.333333}]
    assert (tmp_path / "out" / "tiny.png").read_bytes().startswith(b"\x89PNG")
    results = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert "## Figure 0: nothing much" in results
    assert "`python -m reproduction tiny --full --seed 5`, 0 s" in results
    assert r"| Water \| is wet. | wet | wet | **yes** |" in results
    assert "| Fire is cold. | cold | hot. *Seen on ten seeds.* | **no** |" in results
    assert "| Air is blue. | blue | unknown | **cannot be judged** |" in results
    assert "- A note." in results
    assert "- lacking: Figure 9: no data (needs the data folder unobtainium, which is not there)" in results


def test_all_runs_what_it_can_and_says_what_it_skipped(call, tmp_path):
    result = call("all", "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert "Skipped: lacking needs the data folder unobtainium" in words(result.stderr)
    assert pd.read_csv(tmp_path / "tiny.csv")["size"].item() == "quick"


def test_one_whose_data_is_missing_is_an_error(call, tmp_path):
    result = call("lacking", "--out", tmp_path)
    assert result.exit_code == 1
    assert "GCMF_DATA" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tinny"], "choose from"),
        (["tiny", "--seed", "-1"], "0 or more"),
        (["tiny", "--quick", "--full"], "not allowed"),
    ],
)
def test_what_cannot_be_asked_for(call, capsys, arguments, said):
    with pytest.raises(SystemExit) as stop:
        call(*arguments)
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


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
def test_ctrl_c_says_what_was_written(call, tmp_path, monkeypatch, chosen):
    monkeypatch.setattr(command, "EXPERIMENTS", chosen)
    result = call("all", "--out", tmp_path)
    assert result.exit_code == 130
    written = (tmp_path / "tiny.csv").exists()
    assert written == (chosen[0] is TINY)
    said = f"{tmp_path} has what was done before: tiny; results.md is not up to date."
    assert result.stderr.splitlines()[-1] == f"Stopped: {said if written else 'nothing was written.'}"


def test_only_files_of_earlier_runs_are_replaced(call, tmp_path):
    assert call("tiny", "--out", tmp_path).exit_code == 0
    assert call("tiny", "--out", tmp_path).exit_code == 0
    for name in ("tiny.md", "results.md"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text("mine")
        result = call("tiny", "--out", tmp_path)
        assert result.exit_code == 1
        assert "Give --force" in result.stderr
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).write_text(before)
    (tmp_path / "tiny.md").unlink()
    assert call("tiny", "--out", tmp_path).exit_code == 1, "nothing says that the table is one of ours"
    assert call("tiny", "--out", tmp_path, "--force").exit_code == 0


def test_the_pages_are_those_of_the_experiments(tmp_path):
    """docs/reproduction is what runs at full size left there; its results.md is made of its sections."""
    for experiment in ALL:
        section = (PAGES / f"{experiment.name}.md").read_text(encoding="utf-8")
        assert section.startswith(f"## {experiment.title}\n\n`python -m reproduction {experiment.name} --full --seed ")
        shutil.copy(PAGES / f"{experiment.name}.md", tmp_path)
    assert runner.write_results(tmp_path, ALL).read_bytes() == (PAGES / "results.md").read_bytes()
