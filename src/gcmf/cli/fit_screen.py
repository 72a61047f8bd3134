"""A fit in the terminal: a live line while it runs, what came out when it is done."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich import progress
from rich.table import Column
from rich.text import Text

from gcmf.cli.reading import waiting
from gcmf.cli.screen import bar_text, console, show_json
from gcmf.errors import ConvergenceWarning, OptionError, counted
from gcmf.estimators.gcmf import GCMF
from gcmf.estimators.tables import structure_table
from gcmf.fit import Status
from gcmf.io.evaluate import MEASURES, HeldOut, hide, score
from gcmf.io.outputs import check_model
from gcmf.io.project.read import find_project, read_project, read_spec
from gcmf.storage import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo
    from gcmf.io.evaluate import Scores


class Live:
    """Sweep, time left at most, held-out error, factors alive, bound and its change, as far as the line is long."""

    def __init__(self, max_iter: int, held_out: HeldOut | None) -> None:
        self._held_out, self._max_iter = held_out, max_iter
        whole = bar_text("{task.description}", column=Column(no_wrap=True, overflow="ellipsis"))
        self._bars = progress.Progress(whole, console=console(stderr=True))
        self._task = self._bars.add_task("starting (may have to compile)", total=max_iter)
        self._first: float | None = None

    def __enter__(self) -> Live:
        self._bars.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bars.stop()

    def __call__(self, info: StepInfo) -> None:
        """Show a sweep."""
        self._first = self._first or time.monotonic()  # the first sweep may compile, and says nothing of the others
        change = f" ({info.change:+.2g})" if info.iteration > 1 else ""
        scores, at = (self._held_out.scores, self._held_out.sweep) if self._held_out is not None else ({}, 0)
        when = f" @{at}" if at != info.iteration else ""  # a look costs a sweep, so not every sweep has one
        self._show(info.iteration, scores, n_factors=info.n_factors, elbo=f"{info.elbo:,.0f}", when=when, change=change,
                   left=self._left(info.iteration))  # fmt: skip

    def finish(self, model: GCMF, scores: Scores) -> None:
        """Leave a line that is true of the model that came out."""
        self._show(model.n_iter_, scores, n_factors=model.n_factors_active_, elbo=f"{model.elbo_:,.0f}")

    def _show(
        self, sweep: int, scores: Scores, *, n_factors: int, elbo: str, when: str = "", change: str = "", left: str = ""
    ) -> None:
        """Show what the terminal is wide enough for: the change goes first, then the relation's name, then the time."""
        line = ""
        for time_left, named, rise in (
            (left, True, change), (left, True, ""), (left, False, ""), ("", True, ""), ("", False, "")
        ):  # fmt: skip
            error = _first_error(scores, named=named)
            parts = (f"sweep {sweep}/{self._max_iter}", time_left, error and f"held-out {error}{when}",
                     counted(n_factors, "factor"), f"ELBO {elbo}{rise}")  # fmt: skip
            line = ", ".join(part for part in parts if part)
            if len(line) < self._bars.console.width:
                break
        self._bars.update(self._task, completed=sweep, description=line)

    def _left(self, done: int) -> str:
        if self._first is None or done < 2:
            return ""
        seconds = (time.monotonic() - self._first) / (done - 1) * (self._max_iter - done)
        return f"≤ {timedelta(seconds=round(seconds))} left"


@dataclass(frozen=True)
class _Judged:
    """What hidden cells said of a model, and whether the model that is written has seen them."""

    scores: Scores
    n_hidden: int
    refitted: bool


def fit_and_show(
    path: Path,
    out: Path | None,
    *,
    holdout: float,
    refit: bool,
    chosen: dict[str, Any],
    force: bool,
    as_json: bool,
) -> None:
    """Read, fit, save, report."""
    screen = console(stderr=True, wide=True)
    started = time.monotonic()
    path = find_project(path)
    target = out if out is not None else path.parent / read_spec(path).output.model
    check_model(target, force=force)
    screen.print(f"Reading {path}")
    with waiting("Reading") as reported:
        project = read_project(path, report=reported)
    data = project.collection
    check(target, {name: entity.vocabulary for name, entity in data.entities.items()})
    screen.print(repr(data))
    options = {"random_state": 0, **project.options, **chosen, "progress": False}
    judged = None
    if holdout:
        model, judged = _judge(data, options, share=holdout, refit=refit)
    else:
        model, _ = _fit(GCMF(**options), data)
    model.save(target)
    n_unseen = judged.n_hidden if judged is not None and not judged.refitted else 0
    report = {
        "model": str(target), "status": model.status_.name.lower(), "says": str(model.status_),
        "iterations": model.n_iter_, "elbo": model.elbo_, "factors": model.n_factors_active_,
        "cells": data.n_cells - n_unseen, "held_out": judged.scores if judged is not None else None,
        "refitted": judged.refitted if judged is not None else None,
        "seconds": round(time.monotonic() - started, 3),
    }  # fmt: skip
    if as_json:
        show_json(report)
    else:
        _show(report, model, judged)


def _judge(data: Collection, options: dict[str, Any], *, share: float, refit: bool) -> tuple[GCMF, _Judged]:
    """Fit without some cells and score those; then fit all cells, unless that is not wanted or Ctrl-C was pressed."""
    train, test = hide(data, share, seed=options["random_state"])
    if not test.relations:
        msg = f"--holdout {share:g} hides no cell: no relation has enough of them. Raise it, or leave it out."
        raise OptionError(msg)
    model, scores = _fit(GCMF(**options), train, test)
    refitted = False
    if refit and model.status_ is not Status.INTERRUPTED:
        console(stderr=True).print("Fitting again, with the hidden cells")
        try:
            model, _ = _fit(GCMF(**options), data)
            refitted = True
        except KeyboardInterrupt:
            pass  # before the first sweep: the model that was judged is all there is, and the report says so
    return model, _Judged(scores, test.n_cells, refitted)


def _fit(model: GCMF, train: Collection, test: Collection | None = None) -> tuple[GCMF, Scores]:
    held_out = HeldOut(model, train, test) if test is not None else None
    with Live(model.max_iter, held_out) as live, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        callbacks: list[Callable[[StepInfo], object]] = [one for one in (held_out, live) if one is not None]
        model.set_params(callbacks=callbacks).fit(train)
        scores = score(model, test) if test is not None else {}
        live.finish(model, scores)
    return model.set_params(callbacks=()), scores


def _show(report: dict[str, Any], model: GCMF, judged: _Judged | None) -> None:
    screen = console(wide=True)
    roles = structure_table(model.fitted_)["role"].value_counts()
    kinds = ", ".join(f"{count} {role}" for role, count in roles.items()) or "none"
    if judged is not None:
        for name, own in judged.scores.items():
            screen.print(f"held-out {name}: {_say(own)}")
        seen = "has seen them too: it was fitted again" if judged.refitted else "has not seen them"
        screen.print(f"Judged by {counted(judged.n_hidden, 'cell')} held out. The model that is written {seen}.")
    screen.print(f"{counted(report['iterations'], 'sweep')}, {report['says']}")
    screen.print(f"{counted(report['factors'], 'active factor')}: {kinds}")
    screen.print("Written:", Text(report["model"], "bold"), f"({report['seconds']:.1f} s in all)", soft_wrap=True)


def _first_error(scores: Scores, *, named: bool) -> str:
    """Return the first measure of the first relation that has hidden cells, in short."""
    for relation, own in scores.items():
        measure, value = next(iter(own.items()))
        name = {"negative_log_likelihood": "−log-lik."}.get(measure, MEASURES[measure])
        return f"{relation} {name} {value:.4g}" if named else f"{name} {value:.4g}"
    return ""


def _say(scores: dict[str, float]) -> str:
    return ", ".join(f"{MEASURES[name]} {value:.4g}" for name, value in scores.items())
