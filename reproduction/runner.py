"""Runs experiments and writes what they found: NAME.csv, NAME.png, NAME.md, and results.md over all of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gcmf.errors import StorageError
from gcmf.io.outputs import check_new
from reproduction.real import missing_data
from reproduction.summary import RULE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from reproduction.base import AnyExperiment, Claim, Outcome, Progress, Size

RESULTS = "results.md"
_HEAD = """# The paper, reproduced

Every experiment of Klami, Bouchard and Tripathi, "Group-sparse embeddings in collective matrix factorization" (2014),
run by `python -m reproduction`. The paper's figures are quoted; where ours disagree, that is said. Ranges in brackets
are 10% and 90% quantiles over the repetitions. Raw results are in the CSV files beside this one. Seconds are
wall-clock: other work on the machine makes them longer.

"""


def run_one(experiment: AnyExperiment, size: Size, *, progress: Progress, seed: int = 0) -> Outcome:
    """Run an experiment, and take the time."""
    start = time.perf_counter()
    outcome = experiment.run_with(experiment.settings[size], progress, seed=seed)
    return replace(outcome, seconds=time.perf_counter() - start)


def check_files(chosen: Iterable[AnyExperiment], folder: Path, *, force: bool) -> None:
    """Refuse, unless `force`, a folder with files of the same names that no earlier run wrote."""
    for experiment in chosen:
        table, figure, section = _files(experiment, folder)
        # A run writes all three, so that the section vouches for the others.
        known = force or _begins(section, f"## {experiment.title}\n")
        for file in (table, figure, section):
            check_new(file, force=known)
    results = folder / RESULTS
    check_new(results, force=force or _begins(results, _HEAD[: _HEAD.index("\n")]))


def _begins(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes()[: len(text.encode())] == text.encode()


def _files(experiment: AnyExperiment, folder: Path) -> tuple[Path, Path, Path]:
    return folder / f"{experiment.name}.csv", folder / f"{experiment.name}.png", folder / f"{experiment.name}.md"


def write(experiment: AnyExperiment, outcome: Outcome, folder: Path, *, command: str) -> list[Path]:
    """Write table, figure and section of one experiment, and return their paths; `command` says how it was run."""
    table, figure, section = _files(experiment, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        outcome.table.to_csv(table, index=False, float_format="%.6g")
        outcome.figure.savefig(figure, bbox_inches="tight", pad_inches=0.2)
        section.write_text(describe(experiment, outcome, command=command), encoding="utf-8")
    except OSError as error:
        msg = f"Cannot write into {folder}: {error.strerror}. Choose another folder."
        raise StorageError(msg) from error
    return [table, figure, section]


def describe(experiment: AnyExperiment, outcome: Outcome, *, command: str) -> str:
    """Return one experiment's section of results.md: claims beside our figures, the figure, the notes."""
    lines = [
        f"## {experiment.title}",
        "",
        f"`{command}`, {say_time(outcome.seconds)}; raw results: [{experiment.name}.csv]({experiment.name}.csv).",
        "",
        "| claim | paper | ours | holds? |",
        "|---|---|---|---|",
        *(_row(claim) for claim in outcome.claims),
        "",
        f"![{experiment.title}]({experiment.name}.png)",
        "",
        *(f"- {note}" for note in outcome.notes),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write_results(folder: Path, experiments: Iterable[AnyExperiment]) -> Path:
    """Gather the sections that lie in the folder, from this run or earlier ones, into results.md."""
    parts, absent = [], []
    for one in experiments:
        section = folder / f"{one.name}.md"
        if section.is_file():
            parts.append(section.read_text(encoding="utf-8"))
        else:
            absent.append(f"- {one.name}: {one.title}{_needs(one)}")
    if absent:
        parts.append("\n".join(["## Not run", "", *absent, ""]))
    path = folder / RESULTS
    path.write_text("\n".join([_HEAD + RULE + "\n", *parts]), encoding="utf-8")
    return path


def say_time(seconds: float) -> str:
    """Return "34 s" or "2 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _needs(experiment: AnyExperiment) -> str:
    lacking = missing_data(experiment.needs)
    return f" (needs the data folder {', '.join(lacking)}, which is not there)" if lacking else ""


def _row(claim: Claim) -> str:
    ours = f"{claim.ours}. *{claim.note}*" if claim.note else claim.ours
    cells = (claim.text, claim.paper, ours.replace("..", "."), f"**{claim.verdict}**")
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
