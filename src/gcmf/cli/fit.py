"""`gcmf fit`: from a project file to a model file."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column

import gcmf
from gcmf.cli.terminal import AsJson, Progress, ProjectFile, bar_text, console, show_json, show_written, waiting
from gcmf.errors import ConvergenceWarning, OptionError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gcmf import GCMF, Collection
    from gcmf.io.evaluate import HeldOut, Scores
    from gcmf.outcome import StepInfo


def fit(
    project: ProjectFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model file; else as the project file says.")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Hide this share of the cells, report the error on them, then fit all.", min=0, max=0.9),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option("--refit/--no-refit", help="After --holdout, fit all cells, or keep the model judged."),
    ] = True,
    max_iter: Annotated[
        int | None, typer.Option(help="Sweeps, at most; else as the project file says, or 1000.", min=1)
    ] = None,
    n_factors: Annotated[
        int | None, typer.Option(help="Factors, at most; else as the project file says, or auto.", min=1)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Decides where the fit starts and what is hidden; else random_state of the project file, or 0.", min=0
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Save the fit here while it runs, and when it is stopped.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds from one checkpoint to the next.", min=0)] = 60.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one, to the same model.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(help="Stop at the end of a sweep after so many seconds; keep the model.", min=0)
    ] = None,
    on_disk: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the cells in this folder, not in memory; used again next time."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no model; fit again though nothing has changed.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit the collection that a project file describes. Ctrl-C or SIGTERM once stops the fit and keeps the model.

    If neither the data nor the settings have changed since the model was
    written, there is nothing to do.

    Hidden cells are judged by the RMSE (numbers), by log-loss and AUC (0/1), or
    by the negative log-likelihood per cell (counts, and the numbers of a
    features section, whose columns have units of their own).
    """
    from gcmf import storage
    from gcmf.interrupts import Interrupts
    from gcmf.io.outputs import check_model
    from gcmf.io.project.read import find_project, read_spec
    from gcmf.storage.files import claiming

    screen, started = console(stderr=True, wide=True), time.monotonic()
    screen.quiet = quiet
    path = find_project(project)
    target = out if out is not None else path.parent / read_spec(path).output.model
    _check_job(checkpoint, target, holdout, resume=resume)
    check_model(target, force=force)
    with claiming(target):
        screen.print(f"Reading {path}")
        with waiting("Reading", quiet=quiet) as report:
            read = gcmf.read_project(path, report=report, folder=on_disk)
        data = read.collection
        storage.check(target, {name: entity.vocabulary for name, entity in data.entities.items()})
        screen.print(repr(data))
        given = {"max_iter": max_iter, "n_factors": n_factors, "random_state": seed, "checkpoint": checkpoint}
        chosen = {name: value for name, value in given.items() if value is not None}
        options = {"random_state": 0, **read.options, **chosen, "checkpoint_every": checkpoint_every, "progress": False}
        job = Job(options, resume=resume, deadline=None if timeout is None else started + timeout, quiet=quiet)
        of, same = _unchanged(options, data, target)
        if same is not None and not holdout and not force:
            judged = Judged(same, fitted=False)
        else:
            for line in _expected(data, options):
                screen.print(line)
            judged = _judge(data, job, share=holdout, refit=refit) if holdout else Judged(_fit(job, data)[0])
            judged.model._made_of = of if judged.refitted is not False else None
            with Interrupts():  # the file is written first
                judged.model.save(target)
    seconds = round(time.monotonic() - started, 3)
    if as_json:
        _show_json(judged, data, target, seconds)
    elif not quiet:
        _show(judged, target, seconds)


@dataclass(frozen=True)
class Job:
    """What a fit is told beside the data."""

    options: dict[str, Any]
    resume: bool = False
    deadline: float | None = None
    """When to stop, on the clock of `time.monotonic`."""
    quiet: bool = False

    def is_late(self, _: StepInfo) -> bool:
        """Whether the fit is to stop; a callback."""
        return self.deadline is not None and time.monotonic() >= self.deadline


def _check_job(checkpoint: Path | None, target: Path, holdout: float | None, *, resume: bool) -> None:
    """Refuse options that do not go together."""
    if resume and checkpoint is None:
        msg = "--resume goes on from a checkpoint: name its file with --checkpoint."
        raise OptionError(msg)
    if checkpoint is not None and holdout:
        msg = "--checkpoint is of one fit, and --holdout makes two: leave one of them out."
        raise OptionError(msg)
    if checkpoint is not None and checkpoint.resolve() == target.resolve():
        msg = f"The checkpoint and the model cannot both be {target}: give --checkpoint another name."
        raise OptionError(msg)


def _expected(data: Collection, options: dict[str, Any]) -> Iterator[str]:
    """Yield what the fit will take, and what to change if that is more memory than can be had."""
    from gcmf.engines.threads import available_threads
    from gcmf.model.estimate import advice, available_memory, estimate

    asked = gcmf.GCMF(**options)._options()
    needed = estimate(data, asked, n_threads=asked.n_threads or available_threads())
    on_disk = f", {_size(needed.on_disk)} on disk" if needed.on_disk else ""
    yield (
        f"Takes about {_size(needed.memory)} of memory (cells {_size(needed.cells)}, parameters"
        f" {_size(needed.parameters)}){on_disk}, and at most about {max(needed.sweep, 0.01):,.2g} s per sweep"
    )
    available = available_memory()
    ways = advice(needed, data, asked, available=available)
    if ways:
        yield f"This may not fit: {available / 1e9:,.2f} GB are left for parameters. Try {'; or '.join(ways)}."


def _size(n_bytes: float) -> str:
    """Bytes as people read them."""
    return f"{n_bytes / 1e9:,.2f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"


def _unchanged(options: dict[str, Any], data: Collection, target: Path) -> tuple[dict[str, str], GCMF | None]:
    """What a model of these data and options is made of; and the one that is there, if it is made of that and whole."""
    from gcmf.errors import StorageError
    from gcmf.estimators.identity import made_of

    asked = gcmf.GCMF(**options)
    of = made_of(asked, data, asked._options())
    if not target.is_file():
        return of, None
    try:
        there = gcmf.load(target)
    except StorageError:
        return of, None
    whole = isinstance(there, gcmf.GCMF) and there.status_ is not gcmf.Status.INTERRUPTED
    return of, there if whole and there._made_of == of else None


@dataclass(frozen=True)
class Judged:
    """A model, and what hidden cells say of it or, if it has seen them since, of one that had not."""

    model: GCMF
    scores: Scores | None = None
    n_hidden: int = 0
    refitted: bool | None = None
    fitted: bool = True
    """False if there was nothing to do."""


def _judge(data: Collection, job: Job, *, share: float, refit: bool) -> Judged:
    """Fit without some cells and score those; then fit all cells, unless that is not wanted or Ctrl-C was pressed."""
    from gcmf.io.evaluate import hide

    train, test = hide(data, share, seed=job.options["random_state"])
    if not test.relations:
        msg = f"--holdout {share:g} hides no cell: no relation has enough of them. Raise it, or leave it out."
        raise OptionError(msg)
    model, scores = _fit(job, train, test)
    if refit and model.status_ is not gcmf.Status.INTERRUPTED:
        if not job.quiet:
            console(stderr=True).print("Fitting again, with the hidden cells")
        try:
            return Judged(_fit(job, data)[0], scores, test.n_cells, refitted=True)
        except KeyboardInterrupt:
            pass  # before the first sweep: the model that was judged is all there is, and the report says so
    return Judged(model, scores, test.n_cells, refitted=False)


def _fit(job: Job, train: Collection, test: Collection | None = None) -> tuple[GCMF, Scores]:
    from gcmf.io.evaluate import HeldOut, score

    model = gcmf.GCMF(**job.options)
    held_out = HeldOut(model, train, test) if test is not None else None
    with Live(held_out, quiet=job.quiet) as live, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        callbacks = [live, job.is_late] if held_out is None else [held_out, live, job.is_late]
        model.set_params(callbacks=callbacks).fit(train, resume=job.resume)
        scores = score(model, test) if test is not None else {}
        live.finish(model, scores)
    return model.set_params(callbacks=()), scores


# --- what is shown ------------------------------------------------------------------------------------------


class Live(Progress):
    """Sweep, time left at most, held-out error, factors alive, bound and its change, as far as the line is long."""

    def __init__(self, held_out: HeldOut | None, *, quiet: bool = False) -> None:
        text = bar_text("{task.description}", column=Column(no_wrap=True, overflow="ellipsis"))
        super().__init__(text, disable=quiet)
        self._held_out = held_out
        self._info: StepInfo | None = None
        self._line = self.add_task("starting (may have to compile)", total=None)
        self._first = 0.0

    def __call__(self, info: StepInfo) -> None:
        """Show a sweep."""
        if self._info is None or info.sampled != self._info.sampled:
            self._first = time.monotonic()  # the first sweep may compile, and says nothing of the others
        self._info = info
        change = f" ({info.change:+.2g})" if info.iteration > 1 else ""
        scores, at = (self._held_out.scores, self._held_out.sweep) if self._held_out is not None else ({}, 0)
        when = f" @{at}" if at != info.iteration else ""  # a look costs a sweep, so not every sweep has one
        self._show(info.iteration, info.n_factors, info.elbo, scores, when=when, change=change, left=self._left(info))

    def finish(self, model: GCMF, scores: Scores) -> None:
        """Leave a line that is true of the model that came out."""
        self._show(model.n_iter_, model.n_factors_active_, model.elbo_, scores)

    def _show(
        self, sweep: int, alive: int, elbo: float, scores: Scores, *, when: str = "", change: str = "", left: str = ""
    ) -> None:
        """Show what the terminal is wide enough for: the change goes first, then the relation's name, then the time."""
        line, factors, info = "", counted(alive, "factor"), self._info
        n_sweeps, objective = (sweep, "ELBO") if info is None else (info.n_sweeps, info.objective)
        ways = [(left, True, change), (left, True, ""), (left, False, ""), ("", True, ""), ("", False, "")]
        for time_left, named, rise in ways:
            error = _first_error(scores, named=named)
            held_out = f"held-out {error}{when}" if error else ""
            parts = (f"sweep {sweep}/{n_sweeps}", time_left, held_out, factors, f"{objective} {elbo:,.0f}{rise}")
            line = ", ".join(part for part in parts if part)
            if len(line) < self.console.width:
                break
        self.update(self._line, completed=sweep, total=n_sweeps, description=line)

    def _left(self, info: StepInfo) -> str:
        if info.iteration < 2:
            return ""
        seconds = (time.monotonic() - self._first) / (info.iteration - 1) * (info.n_sweeps - info.iteration)
        return f"≤ {timedelta(seconds=round(seconds))} left"


def _first_error(scores: Scores, *, named: bool) -> str:
    """Return the first measure of the first relation that has hidden cells, in short."""
    from gcmf.io.evaluate import MEASURES

    for relation, measures in scores.items():
        measure, value = next(iter(measures.items()))
        name = {"negative_log_likelihood": "−log-lik."}.get(measure, MEASURES[measure])
        return f"{relation} {name} {value:.4g}" if named else f"{name} {value:.4g}"
    return ""


def _show_json(judged: Judged, data: Collection, target: Path, seconds: float) -> None:
    model = judged.model
    n_unseen = judged.n_hidden if judged.refitted is False else 0
    show_json({
        "model": str(target), "fitted": judged.fitted, "status": model.status_.name.lower(), "says": str(model.status_),
        "iterations": model.n_iter_, "elbo": model.elbo_, "factors": model.n_factors_active_,
        "zeros": {name: drawn._asdict() for name, drawn in model.fitted_.drawn.items()},
        "cells": data.n_cells - n_unseen, "held_out": judged.scores, "refitted": judged.refitted, "seconds": seconds,
    })  # fmt: skip


def _show(judged: Judged, target: Path, seconds: float) -> None:
    from gcmf.estimators.tables import structure_table
    from gcmf.io.evaluate import MEASURES

    screen, model = console(wide=True), judged.model
    if not judged.fitted:
        screen.print(f"Nothing to do: neither data nor settings have changed since {target} was written.")
        return
    for name, measures in (judged.scores or {}).items():
        said = ", ".join(f"{MEASURES[measure]} {value:.4g}" for measure, value in measures.items())
        screen.print(f"held-out {name}: {said}")
    if judged.scores is not None:
        seen = "has seen them too: it was fitted again" if judged.refitted else "has not seen them"
        screen.print(f"Judged by {counted(judged.n_hidden, 'cell')} held out. The model that is written {seen}.")
    roles = structure_table(model.fitted_)["role"].value_counts()
    kinds = ", ".join(f"{count} {role}" for role, count in roles.items()) or "none"
    for name, drawn in model.fitted_.drawn.items():
        screen.print(f"{name} was {drawn}")
    screen.print(f"{counted(model.n_iter_, 'sweep')}, {model.status_}")
    screen.print(f"{counted(model.n_factors_active_, 'active factor')}: {kinds}")
    show_written(target, more=f"({seconds:.1f} s in all)")
