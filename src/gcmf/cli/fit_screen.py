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
from gcmf.errors import ConvergenceWarning, OptionError
from gcmf.estimators.gcmf import GCMF
from gcmf.estimators.tables import structure_table
from gcmf.fit import Status
from gcmf.io.holdout import MEASURES, HeldOut, hide, score
from gcmf.io.outputs import check_model
from gcmf.io.project import find_project, read_project, read_spec
from gcmf.storage import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from gcmf.data.collection import Collection
    from gcmf.fit import StepInfo
    from gcmf.io.holdout import Scores


class Live:
    """Sweep, time left at most, held-out error, factors alive, bound and its change: what matters most comes first."""

    def __init__(self, max_iter: int, held_out: HeldOut | None) -> None:
        self._held_out, self._max_iter = held_out, max_iter
        # One column: a narrow terminal cuts off the end of the line, and never the sweep or the time.
        whole = bar_text("{task.description}", column=Column(no_wrap=True, overflow="ellipsis"))
        self._bars = progress.Progress(whole, console=console(stderr=True))
        self._task = self._bars.add_task("starting (a first fit compiles)", total=max_iter)
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
        scores = self._held_out.scores if self._held_out is not None else {}
        self._show(info.iteration, self._left(info.iteration), scores, info.n_factors, f"{info.elbo:,.1f}{change}")

    def finish(self, model: GCMF, scores: Scores) -> None:
        """Leave a line that is true of the model that came out."""
        self._show(model.n_iter_, [], scores, model.n_factors_active_, f"{model.elbo_:,.1f}")

    def _show(self, sweep: int, left: list[str], scores: Scores, n_factors: int, elbo: str) -> None:
        first = [f"held-out {name} {_say(dict([*own.items()][:1]))}" for name, own in [*scores.items()][:1]]
        parts = [f"sweep {sweep:,}/{self._max_iter:,}", *left, *first, f"{n_factors} factors", f"ELBO {elbo}"]
        self._bars.update(self._task, completed=sweep, description=", ".join(parts))

    def _left(self, done: int) -> list[str]:
        if self._first is None or done < 2:
            return []
        seconds = (time.monotonic() - self._first) / (done - 1) * (self._max_iter - done)
        return [f"≤ {timedelta(seconds=round(seconds))} left"]


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
        screen.print(f"{judged.n_hidden:,} cells were held out to be judged by. The model that is written {seen}.")
    screen.print(f"{report['iterations']} sweeps, {report['says']}")
    screen.print(f"{report['factors']} active factors: {kinds}")
    screen.print("Written:", Text(report["model"], "bold"), f"({report['seconds']:.1f} s in all)", soft_wrap=True)


def _say(scores: dict[str, float]) -> str:
    return ", ".join(f"{MEASURES[name]} {value:.4g}" for name, value in scores.items())
